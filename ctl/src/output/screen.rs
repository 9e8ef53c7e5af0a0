//! A result that is shown again and again: on a terminal in place of the last one, elsewhere one after the other.

use std::cell::RefCell;

use super::style::Tone;
use super::terminal::Terminal;
use super::text::escape_lines;
use super::{Format, note, print};
use crate::failure::Failure;

/// The output of a round, gathered until it is shown.
#[derive(Debug)]
pub struct Screen {
    format: Format,
    round: RefCell<Round>,
}

#[derive(Debug, Default)]
struct Round {
    result: String,
    /// The errors.
    said: Vec<String>,
    /// The lines that the last round left on the terminal.
    above: usize,
    /// There was a result, in this round or before.
    began: bool,
}

impl Screen {
    pub fn new(format: Format) -> Screen {
        Screen { format, round: RefCell::default() }
    }

    /// Adds to the result.
    pub fn put(&self, text: &str) {
        self.round.borrow_mut().result.push_str(text);
    }

    /// Adds what went wrong.
    pub fn say(&self, text: String) {
        self.round.borrow_mut().said.push(text);
    }

    /// True where there is no result in this round.
    pub fn is_empty(&self) -> bool {
        self.round.borrow().result.is_empty()
    }

    /// Says what went wrong in a round of which nothing is shown.
    pub fn tell(&self) {
        self.round.take().said.iter().for_each(|text| note(text));
    }

    /// Shows what was gathered.
    ///
    /// # Errors
    /// The output cannot be written to.
    pub fn show(&self, terminal: &Terminal) -> Result<(), Failure> {
        let mut round = self.round.borrow_mut();
        let (result, said) = (std::mem::take(&mut round.result), std::mem::take(&mut round.said));
        if terminal.is_terminal && self.format == Format::Table {
            let said = said.iter().map(|text| {
                let text = format!("kelsonctl: {}", escape_lines(text));
                terminal.palette.paint(Tone::Bad, &text) + "\n"
            });
            let (text, lines) = in_place(&(result + &said.collect::<String>()), round.above, terminal.height);
            round.above = lines;
            return print(&text);
        }
        let between = match self.format {
            Format::Table => "\n",
            Format::Json => "",
            Format::Yaml => "---\n",
        };
        if !result.is_empty() {
            let between = if std::mem::replace(&mut round.began, true) { between } else { "" };
            print(&format!("{between}{result}"))?;
        }
        said.iter().for_each(|text| note(text));
        Ok(())
    }
}

/// The text over the `above` lines that are there, and how many lines it has. A text that is longer or wider
/// than the terminal is cut: lines that have left it at the top cannot be written over.
fn in_place(text: &str, above: usize, height: Option<usize>) -> (String, usize) {
    let mut lines: Vec<&str> = text.lines().collect();
    // Below the text stands the cursor.
    let room = height.map_or(usize::MAX, |height| height.saturating_sub(1));
    let left;
    if lines.len() > room {
        let shown = room.saturating_sub(1);
        left = format!("({} more lines)", lines.len() - shown);
        lines.truncate(shown);
        lines.push(&left);
    }
    let up = if above > 0 { format!("\x1b[{above}A") } else { String::new() };
    let body: String = lines.iter().map(|line| format!("{line}\x1b[K\n")).collect();
    (format!("{up}\r\x1b[?7l{body}\x1b[?7h\x1b[J"), lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_takes_the_place_of_the_last() {
        let (first, lines) = in_place("a\nb\n", 0, Some(24));
        assert_eq!((first.as_str(), lines), ("\r\x1b[?7la\x1b[K\nb\x1b[K\n\x1b[?7h\x1b[J", 2));
        let (next, lines) = in_place("c\n", lines, Some(24));
        assert_eq!((next.as_str(), lines), ("\x1b[2A\r\x1b[?7lc\x1b[K\n\x1b[?7h\x1b[J", 1));
        assert_eq!(in_place("", 1, None), ("\x1b[1A\r\x1b[?7l\x1b[?7h\x1b[J".to_owned(), 0));
    }

    #[test]
    fn what_is_too_long_is_cut() {
        let (text, lines) = in_place("a\nb\nc\nd\ne\n", 0, Some(4));
        assert_eq!(lines, 3);
        assert!(text.contains("a\x1b[K\nb\x1b[K\n(3 more lines)\x1b[K\n\x1b[?7h"), "{text:?}");
        assert_eq!(in_place("a\nb\nc\n", 0, Some(4)).1, 3, "it just fits");
    }
}
