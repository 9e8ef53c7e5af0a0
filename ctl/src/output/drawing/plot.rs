//! The boot over time: the kernel, phases with their tasks, and services as bars.

use std::time::Duration;

use kelson_proto::v1::BootResponse;

use super::{Drawing, text_width, xml};
use crate::output::style::Tone;
use crate::output::text::{escape, fit};
use crate::output::time::{duration, measured};

const ROW: f64 = 22.0;
const BAR: f64 = 14.0;
const CHART: f64 = 900.0;
const TOP: f64 = 84.0;

/// One line of the plot.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    label: String,
    /// Indented below a phase.
    inner: bool,
    /// Milliseconds since the kernel's start.
    start: f64,
    /// `None`: not over yet.
    end: Option<f64>,
    class: &'static str,
    note: String,
}

/// The plot as SVG.
pub fn draw(boot: &BootResponse) -> String {
    let kernel = boot.kernel.as_ref().map_or(0.0, |kernel| ms(duration(kernel)));
    let rows = rows(boot, kernel);
    let total = boot.total.as_ref().map(|total| kernel + ms(duration(total)));
    let last = rows.iter().filter_map(|row| row.end).chain(rows.iter().map(|row| row.start)).chain(total);
    let last = last.fold(1.0, f64::max);
    let step = step(last);
    let end = (last / step).ceil() * step;

    let label = rows.iter().map(|row| text_width(&row.label)).fold(60.0, f64::max) + 40.0;
    let note = rows.iter().map(|row| text_width(&row.note)).fold(60.0, f64::max) + 16.0;
    let x = |at: f64| label + at / end * CHART;
    let bottom = TOP + rows.len() as f64 * ROW + 8.0;

    let mut drawing = Drawing::default();
    drawing.text(24.0, 28.0, "head", "Where the boot's time went");
    drawing.text(24.0, 48.0, "small mute", &summary(boot));
    let mut tick = 0.0;
    while tick <= end + step / 2.0 {
        drawing.add(&format!(
            "<line x1=\"{0:.1}\" y1=\"{1:.1}\" x2=\"{0:.1}\" y2=\"{bottom:.1}\" class=\"grid\"/>",
            x(tick),
            TOP - 6.0
        ));
        drawing.text(x(tick), TOP - 12.0, "small mute middle", &format!("{tick:.0} ms"));
        tick += step;
    }
    for (place, row) in rows.iter().enumerate() {
        let y = TOP + place as f64 * ROW;
        let indent = if row.inner { 40.0 } else { 24.0 };
        drawing.text(indent, y + 12.0, if row.inner { "small" } else { "" }, &row.label);
        let (from, to) = (x(row.start), x(row.end.unwrap_or(end)));
        let open = if row.end.is_none() { " stroke-dasharray=\"4 3\"" } else { "" };
        drawing.add(&format!(
            "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"3\" class=\"box {}\"{open}>\
             <title>{}</title></rect>",
            y + 1.0,
            (to - from).max(2.0),
            row.class,
            xml(&format!("{}: {}", row.label, row.note))
        ));
        drawing.text(to.max(from + 2.0) + 6.0, y + 12.0, "small mute halo", &row.note);
    }
    drawing.finish(label + CHART + note + 24.0, bottom + 16.0, "Kelson: the boot over time")
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

fn rows(boot: &BootResponse, kernel: f64) -> Vec<Row> {
    let label = |name: &str| fit(&escape(name), 36).into_owned();
    let at = |wire: &Option<prost_types::Duration>| wire.as_ref().map(|d| kernel + ms(duration(d)));
    let mut rows = Vec::new();
    if kernel > 0.0 {
        let note = measured(Duration::from_secs_f64(kernel / 1000.0));
        rows.push(Row {
            label: "kernel".to_owned(),
            inner: false,
            start: 0.0,
            end: Some(kernel),
            class: "phase",
            note,
        });
    }
    let mut bar =
        |name: &str, inner: bool, start: Option<f64>, end: Option<f64>, class: &'static str, error: &str| {
            let start = start.unwrap_or(kernel);
            let mut note = match end {
                Some(end) => measured(Duration::from_secs_f64((end - start).max(0.0) / 1000.0)),
                None => "not over yet".to_owned(),
            };
            if !error.is_empty() {
                note = format!("{note}, {}", fit(&escape(error), 60));
            }
            rows.push(Row { label: label(name), inner, start, end, class, note });
        };
    let end = |start: Option<f64>, wire: &Option<prost_types::Duration>| {
        Some(start? + wire.as_ref().map(|d| ms(duration(d)))?)
    };
    for phase in &boot.phases {
        let start = at(&phase.start).or(Some(kernel));
        bar(&phase.name, false, start, end(start, &phase.duration), "phase", "");
        for task in &phase.tasks {
            let start = at(&task.start).or(Some(kernel));
            let tone = if task.error.is_empty() { Tone::Busy } else { Tone::Bad };
            bar(&task.name, true, start, end(start, &task.duration), tone.class(), &task.error);
        }
    }
    for service in boot.services.iter().filter(|service| service.spawned.is_some()) {
        let up = at(&service.up);
        let tone = if up.is_some() { Tone::Good } else { Tone::Waiting };
        bar(&service.name, false, at(&service.spawned), up, tone.class(), "");
    }
    rows
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// The distance of two marks of the axis: 1, 2 or 5 times a power of ten, about ten marks in all.
fn step(end: f64) -> f64 {
    let rough = end / 10.0;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough).unwrap_or(10.0);
    (factor * power).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::super::check::elements;
    use super::*;
    use crate::output::time::to_wire;
    use kelson_proto::v1::{BootPhase, BootService, BootTask};

    fn wire(millis: u64) -> Option<prost_types::Duration> {
        Some(to_wire(Duration::from_millis(millis)))
    }

    fn sample() -> BootResponse {
        BootResponse {
            kernel: wire(900),
            total: wire(700),
            phases: vec![BootPhase {
                name: "mounts".to_owned(),
                start: wire(10),
                duration: wire(50),
                tasks: vec![BootTask {
                    name: "mount /var".to_owned(),
                    start: wire(12),
                    duration: wire(40),
                    error: "LABEL=STATE: <no such disk>".to_owned(),
                    message: String::new(),
                }],
            }],
            services: vec![
                BootService { name: "db".to_owned(), spawned: wire(100), up: wire(400), after: vec![] },
                BootService {
                    name: "web".to_owned(),
                    spawned: wire(400),
                    up: None,
                    after: vec!["db".to_owned()],
                },
                BootService { name: "manual".to_owned(), ..BootService::default() },
            ],
        }
    }

    #[test]
    fn rows_stand_on_one_time_axis() {
        let rows = rows(&sample(), 900.0);
        let brief: Vec<_> = rows.iter().map(|r| (r.label.as_str(), r.start, r.end, r.class)).collect();
        assert_eq!(
            brief,
            [
                ("kernel", 0.0, Some(900.0), "phase"),
                ("mounts", 910.0, Some(960.0), "phase"),
                ("mount /var", 912.0, Some(952.0), "bad"),
                ("db", 1000.0, Some(1300.0), "good"),
                ("web", 1300.0, None, "waiting"),
            ]
        );
        assert_eq!(rows[3].note, "300 ms");
    }

    #[test]
    fn the_plot_is_well_formed() {
        let svg = draw(&sample());
        let elements = elements(&svg);
        assert_eq!(elements.iter().filter(|e| *e == "rect").count(), 5);
        for part in ["&lt;no such disk&gt;", "1600 ms", "kernel 900 ms", "not over yet"] {
            assert!(svg.contains(part), "{part} is in:\n{svg}");
        }
        assert!(draw(&BootResponse::default()).contains("</svg>"));
    }

    #[test]
    fn marks_of_the_axis_are_round() {
        assert_eq!(
            [7.0, 95.0, 130.0, 480.0, 1600.0, 61_000.0].map(step),
            [1.0, 10.0, 20.0, 50.0, 200.0, 10_000.0]
        );
    }
}
