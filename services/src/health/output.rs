//! The output of a check: the end of it, made harmless.

use std::collections::VecDeque;

use kelson_sys::text::{end_of, is_harmful};

/// So much of the output of a check is kept, in bytes.
pub const KEPT: usize = 3072;
/// A line in a sentence is no longer than this, in characters.
pub const LINE: usize = 200;

/// The last bytes of an output of any length.
#[derive(Debug, Default)]
pub struct Tail {
    bytes: VecDeque<u8>,
}

impl Tail {
    pub fn push(&mut self, bytes: &[u8]) {
        let last = bytes.len().saturating_sub(KEPT);
        let bytes = bytes.get(last..).unwrap_or_default();
        let over = self.bytes.len().saturating_add(bytes.len()).saturating_sub(KEPT);
        self.bytes.drain(..over.min(self.bytes.len()));
        self.bytes.extend(bytes);
    }

    pub fn text(mut self) -> String {
        harmless(&String::from_utf8_lossy(self.bytes.make_contiguous()))
    }
}

/// Makes a text safe for any terminal: no control characters but newlines and tabs, at most [`KEPT`] bytes
/// from the end.
pub fn harmless(text: &str) -> String {
    let text = text.trim_end();
    let clean: String = text
        .chars()
        .filter(|c| *c != '\r')
        .map(|c| if is_harmful(c) && !matches!(c, '\n' | '\t') { '\u{fffd}' } else { c })
        .collect();
    end_of(&clean, KEPT).to_owned()
}

/// The last line that says something, for a sentence; empty where there is none.
pub fn last_line(text: &str) -> String {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    match line.char_indices().nth(LINE) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line.to_owned(),
    }
}

/// Adds a line to the output; that line stays whole.
pub fn with_line(mut text: String, line: &str) -> String {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
    harmless(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h4_the_last_of_an_endless_output_is_kept() {
        let mut tail = Tail::default();
        for n in 0..10_000 {
            tail.push(format!("line {n}\n").as_bytes());
            assert!(tail.bytes.len() <= KEPT && tail.bytes.capacity() <= 2 * KEPT);
        }
        tail.push(&[b'x'; 10_000]);
        tail.push(b"\nthe end\n\n");
        let text = tail.text();
        assert!(text.len() <= KEPT && text.ends_with("xxx\nthe end"), "{text}");
        assert_eq!(last_line(&text), "the end");
    }

    #[test]
    fn h4_no_output_acts_on_a_terminal() {
        let mut tail = Tail::default();
        tail.push(b"a\x1b[2Jb\xff\r\n\tc\x07\xc2\x9b \xe2\x80\xae");
        assert_eq!(tail.text(), "a\u{fffd}[2Jb\u{fffd}\n\tc\u{fffd}\u{fffd} \u{fffd}");
        // Each of these becomes three bytes: the end stays within the bound.
        let mut tail = Tail::default();
        tail.push(&[7; KEPT]);
        tail.push(b"end");
        let text = tail.text();
        assert!(text.len() <= KEPT && text.ends_with("\u{fffd}end"));
    }

    #[test]
    fn lines_for_sentences() {
        assert_eq!(last_line(" \n\n"), "");
        assert_eq!(last_line("a\n b \n\n"), "b");
        assert_eq!(last_line(&"ä".repeat(201)).chars().count(), 201);
        assert_eq!(with_line(String::new(), "why"), "why");
        assert_eq!(with_line("said".into(), "why"), "said\nwhy");
    }
}
