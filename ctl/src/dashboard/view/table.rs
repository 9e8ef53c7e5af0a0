//! The table of services.

use super::looks::Looks;
use super::text::{MARKS, Text, unpainted};
use crate::commands::services::{reason, restarts, standing};
use crate::dashboard::model::Model;
use crate::output::{Tone, or_dash, size};

/// The head and the rows around the chosen one, which is marked.
pub fn rows(model: &Model, columns: usize, lines: usize, looks: Looks) -> Vec<(bool, Text)> {
    let listed = model.listed();
    let chosen = model.chosen().map(|(place, _)| place);
    // The chosen one stands in the middle, where there are rows above and below.
    let first = chosen.unwrap_or(0).saturating_sub(lines / 2).min(listed.len().saturating_sub(lines));
    let table = standing(listed.iter().copied())
        .spare(2)
        .right("RST", |service| restarts(service))
        .spare(1)
        .right("CPU", |service| or_dash(model.usages.share(&service.name).map(percent)))
        .spare(3)
        .right("MEMORY", |service| or_dash(model.usages.memory(&service.name).map(size)))
        .spare(4)
        .cut("WAITING FOR / WHY", |service| reason(service));
    // A column for the mark, and one between.
    let text = table.render(Some(columns.saturating_sub(2)), MARKS);
    let mark = |is_chosen| match (is_chosen, looks.unicode) {
        (false, _) => "  ",
        (true, true) => "▸ ",
        (true, false) => "> ",
    };
    let row = |text: &str, is_chosen| {
        let mut row = vec![(Tone::Plain, mark(is_chosen).to_owned())];
        row.extend(unpainted(text));
        (is_chosen, row)
    };
    let mut all = text.lines();
    let mut rows: Vec<_> = all.next().map(|head| row(head, false)).into_iter().collect();
    let body = all.enumerate().skip(first).take(lines);
    rows.extend(body.map(|(place, text)| row(text, chosen == Some(place))));
    if listed.is_empty() {
        let why = if model.filter.is_empty() { "  no services" } else { "  no service has this in its name" };
        rows.push((false, vec![(Tone::Quiet, why.to_owned())]));
    }
    rows
}

/// `0.4%`, `12%`, `203%`: of one CPU.
fn percent(share: f64) -> String {
    if share < 9.95 { format!("{share:.1}%") } else { format!("{share:.0}%") }
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn shares_have_three_letters_or_so() {
        assert_eq!(
            [0.0, 0.44, 9.94, 9.96, 100.0, 203.4].map(percent),
            ["0.0%", "0.4%", "9.9%", "10%", "100%", "203%"]
        );
    }
}
