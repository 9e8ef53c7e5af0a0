//! A time axis with round marks, that may leave out stretches in which nothing happened.

use super::Drawing;

/// The part of the axis that an omitted stretch takes.
const CUT: f64 = 0.035;
/// The part of the time shown that is added after the end.
const TAIL: f64 = 0.04;
/// Shorter than this nothing is left out, in milliseconds.
const LONG: f64 = 2000.0;

/// Milliseconds onto a line of length 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    start: f64,
    end: f64,
    /// Stretches that are left out, in order.
    cuts: Vec<(f64, f64)>,
}

impl Axis {
    /// An even axis.
    pub fn even(start: f64, end: f64) -> Axis {
        Axis { start, end: end.max(start + 1.0), cuts: Vec::new() }
    }

    /// One that leaves out each stretch between two of these times that is longer than all the others together.
    pub fn of_times(times: &[f64]) -> Axis {
        let mut times = times.to_vec();
        times.sort_by(f64::total_cmp);
        let mut axis = match (times.first(), times.last()) {
            (Some(first), Some(last)) => Axis::even(*first, *last),
            _ => Axis::even(0.0, 1.0),
        };
        let mut gaps: Vec<(f64, f64)> = times.windows(2).map(|pair| (pair[0], pair[1])).collect();
        gaps.sort_by(|a, b| (b.1 - b.0).total_cmp(&(a.1 - a.0)));
        let mut left = axis.end - axis.start;
        for gap in gaps {
            let long = gap.1 - gap.0;
            if long < LONG || long < left - long {
                break;
            }
            left -= long;
            axis.cuts.push(gap);
        }
        axis.cuts.sort_by(|a, b| a.0.total_cmp(&b.0));
        axis
    }

    /// The stretches that are left out.
    pub fn cuts(&self) -> &[(f64, f64)] {
        &self.cuts
    }

    /// The same with a little time after the end, in which nothing happens any more.
    pub fn with_tail(mut self) -> Axis {
        self.end += self.shown().iter().map(|(from, to)| to - from).sum::<f64>() * TAIL;
        self
    }

    pub fn end(&self) -> f64 {
        self.end
    }

    /// Where a time lies, from 0 to 1.
    pub fn place(&self, time: f64) -> f64 {
        let time = time.clamp(self.start, self.end);
        let share = |&(from, to): &(f64, f64)| (time.min(to) - from).max(0.0);
        let cut: f64 = self.cuts.iter().map(share).sum();
        let all: f64 = self.cuts.iter().map(|(from, to)| to - from).sum();
        let steps: f64 = self.cuts.iter().map(|cut| share(cut) / (cut.1 - cut.0) * CUT).sum();
        let even = 1.0 - self.cuts.len() as f64 * CUT;
        let shown = (self.end - self.start - all).max(f64::EPSILON);
        (time - self.start - cut) / shown * even + steps
    }

    /// Round times, about `count` of them, counted from `zero` on and in milliseconds; none within what is left out.
    pub fn marks(&self, count: f64, zero: f64) -> Vec<f64> {
        let all: f64 = self.cuts.iter().map(|(from, to)| to - from).sum();
        let step = step((self.end - self.start - all) / count);
        let mut marks = Vec::new();
        for (from, to) in self.shown() {
            let first = ((from - zero) / step - 1e-6).ceil();
            let last = ((to - zero) / step + 1e-6).floor();
            let mut mark = first;
            while mark <= last {
                marks.push(mark * step);
                mark += 1.0;
            }
        }
        marks
    }

    /// The stretches that are shown.
    fn shown(&self) -> Vec<(f64, f64)> {
        let mut shown = Vec::new();
        let mut from = self.start;
        for cut in &self.cuts {
            shown.push((from, cut.0));
            from = cut.1;
        }
        shown.push((from, self.end));
        shown
    }

    /// Draws the marks over all of a chart, their times above it. `zero` is the time that is called 0.
    pub fn draw(&self, drawing: &mut Drawing, left: f64, width: f64, (top, bottom): (f64, f64), zero: f64) {
        let x = |time: f64| left + self.place(time) * width;
        let mut free = f64::NEG_INFINITY;
        for mark in self.marks(9.0, zero) {
            let (at, words) = (x(mark + zero), written(mark));
            drawing.line((at, top), (at, bottom), "grid");
            let half = super::measure::text_width(&words, super::measure::Font::Small) / 2.0;
            if at - half > free {
                drawing.text(at, top - 6.0, "small mute middle", &words);
                free = at + half + 8.0;
            }
        }
        for &(from, to) in &self.cuts {
            let (from, to) = (x(from), x(to));
            drawing.line((from, top), (from, bottom), "cut");
            drawing.line((to, top), (to, bottom), "cut");
        }
    }
}

/// The distance of two marks: 1, 2 or 5 times a power of ten up to seconds, then what clocks count in.
fn step(rough: f64) -> f64 {
    const CLOCK: [f64; 12] = [1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 1_800e3, 3_600e3];
    if rough > 1000.0 {
        let hours = (rough / 3_600e3).ceil() * 3_600e3;
        return CLOCK.into_iter().find(|step| *step >= rough).unwrap_or(hours);
    }
    let power = 10f64.powf(rough.max(1.0).log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough).unwrap_or(10.0);
    factor * power
}

/// A mark as it is written: `0`, `250 ms`, `1.5 s`, `2m30s`, `1h0.5s`.
pub fn written(millis: f64) -> String {
    if millis.abs() < 0.5 {
        return "0".to_owned();
    }
    if millis < 999.5 {
        return format!("{millis:.0} ms");
    }
    let short = |seconds: f64| {
        let text = format!("{seconds:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let seconds = (millis / 10.0).round() / 100.0;
    if seconds < 60.0 {
        return format!("{} s", short(seconds));
    }
    let (hours, minutes) = ((seconds / 3600.0).floor(), (seconds % 3600.0 / 60.0).floor());
    let parts = [(hours, "h"), (minutes, "m"), (seconds % 60.0, "s")];
    parts.iter().filter(|(count, _)| *count > 0.0).map(|(count, unit)| short(*count) + unit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round() {
        assert_eq!(
            [0.3, 9.5, 13.0, 48.0, 160.0, 999.0, 4_200.0, 6_100.0, 61_000.0, 9_000_000.0].map(step),
            [1.0, 10.0, 20.0, 50.0, 200.0, 1000.0, 5_000.0, 10_000.0, 120_000.0, 10_800_000.0]
        );
        assert_eq!(
            [0.0, 50.0, 1000.0, 1500.0, 12_250.0, 60_000.0, 90_000.0, 3_600_500.0].map(written),
            ["0", "50 ms", "1 s", "1.5 s", "12.25 s", "1m", "1m30s", "1h0.5s"]
        );
        assert_eq!(
            Axis::even(100.0, 700.0).marks(6.0, 0.0),
            [100.0, 200.0, 300.0, 400.0, 500.0, 600.0, 700.0]
        );
    }

    #[test]
    fn an_even_axis_is_even() {
        let axis = Axis::even(100.0, 300.0);
        assert_eq!([0.0, 100.0, 150.0, 300.0, 400.0].map(|t| axis.place(t)), [0.0, 0.0, 0.25, 1.0, 1.0]);
    }

    #[test]
    fn a_long_quiet_time_is_left_out() {
        let hour = 3_600e3;
        let axis = Axis::of_times(&[0.0, 500.0, 1000.0, hour, hour + 1000.0]);
        assert_eq!(axis.cuts(), [(1000.0, hour)]);
        assert!((axis.place(1000.0) - 0.4825).abs() < 1e-9, "{}", axis.place(1000.0));
        assert!((axis.place(hour) - 0.5175).abs() < 1e-9);
        assert_eq!((axis.place(0.0), axis.place(hour + 1000.0)), (0.0, 1.0));
        let marks = axis.marks(8.0, 0.0);
        assert!(marks.contains(&500.0) && marks.contains(&(hour + 500.0)) && marks.len() < 14, "{marks:?}");
        assert!(Axis::of_times(&[0.0, 700.0, 1000.0, 2200.0]).cuts().is_empty());
        assert_eq!(Axis::of_times(&[]).place(5.0), 1.0);
        assert_eq!(Axis::of_times(&[7.0]).place(7.0), 0.0);
        assert_eq!(Axis::even(100.0, 200.0).with_tail().end(), 204.0);
    }
}
