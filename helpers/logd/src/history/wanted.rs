//! The part of the past that a client wants.

use std::sync::Arc;

use crate::line::Source;
use crate::run::Run;
use crate::store::OwnedLine;

/// The part of the past that a client wants.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// At most this many of the last lines.
    pub tail: Option<u32>,
    /// No lines before the one and behind the other, in nanoseconds since 1970.
    pub since: Option<i64>,
    pub until: Option<i64>,
    /// Only lines of one run.
    pub run: Option<WantedRun>,
    /// Only lines that contain this.
    pub text: Text,
}

/// One run of each service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedRun {
    /// The youngest with this number.
    Number(u32),
    /// The one before the youngest.
    Previous,
}

/// The text to look for in lines. Bytes and no pattern: each reader of logs may choose it, and no choice
/// takes long.
#[derive(Debug, Clone, Default)]
pub struct Text(pub Arc<[u8]>);

impl Text {
    /// Notes are never left out: what is looked for may be missing where they stand.
    pub fn is_in(&self, line: &OwnedLine) -> bool {
        self.0.is_empty()
            || line.source == Source::Note
            || line.text.windows(self.0.len()).any(|window| *window == *self.0)
    }
}

impl Wanted {
    pub fn since(&self, time: i64) -> bool {
        self.since.is_none_or(|since| time >= since)
    }

    pub fn includes(&self, line: &OwnedLine) -> bool {
        self.since(line.time) && self.until.is_none_or(|until| line.time < until) && self.text.is_in(line)
    }

    /// Whether the last lines that are wanted are the last that there are.
    pub fn ends_with_the_log(&self) -> bool {
        self.until.is_none() && self.run.is_none() && self.text.0.is_empty()
    }
}

/// The runs of one service, in the order of their first lines.
#[derive(Debug, Default)]
pub struct Runs {
    met: Vec<Run>,
    last: Run,
    /// The youngest that logd knows of; it may have written nothing.
    youngest: Run,
    pub chosen: Option<Run>,
}

impl Runs {
    pub fn new(youngest: Run) -> Runs {
        Runs { youngest, ..Runs::default() }
    }

    pub fn meet(&mut self, run: Run) {
        if run != self.last && run.is_known() && !self.met.contains(&run) {
            self.met.push(run);
        }
        self.last = run;
    }

    pub fn choose(&mut self, wanted: WantedRun) {
        self.chosen = match wanted {
            WantedRun::Number(number) => self.met.iter().rfind(|run| run.number == number).copied(),
            WantedRun::Previous => {
                let all = self.met.len().saturating_sub(usize::from(!self.youngest.is_known()));
                let before = self.met.iter().position(|run| *run == self.youngest).unwrap_or(all);
                self.met.get(..before).and_then(<[Run]>::last).copied()
            }
        };
    }
}
