//! The JSON schemas that kelsonctl prints take whatever Kelson takes, asked of a real validator (Python's jsonschema) with odd
//! values in every place of files that have every key.

use std::process::Command;

use kelson_tests::paths;

#[test]
fn the_schemas_take_what_kelson_takes() {
    let python = paths::top().join("out/venv/bin/python");
    assert!(python.exists(), "{} is missing: run hack/deps", python.display());
    let script = paths::top().join("tests/scenarios/schemas/agree.py");
    let done = Command::new(python).arg(script).arg(paths::binary("kelsonctl")).output();
    let done = done.expect("python can be started");
    let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    for kind in ["service: ", "group: ", "machine: "] {
        assert!(said.contains(kind), "{said}");
    }
}
