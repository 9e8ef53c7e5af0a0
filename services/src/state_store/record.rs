//! What is remembered of one service.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::file::seal;
use crate::service_runner::table::Life;

/// One of the two slots of a service.
pub const SLOT: usize = 1024;
/// What of a text is kept where a record would not fit otherwise, in bytes.
const SHORT: usize = 96;
/// How many failures are kept then.
const FAILURES: usize = 16;

/// A service as the next life of PID 1 has to know it. All times count from PID 1's start, which all its lives share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub name: String,
    pub builtin: bool,
    /// As the table sees it.
    pub life: Life,
    /// With the PID it names the process for good.
    pub start_time: u64,
    /// Since when it is in this state, in nanoseconds since 1970.
    pub since: u64,
    /// When its clocks run out.
    pub timers: [Option<Duration>; 4],
    /// When the running stop loses its patience.
    pub stop_until: Option<Duration>,
    pub watchdog: Option<Duration>,
    pub status_text: Option<String>,
    pub spawned_after: Option<Duration>,
    pub up_after: Option<Duration>,
    pub start_took: Option<Duration>,
    /// The run of which that is.
    pub start_took_run: u64,
    /// The runs of those that it needs and minds, as they were when it was spawned.
    pub noted_runs: Vec<u64>,
}

impl Record {
    /// As bytes of a slot. What may be long is shortened where it does not fit otherwise.
    pub(super) fn seal(&self, number: u64) -> Option<[u8; SLOT]> {
        seal(number, self).or_else(|| {
            let mut short = self.clone();
            short.life.shorten(SHORT, FAILURES);
            short.status_text = short.status_text.map(|text| start_of(&text, SHORT).to_owned());
            seal(number, &short).or_else(|| {
                // One that minds hundreds.
                short.noted_runs.clear();
                seal(number, &short)
            })
        })
    }
}

/// The first bytes of a text, cut where a character ends.
pub fn start_of(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    text.get(..end).unwrap_or_default()
}
