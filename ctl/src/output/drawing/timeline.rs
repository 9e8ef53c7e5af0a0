//! The states of services over time as a drawing.

use super::legend::{LEFT, bands, head};
use super::measure::{Font, fit_width, text_width};
use super::{Drawing, xml};
use crate::output::style::state_name;
use crate::output::text::list;
use crate::output::time::{measured_millis, rfc3339};
use crate::output::timeline::{Lane, Look, Timeline};

const ROW: f64 = 24.0;
const BAR: f64 = 14.0;
const CHART: f64 = 900.0;
/// The most that words of the host take, and the least that they are worth being cut to.
const WORDS: f64 = 260.0;
const WORTH: f64 = 110.0;

/// The timeline as SVG.
pub fn draw(timeline: &Timeline) -> String {
    let lanes = &timeline.lanes;
    let label = |name: &str| fit_width(name, Font::Name, 220.0);
    let widest = lanes.iter().map(|lane| text_width(&label(&lane.name), Font::Name)).fold(40.0, f64::max);
    let left = LEFT + widest + 16.0;
    let notes: Vec<String> = lanes.iter().map(|lane| fit_width(&note(lane), Font::Small, 320.0)).collect();
    let noted = notes.iter().map(|note| text_width(note, Font::Small)).fold(0.0, f64::max);
    let width = left + CHART + noted + 12.0 + LEFT;
    let axis = &timeline.axis;
    let x = |time: f64| left + axis.place(time) * CHART;

    let mut drawing = Drawing::default();
    let begun = timeline.begun.as_ref().map_or(String::new(), |begun| format!("0 is {}", rfc3339(begun)));
    let cut = if axis.cuts().is_empty() { "" } else { "; between dotted lines time is left out" };
    let used = |look: &Look| {
        lanes.iter().any(|lane| {
            lane.spans.iter().any(|span| span.look == *look)
                || (*look == Look::Held && !lane.holds.is_empty())
        })
    };
    let entries: Vec<(&str, &str)> =
        Look::all().filter(|look| used(look)).map(|look| (look.class(), look.words())).collect();
    let mut top = head(&mut drawing, width, "Services over time", &format!("{begun}{cut}"), &entries) + 26.0;
    let host = if timeline.host.is_empty() { 0.0 } else { ROW };
    let bottom = top + host + lanes.len() as f64 * ROW;
    bands(&mut drawing, top + host, lanes.len(), ROW, width);
    axis.draw(&mut drawing, left, CHART, (top, bottom), 0.0);
    if host > 0.0 {
        draw_host(&mut drawing, timeline, (left, top), x);
        top += host;
    }
    for (place, (lane, note)) in lanes.iter().zip(&notes).enumerate() {
        let y = top + place as f64 * ROW;
        drawing.text(LEFT, y + 16.5, "name", &label(&lane.name));
        for span in &lane.spans {
            let title = format!("{}: {}: {}", lane.name, state_name(span.state), span.message);
            bar(&mut drawing, (x(span.from), x(span.to)), y, span.look, &title);
        }
        for hold in &lane.holds {
            let title = format!("{}: {}", lane.name, waited(hold.to - hold.from, &hold.by));
            bar(&mut drawing, (x(hold.from), x(hold.to)), y, Look::Held, &title);
        }
        drawing.text(left + CHART + 12.0, y + 16.5, "small mute", note);
    }
    draw_holds(&mut drawing, lanes, top, x);
    drawing.finish(width, bottom + 24.0, "Kelson: services over time", &about(timeline))
}

fn bar(drawing: &mut Drawing, (from, to): (f64, f64), y: f64, look: Look, title: &str) {
    // A service that is down is a line and no bar.
    let (down, height) = match look {
        Look::Idle | Look::Down => (10.5, 3.0),
        _ => (5.0, BAR),
    };
    drawing.rect((from, y + down), ((to - from).max(1.5), height), 2.0, look.class(), title);
}

/// Events of the host: a dot for each, with its text where there is room.
fn draw_host(drawing: &mut Drawing, timeline: &Timeline, (left, top): (f64, f64), x: impl Fn(f64) -> f64) {
    drawing.text(LEFT, top + 16.5, "mute", "host");
    let mut free = left;
    for (place, (time, message)) in timeline.host.iter().enumerate() {
        let at = x(*time);
        drawing.add(&format!(
            "<circle cx=\"{at:.1}\" cy=\"{:.1}\" r=\"4\" class=\"bar bar-phase\"><title>{}</title></circle>",
            top + ROW / 2.0,
            xml(message)
        ));
        let next = timeline.host.get(place + 1).map_or(left + CHART, |(next, _)| x(*next));
        let (after, before) = (next - at - 16.0, at - free - 16.0);
        let wide = text_width(message, Font::Small).min(WORDS);
        // Cut words are better than none, where a few of them are left.
        if after >= wide || (after >= WORTH && after >= before) {
            let words = fit_width(message, Font::Small, after.min(WORDS));
            drawing.text(at + 8.0, top + 15.5, "small mute halo", &words);
            free = at + 8.0 + text_width(&words, Font::Small);
        } else if before >= wide.min(WORTH) {
            let words = fit_width(message, Font::Small, before.min(WORDS));
            drawing.text(at - 8.0, top + 15.5, "small mute end halo", &words);
            free = at;
        } else {
            free = free.max(at + 6.0);
        }
    }
}

/// From the end of the last that was waited for to the beginning of the stop.
fn draw_holds(drawing: &mut Drawing, lanes: &[Lane], top: f64, x: impl Fn(f64) -> f64) {
    let row = |name: &str| lanes.iter().position(|lane| lane.name == name);
    for (place, lane) in lanes.iter().enumerate() {
        for hold in &lane.holds {
            let Some(by) = hold.by.last().and_then(|by| row(by)) else { continue };
            let (at, middle) = (x(hold.to), |place: usize| top + place as f64 * ROW + ROW / 2.0);
            let side = if by > place { -1.0 } else { 1.0 };
            drawing.add(&format!(
                "<path d=\"M{at:.1},{:.1} L{at:.1},{:.1}\" class=\"critical link\"/>",
                middle(by) + side * BAR / 2.0,
                middle(place) - side * BAR / 2.0
            ));
        }
    }
}

fn waited(millis: f64, by: &[String]) -> String {
    format!("waited {} for {} to be down", measured_millis(millis), list(by))
}

fn note(lane: &Lane) -> String {
    lane.holds.last().map_or(String::new(), |hold| waited(hold.to - hold.from, &hold.by))
}

/// The whole in a sentence for each service.
fn about(timeline: &Timeline) -> String {
    let reported = timeline.lanes.iter().map(|lane| {
        let state = lane.spans.last().map_or("", |span| state_name(span.state));
        match note(lane) {
            note if note.is_empty() => format!("{} {state}", lane.name),
            note => format!("{} {state}, {note}", lane.name),
        }
    });
    format!("How they stand at the end: {}", reported.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use super::super::check::read;
    use super::*;
    use crate::output::timeline::From;
    use crate::samples::{edge, golden, story};

    #[test]
    fn every_service_has_its_bars() {
        let edges = [edge("web", "db", "up", false)];
        golden(
            "src/output/drawing/timeline/golden.svg",
            &draw(&Timeline::new(&story(), &edges, From::Oldest, &[])),
        );
    }

    #[test]
    fn nothing_is_a_drawing_too() {
        assert_eq!(read(&draw(&Timeline::new(&[], &[], From::Oldest, &[])))[0].name, "svg");
    }
}
