//! Commands on a terminal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::process::{Command, Stdio};
use std::ptr::{null, null_mut};

/// Runs a command on a terminal, where somebody types the `answer` to each line that ends with `[y/N] `. Its status, and what
/// was shown.
#[track_caller]
pub fn on_terminal(mut command: Command, answer: &str) -> (i32, String) {
    let (mut ours, mut theirs) = (-1, -1);
    // SAFETY: it writes two numbers, which live on this stack; the other pointers may be null.
    let opened = unsafe { libc::openpty(&raw mut ours, &raw mut theirs, null_mut(), null(), null()) };
    assert_eq!(opened, 0, "openpty(3)");
    // SAFETY: both descriptors are new, and nobody else owns them.
    let (mut ours, theirs) = unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
    let copy = || Stdio::from(theirs.try_clone().expect("a descriptor"));
    let mut child =
        command.stdin(copy()).stdout(copy()).stderr(copy()).spawn().expect("the command can be started");
    // Both have copies of the terminal.
    drop((command, theirs));
    let (mut shown, mut chunk, mut answered) = (String::new(), [0; 4096], false);
    // The end of a terminal reads as an error.
    while let Ok(count @ 1..) = ours.read(&mut chunk) {
        shown += &String::from_utf8_lossy(&chunk[..count]);
        if shown.contains("[y/N] ") && !std::mem::replace(&mut answered, true) {
            ours.write_all(format!("{answer}\n").as_bytes()).expect("it listens");
        }
    }
    (child.wait().expect("it is our child").code().unwrap_or(-1), shown)
}
