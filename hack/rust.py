"""Which lines of the Rust files in the repository are code, and which are tests."""
import pathlib
import re
import subprocess

TOP = pathlib.Path(__file__).resolve().parent.parent
TEST_ITEM = re.compile(r'#\[cfg\((test|(any\(test, )?feature = "testing"\)?)\)\]')


def split(text):
    """(code, tests, names of the test modules in files of their own): lists of (line number, line)."""
    lines = text.split("\n")
    code, tests, modules, at = [], [], [], 0
    while at < len(lines):
        if not TEST_ITEM.match(lines[at].strip()):
            code.append((at + 1, lines[at]))
            at += 1
            continue
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        end = at + 1
        while end < len(lines) and lines[end].strip().startswith("#["):
            end += 1
        named = re.match(r"\s*(?:pub(?:\([a-z]+\))? )?mod (\w+);", lines[end] if end < len(lines) else "")
        if named:
            modules.append(named[1])
        # rustfmt ends an item with a line of its own indent, or on its first line.
        elif end < len(lines) and not lines[end].rstrip().endswith((";", "}")):
            end += 1
            while end < len(lines) and not re.match(re.escape(indent) + r"[})\]]", lines[end]):
                end += 1
        tests += [(number + 1, lines[number]) for number in range(at, min(end + 1, len(lines)))]
        at = end + 1
    return code, tests, modules


def files():
    """{path: (code, tests)}; a file that is a test as a whole has no code."""
    listed = subprocess.run(["git", "ls-files", "*.rs"], cwd=TOP, check=True, capture_output=True, text=True)
    paths = [path for path in listed.stdout.split("\n") if path and (TOP / path).exists()]
    parts = {path: split((TOP / path).read_text()) for path in paths}
    only_tests = set()
    for path, (_, _, modules) in parts.items():
        file = pathlib.Path(path)
        inside = file.parent if file.stem in ("lib", "main", "mod") else file.parent / file.stem
        only_tests |= {str(inside / name) for name in modules}
    found = {}
    for path, (code, tests, _) in parts.items():
        stem = path.removesuffix(".rs").removesuffix("/mod")
        whole = path.startswith(("tests/", "fuzz/")) or "/tests/" in path or path.endswith("_tests.rs")
        whole = whole or any(stem == test or stem.startswith(test + "/") for test in only_tests)
        found[path] = ([], code + tests) if whole else (code, tests)
    return found
