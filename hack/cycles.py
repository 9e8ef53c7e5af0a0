"""Cycles of imports between the files of a crate."""
import collections
import pathlib
import re

import rust

USE = re.compile(r"^\s*(pub(?:\([a-z]+\))? )?use ([\w:{},\s*]+);", re.MULTILINE)
INLINE = re.compile(r"(?<![\w:])((?:crate|super)(?:::\w+)+)")


def flat(text):
    """The paths that a use declaration names: `a::{b, c::D}` is a::b and a::c::D."""
    text = text.strip()
    if "{" not in text:
        return [text.split(" as ")[0].strip()]
    before, inner = text.split("{", 1)
    inner, parts, depth, start = inner[: inner.rindex("}")], [], 0, 0
    for at, c in enumerate(inner + ","):
        depth += (c == "{") - (c == "}")
        if c == "," and not depth:
            parts.append(inner[start:at])
            start = at + 1
    return [path for part in parts if part.strip() for path in flat(before.strip() + part.strip())]


def module(path, crate):
    """The module path of a file, from the root of its crate."""
    parts = list(pathlib.PurePath(path).relative_to(pathlib.PurePath(crate) / "src").with_suffix("").parts)
    if parts[-1] in ("mod", "lib", "main"):
        parts.pop()
    return tuple(parts)


def absolute(path, own):
    """A path of a use declaration from the root of the crate; None: of another crate."""
    parts = [part for part in path.replace(" ", "").replace("\n", "").split("::") if part]
    if parts[0] == "crate":
        return tuple(parts[1:])
    if parts[0] in ("super", "self"):
        base = list(own)
        while parts and parts[0] in ("super", "self"):
            if parts.pop(0) == "super":
                base = base[:-1]
        return tuple(base + parts)
    return None


def graph(crate, files):
    """{module: {modules it imports}}, where a name that a module passes on is one of the module that it comes from."""
    modules = {module(path, crate): path for path in files if files[path][0]}
    code = {m: "\n".join(line.split("//")[0] for _, line in files[path][0]) for m, path in modules.items()}
    passed = {}
    uses = collections.defaultdict(set)
    for own, text in code.items():
        for found in USE.finditer(text):
            for path in flat(found[2]):
                target = absolute(path, own)
                # A name of a child without a `self`.
                if target is None and own + (path.split("::")[0],) in modules:
                    target = own + tuple(path.split("::"))
                if target is None:
                    continue
                if found[1]:
                    passed[own + target[-1:]] = target
                else:
                    uses[own].add(target)
        rest = USE.sub("", text)
        for found in INLINE.finditer(rest):
            uses[own].add(absolute(found[1], own))

    def home(target, tries=8):
        for length in range(len(target), 0, -1):
            if tries and target[:length] in passed:
                return home(passed[target[:length]] + target[length:], tries - 1)
        for length in range(len(target), -1, -1):
            if target[:length] in modules:
                return target[:length]
        return ()

    return {own: {home(target) for target in targets} - {own} for own, targets in uses.items()}, modules


def components(edges):
    """Strongly connected components of more than one node (Tarjan, without recursion)."""
    index, low, stack, on, found, count = {}, {}, [], set(), [], 0
    for root in list(edges):
        if root in index:
            continue
        work = [(root, iter(sorted(edges.get(root, ()))))]
        index[root] = low[root] = count
        count += 1
        stack.append(root)
        on.add(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = count
                    count += 1
                    stack.append(other)
                    on.add(other)
                    work.append((other, iter(sorted(edges.get(other, ())))))
                    break
                if other in on:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part = []
                    while not part or part[-1] != node:
                        part.append(stack.pop())
                        on.discard(part[-1])
                    if len(part) > 1:
                        found.append(sorted(part))
    return found


def cycles(crates):
    """For each cycle its crate and the files in it."""
    files = rust.files()
    for crate in sorted(crates):
        own = {path: parts for path, parts in files.items() if path.startswith(crate + "/src/")}
        edges, modules = graph(crate, own)
        for part in components(edges):
            yield crate, [modules[m] for m in part]
