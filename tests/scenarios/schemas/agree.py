"""Holds the schemas that kelsonctl prints to what kelsonctl validate takes.

agree.py KELSONCTL puts odd values into every place of files that have every key, and asks both: whatever Kelson takes, its schema
has to take. What is taken is told file by file; the schema may take more, since it sees one file alone.
"""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(TOP / "hack"))
import documents  # noqa: E402
from jsonschema import Draft202012Validator  # noqa: E402

KELSONCTL = sys.argv[1]
ODD = [
    0, 1, 7, 100, -1, 0.5, 5000000, True, None, "", "x", "up", "none", "host", "all", "10ms", "5s", "1m30s", "0s", "64Mi", "128K",
    "/a", "/dev/null", "192.0.2.1", "192.0.2.1/24", "0.0.0.0:80", "200-299", "SIGRTMIN+1", "unlimited", "off", "1000:1000",
    [], ["x"], ["/a"], [1, "x"], {}, {"x": "y"}, {"x": None},
]  # fmt: skip
# The services that the changed ones need around them.
NEIGHBOURS = {name: {"process": {"command": ["/bin/true"]}} for name in ("db", "migrate", "web")}


def places(value, path=()):
    """The path of everything within a value, itself first."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in inner:
        yield from places(one, (*path, key))


def changed(whole, path, value):
    """A copy with `value` at `path`; without what is there where that is `...`."""
    whole = copy.deepcopy(whole)
    at = whole
    for key in path[:-1]:
        at = at[key]
    if value is ...:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return whole


def variants(whole):
    yield whole
    for path in places(whole):
        if path and path != ("name",):
            yield from (changed(whole, path, value) for value in (..., *ODD))


def faulty(folder):
    """The files of a configuration that Kelson finds mistakes in."""
    done = subprocess.run([KELSONCTL, "-o", "json", "validate", folder], stdout=subprocess.PIPE, check=False)
    mistakes = (mistake for mistake in json.loads(done.stdout) if not mistake["warning"])
    return {pathlib.Path(mistake["file"]).name for mistake in mistakes}


def taken_services(wholes):
    """Those variants that Kelson takes, each a service of its own in one folder."""
    everything = {f"v{number}": one for number, one in enumerate(one for whole in wholes for one in variants(whole))}
    with tempfile.TemporaryDirectory() as folder:
        services = pathlib.Path(folder, "services")
        services.mkdir()
        for name, one in {**everything, **NEIGHBOURS}.items():
            one["name"] = name
            (services / f"{name}.yaml").write_text(json.dumps(one))
        wrong = faulty(folder)
    return [one for name, one in everything.items() if f"{name}.yaml" not in wrong]


def taken_groups(whole):
    everything = {f"v{number}": one for number, one in enumerate(variants(whole))}
    with tempfile.TemporaryDirectory() as folder:
        groups = pathlib.Path(folder, "groups")
        groups.mkdir()
        for name, one in everything.items():
            (groups / f"{name}.yaml").write_text(json.dumps(one))
        wrong = faulty(folder)
    return [one for name, one in everything.items() if f"{name}.yaml" not in wrong]


def taken_machines(whole):
    whole["main"] = "web"
    for variant in variants(whole):
        with tempfile.TemporaryDirectory() as folder:
            services = pathlib.Path(folder, "services")
            services.mkdir()
            (services / "web.yaml").write_text(json.dumps({"name": "web", "process": {"command": ["/web"]}}))
            pathlib.Path(folder, "machine.yaml").write_text(json.dumps(variant))
            if not faulty(folder):
                yield variant


def disagreements(kind, taken):
    done = subprocess.run([KELSONCTL, "schema", kind], stdout=subprocess.PIPE, check=True)
    validator = Draft202012Validator(json.loads(done.stdout))
    count = 0
    for one in taken:
        count += 1
        for error in validator.iter_errors(one):
            yield f"{kind}: {error.json_path}: {error.message[:200]}"
    print(f"{kind}: {count} files that Kelson takes")
    # A group file has few keys.
    if count < (20 if kind == "group" else 50):
        yield f"{kind}: Kelson takes {count} of the variants only; the files that they are made of are wrong"


def main():
    page = TOP / "docs/service-file.md"
    shown = {name: documents.load(text) for name, text in documents.files(page)}
    process, container = (shown[f"services/{name}.yaml"] for name in ("whole", "boxed"))
    # A group wants a main, and a user of the host's an entry in its files.
    for key in ("group", "lifecycle", "user"):
        del process[key]
    del process["restart"]["scope"]
    # The first one is the whole file, and the others show one key.
    machines = documents.files(TOP / "docs/machine-file.md")
    machine = next(text for name, text in machines if name == "machine.yaml")
    found = set(disagreements("service", taken_services([process, container])))
    group = dict(documents.files(TOP / "docs/group-file.md"))["groups/shop.yaml"]
    found |= set(disagreements("group", taken_groups(documents.load(group))))
    found |= set(disagreements("machine", taken_machines(documents.load(machine))))
    for one in sorted(found):
        print(one)
    sys.exit(1 if found else 0)


main()
