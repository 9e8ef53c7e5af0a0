//! Files that may not be ready: a line without a carrier, a FIFO without the other end.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::fcntl::{FcntlArg, OFlag, fcntl};

/// Opens it to be read, and perhaps written. It never becomes the controlling terminal of this process.
pub fn open(path: &Path, flags: OFlag, writes: bool) -> io::Result<File> {
    let flags = (flags | OFlag::O_NOCTTY).bits();
    File::options().read(true).write(writes).custom_flags(flags).open(path)
}

/// Takes away `O_NONBLOCK`, with which it was opened.
pub fn block(file: &File) -> nix::Result<()> {
    let mut flags = OFlag::from_bits_retain(fcntl(file, FcntlArg::F_GETFL)?);
    flags.remove(OFlag::O_NONBLOCK);
    fcntl(file, FcntlArg::F_SETFL(flags)).map(drop)
}
