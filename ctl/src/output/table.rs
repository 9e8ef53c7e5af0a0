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

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Cell {
        cell(text)
    }
}

/// A dash where nothing is known.
pub fn or_dash<T: Into<Cell>>(value: Option<T>) -> Cell {
    value.map_or_else(|| toned(Tone::Quiet, "-"), Into::into)
}

/// The properties that all fields of a column share.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Column {
    head: &'static str,
    right: bool,
    cut: bool,
    spare: Option<u8>,
}

/// A head and rows of as many fields.
#[derive(Debug, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    /// The head is not shown.
    bare: bool,
}

/// A table that is described column by column. Each of the things has a row.
#[derive(Debug)]
pub struct Rows<T> {
    things: Vec<T>,
    table: Table,
}

impl<T> Rows<T> {
    /// A column of names, set flush left and never cut.
    pub fn left<C: Into<Cell>>(self, head: &'static str, field: impl Fn(&T) -> C) -> Rows<T> {
        self.column(Column { head, right: false, cut: false, spare: None }, field)
    }

    /// A column of numbers, set flush right and never cut.
    pub fn right<C: Into<Cell>>(self, head: &'static str, field: impl Fn(&T) -> C) -> Rows<T> {
        self.column(Column { head, right: true, cut: false, spare: None }, field)
    }

    /// A column of reasons, commands and the like, which may be cut.
    pub fn cut<C: Into<Cell>>(self, head: &'static str, field: impl Fn(&T) -> C) -> Rows<T> {
        self.column(Column { head, right: false, cut: true, spare: None }, field)
    }

    /// The last column is left out where there is no room for the rest; that with the lowest number first.
    pub fn spare(mut self, number: u8) -> Rows<T> {
        if let Some(last) = self.table.columns.last_mut() {
            last.spare = Some(number);
        }
        self
    }

    fn column<C: Into<Cell>>(mut self, column: Column, field: impl Fn(&T) -> C) -> Rows<T> {
        self.table.columns.push(column);
        let fields = self.things.iter().map(field);
        self.table.rows.iter_mut().zip(fields).for_each(|(row, field)| row.push(field.into()));
        self
    }

    /// Without the line of column heads.
    pub fn bare(self) -> Rows<T> {
        Rows { table: self.table.bare(), ..self }
    }

    /// As [`Table::render`].
    pub fn render(&self, limit: Option<usize>, palette: Palette) -> String {
        self.table.render(limit, palette)
    }
}

impl<T> From<Rows<T>> for Table {
    fn from(rows: Rows<T>) -> Table {
        rows.table
    }
}

impl Table {
    /// The beginning of a table with a row for each of these.
    pub fn of<T>(things: impl IntoIterator<Item = T>) -> Rows<T> {
        let things: Vec<T> = things.into_iter().collect();
        let rows = things.iter().map(|_| Vec::new()).collect();
        Rows { things, table: Table { rows, ..Table::default() } }
    }

    /// It has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Without the line of column heads.
    pub fn bare(self) -> Table {
        Table { bare: true, ..self }
    }

    /// The table with one more column in front, which holds the same in each row.
    pub fn led_by(mut self, head: &'static str, field: &Cell) -> Table {
        self.columns.insert(0, Column { head, right: false, cut: false, spare: None });
        self.rows.iter_mut().for_each(|row| row.insert(0, field.clone()));
        self
    }

    /// Adds the rows of a table with the same head.
    pub fn append(&mut self, other: Table) {
        debug_assert_eq!(self.columns, other.columns);
        self.rows.extend(other.rows);
    }

    /// The table as lines that fit into `limit` columns of the terminal, as far as its names and numbers let them;
    /// `None`: as wide as it comes.
    pub fn render(&self, limit: Option<usize>, palette: Palette) -> String {
        let widths = self.widths(limit);
        let mut out = String::new();
        let head =
            || self.columns.iter().map(|column| toned(Tone::Strong, column.head)).collect::<Vec<Cell>>();
        let head = (!self.bare).then(head);
        for row in head.iter().chain(&self.rows) {
            let mut pending = 0;
            for (column, (cell, room)) in self.columns.iter().zip(row.iter().zip(&widths)) {
                let Some(room) = *room else { continue };
                let text = fit(&cell.text, room);
                let space = room - width(&text).min(room);
                let before = if column.right { space } else { 0 };
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
        let head = |column: &Column| Some(if self.bare { 0 } else { width(column.head) });
        let mut widths: Vec<Option<usize>> = self.columns.iter().map(head).collect();
        for row in &self.rows {
            for (wide, cell) in widths.iter_mut().zip(row) {
                *wide = (*wide).max(Some(width(&cell.text)));
            }
        }
        let Some(limit) = limit else { return widths };
        let last = self.columns.len().saturating_sub(1);
        let wanted = |column| if column == last { LAST_WANTS } else { NARROWEST };
        let mut spare: Vec<usize> = (0..=last).filter(|place| self.spare(*place).is_some()).collect();
        spare.sort_by_key(|place| self.spare(*place));
        let mut spare = spare.into_iter();
        loop {
            let mut fitted = widths.clone();
            // The widest gives first, a column at a time, until the last one has what it wants.
            while total(&fitted) > limit && self.shrink(&mut fitted, wanted) {}
            match spare.next() {
                Some(column) if total(&fitted) > limit => widths[column] = None,
                _ => {
                    while total(&fitted) > limit && self.shrink(&mut fitted, |_| NARROWEST) {}
                    return fitted;
                }
            }
        }
    }

    fn spare(&self, place: usize) -> Option<u8> {
        self.columns.get(place)?.spare
    }

    /// Makes the widest of the columns that may be cut narrower by one; false where each has but its `least` left.
    fn shrink(&self, widths: &mut [Option<usize>], least: impl Fn(usize) -> usize) -> bool {
        let widest = widths
            .iter_mut()
            .zip(&self.columns)
            .enumerate()
            .filter_map(|(place, (wide, column))| Some((place, wide.as_mut().filter(|_| column.cut)?)))
            .filter(|(place, wide)| **wide > least(*place))
            .max_by_key(|(_, wide)| **wide);
        widest.map(|(_, wide)| *wide -= 1).is_some()
    }
}

/// The columns of the terminal that a row takes.
fn total(widths: &[Option<usize>]) -> usize {
    widths.iter().flatten().map(|wide| wide + GAP).sum::<usize>().saturating_sub(GAP)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Row = (&'static str, &'static str, &'static str);

    const WAITING: [Row; 2] =
        [("web", "0", "service \"db\" to be up"), ("a-service-with-a-long-name", "12", "")];

    fn rest(rows: Rows<Row>) -> Rows<Row> {
        rows.right("RESTARTS", |row| row.1).cut("WAITING FOR", |row| row.2)
    }

    fn sample() -> Rows<Row> {
        let tone = |name| if name == "web" { Tone::Good } else { Tone::Plain };
        rest(Table::of(WAITING).left("NAME", |row| toned(tone(row.0), row.0)))
    }

    /// The same, where names may be cut, too.
    fn elastic(more: &[Row]) -> Rows<Row> {
        rest(Table::of(WAITING.iter().chain(more).copied()).cut("NAME", |row| row.0))
    }

    /// The same, where the numbers may be left out.
    fn spare() -> Rows<Row> {
        let numbers = Table::of(WAITING).left("NAME", |row| row.0).right("RESTARTS", |row| row.1);
        numbers.spare(1).cut("WAITING FOR", |row| row.2)
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
            elastic(&[]).render(Some(44), Palette::None),
            "NAME          RESTARTS  WAITING FOR\n\
             web                  0  service \"db\" to be …\n\
             a-service-w…        12\n"
        );
    }

    #[test]
    fn a_spare_column_is_left_out_before_the_last_has_too_little() {
        assert_eq!(
            spare().render(Some(50), Palette::None),
            "NAME                        WAITING FOR\n\
             web                         service \"db\" to be up\n\
             a-service-with-a-long-name\n"
        );
        assert!(spare().render(Some(70), Palette::None).contains("RESTARTS"));
        let led = Table::from(spare()).led_by("NODE", &cell("edge")).render(Some(50), Palette::None);
        assert!(led.contains("edge  web ") && !led.contains("RESTARTS"), "{led}");
    }

    #[test]
    fn numbers_are_never_cut() {
        let table = Table::of([("123456789", "12345678901234567890")]);
        let table = table.right("PID", |(pid, _)| *pid).right("COUNT", |(_, count)| *count);
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
        let table = elastic(&[("世界世界世界世界世界世界", "1", "世界世界世界世界世界世界世界世界")]);
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
        let table = Table::of(["\x1b[2Jgone\nfake  line"]);
        let table = table.left("NAME", |_| "evil").cut("MESSAGE", |text| *text);
        assert_eq!(table.render(None, Palette::None), "NAME  MESSAGE\nevil  \\x1b[2Jgone\\nfake  line\n");
    }
}
