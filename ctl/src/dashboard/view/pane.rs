//! The pane below the table: log, events, graph or details.

use std::time::SystemTime;

use super::looks::Looks;
use super::text::{MARKS, Text, external, unpainted, wide, wrapped};
use crate::commands::{graph, status};
use crate::dashboard::model::{Happening, LogLine, Model, Pane, Ring};
use crate::output::{Terminal, Tone, fit, state_name, state_tone, time};

/// The visible part of a pane.
#[derive(Debug, Default)]
pub struct Body {
    pub rows: Vec<Text>,
    /// The first row that is seen, and the number of the last item.
    pub top: usize,
    pub bottom: Option<u64>,
}

/// The line over it: all panes, which one this is and whose.
pub fn title(model: &Model, columns: usize, looks: Looks) -> Text {
    let bar = if looks.unicode { "─" } else { "-" };
    let quiet = |text: String| (Tone::Quiet, text);
    let mut row = vec![quiet(bar.to_owned())];
    for (number, pane) in (1..).zip(Pane::ALL) {
        let name = format!("{number} {}", pane.name());
        row.push(match pane == model.pane {
            true => (Tone::Strong, format!("[{name}]")),
            false => quiet(format!(" {name} ")),
        });
        row.push(quiet(bar.to_owned()));
    }
    let of = match (model.pane, model.chosen()) {
        (Pane::Events, _) => "all".to_owned(),
        (_, chosen) => chosen.map_or_else(String::new, |(_, service)| service.name.clone()),
    };
    let below = match model.bottom {
        Some(item) => format!(", {} newer below", newest(model).saturating_sub(item)),
        None => String::new(),
    };
    let focus = if model.in_pane { "* " } else { "" };
    let room = columns.saturating_sub(wide(&row) + 3);
    let (_, of) = external(Tone::Plain, &format!("{focus}{of}{below}"));
    let of = fit(&of, room).into_owned();
    row.push(quiet(bar.repeat(room.saturating_sub(wide(&vec![(Tone::Plain, of.clone())])))));
    row.extend([(Tone::Strong, format!(" {of} ")), quiet(bar.to_owned())]);
    row
}

fn newest(model: &Model) -> u64 {
    let end = if model.pane == Pane::Events { model.events.end() } else { model.log.end() };
    end.saturating_sub(1)
}

/// The contents of the pane.
pub fn body(model: &Model, columns: usize, lines: usize, looks: Looks, now: SystemTime) -> Body {
    let Some((_, service)) = model.chosen() else {
        return if model.pane == Pane::Events { events(model, columns, lines) } else { Body::default() };
    };
    match model.pane {
        Pane::Logs if model.log_of != service.name => note("the log is being read"),
        Pane::Logs if model.log.is_empty() => note("it has written nothing yet"),
        Pane::Logs => tail(&model.log, model.bottom, lines, |line| wrapped(log_line(line), columns)),
        Pane::Events => events(model, columns, lines),
        Pane::Graph => match (&model.graph, &model.no_detail) {
            (Some(graph), _) => from_top(
                &graph::around(graph, &service.name, MARKS, looks.unicode),
                model.top,
                columns,
                lines,
            ),
            (None, said) => note(said.as_deref().unwrap_or("the host is asked")),
        },
        Pane::Details => match (&model.status, &model.no_detail) {
            (Some(status), _) if status.service.as_ref().is_some_and(|of| of.name == service.name) => {
                let terminal = Terminal {
                    is_terminal: true,
                    width: Some(columns),
                    height: None,
                    palette: MARKS,
                    unicode: looks.unicode,
                    headers: true,
                };
                from_top(&status::page(status, None, &terminal, now), model.top, columns, lines)
            }
            (_, said) => note(said.as_deref().unwrap_or("the host is asked")),
        },
    }
}

fn note(text: &str) -> Body {
    Body { rows: vec![vec![external(Tone::Quiet, text)]], ..Body::default() }
}

fn log_line(line: &LogLine) -> Text {
    vec![(Tone::Quiet, format!("{:<9}", line.time)), (line.tone, line.text.clone())]
}

fn events(model: &Model, columns: usize, lines: usize) -> Body {
    if model.events.is_empty() {
        return note("nothing has happened yet");
    }
    tail(&model.events, model.bottom, lines, |happening| wrapped(event(happening), columns))
}

/// Number, time, service, state, message: as in `kelsonctl events`, but narrower.
fn event(happening: &Happening) -> Text {
    let event = match happening {
        Happening::Event(event) => event,
        Happening::Note(text) => return vec![external(Tone::Quiet, &format!("      {text}"))],
    };
    let when = event.time.as_ref().map_or_else(String::new, time::clock);
    let (service, state) = match event.service.as_str() {
        "" => ("-", ""),
        service => (service, state_name(event.state())),
    };
    vec![
        (Tone::Quiet, format!("{:>5} {when} ", event.seq)),
        external(Tone::Plain, &format!("{service:<12} ")),
        (state_tone(event.state(), true), format!("{state:<9} ")),
        external(Tone::Plain, &event.message),
    ]
}

/// The last rows up to an item; where there are too few, what comes after it.
fn tail<T>(ring: &Ring<T>, bottom: Option<u64>, lines: usize, rows_of: impl Fn(&T) -> Vec<Text>) -> Body {
    let newest = ring.end().saturating_sub(1);
    let mut last = bottom.unwrap_or(newest).clamp(ring.first(), newest);
    let mut rows: Vec<Text> = Vec::new();
    for number in (ring.first()..=last).rev() {
        let Some(item) = ring.get(number) else { break };
        let above = rows_of(item);
        // The upper part of an item that has no room is not seen.
        let room = lines.saturating_sub(rows.len()).min(above.len());
        rows.splice(0..0, above[above.len() - room..].iter().cloned());
        if rows.len() >= lines {
            break;
        }
    }
    while rows.len() < lines && last < newest {
        last += 1;
        rows.extend(ring.get(last).map(&rows_of).unwrap_or_default());
    }
    rows.truncate(lines);
    Body { rows, top: 0, bottom: Some(last) }
}

/// Rows from one on, but never beyond the last.
fn from_top(text: &str, top: usize, columns: usize, lines: usize) -> Body {
    let rows: Vec<Text> = text.lines().flat_map(|line| wrapped(unpainted(line), columns)).collect();
    let top = top.min(rows.len().saturating_sub(lines));
    Body { rows: rows.into_iter().skip(top).take(lines).collect(), top, bottom: None }
}
