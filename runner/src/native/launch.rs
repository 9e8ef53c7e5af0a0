//! The start of `kelson-container`: its request in memory, and what it says where a step fails.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use kelson_sys::descriptor::Watched;
use kelson_sys::text::harmless;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::read;
use serde::Serialize;

use super::NAME;
use crate::command::Command;
use crate::runner::RunnerError;

/// The descriptors of the helper: its request, where it says what failed, and the process to join.
const REQUEST: i32 = 3;
pub(super) const REPORT: i32 = 4;
pub(super) const MAIN: i32 = 5;
/// A sentence.
const LONGEST: usize = 4096;

/// The command that does what the request says: `run` or `join`.
pub(super) fn command(
    binary: &Arc<OwnedFd>,
    work: &str,
    request: &impl Serialize,
    report: OwnedFd,
) -> Result<Command, RunnerError> {
    let binary = binary.try_clone();
    let binary =
        binary.map_err(|error| RunnerError::system("cannot hand over Kelson's own binary", &error))?;
    let request = in_memory(request)?;
    Ok(Command::from_descriptor(binary, NAME)
        .arg(work)
        .descriptor(request, REQUEST)
        .descriptor(report, REPORT))
}

/// A file of memory with the request, at its beginning.
fn in_memory(request: &impl Serialize) -> Result<OwnedFd, RunnerError> {
    let text = serde_json::to_vec(request)
        .map_err(|error| RunnerError::new(format!("cannot write the container's specification: {error}")))?;
    let made = memfd_create(c"kelson-container", MFdFlags::MFD_CLOEXEC).map_err(std::io::Error::from);
    let written = made.and_then(|memory| {
        let mut file = File::from(memory);
        file.write_all(&text)?;
        // The helper opens nothing: it has this very descriptor, and its place in the file.
        std::io::Seek::rewind(&mut file)?;
        Ok(OwnedFd::from(file))
    });
    written.map_err(|error| RunnerError::system("cannot hand over the container's specification", &error))
}

/// What a helper says before it becomes the program.
pub(super) struct Report(Watched<OwnedFd>);

impl Report {
    /// It, and the end for the helper.
    pub(super) fn new() -> Result<(Report, OwnedFd), RunnerError> {
        let failed = |error| RunnerError::system("cannot make a pipe for a container", &error);
        let (ours, theirs) =
            nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).map_err(|errno| failed(errno.into()))?;
        Ok((Report(Watched::reading(ours).map_err(failed)?), theirs))
    }

    /// Waits until the helper has become the program (`None`), or says why it has not.
    pub(super) async fn failure(self) -> Result<Option<String>, RunnerError> {
        let failed = |error| RunnerError::system("cannot hear of a container's start", &error);
        let mut said = Vec::new();
        loop {
            let mut ready = self.0.readable().await.map_err(failed)?;
            let mut buffer = [0; 1024];
            match read(self.0.get_ref(), &mut buffer) {
                Ok(0) => break,
                Ok(length) if said.len() < LONGEST => {
                    said.extend_from_slice(buffer.get(..length).unwrap_or_default());
                }
                Ok(_) | Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => ready.clear_ready(),
                Err(errno) => return Err(failed(errno.into())),
            }
        }
        let text: String = harmless(&String::from_utf8_lossy(&said), Some(' ')).collect();
        Ok(Some(text).filter(|text| !text.is_empty()))
    }
}
