//! The kernel log from `/dev/kmsg`: each read gives one record.

mod record;

use std::fs::File;
use std::io::Read as _;

use kelson_proto::v1;
use kelson_sys::descriptor::Watched;
use kelson_sys::kernel_log::{self, PATH};
use tokio::sync::watch;
use tonic::Status;

use record::parse;

/// Longest record that the kernel gives, in bytes.
const RECORD: usize = 8192;
/// Most records of one message.
const BATCH: usize = 128;

/// A place in the kernel log.
pub struct KernelLog {
    file: Watched<File>,
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
                "the kernel log cannot be read here: {PATH}: {error}; in a container ask the host for it"
            ))
        };
        let file = kernel_log::reader().map_err(unreadable)?;
        // Also what stands in for it in some containers, such as /dev/null, cannot be waited for.
        let file = Watched::reading(file).map_err(unreadable)?;
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
                    return Some(Err(Status::unavailable(format!("reading {PATH} failed: {error}"))));
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

    /// Reads the messages that are there now; empty: none.
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
