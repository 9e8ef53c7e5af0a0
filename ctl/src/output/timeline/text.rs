//! The timeline for a terminal: one line a service, one letter for what it did at that time.

use super::{Look, Timeline};
use crate::output::drawing::axis::{Axis, written};
use crate::output::style::{Palette, Tone};
use crate::output::terminal::Terminal;
use crate::output::text::{escape, fit, list, width};
use crate::output::time::{measured_millis, rfc3339};

/// Where there is no terminal whose width would tell.
const COLUMNS: usize = 100;
/// The widest that names may be, and the narrowest that the chart is.
const NAME: usize = 24;
const CHART: usize = 20;

/// The lines. Time runs from left to right.
pub fn render(timeline: &Timeline, terminal: &Terminal) -> String {
    if timeline.lanes.is_empty() {
        return "no events of services\n".to_owned();
    }
    let names: Vec<String> =
        timeline.lanes.iter().map(|lane| fit(&escape(&lane.name), NAME).into_owned()).collect();
    let name = names.iter().map(|name| width(name)).max().unwrap_or(0);
    let columns = terminal.width.unwrap_or(COLUMNS).saturating_sub(name + 3).max(CHART);
    let (axis, paint) = (&timeline.axis, terminal.palette);

    let mut out = scale(axis, columns, name, terminal);
    let mut seen = Vec::new();
    for (lane, label) in timeline.lanes.iter().zip(&names) {
        let mut line: Vec<Option<Look>> = vec![None; columns];
        let holds = lane.holds.iter().map(|hold| (hold.from, hold.to, Look::Held));
        for (from, to, look) in lane.spans.iter().map(|span| (span.from, span.to, span.look)).chain(holds) {
            let (first, last) = (column(axis, columns, from), column(axis, columns, to));
            // The end belongs to what comes next.
            let last = if last > first && to < axis.end() { last - 1 } else { last };
            for place in &mut line[first..=last] {
                let over = look == Look::Held && *place == Some(Look::Running);
                // A short piece is shown wider than it was rather than not at all.
                if over || place.is_none_or(|there| look > there || there < Look::Held) {
                    *place = Some(look);
                }
            }
        }
        for &(from, to) in axis.cuts() {
            let (first, last) = (column(axis, columns, from) + 1, column(axis, columns, to));
            line[first.min(last)..last].fill(None);
        }
        out += &format!("{label}{}  ", " ".repeat(name - width(label)));
        out += lane_of(&line, terminal).trim_end();
        out.push('\n');
        seen.extend(line.into_iter().flatten());
    }
    out.push('\n');
    let used = Look::all().filter(|look| seen.contains(look));
    let legend = used.map(|look| (look.tone(), look.letter(terminal.unicode), look.words()));
    out += &wrapped(legend, terminal.width.unwrap_or(COLUMNS), paint);
    out += &begun(timeline);
    out + &stopped(timeline, name, paint)
}

fn column(axis: &Axis, columns: usize, time: f64) -> usize {
    ((axis.place(time) * columns as f64) as usize).min(columns - 1)
}

/// A run of the same is painted once.
fn lane_of(line: &[Option<Look>], terminal: &Terminal) -> String {
    line.chunk_by(|a, b| a == b)
        .map(|run| match run[0] {
            Some(look) => {
                let letters = look.letter(terminal.unicode).repeat(run.len());
                terminal.palette.paint(look.tone(), &letters)
            }
            None => " ".repeat(run.len()),
        })
        .collect()
}

/// Two lines: times, and where they are.
fn scale(axis: &Axis, columns: usize, name: usize, terminal: &Terminal) -> String {
    let (line, knot, cut) = if terminal.unicode { ('─', '┬', '╌') } else { ('-', '+', ' ') };
    let mut times = String::new();
    let mut rail = vec![line; columns];
    for &(from, to) in axis.cuts() {
        let (first, last) = (column(axis, columns, from) + 1, column(axis, columns, to));
        rail[first.min(last)..last].fill(cut);
    }
    for mark in axis.marks((columns / 12) as f64, 0.0) {
        let at = column(axis, columns, mark);
        let words = written(mark);
        rail[at] = knot;
        // One that would run into the one before, or over the end, is left out.
        if (times.is_empty() || at > width(&times)) && at + width(&words) <= columns {
            times += &" ".repeat(at - width(&times));
            times += &words;
        }
    }
    let rail: String = rail.into_iter().collect();
    let front = " ".repeat(name + 2);
    format!(
        "{front}{}\n{front}{}\n",
        terminal.palette.paint(Tone::Quiet, &times),
        terminal.palette.paint(Tone::Quiet, &rail)
    )
}

/// The legend of the letters, in as many lines as it takes.
fn wrapped(
    entries: impl Iterator<Item = (Tone, &'static str, &'static str)>,
    columns: usize,
    palette: Palette,
) -> String {
    let (mut out, mut used) = (String::new(), 0);
    for (tone, letter, words) in entries {
        let wide = letter.chars().count() + 1 + words.len();
        if used > 0 {
            let fits = used + 3 + wide <= columns;
            out += if fits { "   " } else { "\n" };
            used = if fits { used + 3 } else { 0 };
        }
        out += &format!("{} {words}", palette.paint(tone, letter));
        used += wide;
    }
    out + "\n"
}

fn begun(timeline: &Timeline) -> String {
    timeline.begun.as_ref().map_or(String::new(), |begun| format!("0 is {}\n", rfc3339(begun)))
}

/// The services that stopped only after others, in the order in which they did.
fn stopped(timeline: &Timeline, name: usize, palette: Palette) -> String {
    let mut holds: Vec<_> =
        timeline.lanes.iter().flat_map(|lane| lane.holds.iter().map(move |hold| (lane, hold))).collect();
    if holds.is_empty() {
        return String::new();
    }
    holds.sort_by(|a, b| a.1.to.total_cmp(&b.1.to));
    let mut out = format!("\n{}\n", palette.paint(Tone::Strong, "Who waited for whom to be down"));
    for (lane, hold) in holds {
        let label = fit(&escape(&lane.name), NAME).into_owned();
        let took = measured_millis(hold.to - hold.from);
        let room = " ".repeat(name - width(&label));
        out += &format!("{label}{room}  {took:>8}  for {}\n", escape(&list(&hold.by)));
    }
    out
}
