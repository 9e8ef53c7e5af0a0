//! The table: medians with the smallest and the largest, ratios per round, targets.

use std::fmt::Write as _;

use crate::measure::{Figures, Metric};
use crate::system::System;

/// Kelson's target.
enum Target {
    /// Times the C loop of the same round.
    Ratio(f64),
    /// In the unit of the row.
    Below(f64),
    AtMost(f64),
    None,
}

struct Row {
    metric: Metric,
    what: String,
    target: Target,
    digits: usize,
}

pub fn render(figures: &Figures, services: usize, chain: usize, idle: u64) -> String {
    let row = |metric, what: String, target, digits| Row { metric, what, target, digits };
    let rows = [
        row(Metric::Up, format!("{services} services up, ms"), Target::Ratio(1.3), 0),
        row(Metric::SaidUp, "… and `kelsonctl services` has said so, ms".to_owned(), Target::None, 0),
        row(Metric::UpBare, format!("{services} services without libc up, ms"), Target::None, 0),
        row(Metric::Chain, format!("chain of {chain} with readiness up, ms"), Target::None, 0),
        row(Metric::Gone, format!("stop of {services}: last service gone, ms"), Target::None, 0),
        row(Metric::Stopped, format!("stop of {services}: PID 1 has ended, ms"), Target::Ratio(2.0), 0),
        row(Metric::Again, "kill -9 to up again, ms".to_owned(), Target::Below(2.0), 2),
        row(Metric::MemoryNone, "memory with 0 services, MB PSS".to_owned(), Target::None, 2),
        row(Metric::MemorySome, format!("memory with {}, MB PSS", services / 10), Target::None, 2),
        row(Metric::MemoryAll, format!("memory with {services}, MB PSS"), Target::Below(6.0), 2),
        row(Metric::Wakeups, format!("wake-ups in {idle} s at idle"), Target::AtMost(idle as f64 / 2.0), 0),
    ];
    let systems = figures.systems();
    let mut text = String::from("| |");
    for system in &systems {
        let _ = write!(text, " {} |", system.name());
    }
    text.push_str(" Kelson : C loop | target | |\n|---|");
    text.push_str(&"---|".repeat(systems.len() + 3));
    text.push('\n');
    for row in rows {
        let _ = write!(text, "| {} |", row.what);
        for system in &systems {
            let _ = write!(text, " {} |", spread(&figures.all(*system, row.metric), row.digits));
        }
        let ratios = figures.ratios(row.metric);
        let own = figures.all(System::Kelson, row.metric);
        let (target, reached) = match row.target {
            Target::None => (String::new(), None),
            Target::Ratio(most) => (format!("≤ {most} ×"), median(&ratios).map(|ratio| ratio <= most)),
            Target::AtMost(most) => (format!("≤ {most}"), median(&own).map(|value| value <= most)),
            Target::Below(most) => (format!("< {most}"), median(&own).map(|value| value < most)),
        };
        let verdict = reached.map_or("", |yes| if yes { "reached" } else { "**missed**" });
        let _ = writeln!(text, " {} | {target} | {verdict} |", spread(&ratios, 2));
    }
    text
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted.get(half).copied(),
        _ => Some((sorted.get(half.checked_sub(1)?)? + sorted.get(half)?) / 2.0),
    }
}

/// `median (smallest–largest)`, or a dash where nothing was measured.
fn spread(values: &[f64], digits: usize) -> String {
    let Some(middle) = median(values) else { return "–".to_owned() };
    let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{middle:.digits$} ({smallest:.digits$}–{largest:.digits$})")
}
