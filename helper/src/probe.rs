//! What PID 1 and `kelson-probe` say to each other: frames on a stream socket, written and read by the same binary.
//!
//! A frame is its length in four bytes and then that many of postcard. Each end bounds what it takes: whoever sends a
//! longer frame is broken, and is dealt with like one that died.

pub mod timing;

use std::borrow::Cow;
use std::time::Duration;

use kelson_spec::service::NetworkProbe;
use serde::{Deserialize, Serialize};

/// The name under which the process is started.
pub const NAME: &str = "kelson-probe";

/// The longest frame to the probe: a check with its CA.
pub const TO_PROBE_MAX: usize = 256 << 10;
/// The longest frame to PID 1: a batch of results.
pub const FROM_PROBE_MAX: usize = 32 << 10;
/// Before each frame.
const LENGTH: usize = 4;

/// How a check was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    Passes,
    Fails,
    /// No answer within the timeout.
    Silent,
}

/// PID 1 to the probe.
#[allow(clippy::large_enum_variant, reason = "one lives at a time, on the stack")]
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum ToProbe<'a> {
    Begin(Begin<'a>),
    End(u64),
    Ping(u64),
    /// End in order.
    Goodbye,
}

/// One check to be asked from now on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begin<'a> {
    pub id: u64,
    pub probe: Cow<'a, NetworkProbe>,
    /// To the first time.
    pub delay: Duration,
    pub interval: Duration,
    pub timeout: Duration,
    /// For so long it is asked at least every second, unless it passes often enough before.
    pub eager: Duration,
    /// Passes in a row that end that.
    pub passes: u32,
}

/// The probe to PID 1: one of these leads each frame.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum FromProbe<'a> {
    /// [`Record`]s follow up to the frame's end.
    Results,
    Pong(u64),
    /// Something that an operator should know.
    Trouble(&'a str),
    /// So many results were thrown away since PID 1 did not take them.
    Dropped(u64),
}

/// What came of a check once.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Record<'a> {
    pub id: u64,
    /// When it was asked, in microseconds since 1970.
    pub at: u64,
    pub took: Duration,
    pub verdict: Verdict,
    /// `None`: the same as the last of this check.
    pub text: Option<&'a str>,
}

/// Why bytes are no frame of ours.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    #[error("a message of {0} bytes is too long")]
    TooLong(usize),
    #[error("a message is damaged: {0}")]
    Damaged(#[from] postcard::Error),
}

/// Appends a frame that holds `message`; `buffer` is as before where it would be longer than `max`.
pub fn write_frame(buffer: &mut Vec<u8>, message: &impl Serialize, max: usize) -> Result<(), WireError> {
    let frame = FrameStart::new(buffer);
    frame.push(buffer, message, max)?;
    frame.finish(buffer);
    Ok(())
}

/// A frame that is being written, piece by piece.
#[derive(Debug, Clone, Copy)]
pub struct FrameStart(usize);

impl FrameStart {
    pub fn new(buffer: &mut Vec<u8>) -> FrameStart {
        let start = FrameStart(buffer.len());
        buffer.extend_from_slice(&[0; LENGTH]);
        start
    }

    /// Appends a piece, or leaves the frame as it is where it would become longer than `max`; an unfinished first piece
    /// takes the whole frame with it.
    pub fn push(self, buffer: &mut Vec<u8>, piece: &impl Serialize, max: usize) -> Result<(), WireError> {
        let before = buffer.len();
        let undo = if self.length(before) == 0 { self.0 } else { before };
        let written = postcard::to_extend(piece, Appended(buffer)).map(drop);
        let length = self.length(buffer.len());
        match written {
            Ok(()) if length <= max => Ok(()),
            Ok(()) => {
                buffer.truncate(undo);
                Err(WireError::TooLong(length))
            }
            Err(error) => {
                buffer.truncate(undo);
                Err(error.into())
            }
        }
    }

    pub fn finish(self, buffer: &mut [u8]) {
        let length = u32::try_from(self.length(buffer.len())).unwrap_or(u32::MAX);
        let end = self.0.saturating_add(LENGTH);
        if let Some(place) = buffer.get_mut(self.0..end) {
            place.copy_from_slice(&length.to_le_bytes());
        }
    }

    fn length(self, end: usize) -> usize {
        end.saturating_sub(self.0).saturating_sub(LENGTH)
    }
}

/// What postcard writes into.
struct Appended<'a>(&'a mut Vec<u8>);

impl Extend<u8> for Appended<'_> {
    fn extend<T: IntoIterator<Item = u8>>(&mut self, bytes: T) {
        self.0.extend(bytes);
    }
}

/// Bytes that came in, and the frames in them. Never holds more than one frame of the greatest length.
#[derive(Debug)]
pub struct Incoming {
    bytes: Vec<u8>,
    /// Up to here they have been given out.
    taken: usize,
    max: usize,
}

impl Incoming {
    pub fn new(max: usize) -> Incoming {
        Incoming { bytes: Vec::new(), taken: 0, max }
    }

    /// Takes bytes in; whoever calls takes all frames out before the next.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken.min(self.bytes.len()));
        self.taken = 0;
        if self.bytes.is_empty() {
            // One large frame must not be paid for all the time.
            self.bytes.shrink_to(FROM_PROBE_MAX.saturating_mul(2));
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame, if it is here.
    ///
    /// # Errors
    /// When it is longer than it may be: nothing that follows can be read then.
    pub fn frame(&mut self) -> Result<Option<&[u8]>, WireError> {
        let rest = self.bytes.get(self.taken..).unwrap_or_default();
        let Some((length, rest)) = rest.split_first_chunk::<LENGTH>() else { return Ok(None) };
        let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if length > self.max {
            return Err(WireError::TooLong(length));
        }
        match rest.get(..length) {
            Some(frame) => {
                self.taken = self.taken.saturating_add(LENGTH).saturating_add(length);
                Ok(Some(frame))
            }
            None => Ok(None),
        }
    }
}

/// The first piece of a frame, and what follows it.
///
/// # Errors
/// When it does not begin with one.
pub fn read_piece<'a, M: Deserialize<'a>>(frame: &'a [u8]) -> Result<(M, &'a [u8]), WireError> {
    Ok(postcard::take_from_bytes(frame)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(message: &ToProbe<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, message, TO_PROBE_MAX).unwrap();
        bytes
    }

    #[test]
    fn frames_are_found_however_they_are_cut() {
        let mut bytes = frame(&ToProbe::Ping(1));
        bytes.extend(frame(&ToProbe::End(300)));
        for size in 1..=bytes.len() {
            let mut incoming = Incoming::new(TO_PROBE_MAX);
            let mut read = Vec::new();
            for part in bytes.chunks(size) {
                incoming.push(part);
                while let Some(frame) = incoming.frame().unwrap() {
                    read.push(format!("{:?}", read_piece::<ToProbe<'_>>(frame).unwrap().0));
                }
            }
            assert_eq!(read, ["Ping(1)", "End(300)"], "{size}");
        }
    }

    #[test]
    fn what_is_too_long_is_refused_at_both_ends() {
        let mut buffer = vec![7];
        let text = "x".repeat(FROM_PROBE_MAX);
        let written = write_frame(&mut buffer, &FromProbe::Trouble(&text), FROM_PROBE_MAX);
        assert!(matches!(written, Err(WireError::TooLong(_))) && buffer == [7]);

        let mut incoming = Incoming::new(FROM_PROBE_MAX);
        incoming.push(&u32::MAX.to_le_bytes());
        assert!(matches!(incoming.frame(), Err(WireError::TooLong(_))));
    }

    #[test]
    fn a_frame_takes_pieces_until_it_is_full_and_stays_whole() {
        let mut buffer = Vec::new();
        let frame = FrameStart::new(&mut buffer);
        frame.push(&mut buffer, &FromProbe::Results, 100).unwrap();
        let mut pieces = 0;
        while frame.push(&mut buffer, &"ninechars", 100).is_ok() {
            pieces += 1;
        }
        frame.finish(&mut buffer);
        assert_eq!((pieces, buffer.len()), (9, LENGTH + 1 + 90));
        let mut incoming = Incoming::new(100);
        incoming.push(&buffer);
        assert_eq!(incoming.frame().unwrap().unwrap().len(), 91);
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        for bytes in [&[][..], &[9], &[1], &[0, 1, 1, 1, 1]] {
            assert!(read_piece::<ToProbe<'_>>(bytes).is_err(), "{bytes:?}");
        }
    }
}
