//! Everything that makes and reaps processes in PID 1: one place for each.
//!
//! Children are made by spawner threads ([`spawner`]), since a start waits for the program's first pages, and a disk
//! may be slow or dead. They are reaped by [`Processes::reap`] on the thread that reads SIGCHLD. A child may end, and
//! be reaped, before its spawner has reported it: the kernel wrote its PID where the reaper looks, so the
//! status waits there for the spawner. All bookkeeping is under one lock, held for a few instructions or one call
//! that cannot wait; a PID is only ever signalled under that lock, where nothing can reap it.

mod adopting;
mod child;
mod job;
mod pending;
mod reaper;
mod shared;
mod slots;
mod spawner;
mod start_time;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use kelson_spec::service::ResourceLimit;
use kelson_sys::{lock, pidfd, process};
use nix::errno::Errno;

pub use child::{Child, ExitReceiver};
pub use reaper::ReapReport;
pub(crate) use reaper::has_ended;
pub use shared::Processes;
pub use slots::Leftover;

use crate::cgroup::{CgroupRoot, Usage};
use crate::command::Command;
use crate::runner::RunnerError;
use crate::seccomp::Filter;
use crate::spawn::SpawnError;
use crate::spawn::clone::Refused;
use crate::spawn::plan::Inheritance;
use crate::spawn::window::Window;
use job::Job;
use pending::Pending;
use shared::{STUCK, Shared};
use slots::Slots;

/// How [`Processes`] is set up.
#[derive(Debug, Default)]
pub struct Options {
    /// Threads of each kind that start children, two where it says nothing; more are added, up to 8, while all of them
    /// hang.
    pub spawners: Option<usize>,
    /// Given to every child before its own: what PID 1 raised for itself (open files) is given back here.
    pub limits: Vec<ResourceLimit>,
    /// Bit n-1: signal n is blocked in every child. 0: none.
    pub signal_mask: u64,
    /// `oom_score_adj` of every child, where PID 1 changed its own. Needs `/proc`.
    pub oom_score: Option<i16>,
    /// The spawn record that outlives a crash: a file on a memory file system.
    pub record: Option<OwnedFd>,
    /// Below which services get their cgroups. `None`: strays are found by their `KELSON_RUN`, best effort.
    pub cgroups: Option<CgroupRoot>,
    /// The name of this incarnation of the host in `KELSON_RUN`. Empty: made of the boot id and PID 1's start
    /// time.
    pub incarnation: String,
}

/// Sends a signal to the process that had this PID and start time, whichever its parent is.
///
/// # Errors
/// It has ended, or the kernel refuses.
pub fn signal_process(pid: i32, start_time: u64, signal: i32) -> Result<(), RunnerError> {
    let cannot = |error: &io::Error| {
        let name = kelson_spec::signal_name(signal);
        RunnerError::system(format_args!("cannot send {name} to process {pid}"), error)
    };
    let ended = || RunnerError::new(format!("process {pid} has ended"));
    let pidfd = pidfd::open(pid).map_err(|error| cannot(&error))?.ok_or_else(ended)?;
    // Read with the pidfd open: then both mean the same process, or it has ended.
    if process::started(pid).map_err(|error| cannot(&error))? != Some(start_time) {
        return Err(ended());
    }
    match pidfd::send(&pidfd, signal) {
        Ok(()) => Ok(()),
        Err(Errno::ESRCH) => Err(ended()),
        Err(errno) => Err(cannot(&errno.into())),
    }
}

impl Processes {
    /// Sets up; threads are started by the first spawn. Do it while this process has few descriptors: low numbers are
    /// reserved for the spawners, without which each start costs more the more descriptors there are. Set dispositions
    /// of signals before: those ignored now are what children are freed of.
    ///
    /// # Errors
    /// When the spawn record cannot be mapped.
    pub fn new(options: Options) -> Result<Processes, RunnerError> {
        let (slots, leftovers) = Slots::new(options.record)
            .map_err(|error| RunnerError::system("cannot map the spawn record", &error))?;
        let incarnation =
            if options.incarnation.is_empty() { start_time::incarnation() } else { options.incarnation };
        let inheritance = Inheritance {
            limits: options.limits,
            signal_mask: options.signal_mask,
            oom_score: options.oom_score,
            ignored: spawner::ignored_signals(),
            later_mounts: options.cgroups.is_some(),
            own_output: Inheritance::own_output(),
            null: OnceLock::new(),
        };
        let spawners = options.spawners.unwrap_or(2).clamp(1, spawner::MOST);
        let shared = Shared {
            state: Mutex::default(),
            queued: Condvar::new(),
            queued_filtered: Condvar::new(),
            cannot_filter: AtomicBool::new(false),
            slots: Arc::new(slots),
            leftovers,
            inheritance,
            refused: Refused::default(),
            spawners,
            windows: Window::reserve(spawners.saturating_mul(2)).into_iter().map(Mutex::new).collect(),
            cgroups: options.cgroups,
            incarnation,
            filters: Mutex::default(),
        };
        Ok(Processes { shared: Arc::new(shared) })
    }

    /// Makes a child. Resolves once it has executed its program, or could not.
    ///
    /// Dropping the future gives the start up: a child already made is killed, one about to be made never executes.
    /// Needs a Tokio runtime with time.
    ///
    /// # Errors
    /// The step that failed, or the one it hung in when the command's deadline passed.
    pub async fn spawn(&self, command: Command) -> Result<Child, SpawnError> {
        let deadline = command.deadline;
        let pending =
            Pending::new(&self.shared, Job::new(command, !self.shared.cannot_filter.load(Ordering::Relaxed)));
        let mut waited = Duration::ZERO;
        loop {
            let step = STUCK.min(deadline.saturating_sub(waited));
            tokio::select! {
                biased;
                result = pending.result() => return result,
                () = tokio::time::sleep(step) => waited = waited.saturating_add(step),
            }
            if waited >= deadline {
                return Err(pending.late(deadline));
            }
            self.shared.relieve();
        }
    }

    /// Sends a signal to the child `pid` whose end `exit` tells. Nothing happens when it has ended: under the lock a
    /// PID that is known is not reaped. So a caller that keeps the two needs no pidfd.
    pub fn signal(&self, pid: i32, exit: &ExitReceiver, signal: i32) {
        self.signal_to(pid, pid, exit, signal);
    }

    /// As [`Processes::signal`], to the whole process group that the child leads: every child leads a session, and so a
    /// group, of its own number. Until the child is reaped that number is its own.
    pub fn signal_group(&self, leader: i32, exit: &ExitReceiver, signal: i32) {
        self.signal_to(leader.wrapping_neg(), leader, exit, signal);
    }

    fn signal_to(&self, target: i32, child: i32, exit: &ExitReceiver, signal: i32) {
        let state = lock(&self.shared.state);
        if let Some(Some(cell)) = state.children.get(&child)
            && exit.is_of(cell)
        {
            // SAFETY: numbers only, of a child that nobody has reaped.
            unsafe { libc::kill(target, signal) };
        }
    }

    /// Whether this very process is a child that has not been reaped. A `start_time` of 0 is not known and not
    /// compared.
    pub(crate) fn is_alive(&self, pid: i32, start_time: u64) -> bool {
        let state = lock(&self.shared.state);
        matches!(state.children.get(&pid), Some(Some(_)))
            && (start_time == 0 || process::start_time(pid) == Some(start_time))
    }

    /// Children that an earlier incarnation was making when it ended.
    pub fn leftovers(&self) -> &[Leftover] {
        &self.shared.leftovers
    }

    /// Frees the slot of a leftover that has been adopted, ended or found to be a stranger.
    pub fn forget(&self, leftover: Leftover) {
        self.shared.slots.forget(leftover);
    }

    /// Below which services get their cgroups, where there are any.
    pub fn cgroups(&self) -> Option<&CgroupRoot> {
        self.shared.cgroups.as_ref()
    }

    /// The default seccomp profile for who can hold the capabilities `held`; compiled once.
    pub fn default_filter(&self, held: u64) -> Arc<Filter> {
        lock(&self.shared.filters).default_profile(held)
    }

    /// The resources that the cgroup of a service uses now; empty where there is no cgroup.
    pub fn usage(&self, service: &str) -> Usage {
        self.cgroups().map(|root| root.cgroup(service).usage()).unwrap_or_default()
    }

    /// Names this incarnation of the host: the first part of `KELSON_RUN`.
    pub fn incarnation(&self) -> &str {
        &self.shared.incarnation
    }
}
