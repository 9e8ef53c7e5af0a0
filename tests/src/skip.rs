//! Tests that cannot run here: Rust's harness knows only *passed* and *failed*, so they report it themselves.

use std::io::Write as _;

/// Names the file that `hack/test` counts skipped tests from.
const FILE: &str = "KELSON_SKIPS";

/// Reports that the calling test cannot run here; the test returns then. `hack/test` fails on a test that is skipped and
/// not listed in `tests/skips`.
///
/// # Panics
/// When the file that `KELSON_SKIPS` names cannot be appended to.
pub fn skip(reason: &str) {
    let name = test_name();
    println!("SKIPPED: {name}: {reason}");
    if let Some(path) = std::env::var_os(FILE) {
        let mut file = std::fs::File::options().append(true).create(true).open(&path).expect("KELSON_SKIPS");
        file.write_all(format!("{name}: {reason}\n").as_bytes()).expect("KELSON_SKIPS is writable");
    }
}

/// The name of the running test. `hack/test` runs each test in a process of its own, `TESTS --exact NAME`; within `cargo
/// test`, the harness names the thread after it.
fn test_name() -> String {
    let mut words = std::env::args().skip_while(|word| word != "--exact");
    let thread = || std::thread::current().name().unwrap_or("a test without a name").to_owned();
    words.nth(1).unwrap_or_else(thread)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_test_knows_its_own_name() {
        assert_eq!(super::test_name(), "skip::tests::a_test_knows_its_own_name");
    }
}
