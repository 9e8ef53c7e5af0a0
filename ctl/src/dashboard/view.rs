//! How it looks: the model as a frame. Pure: the same model at the same time is the same text.
//!
//! From above: a line about the host, the table, the pane under a line that names it, and the question or message.

mod foot;
mod head;
mod help;
mod looks;
mod pane;
mod table;
mod text;

use std::time::SystemTime;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::model::{Mode, Model, Shown};
use crate::output::Tone;
pub use looks::Looks;
use text::{Text, line, wrapped};

/// Smaller than this, nothing of use can be seen.
pub const SMALLEST: (u16, u16) = (40, 10);

/// Draws all of it.
pub fn draw(buffer: &mut Buffer, model: &Model, looks: Looks, now: SystemTime) -> Shown {
    let area = buffer.area;
    let mut page = Page { buffer, looks, area, next: 0 };
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        page.too_small();
        return Shown::default();
    }
    page.row(head::row(model, page.columns(), now));
    let foot = foot::rows(model, page.columns());
    if model.mode == Mode::Help {
        help::rows().into_iter().take(page.left(foot.len())).for_each(|row| page.row(row));
        page.foot(foot);
        return Shown::default();
    }
    let mut shown = Shown::default();
    if !model.zoomed {
        // The head of the table and the line over the pane stand between.
        let room = page.left(foot.len()).saturating_sub(2);
        let wanted = model.listed().len().max(1);
        shown.table = wanted.min(room / 2);
        page.table(table::rows(model, page.columns(), shown.table, looks));
    }
    page.row(pane::title(model, page.columns(), looks));
    shown.pane = page.left(foot.len());
    let body = pane::body(model, page.columns(), shown.pane, looks, now);
    (shown.top, shown.bottom) = (body.top, body.bottom);
    body.rows.into_iter().for_each(|row| page.row(row));
    page.foot(foot);
    shown
}

/// The frame, filled row by row.
struct Page<'a> {
    buffer: &'a mut Buffer,
    looks: Looks,
    area: Rect,
    next: u16,
}

impl Page<'_> {
    fn columns(&self) -> usize {
        usize::from(self.area.width)
    }

    /// How many rows are left above the last ones.
    fn left(&self, last: usize) -> usize {
        usize::from(self.area.height.saturating_sub(self.next)).saturating_sub(last)
    }

    fn row(&mut self, text: Text) {
        self.styled(text, Style::new());
    }

    fn styled(&mut self, text: Text, style: Style) {
        if self.next < self.area.height {
            let mut text = text;
            if !self.looks.unicode {
                text.iter_mut().for_each(|(_, piece)| *piece = piece.replace('…', "~"));
            }
            let (line, width) = (line(text, self.looks.palette), self.area.width);
            self.buffer.set_line(0, self.next, &line, width);
            self.buffer.set_style(Rect::new(0, self.next, width, 1), style);
            self.next += 1;
        }
    }

    /// The rows of the table; the one that is chosen is reversed.
    fn table(&mut self, rows: Vec<(bool, Text)>) {
        for (chosen, text) in rows {
            let style = if chosen { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
            self.styled(text, style);
        }
    }

    /// The rows at the lower end.
    fn foot(&mut self, rows: Vec<Text>) {
        self.next = self.area.height.saturating_sub(u16::try_from(rows.len()).unwrap_or(u16::MAX));
        rows.into_iter().for_each(|row| self.row(row));
    }

    fn too_small(&mut self) {
        let (columns, rows) = SMALLEST;
        let said = format!(
            "This terminal has {}x{}; the dashboard needs {columns}x{rows}. q quits.",
            self.area.width, self.area.height
        );
        wrapped(vec![(Tone::Plain, said)], self.columns()).into_iter().for_each(|row| self.row(row));
    }
}

#[cfg(test)]
mod tests;
