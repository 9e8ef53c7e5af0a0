//! Faults are injected into PID 1 again and again under load, and what becomes of the services is counted.
//!
//! [`Load`] is what runs on the host; `kelson-chaos`, one of its services, injects the faults, asks and compares, since
//! it has to be quick and near: a machine is emulated, and all that is asked from outside goes through TLS. The test
//! starts it, has streams of its own open meanwhile, and reads its [`Verdict`]. `hack/chaos` makes the table of
//! `docs/reliability.md` of what all of them print.

pub mod ledger;
pub mod load;
pub mod toll;

use std::fmt;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub use ledger::Ledger;
pub use load::{JUDGE, Load, Plan};
pub use toll::Toll;

use crate::ctl::{Ctl, Service};

/// Begins the one line in which the judge tells its verdict.
pub const MARK: &str = "VERDICT ";
/// A judge that is silent for this long is looked at: it may have failed, or the connection to it.
const LOOK: Duration = Duration::from_secs(10);

/// The outcome of all faults of one kind.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Verdict {
    pub fault: String,
    pub times: u32,
    /// Services that were no longer as before a fault: another PID, another state, no longer up or healthy.
    pub lost: u64,
    /// Numbered lines, in the logs and in streams, and events that are missing or came twice.
    pub lines: u64,
    /// Restarts that were counted and did not happen, or happened and were not counted.
    pub miscounted: u64,
    /// Faults after which nothing was answered in time.
    pub hangs: u64,
    /// How many lines were looked at.
    pub written: u64,
    /// From the fault until `kelsonctl services` had answered, in milliseconds.
    pub median: f64,
    pub worst: f64,
    /// In words, what is wrong.
    pub problems: Vec<String>,
}

impl Verdict {
    /// Waits for the judge, and returns its verdict.
    #[track_caller]
    pub fn wait(client: &Ctl, patience: Duration) -> Verdict {
        let deadline = Instant::now() + patience;
        let found = |line: &str| {
            let text = line.split_once(MARK)?.1;
            Some(serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}")))
        };
        loop {
            // One stream that waits: a question is work for a machine that has enough of it.
            let mut lines = client.follow(&["logs", "-f", JUDGE]);
            while Instant::now() < deadline
                && let Some(line) = lines.next(LOOK)
            {
                if let Some(verdict) = found(&line) {
                    return verdict;
                }
            }
            // Looked at before the log is: when it has ended, all that it wrote is there.
            let ended = ended(client);
            let log = client.run(&["logs", JUDGE]).stdout;
            if let Some(verdict) = log.lines().find_map(found) {
                return verdict;
            }
            assert!(!ended, "the judge has failed:\n{log}");
            assert!(Instant::now() < deadline, "no verdict within {patience:?}:\n{log}");
        }
    }

    /// The lines that `hack/chaos` gathers, and then a panic unless all is zero.
    #[track_caller]
    pub fn tell(&self) {
        println!("{self}");
        let all = [self.lost, self.lines, self.miscounted, self.hangs];
        assert!(all == [0; 4] && self.problems.is_empty(), "{self:#?}");
        assert!(self.times > 0 && self.written > 0, "nothing was looked at: {self:#?}");
    }
}

/// A question may be overtaken by a fault, and then says nothing.
fn ended(client: &Ctl) -> bool {
    let output = client.run(&["-o", "json", "services"]);
    let all: Vec<Service> = serde_json::from_str(&output.stdout).unwrap_or_default();
    all.iter()
        .any(|service| service.name == JUDGE && ["finished", "failed"].contains(&service.state.as_str()))
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { fault, times, lost, lines, miscounted, hangs, written, median, worst, .. } = self;
        writeln!(f, "CHAOS {fault} {times} {lost} {lines} {miscounted} {hangs}")?;
        write!(f, "CHAOS-ANSWER {fault} {median:.1} {worst:.1} {written}")
    }
}
