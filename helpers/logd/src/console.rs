//! Lines that also go to the console, as far as it takes them at once.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;

/// `/dev/console`, opened at the first line.
#[derive(Default)]
pub struct Console {
    file: Option<File>,
    line: Vec<u8>,
}

impl Console {
    /// Writes the lines that end in `bytes`, each with the name of its service; `held` is the beginning of
    /// the first. Bytes that the console does not take are dropped: they are in the log.
    pub fn write(&mut self, service: &str, held: &[u8], bytes: &[u8]) {
        let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else { return };
        self.line.clear();
        let mut first = held;
        for line in bytes.get(..end).unwrap_or_default().split(|byte| *byte == b'\n') {
            self.line.extend_from_slice(service.as_bytes());
            self.line.extend_from_slice(b": ");
            self.line.extend_from_slice(std::mem::take(&mut first));
            self.line.extend_from_slice(line);
            self.line.push(b'\n');
        }
        if self.file.is_none() {
            let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
            self.file = OpenOptions::new().write(true).custom_flags(flags).open("/dev/console").ok();
        }
        if let Some(file) = &mut self.file
            && let Err(error) = file.write(&self.line)
            && error.kind() != std::io::ErrorKind::WouldBlock
        {
            // It was hung up; the next line opens it again.
            self.file = None;
        }
        self.line.shrink_to(4096);
    }
}
