//! What PID 1 and the process that watches disks say to each other: small frames over a stream socket.
//!
//! A frame is its length (two bytes, of what follows), a kind (one byte), the number of a path (eight bytes) and what
//! the kind needs; all numbers little-endian. Whatever is longer than allowed or makes no sense ends the connection.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use tokio::io::Interest;
use tokio::net::UnixStream;

use super::walk::Finding;

/// Mounts that one walk may touch besides memory.
pub(super) const MOST_ALLOWED: usize = 16;

/// PATH_MAX, and what stands around it.
const LONGEST_FRAME: usize = 4096 + 128;

/// Of what the other side has not read yet.
const MOST_WAITING: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    /// Follow this path, and answer at once and at each change.
    Watch {
        id: u64,
        allowed: Vec<u32>,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Missing,
    Exists,
    Elsewhere(u32),
}

impl From<Finding> for Found {
    fn from(finding: Finding) -> Found {
        match finding {
            Finding::Exists => Found::Exists,
            Finding::Missing => Found::Missing,
            Finding::Elsewhere(key) => Found::Elsewhere(key.id),
        }
    }
}

impl Frame {
    /// `None`: longer than a frame may be.
    fn encode(&self) -> Option<Vec<u8>> {
        let (kind, id) = match self {
            Frame::Watch { id, .. } => (1_u8, id),
            Frame::Forget { id } => (2, id),
            Frame::Found { id, .. } => (3, id),
        };
        let mut body = vec![kind];
        body.extend(id.to_le_bytes());
        match self {
            Frame::Watch { allowed, path, .. } => {
                body.push(u8::try_from(allowed.len()).ok()?);
                body.extend(allowed.iter().flat_map(|mount| mount.to_le_bytes()));
                body.extend(path.as_os_str().as_bytes());
            }
            Frame::Forget { .. } => {}
            Frame::Found { found: Found::Missing, .. } => body.push(0),
            Frame::Found { found: Found::Exists, .. } => body.push(1),
            Frame::Found { found: Found::Elsewhere(mount), .. } => {
                body.push(2);
                body.extend(mount.to_le_bytes());
            }
        }
        if body.len() > LONGEST_FRAME {
            return None;
        }
        let mut bytes = u16::try_from(body.len()).ok()?.to_le_bytes().to_vec();
        bytes.append(&mut body);
        Some(bytes)
    }

    /// `None`: makes no sense.
    fn decode(body: &[u8]) -> Option<Frame> {
        let (kind, rest) = body.split_first()?;
        let (id, rest) = rest.split_first_chunk::<8>()?;
        let id = u64::from_le_bytes(*id);
        match (kind, rest) {
            (1, [count, rest @ ..]) => {
                let count = usize::from(*count);
                if count > MOST_ALLOWED {
                    return None;
                }
                let (numbers, path) = rest.split_at_checked(count.checked_mul(4)?)?;
                let (numbers, _) = numbers.as_chunks::<4>();
                let allowed = numbers.iter().map(|mount| u32::from_le_bytes(*mount)).collect();
                let path = PathBuf::from(OsString::from_vec(path.to_vec()));
                path.is_absolute().then_some(Frame::Watch { id, allowed, path })
            }
            (2, []) => Some(Frame::Forget { id }),
            (3, [0]) => Some(Frame::Found { id, found: Found::Missing }),
            (3, [1]) => Some(Frame::Found { id, found: Found::Exists }),
            (3, [2, mount @ ..]) => {
                let mount = u32::from_le_bytes(mount.try_into().ok()?);
                Some(Frame::Found { id, found: Found::Elsewhere(mount) })
            }
            _ => None,
        }
    }
}

/// Takes the first frame off the front of `input`; `None`: it is not whole yet.
fn take_frame(input: &mut Vec<u8>) -> io::Result<Option<Frame>> {
    let Some((length, rest)) = input.split_first_chunk::<2>() else { return Ok(None) };
    let length = usize::from(u16::from_le_bytes(*length));
    if length > LONGEST_FRAME {
        return Err(senseless());
    }
    let Some(body) = rest.get(..length) else { return Ok(None) };
    let frame = Frame::decode(body).ok_or_else(senseless)?;
    input.drain(..length.saturating_add(2));
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
            Frame::Watch { id: 7, allowed: vec![1, 0x0102_0304], path: PathBuf::from("/a b") },
            Frame::Watch {
                id: u64::MAX,
                allowed: vec![],
                path: PathBuf::from(format!("/{}", "x".repeat(4000))),
            },
            Frame::Forget { id: 7 },
            Frame::Found { id: 1, found: Found::Missing },
            Frame::Found { id: 2, found: Found::Exists },
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
        let bodies: [&[u8]; 8] = [
            b"",
            b"\x01",
            b"\x09\0\0\0\0\0\0\0\0",
            b"\x01\0\0\0\0\0\0\0\0\x02\0\0\0\0/",
            b"\x01\0\0\0\0\0\0\0\0\0not/absolute",
            b"\x01\0\0\0\0\0\0\0\0\xff/",
            b"\x02\0\0\0\0\0\0\0\0more",
            b"\x03\0\0\0\0\0\0\0\0\x02\0\0",
        ];
        for body in bodies {
            let mut input = u16::try_from(body.len()).expect("short").to_le_bytes().to_vec();
            input.extend(body);
            assert!(take_frame(&mut input).is_err(), "{body:?}");
        }
        assert!(take_frame(&mut vec![0xff, 0xff]).is_err(), "too long");
        let path = PathBuf::from(format!("/{}", "x".repeat(5000)));
        assert!(Frame::Watch { id: 1, allowed: vec![], path }.encode().is_none());
    }
}
