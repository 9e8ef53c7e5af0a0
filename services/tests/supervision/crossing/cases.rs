//! The kinds of a service, and the events that it can meet.

use std::fmt::Debug;

use super::covering;

/// The condition that it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    Nothing,
    Up,
    Running,
    Finished,
    Down,
    /// It exists, and that is not known at once.
    Path,
    /// The host has a name, and that is not known at once.
    Network,
    TimeSynced,
    /// It is mounted, and that is not known at once.
    Mount,
    /// It is there, and that is not known at once.
    Device,
    /// It is up, and that is not known at once.
    Interface,
    Any,
}

/// Which hooks it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    None,
    Pre,
    PostStart,
    PreStop,
    Post,
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    AtOnce,
    Notify,
    Descriptor,
    Check,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    Forever,
    UntilSuccess,
    Once,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    Process,
    Container,
}

/// Its situation when the first trigger comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    Up,
    /// Its condition does not hold yet.
    Waiting,
    /// Its `pre` hook runs.
    Preparing,
    /// Its process is not ready.
    Starting,
    Backoff,
}

/// How its run ends after the first trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Never,
    Success,
    Failure,
    /// Each run fails, until its budget is used up.
    Failures,
    /// Its check fails from now on, and has it restarted.
    Check,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    None,
    Start,
    Stop,
    Restart,
    /// Its file has changed.
    Reload,
    /// The files are read again, and cannot be.
    UnreadReload,
    Reexec,
    /// PID 1 dies in the middle of what comes next.
    Segv,
    Suspend,
    CrashLimit,
    Shutdown,
}

impl Trigger {
    /// No service runs after it.
    pub fn ends_the_host(self) -> bool {
        matches!(self, Trigger::CrashLimit | Trigger::Shutdown)
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub number: usize,
    pub condition: Condition,
    pub hook: Hook,
    pub ready: Ready,
    pub policy: Policy,
    /// A used-up budget restarts its group.
    pub by_group: bool,
    pub workload: Workload,
    pub moment: Moment,
    pub end: End,
    pub first: Trigger,
    pub second: Trigger,
}

const CONDITIONS: [Condition; 12] = {
    use Condition::*;
    [Nothing, Up, Running, Finished, Down, Path, Network, TimeSynced, Mount, Device, Interface, Any]
};
const HOOKS: [Hook; 6] = [Hook::None, Hook::Pre, Hook::PostStart, Hook::PreStop, Hook::Post, Hook::All];
const READY: [Ready; 4] = [Ready::AtOnce, Ready::Notify, Ready::Descriptor, Ready::Check];
const POLICIES: [Policy; 3] = [Policy::Forever, Policy::UntilSuccess, Policy::Once];
const SCOPES: [bool; 2] = [false, true];
const WORKLOADS: [Workload; 2] = [Workload::Process, Workload::Container];
const MOMENTS: [Moment; 5] =
    [Moment::Up, Moment::Waiting, Moment::Preparing, Moment::Starting, Moment::Backoff];
const ENDS: [End; 5] = [End::Never, End::Success, End::Failure, End::Failures, End::Check];
const TRIGGERS: [Trigger; 11] = {
    use Trigger::*;
    [None, Start, Stop, Restart, Reload, UnreadReload, Reexec, Segv, Suspend, CrashLimit, Shutdown]
};

const SIZES: [usize; 10] = [
    CONDITIONS.len(),
    HOOKS.len(),
    READY.len(),
    POLICIES.len(),
    SCOPES.len(),
    WORKLOADS.len(),
    MOMENTS.len(),
    ENDS.len(),
    TRIGGERS.len(),
    TRIGGERS.len(),
];

impl Condition {
    /// It does not hold before the case says so.
    pub fn is_shut(self) -> bool {
        !matches!(
            self,
            Condition::Nothing
                | Condition::Path
                | Condition::Network
                | Condition::Mount
                | Condition::Device
                | Condition::Interface
        )
    }
}

/// Whether no service can be both.
fn clash(one: (usize, usize), other: (usize, usize)) -> bool {
    const MOMENT: usize = 6;
    const END: usize = 7;
    const FIRST: usize = 8;
    const SECOND: usize = 9;
    match (one, other) {
        ((0, level), (MOMENT, moment)) => MOMENTS[moment] == Moment::Waiting && !CONDITIONS[level].is_shut(),
        ((1, level), (MOMENT, moment)) => {
            MOMENTS[moment] == Moment::Preparing && !matches!(HOOKS[level], Hook::Pre | Hook::All)
        }
        ((2, level), (MOMENT, moment)) => {
            MOMENTS[moment] == Moment::Starting && READY[level] == Ready::AtOnce
        }
        ((3, level), (MOMENT, moment)) => {
            MOMENTS[moment] == Moment::Backoff && POLICIES[level] == Policy::Once
        }
        ((2, level), (END, end)) => ENDS[end] == End::Check && READY[level] != Ready::Check,
        ((END, end), (FIRST, level)) => TRIGGERS[level].ends_the_host() && ENDS[end] != End::Never,
        ((FIRST, first), (SECOND, second)) => {
            TRIGGERS[first].ends_the_host() && TRIGGERS[second] != Trigger::None
        }
        _ => false,
    }
}

/// All cases, and how many pairs come together in them.
pub fn all() -> (Vec<Case>, usize) {
    let (rows, pairs) = covering::cover(&SIZES, clash);
    let case = |(number, row): (usize, Vec<usize>)| Case {
        number,
        condition: CONDITIONS[row[0]],
        hook: HOOKS[row[1]],
        ready: READY[row[2]],
        policy: POLICIES[row[3]],
        by_group: SCOPES[row[4]],
        workload: WORKLOADS[row[5]],
        moment: MOMENTS[row[6]],
        end: ENDS[row[7]],
        first: TRIGGERS[row[8]],
        second: TRIGGERS[row[9]],
    };
    (rows.into_iter().enumerate().map(case).collect(), pairs)
}
