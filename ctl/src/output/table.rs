//! Tables that fit the terminal: columns as wide as their text, shrunk where there is no room for all of it.

use super::style::{Palette, Tone};
use super::text::{escape, fit, width};

const GAP: usize = 2;
/// A column is never made narrower than this.
const NARROWEST: usize = 8;
/// The last column gets at least this much before the others are left alone.
const LAST_WANTS: usize = 24;

/// One field of a table.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// The same field with another meaning.
    pub fn in_tone(self, tone: Tone) -> Cell {
        Cell { tone, ..self }
    }
}

/// A field in the terminal's own colour. Control characters in the text are shown, not sent.
pub fn cell(text: impl AsRef<str>) -> Cell {
    Cell { text: escape(text.as_ref()).into_owned(), tone: Tone::Plain }
}

/// A field with a meaning.
pub fn toned(tone: Tone, text: impl AsRef<str>) -> Cell {
    Cell { tone, ..cell(text) }
}

/// A head and rows of as many fields.
#[derive(Debug, Default)]
pub struct Table {
    head: Vec<&'static str>,
    right: Vec<usize>,
    rows: Vec<Vec<Cell>>,
    /// The head is not shown.
    bare: bool,
}

impl Table {
    /// A table with these column heads.
    pub fn new(head: &[&'static str]) -> Table {
        Table { head: head.to_vec(), ..Table::default() }
    }

    /// These columns (counted from 0) hold numbers and are set flush right.
    pub fn right(mut self, columns: &[usize]) -> Table {
        self.right = columns.to_vec();
        self
    }

    /// Without the line of column heads.
    pub fn bare(self) -> Table {
        Table { bare: true, ..self }
    }

    /// Adds a row; it has as many fields as the head.
    pub fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.head.len());
        self.rows.push(cells);
    }

    /// The table with one more column in front, which holds the same in each row.
    pub fn led_by(mut self, head: &'static str, field: &Cell) -> Table {
        self.head.insert(0, head);
        self.right.iter_mut().for_each(|column| *column += 1);
        self.rows.iter_mut().for_each(|row| row.insert(0, field.clone()));
        self
    }

    /// Adds the rows of a table with the same head.
    pub fn append(&mut self, other: Table) {
        debug_assert_eq!(self.head, other.head);
        self.rows.extend(other.rows);
    }

    /// The table as lines of at most `limit` columns of the terminal; `None`: as wide as it comes.
    pub fn render(&self, limit: Option<usize>, palette: Palette) -> String {
        let widths = self.widths(limit);
        let mut out = String::new();
        let head = || self.head.iter().map(|text| toned(Tone::Strong, text)).collect::<Vec<Cell>>();
        let head = (!self.bare).then(head);
        for row in head.iter().chain(&self.rows) {
            let mut pending = 0;
            for (column, (cell, room)) in row.iter().zip(&widths).enumerate() {
                let text = fit(&cell.text, *room);
                let space = room - width(&text).min(*room);
                let before = if self.right.contains(&column) { space } else { 0 };
                if !text.is_empty() {
                    // Spaces are written only when something follows: no line ends in them.
                    out.extend(std::iter::repeat_n(' ', pending + before));
                    out.push_str(&palette.paint(cell.tone, &text));
                    pending = space - before + GAP;
                } else {
                    pending += room + GAP;
                }
            }
            out.push('\n');
        }
        out
    }

    /// The width of each column.
    fn widths(&self, limit: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> =
            self.head.iter().map(|head| if self.bare { 0 } else { width(head) }).collect();
        for row in &self.rows {
            for (wide, cell) in widths.iter_mut().zip(row) {
                *wide = (*wide).max(width(&cell.text));
            }
        }
        let (Some(limit), Some((last, others))) = (limit, widths.split_last_mut()) else { return widths };
        let gaps = GAP * others.len();
        let wanted = (*last).min(LAST_WANTS);
        // The widest gives first, a column at a time, until the last one has what it wants.
        while others.iter().sum::<usize>() + gaps + wanted > limit {
            match others.iter_mut().max().filter(|widest| **widest > NARROWEST) {
                Some(widest) => *widest -= 1,
                None => break,
            }
        }
        *last = (*last).min(limit.saturating_sub(others.iter().sum::<usize>() + gaps));
        widths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(&["NAME", "RESTARTS", "WAITING FOR"]).right(&[1]);
        table.row(vec![toned(Tone::Good, "web"), cell("0"), cell("service \"db\" to be up")]);
        table.row(vec![cell("a-service-with-a-long-name"), cell("12"), cell("")]);
        table
    }

    #[test]
    fn without_a_limit_nothing_is_cut() {
        assert_eq!(
            sample().render(None, Palette::None),
            "NAME                        RESTARTS  WAITING FOR\n\
             web                                0  service \"db\" to be up\n\
             a-service-with-a-long-name        12\n"
        );
    }

    #[test]
    fn the_widest_column_gives_first() {
        assert_eq!(
            sample().render(Some(44), Palette::None),
            "NAME         RESTARTS  WAITING FOR\n\
             web                 0  service \"db\" to be up\n\
             a-service-…        12\n"
        );
    }

    #[test]
    fn the_last_column_takes_what_is_left() {
        let text = sample().render(Some(30), Palette::None);
        assert_eq!(
            text,
            "NAME      RESTARTS  WAITING F…\n\
             web              0  service \"…\n\
             a-servi…        12\n"
        );
        assert!(text.lines().all(|line| width(line) <= 30));
    }

    #[test]
    fn without_its_head_a_table_is_as_wide_as_its_rows() {
        assert_eq!(
            sample().bare().render(None, Palette::None),
            "web                          0  service \"db\" to be up\na-service-with-a-long-name  12\n"
        );
    }

    #[test]
    fn every_width_is_kept() {
        let mut table = sample();
        table.row(vec![
            cell("世界世界世界世界世界世界"),
            cell("1"),
            cell("世界世界世界世界世界世界世界世界"),
        ]);
        for limit in 24..90 {
            let text = table.render(Some(limit), Palette::None);
            assert!(text.lines().all(|line| width(line) <= limit), "at {limit}:\n{text}");
        }
    }

    #[test]
    fn colour_does_not_count_as_width() {
        let plain = sample().render(None, Palette::None);
        let mut painted = sample().render(None, Palette::Full);
        for code in ["\x1b[1m", "\x1b[38;5;28m", "\x1b[0m"] {
            assert!(painted.contains(code));
            painted = painted.replace(code, "");
        }
        assert_eq!(plain, painted);
    }

    #[test]
    fn no_escape_sequence_gets_out_of_a_field() {
        let mut table = Table::new(&["NAME", "MESSAGE"]);
        table.row(vec![cell("evil"), cell("\x1b[2Jgone\nfake  line")]);
        assert_eq!(table.render(None, Palette::None), "NAME  MESSAGE\nevil  \\x1b[2Jgone\\nfake  line\n");
    }
}
