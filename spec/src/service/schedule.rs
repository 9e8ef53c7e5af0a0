//! When a service is started by the clock.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The times at which a service is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Schedule {
    /// Expressions of [`Calendar`](crate::calendar::Calendar) as text: PID 1 compares them, and the helper that waits for
    /// the times reads them.
    pub calendar: Vec<String>,
    /// So long after its last start by the schedule.
    pub every: Option<Duration>,
    /// So long after the boot, once for each boot.
    pub after_boot: Option<Duration>,
    /// Each start is later by a random part of this.
    pub jitter: Duration,
    /// A time that passed while the host was down is made up for, once.
    pub catch_up: bool,
    pub overlap: Overlap,
}

/// What becomes of a start while the service still runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Overlap {
    /// It is left out.
    #[default]
    Forbid,
    /// The service is restarted.
    Replace,
    /// It comes after the end of the run; several become one.
    Queue,
}

impl Overlap {
    pub const ALL: [Overlap; 3] = [Overlap::Forbid, Overlap::Replace, Overlap::Queue];

    /// As the service file names it.
    pub fn name(self) -> &'static str {
        match self {
            Overlap::Forbid => "forbid",
            Overlap::Replace => "replace",
            Overlap::Queue => "queue",
        }
    }
}

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule {
            calendar: Vec::new(),
            every: None,
            after_boot: None,
            jitter: Duration::ZERO,
            catch_up: true,
            overlap: Overlap::default(),
        }
    }
}

impl Schedule {
    /// The most times of the calendar that it has.
    pub const MOST: usize = 32;
    /// The shortest time from one start to the next.
    pub const SHORTEST: Duration = Duration::from_secs(1);

    /// Whether it names no time.
    pub fn is_empty(&self) -> bool {
        self.calendar.is_empty() && self.every.is_none() && self.after_boot.is_none()
    }
}

/// In words, for people.
impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = self.calendar.clone();
        parts.extend(self.every.map(|every| format!("every {}", kelson_sys::units::duration(every))));
        parts.extend(
            self.after_boot.map(|after| format!("{} after the boot", kelson_sys::units::duration(after))),
        );
        f.write_str(&parts.join(", "))
    }
}
