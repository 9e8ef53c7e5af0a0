//! From cells to the bytes that place them on a terminal.
//!
//! The backends that there are write the sixteen colours as those of a terminal with 256, which serial consoles take
//! for something else, and bring a reader of keys along. Here stand the same sequences as everywhere in kelsonctl.

use std::convert::Infallible;

use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::{Cell, CellWidth as _};
use ratatui::layout::{Position, Size};
use ratatui::style::{Color, Modifier};

/// The other screen where the terminal has two, empty, without a cursor and without lines that wrap.
pub const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[m\x1b[2J";
/// All of that undone.
pub const LEAVE: &str = "\x1b[m\x1b[2J\x1b[H\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Gathers what is to be written.
#[derive(Debug)]
pub struct Bytes {
    text: String,
    size: Size,
    /// Where the terminal's cursor stands, as far as we know.
    at: Option<(u16, u16)>,
    looks: (Color, Modifier),
}

impl Bytes {
    pub fn new(size: Size) -> Bytes {
        Bytes { text: String::new(), size, at: None, looks: (Color::Reset, Modifier::empty()) }
    }

    pub fn resize(&mut self, size: Size) {
        self.size = size;
    }

    /// What was gathered.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.text).into_bytes()
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
        match looks.0 {
            Color::Red => self.text.push_str(";31"),
            Color::Green => self.text.push_str(";32"),
            Color::Yellow => self.text.push_str(";33"),
            Color::Cyan => self.text.push_str(";36"),
            Color::DarkGray => self.text.push_str(";90"),
            Color::Indexed(number) => self.text += &format!(";38;5;{number}"),
            _ => {}
        }
        self.text.push('m');
    }
}

impl Backend for Bytes {
    type Error = Infallible;

    fn draw<'a, I>(&mut self, content: I) -> Result<(), Infallible>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        for (x, y, cell) in content {
            if self.at != Some((x, y)) {
                self.text += &format!("\x1b[{};{}H", y + 1, x + 1);
            }
            self.look(cell);
            self.text.push_str(cell.symbol());
            // What is wide on one terminal is not on another, and in the last column none goes on.
            self.at = (cell.cell_width() == 1 && x + 1 < self.size.width).then_some((x + 1, y));
        }
        Ok(())
    }

    /// It is never shown.
    fn hide_cursor(&mut self) -> Result<(), Infallible> {
        Ok(())
    }

    fn show_cursor(&mut self) -> Result<(), Infallible> {
        Ok(())
    }

    fn get_cursor_position(&mut self) -> Result<Position, Infallible> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, _: P) -> Result<(), Infallible> {
        Ok(())
    }

    fn clear(&mut self) -> Result<(), Infallible> {
        self.looks = (Color::Reset, Modifier::empty());
        self.at = None;
        self.text.push_str("\x1b[m\x1b[2J");
        Ok(())
    }

    /// All of it: what is cleared is redrawn anyway.
    fn clear_region(&mut self, _: ClearType) -> Result<(), Infallible> {
        self.clear()
    }

    fn size(&self) -> Result<Size, Infallible> {
        Ok(self.size)
    }

    fn window_size(&mut self) -> Result<WindowSize, Infallible> {
        Ok(WindowSize { columns_rows: self.size, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::style::{Style, Stylize as _};
    use ratatui::text::Line;

    fn terminal() -> Terminal<Bytes> {
        let mut terminal = Terminal::new(Bytes::new(Size::new(20, 3))).unwrap();
        terminal.clear().unwrap();
        terminal
    }

    fn written(terminal: &mut Terminal<Bytes>, lines: &[Line<'static>]) -> String {
        terminal
            .draw(|frame| {
                for (line, y) in lines.iter().zip(0..) {
                    frame.buffer_mut().set_line(0, y, line, 20);
                }
            })
            .unwrap();
        String::from_utf8(terminal.backend_mut().take()).unwrap()
    }

    #[test]
    fn only_what_changed_is_written() {
        let mut terminal = terminal();
        let lines = |word: &'static str| [Line::from("db running".to_owned()), Line::from(word)];
        let first = written(&mut terminal, &lines("web waiting"));
        assert_eq!(first, "\x1b[m\x1b[2J\x1b[1;1Hdb\x1b[1;4Hrunning\x1b[2;1Hweb\x1b[2;5Hwaiting");
        assert_eq!(written(&mut terminal, &lines("web waiting")), "");
        assert_eq!(written(&mut terminal, &lines("web wanting")), "\x1b[2;7Hn");
        terminal.clear().unwrap();
        assert!(written(&mut terminal, &lines("web")).starts_with("\x1b[m\x1b[2J\x1b[1;1Hdb"));
    }

    #[test]
    fn colours_are_those_of_the_palette() {
        let mut terminal = terminal();
        let line = Line::from(vec![
            "a".fg(Color::Green),
            "b".fg(Color::Indexed(160)).bold(),
            "c".into(),
            "d".reversed(),
        ]);
        assert_eq!(
            written(&mut terminal, &[line]),
            "\x1b[m\x1b[2J\x1b[1;1H\x1b[0;32ma\x1b[0;1;38;5;160mb\x1b[0mc\x1b[0;7md"
        );
        let mut cell = Cell::default();
        cell.set_style(Style::new().fg(Color::Blue)).set_symbol("e");
        terminal.backend_mut().draw([(0, 1, &cell)].into_iter()).unwrap();
        assert!(
            String::from_utf8(terminal.backend_mut().take()).unwrap().ends_with("\x1b[0me"),
            "none of ours"
        );
    }

    #[test]
    fn after_a_wide_letter_the_place_is_told() {
        let mut terminal = terminal();
        let text = written(&mut terminal, &[Line::from("漢x")]);
        assert!(text.ends_with("漢\x1b[1;3Hx"), "{text:?}");
    }
}
