//! From cells to the bytes that place them on a terminal.
//!
//! The backends of ratatui write the sixteen colours as those of a terminal with 256, which serial consoles take
//! for something else, and bring a reader of keys along. Here stand the same sequences as everywhere in kelsonctl.

use ratatui::buffer::{Buffer, Cell, CellWidth as _};
use ratatui::style::{Color, Modifier};

use crate::output::style::code;

/// The other screen where the terminal has two, empty, without a cursor and without lines that wrap.
pub const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[m\x1b[2J";
/// All of that undone.
pub const LEAVE: &str = "\x1b[m\x1b[2J\x1b[H\x1b[?7h\x1b[?25h\x1b[?1049l";

/// The contents of the terminal.
#[derive(Debug, Default)]
pub struct Canvas {
    shown: Buffer,
    /// All of it is to be written again.
    stale: bool,
    text: String,
    /// Where the terminal's cursor stands, as far as we know.
    at: Option<(u16, u16)>,
    looks: (Color, Modifier),
}

impl Canvas {
    /// The bytes that make this of what is shown.
    pub fn show(&mut self, next: Buffer) -> Vec<u8> {
        let mut before = std::mem::take(&mut self.shown);
        if std::mem::take(&mut self.stale) || before.area != next.area {
            (self.looks, self.at) = ((Color::Reset, Modifier::empty()), None);
            self.text.push_str("\x1b[m\x1b[2J");
            before = Buffer::empty(next.area);
        }
        for (x, y, cell) in before.diff(&next) {
            self.place(x, y, cell, next.area.width);
        }
        self.shown = next;
        std::mem::take(&mut self.text).into_bytes()
    }

    /// Something else has written on the terminal.
    pub fn forget(&mut self) {
        self.stale = true;
    }

    fn place(&mut self, x: u16, y: u16, cell: &Cell, width: u16) {
        if self.at != Some((x, y)) {
            self.text += &format!("\x1b[{};{}H", y + 1, x + 1);
        }
        self.look(cell);
        self.text.push_str(cell.symbol());
        // A character that is wide on one terminal is not on another, and in the last column none goes on.
        self.at = (cell.cell_width() == 1 && x + 1 < width).then_some((x + 1, y));
    }

    fn look(&mut self, cell: &Cell) {
        let looks = (cell.fg, cell.modifier & (Modifier::BOLD | Modifier::REVERSED));
        if std::mem::replace(&mut self.looks, looks) == looks {
            return;
        }
        self.text.push_str("\x1b[0");
        if looks.1.contains(Modifier::BOLD) {
            self.text.push_str(";1");
        }
        if looks.1.contains(Modifier::REVERSED) {
            self.text.push_str(";7");
        }
        if let Color::Indexed(colour) = looks.0 {
            self.text += &format!(";{}", code(colour));
        }
        self.text.push('m');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Rect;
    use ratatui::style::Stylize as _;
    use ratatui::text::Line;

    fn written(canvas: &mut Canvas, lines: &[Line<'static>]) -> String {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 20, 3));
        for (line, y) in lines.iter().zip(0..) {
            buffer.set_line(0, y, line, 20);
        }
        String::from_utf8(canvas.show(buffer)).unwrap()
    }

    #[test]
    fn only_what_changed_is_written() {
        let mut canvas = Canvas::default();
        let lines = |word: &'static str| [Line::from("db running".to_owned()), Line::from(word)];
        let first = written(&mut canvas, &lines("web waiting"));
        assert_eq!(first, "\x1b[m\x1b[2J\x1b[1;1Hdb\x1b[1;4Hrunning\x1b[2;1Hweb\x1b[2;5Hwaiting");
        assert_eq!(written(&mut canvas, &lines("web waiting")), "");
        assert_eq!(written(&mut canvas, &lines("web wanting")), "\x1b[2;7Hn");
        canvas.forget();
        assert!(written(&mut canvas, &lines("web")).starts_with("\x1b[m\x1b[2J\x1b[1;1Hdb"));
    }

    #[test]
    fn colours_are_those_of_the_palette() {
        let mut canvas = Canvas::default();
        let line = Line::from(vec![
            "a".fg(Color::Indexed(2)),
            "b".fg(Color::Indexed(160)).bold(),
            "c".into(),
            "d".reversed(),
        ]);
        assert_eq!(
            written(&mut canvas, &[line]),
            "\x1b[m\x1b[2J\x1b[1;1H\x1b[0;32ma\x1b[0;1;38;5;160mb\x1b[0mc\x1b[0;7md"
        );
        assert!(written(&mut canvas, &["e".fg(Color::Blue).into()]).contains("\x1b[0me"), "none of ours");
    }

    #[test]
    fn after_a_wide_letter_the_place_is_told() {
        let mut canvas = Canvas::default();
        let text = written(&mut canvas, &[Line::from("漢x")]);
        assert!(text.ends_with("漢\x1b[1;3Hx"), "{text:?}");
    }
}
