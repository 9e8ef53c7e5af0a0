//! A test in namespaces of its own.

use std::process::Command;

use crate::skip;

const INSIDE: &str = "KELSON_TEST_INSIDE";

/// Runs the body of the test of this name in namespaces that unshare(1) makes with these options: the test binary is
/// started again in them.
///
/// # Panics
/// When the test fails there.
pub fn alone(options: &[&str], name: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    // SAFETY: a system call without arguments.
    if unsafe { libc::geteuid() } != 0 {
        skip::skip("it makes namespaces, and only root may");
        return;
    }
    let output = Command::new("unshare")
        .args(options)
        .arg(std::env::current_exe().expect("the test has a file"))
        .args(["--exact", name, "--nocapture", "--include-ignored"])
        .env(INSIDE, "1")
        .output()
        .expect("unshare is installed");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    print!("{}", text(&output.stdout));
}
