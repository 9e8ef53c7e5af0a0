//! What goes over the two pipes: one question to the helper and perhaps the bytes of a file, frames back.
//!
//! A frame is a kind, the length of what follows (four bytes, the least first) and that: a message of the API, why there
//! is no more, or the end. An answer without a last frame is one that was cut off.

/// The name under which the process is started.
pub const NAME: &str = "kelson-inspect";

/// Bytes before each frame.
pub const HEADER: usize = 5;
/// The longest frame, in bytes after its header. A page is sent once it has a quarter of that.
pub const FRAME_MAX: usize = 128 << 10;
/// The longest question, in bytes: a path, and a name and a number for each service.
pub const QUESTION_MAX: u64 = 1 << 20;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A message of the API, as it is sent to the caller.
    Message,
    /// There is no such path: a sentence.
    Missing,
    /// There is something else than was asked for: a sentence.
    Unfit,
    /// It could not be read: a sentence.
    Failed,
    /// All has been said.
    End,
}

const KINDS: [(u8, Kind); 5] = [
    (b'm', Kind::Message),
    (b'n', Kind::Missing),
    (b'u', Kind::Unfit),
    (b'f', Kind::Failed),
    (b'e', Kind::End),
];

/// A question as it goes over the pipe: after its length.
pub fn question(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [&length.to_le_bytes(), bytes].concat()
}

/// Not the beginning of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer of kelson-inspect makes no sense")]
pub struct Malformed;

/// What stands before a frame, and how many bytes follow.
///
/// # Errors
/// When no frame begins like this, or it would be too long.
pub fn header(bytes: [u8; HEADER]) -> Result<(Kind, usize), Malformed> {
    let [kind, length @ ..] = bytes;
    let (_, kind) = KINDS.into_iter().find(|(byte, _)| *byte == kind).ok_or(Malformed)?;
    let length = usize::try_from(u32::from_le_bytes(length)).map_err(|_| Malformed)?;
    if length > FRAME_MAX { Err(Malformed) } else { Ok((kind, length)) }
}

/// A whole frame. What is too long for one is cut, which only a sentence can be.
pub fn frame(kind: Kind, content: &[u8]) -> Vec<u8> {
    let content = content.get(..FRAME_MAX).unwrap_or(content);
    let byte = KINDS.into_iter().find(|(_, known)| *known == kind).map_or(b'f', |(byte, _)| byte);
    let length = u32::try_from(content.len()).unwrap_or(u32::MAX);
    let mut frame = vec![byte];
    frame.extend(length.to_le_bytes());
    frame.extend(content);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_say_what_they_are_and_how_long() {
        for (_, kind) in KINDS {
            let bytes = frame(kind, b"four");
            let (head, content) = bytes.split_at(HEADER);
            assert_eq!(header(head.try_into().unwrap()), Ok((kind, 4)));
            assert_eq!(content, b"four");
        }
        assert_eq!(frame(Kind::Failed, &vec![b'x'; FRAME_MAX + 9]).len(), HEADER + FRAME_MAX);
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        assert_eq!(header([b'x', 0, 0, 0, 0]), Err(Malformed));
        let [a, b, c, d] = u32::try_from(FRAME_MAX + 1).unwrap().to_le_bytes();
        assert_eq!(header([b'm', a, b, c, d]), Err(Malformed));
        assert_eq!(header([b'm', 255, 255, 255, 255]), Err(Malformed));
    }
}
