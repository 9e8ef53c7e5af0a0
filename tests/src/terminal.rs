//! Commands on a terminal, and a terminal for services.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex};

use crate::deadline::eventually;

#[track_caller]
fn pair() -> (File, OwnedFd) {
    let (mut ours, mut theirs) = (-1, -1);
    // SAFETY: it writes two numbers, which live on this stack; the other pointers may be null.
    let opened = unsafe { libc::openpty(&raw mut ours, &raw mut theirs, null_mut(), null(), null()) };
    assert_eq!(opened, 0, "openpty(3)");
    for end in [ours, theirs] {
        // SAFETY: it takes numbers alone. No child of the test inherits it.
        unsafe { libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    // SAFETY: both descriptors are new, and nobody else owns them.
    unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) }
}

/// A terminal at `/dev/pts/N`, at whose other end the test types and looks.
#[derive(Debug)]
pub struct Line {
    pub path: PathBuf,
    /// As a stranger has it open.
    pub theirs: File,
    ours: File,
    shown: Arc<Mutex<String>>,
}

impl Line {
    #[track_caller]
    pub fn open() -> Line {
        let (ours, theirs) = pair();
        let path = std::fs::read_link(format!("/proc/self/fd/{}", theirs.as_raw_fd())).expect("its name");
        let shown = Arc::new(Mutex::new(String::new()));
        let (into, mut from) = (Arc::clone(&shown), ours.try_clone().expect("a descriptor"));
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            // The end of a terminal reads as an error.
            while let Ok(count @ 1..) = from.read(&mut chunk) {
                into.lock().expect("it is whole").push_str(&String::from_utf8_lossy(&chunk[..count]));
            }
        });
        Line { path, theirs: theirs.into(), ours, shown }
    }

    pub fn shown(&self) -> String {
        self.shown.lock().expect("it is whole").clone()
    }

    /// Waits until it shows this text, which it then forgets with all before it.
    #[track_caller]
    pub fn wait(&self, text: &str) {
        eventually(&format!("the terminal to show {text:?}"), || self.shown().contains(text));
        let mut shown = self.shown.lock().expect("it is whole");
        let end = shown.find(text).map_or(0, |place| place + text.len());
        shown.drain(..end);
    }

    #[track_caller]
    pub fn put(&self, text: &str) {
        (&self.ours).write_all(text.as_bytes()).expect("it listens");
    }
}

/// Runs a command on a terminal, where somebody types the `answer` to each line that ends with `[y/N] `. Its status, and what
/// was shown.
#[track_caller]
pub fn on_terminal(mut command: Command, answer: &str) -> (i32, String) {
    let (mut ours, theirs) = pair();
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
