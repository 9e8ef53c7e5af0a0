//! The kernel log from `/dev/kmsg`, record by record.
//!
//! Each read gives one record, `priority,sequence,microseconds,flags;text`, and lines of `KEY=value` after it, which
//! begin with a space and are left out. Bytes that cannot be shown stand in it as `\xNN`.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

use kelson_proto::v1;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tonic::Status;

use super::model;

/// Longest record that the kernel gives, in bytes.
const RECORD: usize = 8192;
/// Most records of one message.
const BATCH: usize = 128;

/// A place in the kernel log.
pub struct KernelLog {
    file: AsyncFd<File>,
    follow: bool,
    closed: watch::Receiver<()>,
    ended: bool,
}

impl KernelLog {
    /// From the oldest record that the kernel keeps.
    ///
    /// # Errors
    /// FAILED_PRECONDITION where there is no kernel log to read, as in most containers.
    pub fn open(follow: bool, closed: watch::Receiver<()>) -> Result<KernelLog, Status> {
        let unreadable = |error: std::io::Error| {
            Status::failed_precondition(format!(
                "the kernel log cannot be read here: /dev/kmsg: {error}; in a container ask the host for it"
            ))
        };
        let file = File::options()
            .read(true)
            .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
            .open("/dev/kmsg")
            .map_err(unreadable)?;
        // Also what stands in for it in some containers, such as /dev/null, cannot be waited for.
        // SAFETY: the file is owned by what is registered, and so stays open as long as it is.
        let file = unsafe { AsyncFd::register_with_interest(file, Interest::READABLE) };
        let file = file.map_err(|error| unreadable(std::io::Error::other(error.to_string())))?;
        Ok(KernelLog { file, follow, closed, ended: false })
    }

    /// The next records. `None`: the end. Cancelled by dropping, without a loss.
    pub async fn next(&mut self) -> Option<Result<v1::DmesgResponse, Status>> {
        if self.ended {
            return None;
        }
        loop {
            match self.read() {
                Err(error) => {
                    self.ended = true;
                    return Some(Err(Status::unavailable(format!("reading /dev/kmsg failed: {error}"))));
                }
                Ok(messages) if !messages.is_empty() => return Some(Ok(v1::DmesgResponse { messages })),
                Ok(_) if !self.follow => return None,
                Ok(_) => {}
            }
            tokio::select! {
                ready = self.file.readable() => match ready {
                    // Asked again by reading: it was empty a moment ago, so this is new.
                    Ok(mut ready) => ready.clear_ready(),
                    Err(_) => return None,
                },
                _ = self.closed.changed() => {
                    self.follow = false;
                }
            }
        }
    }

    /// What can be read now; empty: nothing.
    fn read(&self) -> std::io::Result<Vec<v1::KernelMessage>> {
        let mut record = vec![0; RECORD];
        let mut messages = Vec::new();
        while messages.len() < BATCH {
            match self.file.get_ref().read(&mut record) {
                Ok(0) => break,
                Ok(length) => messages.extend(record.get(..length).and_then(parse)),
                Err(error) => match error.raw_os_error() {
                    // Overwritten before it was read: the next read gives the oldest that is kept.
                    Some(code) if code == nix::errno::Errno::EPIPE as i32 => {}
                    _ if error.kind() == std::io::ErrorKind::Interrupted => {}
                    _ if error.kind() == std::io::ErrorKind::WouldBlock => break,
                    _ => return Err(error),
                },
            }
        }
        Ok(messages)
    }
}

/// One record. `None`: nothing that the kernel writes.
fn parse(record: &[u8]) -> Option<v1::KernelMessage> {
    let head_end = record.iter().position(|byte| *byte == b';')?;
    let (head, rest) = record.split_at_checked(head_end)?;
    let mut fields = std::str::from_utf8(head).ok()?.split(',');
    let priority: u32 = fields.next()?.parse().ok()?;
    let seq = fields.next()?.parse().ok()?;
    let microseconds = fields.next()?.parse().ok()?;
    let text = rest.get(1..)?.split(|byte| *byte == b'\n').next()?;
    Some(v1::KernelMessage {
        seq,
        time: Some(model::duration(Duration::from_micros(microseconds))),
        level: priority & 7,
        text: unescape(text),
    })
}

/// Undoes `\xNN`, but for control characters other than tab and newline: they are not for terminals.
fn unescape(text: &[u8]) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        match escaped(rest) {
            Some((byte, tail)) if matches!(byte, b'\t' | b'\n' | b' '..=b'~' | 0x80..) => {
                out.push(byte);
                rest = tail;
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The byte that `\xNN` at the start of `text` stands for, and what comes after.
fn escaped(text: &[u8]) -> Option<(u8, &[u8])> {
    let (digits, rest) = text.strip_prefix(b"\\x")?.split_at_checked(2)?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    Some((byte, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(record: &str) -> String {
        parse(record.as_bytes()).unwrap().text
    }

    #[test]
    fn a_record_with_its_dictionary() {
        let record = "30,339,5140900,-;NET: Registered protocol family 10\n SUBSYSTEM=net\n DEVICE=n2\n";
        let message = parse(record.as_bytes()).unwrap();
        assert_eq!((message.seq, message.level), (339, 6));
        assert_eq!(message.time, Some(prost_types::Duration { seconds: 5, nanos: 140_900_000 }));
        assert_eq!(message.text, "NET: Registered protocol family 10");
    }

    #[test]
    fn further_fields_and_semicolons_in_the_text() {
        assert_eq!(text("6,1,0,-,caller=T1;a;b\n"), "a;b");
        assert_eq!(text("6,1,0,c;"), "");
    }

    #[test]
    fn escapes() {
        assert_eq!(text("6,1,0,-;tab\\x09 back\\x5cslash line\\x0abreak\n"), "tab\t back\\slash line\nbreak");
        assert_eq!(text("6,1,0,-;gr\\xc3\\xbc\\xc3\\x9f\n"), "grüß");
        assert_eq!(
            text("6,1,0,-;\\x1b[31mred\\x7f\n"),
            "\\x1b[31mred\\x7f",
            "nothing that a terminal would obey"
        );
        assert_eq!(text("6,1,0,-;\\xzz \\x4\n"), "\\xzz \\x4");
        assert_eq!(text("6,1,0,-;\\xff\n"), "\u{fffd}");
    }

    #[test]
    fn what_is_no_record() {
        for bad in ["", ";", "6;x", "6,1;x", "a,1,0,-;x", "6,1,0,-"] {
            assert!(parse(bad.as_bytes()).is_none(), "{bad}");
        }
    }
}
