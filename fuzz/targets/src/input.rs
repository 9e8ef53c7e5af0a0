//! How an input is taken apart, where a target needs more of it than bytes in a row.

/// Takes pieces off the front of an input.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// 0 at the end.
    pub fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    /// At most this many bytes.
    pub fn take(&mut self, most: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A piece whose length stands before it in two bytes, little end first; cut where the input ends.
    pub fn piece(&mut self) -> &'a [u8] {
        let length = self.take(2);
        let length = length.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        self.take(length)
    }
}

/// A text of several files: each begins with a line `=== NAME`. The text before the first is called `first`.
pub fn files<'a>(text: &'a [u8], first: &'a str) -> Vec<(&'a str, &'a [u8])> {
    const MARK: &[u8] = b"=== ";
    let mut found: Vec<(&str, &[u8])> = Vec::new();
    let (mut name, mut begin, mut at) = (first, 0, 0);
    while at < text.len() {
        let end = text[at..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |end| at + end + 1);
        if let Some(next) = text[at..end].strip_prefix(MARK)
            && let Ok(next) = std::str::from_utf8(next)
        {
            if begin < at || name != first {
                found.push((name, &text[begin..at]));
            }
            (name, begin) = (next.trim_end(), end);
        }
        at = end;
    }
    found.push((name, &text[begin..]));
    found
}
