//! The expected outcome of a case, by the documents alone: no code of Kelson is asked.

use super::cases::{Case, End, Moment, Policy, Trigger};

/// Failures that the budget of the service allows.
pub const ATTEMPTS: u32 = 1;

/// Of a service, beside what each run needs.
const CALLS: usize = 12;
/// Of one run: preparations, hooks, signals and their kind; events.
const CALLS_OF_A_RUN: usize = 12;

/// The most calls, and half of the most events, that this number of runs may take.
pub fn most_work(runs: u32) -> usize {
    CALLS + CALLS_OF_A_RUN * runs as usize
}

/// Where it stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    Up,
    Finished,
    Failed,
    /// An operator stopped it.
    Stopped,
    /// The host has stopped.
    Over,
}

/// The expected state of the service now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    pub rest: Rest,
    /// How often its main process has been started.
    pub runs: u32,
    /// How often its group has been restarted.
    pub group_restarts: u32,
    failures: u32,
}

impl Expected {
    /// After the first trigger, once nothing more holds the service up.
    pub fn after_first(case: &Case) -> Expected {
        let (runs, failures) = match case.moment {
            Moment::Waiting | Moment::Preparing => (0, 0),
            Moment::Up | Moment::Starting => (1, 0),
            Moment::Backoff => (1, 1),
        };
        let up = |runs, failures| Expected { rest: Rest::Up, runs, group_restarts: 0, failures };
        let goes_on = match case.moment {
            Moment::Backoff => up(2, 1),
            _ => up(1, 0),
        };
        match case.first {
            Trigger::None
            | Trigger::Reload
            | Trigger::UnreadReload
            | Trigger::Reexec
            | Trigger::Segv
            | Trigger::Suspend => goes_on,
            // An operator's start does not wait for the backoff, and gives a new budget.
            Trigger::Start => Expected { failures: 0, ..goes_on },
            Trigger::Restart => up(runs + 1, 0),
            Trigger::Stop => Expected { rest: Rest::Stopped, ..up(runs, failures) },
            Trigger::CrashLimit | Trigger::Shutdown => Expected { rest: Rest::Over, ..up(runs, failures) },
        }
    }

    pub fn after_end(mut self, case: &Case) -> Expected {
        if self.rest != Rest::Up {
            return self;
        }
        match case.end {
            End::Never => {}
            End::Success if case.policy == Policy::Forever => self.runs += 1,
            End::Success => self.rest = Rest::Finished,
            End::Failure => self.fails(case),
            End::Failures => {
                while self.rest == Rest::Up {
                    self.fails(case);
                }
            }
            End::Check => {
                while self.rest == Rest::Up {
                    self.check_fails(case);
                }
            }
        }
        self
    }

    fn fails(&mut self, case: &Case) {
        self.failures += 1;
        let is_left = self.failures <= ATTEMPTS;
        if case.policy == Policy::Once || (!is_left && (!case.by_group || self.group_restarts > 0)) {
            self.rest = Rest::Failed;
            return;
        }
        self.group_restarts += u32::from(!is_left);
        self.runs += 1;
    }

    /// Its check asks for a restart: of the group, where the file says so.
    fn check_fails(&mut self, case: &Case) {
        self.failures += 1;
        if case.policy == Policy::Once || self.failures > ATTEMPTS {
            self.rest = Rest::Failed;
            return;
        }
        self.group_restarts += u32::from(case.by_group);
        self.runs += 1;
    }

    pub fn after_second(mut self, case: &Case) -> Expected {
        match (case.second, self.rest) {
            (_, Rest::Over) => {}
            (Trigger::CrashLimit | Trigger::Shutdown, _) => self.rest = Rest::Over,
            (Trigger::Stop, Rest::Up) => self.rest = Rest::Stopped,
            (Trigger::Restart, _) | (Trigger::Start, Rest::Finished | Rest::Failed | Rest::Stopped) => {
                self.rest = Rest::Up;
                self.runs += 1;
            }
            _ => {}
        }
        self
    }
}
