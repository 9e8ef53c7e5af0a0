//! The log of the kernel.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;

/// The device: each read gives one record, each write makes one.
pub const PATH: &str = "/dev/kmsg";

/// Opens the log to be read, from the oldest record that the kernel keeps; no call on it waits.
///
/// # Errors
/// There is none, as in most containers.
pub fn reader() -> io::Result<File> {
    open(OpenOptions::new().read(true))
}

/// Opens the log to be written; as for [`reader`].
///
/// # Errors
/// As for [`reader`].
pub fn writer() -> io::Result<File> {
    open(OpenOptions::new().write(true))
}

fn open(options: &mut OpenOptions) -> io::Result<File> {
    options.custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY).open(PATH)
}
