//! The messages between PID 1 and the process that watches disks: small frames ([`kelson_helper::answer`]) of
//! postcard over a stream socket. A message that is too long or makes no sense ends the connection.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use kelson_helper::answer::{HEADER, frame, length};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tokio::io::Interest;
use tokio::net::UnixStream;

use super::walk::{Finding, LONGEST_PATTERN, Question, Type};

/// Mounts that one walk may touch besides memory.
pub(super) const MOST_ALLOWED: usize = 16;

/// PATH_MAX, the longest pattern, and what stands around them.
const LONGEST_FRAME: usize = 4096 + LONGEST_PATTERN + 128;

/// Of what the other side has not read yet.
const MOST_WAITING: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Frame {
    /// Follow this path, and answer at once and at each change.
    Watch {
        id: u64,
        allowed: Vec<u32>,
        question: Question,
        #[serde(serialize_with = "write_path", deserialize_with = "read_path")]
        path: PathBuf,
    },
    Forget {
        id: u64,
    },
    /// `Elsewhere` bears the number of the mount.
    Found {
        id: u64,
        found: Found,
    },
}

/// Its bytes, which need not be text.
fn write_path<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    path.as_os_str().as_bytes().serialize(to)
}

fn read_path<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    Vec::deserialize(from).map(|bytes| OsString::from_vec(bytes).into())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Found {
    Missing,
    Exists(Type),
    Elsewhere(u32),
}

impl From<Finding> for Found {
    fn from(finding: Finding) -> Found {
        match finding {
            Finding::Exists(kind) => Found::Exists(kind),
            Finding::Missing => Found::Missing,
            Finding::Elsewhere(key) => Found::Elsewhere(key.id),
        }
    }
}

impl Frame {
    /// `None`: longer than a frame may be.
    fn encode(&self) -> Option<Vec<u8>> {
        let body = postcard::to_allocvec(self).ok().filter(|body| body.len() <= LONGEST_FRAME)?;
        Some(frame(&body))
    }

    /// `None`: makes no sense.
    fn decode(body: &[u8]) -> Option<Frame> {
        let (frame, rest) = postcard::take_from_bytes(body).ok()?;
        let sound = match &frame {
            Frame::Watch { allowed, path, .. } => allowed.len() <= MOST_ALLOWED && path.is_absolute(),
            Frame::Forget { .. } | Frame::Found { .. } => true,
        };
        (sound && rest.is_empty()).then_some(frame)
    }
}

/// Takes the first frame off the front of `input`; `None`: it is not whole yet.
fn take_frame(input: &mut Vec<u8>) -> io::Result<Option<Frame>> {
    let Some((head, rest)) = input.split_first_chunk::<HEADER>() else { return Ok(None) };
    let length = length(*head, LONGEST_FRAME).ok_or_else(senseless)?;
    let Some(body) = rest.get(..length) else { return Ok(None) };
    let frame = Frame::decode(body).ok_or_else(senseless)?;
    input.drain(..length.saturating_add(HEADER));
    Ok(Some(frame))
}

fn senseless() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the other side sent bytes that make no sense")
}

/// One end of the socket. Never waits with sending.
pub(super) struct Connection {
    stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd) -> io::Result<Connection> {
        let stream = std::os::unix::net::UnixStream::from(socket);
        stream.set_nonblocking(true)?;
        Ok(Connection { stream: UnixStream::from_std(stream)?, input: Vec::new(), output: Vec::new() })
    }

    /// Queues a frame; [`Connection::next`] sends it. An error when the other side has not read for too long.
    pub(super) fn send(&mut self, frame: &Frame) -> io::Result<()> {
        let bytes = frame.encode().ok_or(io::ErrorKind::InvalidInput)?;
        if self.output.len() > MOST_WAITING {
            return Err(io::Error::other("the other side does not read what it is sent"));
        }
        self.output.extend(bytes);
        Ok(())
    }

    /// The next frame; an error at the end of the connection. Loses nothing when dropped.
    pub(super) async fn next(&mut self) -> io::Result<Frame> {
        loop {
            if let Some(frame) = take_frame(&mut self.input)? {
                return Ok(frame);
            }
            let writing = !self.output.is_empty();
            let interest = if writing { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
            let ready = self.stream.ready(interest).await?;
            if ready.is_writable() && writing {
                match self.stream.try_write(&self.output) {
                    Ok(length) => drop(self.output.drain(..length)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
            if ready.is_readable() {
                let mut piece = [0; 4096];
                match self.stream.try_read(&mut piece) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(length) => self.input.extend(piece.iter().take(length)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Vec<Frame> {
        vec![
            Frame::Watch {
                id: 7,
                allowed: vec![1, 0x0102_0304],
                question: Question::Exists,
                path: PathBuf::from("/a b"),
            },
            Frame::Watch {
                id: u64::MAX,
                allowed: vec![],
                question: Question::Entry(Some("x".repeat(LONGEST_PATTERN))),
                path: PathBuf::from(format!("/{}", "x".repeat(4000))),
            },
            Frame::Forget { id: 7 },
            Frame::Found { id: 1, found: Found::Missing },
            Frame::Found { id: 2, found: Found::Exists(Type::Other) },
            Frame::Found { id: 3, found: Found::Elsewhere(27) },
        ]
    }

    #[test]
    fn all_frames_arrive_however_they_are_cut() {
        let bytes: Vec<u8> = frames().iter().flat_map(|frame| frame.encode().expect("short")).collect();
        for size in [1, 2, 3, 7, 100, bytes.len()] {
            let mut input = Vec::new();
            let mut arrived = Vec::new();
            for piece in bytes.chunks(size) {
                input.extend(piece);
                while let Some(frame) = take_frame(&mut input).expect("sense") {
                    arrived.push(frame);
                }
            }
            assert_eq!(arrived, frames());
            assert!(input.is_empty());
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let watch = |allowed: usize, path: &str| {
            let question = Question::Exists;
            let frame = Frame::Watch { id: 0, allowed: vec![0; allowed], question, path: path.into() };
            frame.encode().expect("short")[HEADER..].to_vec()
        };
        assert!(Frame::decode(&watch(MOST_ALLOWED, "/")).is_some());
        let forget = Frame::Forget { id: 7 }.encode().expect("short")[HEADER..].to_vec();
        for body in [
            vec![],
            vec![9, 0],
            watch(0, "not/absolute"),
            watch(MOST_ALLOWED + 1, "/"),
            watch(0, "/cut")[..4].to_vec(),
            [forget, b"more".to_vec()].concat(),
        ] {
            assert!(take_frame(&mut frame(&body)).is_err(), "{body:?}");
        }
        assert!(take_frame(&mut vec![0xff; HEADER]).is_err(), "too long");
        let path = PathBuf::from(format!("/{}", "x".repeat(6000)));
        let question = Question::Exists;
        assert!(Frame::Watch { id: 1, allowed: vec![], question, path }.encode().is_none());
    }
}
