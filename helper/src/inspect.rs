//! The messages between `kelson-inspect` and PID 1: one question on its input and perhaps the bytes of a
//! file, frames back.
//!
//! The question is a frame too. A frame of the answer is a kind (one byte) and a message of the API, why there is no more,
//! or the end. An answer without a last frame is one that was cut off.

use crate::answer;

/// The name under which the process is started.
pub const NAME: &str = "kelson-inspect";

/// The longest frame, its kind apart. A page is sent once it has a quarter of that.
pub const FRAME_MAX: usize = 128 << 10;
/// The longest question, in bytes: a path, and a name and a number for each service.
pub const QUESTION_MAX: u64 = 1 << 20;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A message of the API, as it is sent to the caller.
    Message = b'm',
    /// There is no such path: a sentence.
    Missing = b'n',
    /// There is something else than was asked for: a sentence.
    Unfit = b'u',
    /// It could not be read: a sentence.
    Failed = b'f',
    /// All has been said.
    End = b'e',
}

const KINDS: [Kind; 5] = [Kind::Message, Kind::Missing, Kind::Unfit, Kind::Failed, Kind::End];

/// A whole frame. A content that is too long for one is cut, which can only be a sentence.
pub fn frame(kind: Kind, content: &[u8]) -> Vec<u8> {
    let content = content.get(..FRAME_MAX).unwrap_or(content);
    answer::frame(&[&[kind as u8], content].concat())
}

/// Splits a frame into its kind and content; `None`: it makes no sense.
pub fn content(frame: &[u8]) -> Option<(Kind, &[u8])> {
    let (first, content) = frame.split_first()?;
    Some((KINDS.into_iter().find(|kind| *kind as u8 == *first)?, content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_say_what_they_are() {
        for kind in KINDS {
            let bytes = frame(kind, b"four");
            assert_eq!(content(&bytes[answer::HEADER..]), Some((kind, b"four".as_slice())));
        }
        assert_eq!(frame(Kind::Failed, &vec![b'x'; FRAME_MAX + 9]).len(), answer::HEADER + 1 + FRAME_MAX);
        assert!(content(b"x").is_none() && content(b"").is_none());
    }
}
