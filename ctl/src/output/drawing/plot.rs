//! The boot over time: the kernel, phases with their tasks, and services as bars, with the chain that all of it waited for.

mod reported;

use kelson_proto::v1::{BootResponse, Event};
use reported::{Piece, Reported, ms};

use super::Drawing;
use super::axis::Axis;
use super::legend::{LEFT, bands, head};
use super::measure::{Font, fit_width, text_width};
use crate::output::time::{duration, measured, measured_millis};

const ROW: f64 = 22.0;
const BAR: f64 = 14.0;
const CHART: f64 = 860.0;
const INDENT: f64 = 16.0;
/// A step whose bar would be narrower is left out.
const VISIBLE: f64 = 2.5;
/// Texts of the chain are bold, and so wider.
const BOLD: f64 = 1.13;

const LEGEND: &[(&str, &str)] = &[
    ("bar bar-phase", "phase"),
    ("bar bar-task", "task"),
    ("bar bar-waiting", "waiting"),
    ("bar bar-preparing", "preparing"),
    ("bar bar-starting", "starting"),
    ("bar bar-checked", "running, not up yet"),
    ("bar bar-stays", "up"),
    ("bar bar-bad", "failed"),
    ("critical", "what the whole boot waited for"),
];

/// One link of `boot critical-chain`, the last that ended first.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// `service`, `phase` or `task`.
    pub kind: &'static str,
    pub name: String,
    pub start_ms: f64,
    pub duration_ms: f64,
}

/// One line of the plot. Times are milliseconds since the kernel's start.
#[derive(Debug, Clone, PartialEq, Default)]
struct Row {
    label: String,
    kind: &'static str,
    pieces: Vec<Piece>,
    /// From when to when the boot waited for it.
    critical: Option<(f64, f64)>,
    note: String,
}

impl Row {
    /// A service, a failure, or a step that took at least `shortest` milliseconds or is not over.
    fn is_worth_seeing(&self, shortest: f64) -> bool {
        let is_seen =
            |(from, to, class): &Piece| *class == "bar-bad" || to.is_none_or(|to| to - from >= shortest);
        self.kind == "service" || self.pieces.iter().any(is_seen)
    }
}

/// The plot as SVG. The axis ends with the boot; its heading counts the steps that are too short to be seen. `events` has
/// the states of services before they were spawned; `chain` is what the boot waited for, its end first.
pub fn draw(boot: &BootResponse, events: &[Event], chain: &[Link]) -> String {
    let kernel = boot.kernel.as_ref().map_or(0.0, |kernel| ms(duration(kernel)));
    let mut rows = rows(boot, kernel, events, chain);
    let total = boot.total.as_ref().map(|total| kernel + ms(duration(total)));
    let times =
        rows.iter().flat_map(|row| &row.pieces).flat_map(|(from, to, _)| [*from, to.unwrap_or(*from)]);
    // A little of what comes after the boot is seen.
    let end = total.unwrap_or_else(|| times.fold(1.0, f64::max)) * 1.03;
    let axis = Axis::even(0.0, end);
    let steps = rows.len();
    let shortest = VISIBLE * end / CHART;
    rows.retain(|row| row.is_worth_seeing(shortest));
    let summary = match steps - rows.len() {
        0 => summary(boot),
        hidden => {
            format!(
                "{}; not drawn: {hidden} steps shorter than {}",
                summary(boot),
                measured_millis(shortest.ceil())
            )
        }
    };

    let widest = |text: fn(&Row) -> f64| rows.iter().map(text).fold(60.0, f64::max);
    let left = LEFT + INDENT + widest(|row| text_width(&row.label, font(row.kind)) * BOLD) + 14.0;
    let notes = left + CHART + 12.0;
    let width = notes + widest(|row| text_width(&row.note, Font::Small)) + LEFT;
    let x = |time: f64| left + axis.place(time) * CHART;

    let mut drawing = Drawing::default();
    let top = head(&mut drawing, width, "Where the boot's time went", &summary, LEGEND) + 26.0;
    let bottom = top + rows.len() as f64 * ROW;
    bands(&mut drawing, top, rows.len(), ROW, width);
    axis.draw(&mut drawing, left, CHART, (top, bottom), 0.0);
    let mut last: Option<(f64, f64)> = None;
    for (place, row) in rows.iter().enumerate() {
        let y = top + place as f64 * ROW;
        let indent = if row.kind == "task" { INDENT } else { 0.0 };
        let size = if font(row.kind) == Font::Small { "small" } else { "" };
        let class = if row.critical.is_some() { "say-critical" } else { size };
        drawing.text(LEFT + indent, y + 15.5, &format!("{size} {class}"), &row.label);
        for (from, to, class) in &row.pieces {
            let (from, to) = (x(*from), x(to.unwrap_or(end)));
            let title = format!("{}: {}", row.label, row.note);
            drawing.rect((from, y + 4.0), ((to - from).max(2.5), BAR), 2.0, &format!("bar {class}"), &title);
        }
        if let Some((from, to)) = row.critical {
            let (from, to) = (x(from), x(to).max(x(from) + 2.0));
            // From the end of what it waited for down to its own beginning.
            if let Some((before, under)) = last.filter(|_| row.kind != "task") {
                drawing.add(&format!(
                    "<path d=\"M{before:.1},{under:.1} L{before:.1},{0:.1} L{from:.1},{0:.1}\" class=\"critical link\"/>",
                    y + 4.0 + BAR / 2.0
                ));
            }
            drawing.rect((from - 1.0, y + 3.0), (to - from + 2.0, BAR + 2.0), 3.0, "critical", "");
            if row.kind != "task" {
                last = Some((to, y + 5.0 + BAR));
            }
        }
        drawing.text(notes, y + 15.5, "small mute", &row.note);
    }
    if let Some(total) = total {
        drawing.line((x(total), top), (x(total), bottom), "cut");
        drawing.text(x(total), bottom + 15.0, "small mute middle", "all services stood");
    }
    drawing.finish(width, bottom + 30.0, "Kelson: the boot over time", &summary)
}

fn font(kind: &str) -> Font {
    if kind == "task" { Font::Small } else { Font::Text }
}

fn summary(boot: &BootResponse) -> String {
    let part = |what: &str, wire: &Option<prost_types::Duration>| {
        wire.as_ref()
            .map_or_else(|| format!("{what} not known yet"), |d| format!("{what} {}", measured(duration(d))))
    };
    match boot.kernel {
        Some(_) => format!(
            "{}, {}",
            part("kernel", &boot.kernel),
            part("from PID 1's start to all services", &boot.total)
        ),
        None => part("from PID 1's start to all services", &boot.total),
    }
}

fn rows(boot: &BootResponse, kernel: f64, events: &[Event], chain: &[Link]) -> Vec<Row> {
    let at = |wire: &Option<prost_types::Duration>| wire.as_ref().map(|d| kernel + ms(duration(d)));
    // Two phases may have a task of one name: of a step its start is asked, too.
    let critical = |kind: &str, name: &str, from: Option<f64>| {
        let is = |link: &&Link| from.is_none_or(|from| (kernel + link.start_ms - from).abs() < 0.001);
        let link = chain.iter().filter(is).find(|link| link.kind == kind && link.name == name)?;
        Some((kernel + link.start_ms, kernel + link.start_ms + link.duration_ms))
    };
    let label = |name: &str, kind| fit_width(name, font(kind), 260.0);
    let mut rows = Vec::new();
    if kernel > 0.0 {
        let (label, note) = ("kernel".to_owned(), measured_millis(kernel));
        let pieces = vec![(0.0, Some(kernel), "bar-kernel")];
        rows.push(Row { label, kind: "phase", pieces, critical: None, note });
    }
    // A phase, or a task of one.
    let step = |name: &str, kind, start, took: &Option<prost_types::Duration>, error: &str| {
        let from = at(start).unwrap_or(kernel);
        let to = took.as_ref().map(|took| from + ms(duration(took)));
        let class = match kind {
            _ if !error.is_empty() => "bar-bad",
            "phase" => "bar-phase",
            _ => "bar-task",
        };
        let mut note = to.map_or_else(|| "not over yet".to_owned(), |to| measured_millis(to - from));
        if !error.is_empty() {
            note += &format!(", {}", fit_width(error, Font::Small, 320.0));
        }
        let pieces = vec![(from, to, class)];
        Row { label: label(name, kind), kind, pieces, critical: critical(kind, name, Some(from)), note }
    };
    for phase in &boot.phases {
        rows.push(step(&phase.name, "phase", &phase.start, &phase.duration, ""));
        for task in &phase.tasks {
            rows.push(step(&task.name, "task", &task.start, &task.duration, &task.error));
        }
    }
    let reported = Reported::new(events, &boot.services);
    for service in &boot.services {
        let (spawned, up) = (service.spawned.as_ref(), service.up.as_ref());
        let before = reported.before(service);
        let mut pieces: Vec<Piece> = before
            .iter()
            .map(|(from, to, class)| (kernel + from, to.map(|to| kernel + to), *class))
            .collect();
        let note = match (spawned.map(duration), up.map(duration)) {
            (Some(spawned), Some(up)) => {
                let ready = reported.ready(service).filter(|ready| *ready < ms(up)).unwrap_or(ms(up));
                pieces.push((kernel + ms(spawned), Some(kernel + ready), "bar-starting"));
                pieces.push((kernel + ready, Some(kernel + ms(up)), "bar-checked"));
                let gone = reported.gone(service).map(|gone| kernel + gone.max(ms(up)));
                pieces.push((kernel + ms(up), gone, "bar-stays"));
                measured(up.saturating_sub(spawned))
            }
            (Some(spawned), None) => {
                pieces.push((kernel + ms(spawned), None, "bar-starting"));
                "not up yet".to_owned()
            }
            _ if pieces.is_empty() => continue,
            _ => "not started yet".to_owned(),
        };
        // A piece without a duration is not visible.
        pieces.retain(|(from, to, _)| to.is_none_or(|to| to - from > 0.05));
        let (label, critical) = (label(&service.name, "service"), critical("service", &service.name, None));
        rows.push(Row { label, kind: "service", pieces, critical, note });
    }
    rows
}

#[cfg(test)]
mod tests;
