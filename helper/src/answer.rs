//! The answer of a helper that does one piece of work: frames over a pipe, and then its end.
//!
//! A frame is its length (four bytes, the least first) and as many bytes of the form that its helper's
//! messages have. A frame that is longer than its reader allows, or empty, is none, and ends the reading.

use std::fs::File;
use std::io::{self, Read, Seek as _, Write as _};
use std::os::fd::{OwnedFd, RawFd};
use std::time::Duration;

use futures_util::future::BoxFuture;
use nix::fcntl::OFlag;
use nix::sys::memfd::{MFdFlags, memfd_create};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use crate::launch::{Launched, Launcher, Lease, Start};

/// Bytes before each frame.
pub const HEADER: usize = 4;
/// How long the end of a process is waited for once it has answered or closed its pipe.
const END: Duration = Duration::from_secs(2);

/// A whole frame.
pub fn frame(content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    [&length.to_le_bytes(), content].concat()
}

/// How many bytes follow; `None`: no frame of at most `longest` bytes begins like this.
pub fn length(head: [u8; HEADER], longest: usize) -> Option<usize> {
    usize::try_from(u32::from_le_bytes(head)).ok().filter(|length| (1..=longest).contains(length))
}

/// A question as the input of a helper: a frame in memory, since a pipe might not take it whole, and the writer would wait.
///
/// # Errors
/// When there is no memory or no descriptor for it.
pub fn input(question: &[u8]) -> io::Result<OwnedFd> {
    let mut input = File::from(memfd_create(c"question", MFdFlags::MFD_CLOEXEC)?);
    input.write_all(&frame(question))?;
    input.rewind()?;
    Ok(input.into())
}

/// Reads what [`input`] has written, in the helper.
///
/// # Errors
/// `UnexpectedEof` where it ends early, `InvalidData` where no frame of at most `longest` bytes begins.
pub fn question(input: &mut impl Read, longest: usize) -> io::Result<Vec<u8>> {
    let mut head = [0; HEADER];
    input.read_exact(&mut head)?;
    let length = length(head, longest);
    let length = length.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "its length"))?;
    let mut bytes = vec![0; length];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// PID 1's end of the pipe.
#[derive(Debug)]
pub struct Frames {
    pipe: pipe::Receiver,
    longest: usize,
}

impl Frames {
    /// A pipe for frames of at most `longest` bytes, and the helper's end of it. Needs a runtime.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn pipe(longest: usize) -> io::Result<(Frames, OwnedFd)> {
        let (reader, writer) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        Ok((Frames { pipe: pipe::Receiver::from_owned_fd(reader)?, longest }, writer))
    }

    /// # Errors
    /// `UnexpectedEof` at the end of the pipe, `InvalidData` where no frame begins.
    pub async fn next(&mut self) -> io::Result<Vec<u8>> {
        let mut head = [0; HEADER];
        self.pipe.read_exact(&mut head).await?;
        let length = length(head, self.longest).ok_or(io::ErrorKind::InvalidData)?;
        let mut content = vec![0; length];
        self.pipe.read_exact(&mut content).await?;
        Ok(content)
    }
}

/// The limits of one kind of helper.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Its start.
    pub start: Duration,
    /// From one frame to the next.
    pub silence: Duration,
    /// Bytes of a frame.
    pub frame: usize,
}

/// Why there is no answer, or no more of it: what the helper did, to be read after its name.
#[derive(Debug, thiserror::Error)]
pub enum Unanswered {
    #[error("could not be started: {0}")]
    Start(#[source] io::Error),
    #[error("was not started within {} s", .0.as_secs())]
    NotStarted(Duration),
    #[error("said nothing for {} s", .0.as_secs())]
    Silent(Duration),
    #[error("said what makes no sense")]
    Senseless,
    /// How the process ended.
    #[error("{0}")]
    Ended(String),
}

/// A helper at work. It is killed when this is dropped.
pub struct Answers {
    pub pid: i32,
    frames: Frames,
    silence: Duration,
    exit: Option<BoxFuture<'static, String>>,
    _lease: Lease,
}

impl std::fmt::Debug for Answers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answers").field("pid", &self.pid).finish_non_exhaustive()
    }
}

impl Answers {
    /// Starts a helper, which finds the pipe for its answer under the number `output`.
    ///
    /// # Errors
    /// When it is not started in time.
    pub async fn begin(
        launcher: &dyn Launcher,
        mut start: Start,
        output: RawFd,
        bounds: Bounds,
    ) -> Result<Answers, Unanswered> {
        let (frames, writer) = Frames::pipe(bounds.frame).map_err(Unanswered::Start)?;
        start.descriptors.push((output, writer));
        let started = timeout(bounds.start, launcher.launch(start)).await;
        let started = started.map_err(|_| Unanswered::NotStarted(bounds.start))?;
        let Launched { pid, exit, kill, .. } = started.map_err(Unanswered::Start)?;
        Ok(Answers { pid, frames, silence: bounds.silence, exit: Some(exit), _lease: Lease(kill) })
    }

    /// The next frame.
    ///
    /// # Errors
    /// Why there is none. It is of no use any more then.
    pub async fn next(&mut self) -> Result<Vec<u8>, Unanswered> {
        match timeout(self.silence, self.frames.next()).await {
            Err(_) => Err(Unanswered::Silent(self.silence)),
            Ok(Ok(content)) => Ok(content),
            Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => Err(Unanswered::Senseless),
            Ok(Err(_)) => Err(Unanswered::Ended(self.end().await)),
        }
    }

    /// Waits a moment for it to end by itself, as it does once it has answered. Returns how it ended.
    pub async fn end(&mut self) -> String {
        let exit = self.exit.take().unwrap_or_else(|| Box::pin(std::future::pending()));
        timeout(END, exit).await.unwrap_or_else(|_| "it closed its pipe and was killed".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_a_length_within_bounds() {
        let bytes = frame(b"four");
        let (head, content) = bytes.split_at(HEADER);
        assert_eq!((length(head.try_into().unwrap(), 4), content), (Some(4), b"four".as_slice()));
        assert_eq!(length(head.try_into().unwrap(), 3), None);
        for wrong in [[0; HEADER], [0xff; HEADER], [1, 0, 1, 0]] {
            assert_eq!(length(wrong, 1 << 16), None, "{wrong:?}");
        }
        assert_eq!(length([0, 0, 1, 0], 1 << 16), Some(1 << 16));
    }
}
