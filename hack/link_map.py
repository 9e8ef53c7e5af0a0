"""Which section and which crate takes how much of a program, from the map that lld writes (init/build.rs)."""
import collections
import re

LINE = re.compile(r" *[0-9a-f]+ +[0-9a-f]+ +([0-9a-f]+) +\d+ ( *)(\S.*)")
# Columns of the names of sections, and of what the linker put into them.
SECTION, INPUT = 0, 8
# Smaller crates are summed up, except Kelson's own.
SMALL = 50 << 10
REST = "all smaller ones"
# _ZN, and the first part of the path with its length; a part in angle brackets has paths of its own.
LEGACY = re.compile(r"_ZN(\d+)(.*)")
PATH = re.compile(r"(?<![\w.])([a-z]\w*)(?=\.\.)")
V0 = re.compile(r"Cs[0-9A-Za-z]*_(\d+)_?([a-z]\w*)")


def read(file, named=()):
    """{section: bytes} and {crate: bytes}: the crates that are `named`, or all but the small ones."""
    sections, crates = collections.Counter(), collections.Counter()
    for line in file.read_text(errors="replace").splitlines()[1:]:
        found = LINE.fullmatch(line)
        if not found:
            continue
        size, column, text = int(found[1], 16), len(found[2]), found[3]
        if column == SECTION and text.startswith("."):
            sections[text] += size
        elif column == INPUT:
            crates[crate(text)] += size
    named = named or {name for name, size in crates.items() if size >= SMALL or name.startswith("kelson_")}
    large = {name: crates[name] for name in sorted(named, key=lambda name: -crates[name])}
    large[REST] = crates.total() - sum(large.values())
    return sections, large


def crate(text):
    """The crate that a symbol belongs to: the one of Kelson's that its name has, else the first that it names."""
    file, _, section = text.rpartition(":(")
    name = re.sub(r"^\.[a-z.]*?\.(?=_|anon|\.)", "", section.rstrip(")"))
    if ours := re.search(r"kelson_[a-z]+", name):
        return ours[0]
    if legacy := LEGACY.match(name):
        part = legacy[2][: int(legacy[1])]
        paths = PATH.findall(re.sub(r"\$[A-Za-z0-9]+\$", "<", part).removeprefix("_"))
        return paths[0] if paths else part
    if v0 := V0.search(name):
        return v0[2][: int(v0[1])]
    library = re.search(r"lib(\w+?)(?:-[0-9a-f]{8,})?\.(?:rlib|a)", file)
    return f"{library[1]} (C)" if library else "data and tables without a name"
