//! Tables that fit the terminal: columns as wide as their text. Where there is no room for all of it, reasons and
//! commands are cut and some columns are left out. Names and numbers are never cut: half a PID is another PID, so a
//! row of them that is too long stays too long.

use super::style::{Palette, Tone};
use super::text::{escape, fit, width};

const GAP: usize = 2;
/// A column that may be cut is never made narrower than this.
pub const NARROWEST: usize = 8;
/// The last column gets this much, as far as others can be cut or left out for it.
const LAST_WANTS: usize = 20;

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
    cut: Vec<usize>,
    spare: Vec<usize>,
    rows: Vec<Vec<Cell>>,
    /// The head is not shown.
    bare: bool,
}

impl Table {
    /// A table with these column heads. Only the last column may be cut.
    pub fn new(head: &[&'static str]) -> Table {
        Table { head: head.to_vec(), cut: Vec::from_iter(head.len().checked_sub(1)), ..Table::default() }
    }

    /// These columns (counted from 0) hold numbers: they are set flush right and never cut.
    pub fn right(mut self, columns: &[usize]) -> Table {
        self.right = columns.to_vec();
        self.cut.retain(|column| !columns.contains(column));
        self
    }

    /// These columns, and no others, may be cut: they hold reasons, commands and the like.
    pub fn cut(mut self, columns: &[usize]) -> Table {
        self.cut = columns.to_vec();
        self
    }

    /// These columns are left out, the first of them first, where there is no room for the rest.
    pub fn spare(mut self, columns: &[usize]) -> Table {
        self.spare = columns.to_vec();
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
        let columns = [&mut self.right, &mut self.cut, &mut self.spare];
        columns.into_iter().flatten().for_each(|column| *column += 1);
        self.rows.iter_mut().for_each(|row| row.insert(0, field.clone()));
        self
    }

    /// Adds the rows of a table with the same head.
    pub fn append(&mut self, other: Table) {
        debug_assert_eq!(self.head, other.head);
        self.rows.extend(other.rows);
    }

    /// The table as lines that fit into `limit` columns of the terminal, as far as its names and numbers let them;
    /// `None`: as wide as it comes.
    pub fn render(&self, limit: Option<usize>, palette: Palette) -> String {
        let widths = self.widths(limit);
        let mut out = String::new();
        let head = || self.head.iter().map(|text| toned(Tone::Strong, text)).collect::<Vec<Cell>>();
        let head = (!self.bare).then(head);
        for row in head.iter().chain(&self.rows) {
            let mut pending = 0;
            for (column, (cell, room)) in row.iter().zip(&widths).enumerate() {
                let Some(room) = *room else { continue };
                let text = fit(&cell.text, room);
                let space = room - width(&text).min(room);
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

    /// The width of each column; `None`: it is left out.
    fn widths(&self, limit: Option<usize>) -> Vec<Option<usize>> {
        let mut widths: Vec<Option<usize>> =
            self.head.iter().map(|head| Some(if self.bare { 0 } else { width(head) })).collect();
        for row in &self.rows {
            for (wide, cell) in widths.iter_mut().zip(row) {
                *wide = (*wide).max(Some(width(&cell.text)));
            }
        }
        let Some(limit) = limit else { return widths };
        let last = self.head.len().saturating_sub(1);
        let wanted = |column| if column == last { LAST_WANTS } else { NARROWEST };
        let mut spare = self.spare.iter();
        loop {
            let mut fitted = widths.clone();
            // The widest gives first, a column at a time, until the last one has what it wants.
            while total(&fitted) > limit && shrink(&mut fitted, &self.cut, wanted) {}
            match spare.next() {
                Some(column) if total(&fitted) > limit => widths[*column] = None,
                _ => {
                    while total(&fitted) > limit && shrink(&mut fitted, &self.cut, |_| NARROWEST) {}
                    return fitted;
                }
            }
        }
    }
}

/// The columns of the terminal that a row takes.
fn total(widths: &[Option<usize>]) -> usize {
    widths.iter().flatten().map(|wide| wide + GAP).sum::<usize>().saturating_sub(GAP)
}

/// Makes the widest of these columns narrower by one; false where each has but its `least` left.
fn shrink(widths: &mut [Option<usize>], columns: &[usize], least: impl Fn(usize) -> usize) -> bool {
    let widest = widths
        .iter_mut()
        .enumerate()
        .filter_map(|(column, wide)| Some((column, wide.as_mut()?)))
        .filter(|(column, wide)| columns.contains(column) && **wide > least(*column))
        .max_by_key(|(_, wide)| **wide);
    widest.map(|(_, wide)| *wide -= 1).is_some()
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
    fn reasons_are_cut_and_names_are_not() {
        assert_eq!(
            sample().render(Some(54), Palette::None),
            "NAME                        RESTARTS  WAITING FOR\n\
             web                                0  service \"db\" to…\n\
             a-service-with-a-long-name        12\n"
        );
        let narrow = sample().render(Some(30), Palette::None);
        assert!(narrow.contains("a-service-with-a-long-name        12\n"), "{narrow}");
        assert!(narrow.contains("service…\n"), "{narrow}");
    }

    #[test]
    fn the_widest_column_that_may_be_cut_gives_first() {
        assert_eq!(
            sample().cut(&[0, 2]).render(Some(44), Palette::None),
            "NAME          RESTARTS  WAITING FOR\n\
             web                  0  service \"db\" to be …\n\
             a-service-w…        12\n"
        );
    }

    #[test]
    fn a_spare_column_is_left_out_before_the_last_has_too_little() {
        assert_eq!(
            sample().spare(&[1]).render(Some(50), Palette::None),
            "NAME                        WAITING FOR\n\
             web                         service \"db\" to be up\n\
             a-service-with-a-long-name\n"
        );
        assert!(sample().spare(&[1]).render(Some(70), Palette::None).contains("RESTARTS"));
        let led = sample().spare(&[1]).led_by("NODE", &cell("edge")).render(Some(50), Palette::None);
        assert!(led.contains("edge  web ") && !led.contains("RESTARTS"), "{led}");
    }

    #[test]
    fn numbers_are_never_cut() {
        let mut table = Table::new(&["PID", "COUNT"]).right(&[0, 1]);
        table.row(vec![cell("123456789"), cell("12345678901234567890")]);
        let text = table.render(Some(12), Palette::None);
        assert!(text.contains("123456789  12345678901234567890\n"), "{text}");
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
        let mut table = sample().cut(&[0, 2]);
        table.row(vec![
            cell("世界世界世界世界世界世界"),
            cell("1"),
            cell("世界世界世界世界世界世界世界世界"),
        ]);
        for limit in 28..90 {
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
