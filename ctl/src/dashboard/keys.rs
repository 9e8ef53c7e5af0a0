//! Keys out of the bytes that a terminal sends for them.
//!
//! Those of xterm, of the Linux console and of the vt220 are known; what is none of them is passed over as a whole, so
//! that no part of it counts as a letter.

/// A key that means something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Enter,
    Tab,
    Escape,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-C
    Interrupt,
    /// Ctrl-L
    Redraw,
}

/// Longer than this no terminal's sequence is.
const LONGEST: usize = 32;

/// The bytes that are no whole key yet.
#[derive(Debug, Default)]
pub struct Keys {
    rest: Vec<u8>,
}

impl Keys {
    /// The keys that are whole now.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.rest.extend_from_slice(bytes);
        let mut keys = Vec::new();
        while let Some((length, key)) = first(&self.rest) {
            self.rest.drain(..length);
            keys.extend(key);
        }
        keys
    }

    /// True where more bytes may belong to what came: Escape is also how sequences begin.
    pub fn is_open(&self) -> bool {
        !self.rest.is_empty()
    }

    /// The key that was meant, as no more bytes came.
    pub fn close(&mut self) -> Option<Key> {
        let rest = std::mem::take(&mut self.rest);
        (rest == [0x1b]).then_some(Key::Escape)
    }
}

/// The length of the first key and what it means; `None` where it is not whole.
fn first(bytes: &[u8]) -> Option<(usize, Option<Key>)> {
    let key = match *bytes.first()? {
        0x1b => return sequence(bytes),
        b'\r' | b'\n' => Some(Key::Enter),
        b'\t' => Some(Key::Tab),
        0x03 => Some(Key::Interrupt),
        0x0c => Some(Key::Redraw),
        0x08 | 0x7f => Some(Key::Backspace),
        0x20..0x7f => Some(Key::Char(char::from(bytes[0]))),
        0x80.. => return letter(bytes),
        _ => None,
    };
    Some((1, key))
}

/// A letter of more than one byte.
fn letter(bytes: &[u8]) -> Option<(usize, Option<Key>)> {
    let piece = bytes.utf8_chunks().next()?;
    match piece.valid().chars().next() {
        Some(letter) => Some((letter.len_utf8(), Some(Key::Char(letter)).filter(|_| !letter.is_control()))),
        // Its end is still to come.
        None if bytes.len() < 4 && piece.invalid().len() == bytes.len() && bytes[0] >= 0xc2 => None,
        None => Some((piece.invalid().len(), None)),
    }
}

fn sequence(bytes: &[u8]) -> Option<(usize, Option<Key>)> {
    match (bytes.get(1)?, bytes.get(2)) {
        (0x1b, _) => Some((1, Some(Key::Escape))),
        (b'O' | b'[', None) => None,
        (b'O', Some(last)) => Some((3, named(*last))),
        // A function key of the Linux console.
        (b'[', Some(b'[')) => bytes.get(3).map(|_| (4, None)),
        (b'[', Some(_)) => {
            let Some(end) = bytes[2..].iter().position(|byte| (0x40..0x7f).contains(byte)) else {
                return (bytes.len() > LONGEST).then_some((bytes.len(), None));
            };
            let (words, last) = (&bytes[2..2 + end], bytes[2 + end]);
            let key = match (words, last) {
                (b"1" | b"7", b'~') => Some(Key::Home),
                (b"4" | b"8", b'~') => Some(Key::End),
                (b"5", b'~') => Some(Key::PageUp),
                (b"6", b'~') => Some(Key::PageDown),
                (b"", last) => named(last),
                _ => None,
            };
            Some((3 + end, key))
        }
        // With Alt held.
        _ => Some((2, None)),
    }
}

fn named(last: u8) -> Option<Key> {
    match last {
        b'A' => Some(Key::Up),
        b'B' => Some(Key::Down),
        b'H' => Some(Key::Home),
        b'F' => Some(Key::End),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<Key> {
        let mut keys = Keys::default();
        let mut all = keys.take(bytes);
        all.extend(keys.close());
        all
    }

    #[test]
    fn each_terminal_has_its_bytes() {
        assert_eq!(
            all(b"q\r\t\x7f\x03"),
            [Key::Char('q'), Key::Enter, Key::Tab, Key::Backspace, Key::Interrupt]
        );
        assert_eq!(all(b"\x1b[A\x1bOB"), [Key::Up, Key::Down]);
        assert_eq!(all(b"\x1b[H\x1b[1~\x1bOF\x1b[8~"), [Key::Home, Key::Home, Key::End, Key::End]);
        assert_eq!(all(b"\x1b[5~\x1b[6~"), [Key::PageUp, Key::PageDown]);
        assert_eq!(all("ä漢".as_bytes()), [Key::Char('ä'), Key::Char('漢')]);
    }

    #[test]
    fn no_part_of_a_foreign_sequence_is_a_letter() {
        for bytes in [
            &b"\x1b[1;5s"[..],
            b"\x1b[[Ax"[..4].as_ref(),
            b"\x1bx",
            b"\x1b[200~",
            b"\x1b[<0;12;7M",
            b"\xff\x80",
            b"\x00\x01",
        ] {
            assert_eq!(all(bytes), [], "{bytes:?}");
        }
        assert_eq!(all(b"\x1b[2~q"), [Key::Char('q')]);
    }

    #[test]
    fn a_key_may_come_in_pieces() {
        let mut keys = Keys::default();
        for byte in b"\x1b[5" {
            assert_eq!(keys.take(&[*byte]), []);
            assert!(keys.is_open());
        }
        assert_eq!(keys.take(b"~"), [Key::PageUp]);
        assert!(!keys.is_open());
        assert_eq!(keys.take(&"ä".as_bytes()[..1]), []);
        assert_eq!(keys.take(&"ä".as_bytes()[1..]), [Key::Char('ä')]);
        assert_eq!(keys.take(b"\x1b"), []);
        assert_eq!((keys.is_open(), keys.close()), (true, Some(Key::Escape)));
        assert_eq!(keys.take(b"\x1b\x1b[A"), [Key::Escape, Key::Up]);
    }

    #[test]
    fn noise_comes_to_an_end() {
        let mut keys = Keys::default();
        keys.take(b"\x1b[");
        keys.take(&[b'1'; 100]);
        assert!(!keys.is_open(), "dropped");
    }
}
