//! What the command of a service leaves behind: the processes of one that forks, and those that a stop spares.

use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::{Readiness, StopMode, StopSpec};

use super::{Main, ProcessRunner};
use crate::cgroup::Cgroup;
use crate::processes::Child;
use crate::runner::{Exit, RunnerError, Running, StopPlan, StopReport};
use crate::stop;

/// How many processes that a command has left behind are looked at.
const MOST_LEFT: usize = 1000;

impl ProcessRunner {
    /// The main process that its command has left, as [`Runner::find_main`](crate::Runner::find_main) finds it.
    pub(super) fn find(&mut self, named: Option<i32>) -> Result<Running, RunnerError> {
        let cgroup = self.used_cgroup().ok_or_else(|| {
            RunnerError::new("what its command left behind cannot be found: this host has no cgroups")
        })?;
        let processes = cgroup.processes(MOST_LEFT);
        let started = |pid: &i32| Some((*pid, self.processes.child_started(*pid)?));
        let main = match named {
            Some(pid) if !processes.contains(&pid) => {
                return Err(RunnerError::new(format!("process {pid} is none of the service's")));
            }
            Some(pid) => started(&pid),
            None if processes.is_empty() => {
                return Err(RunnerError::new("its command has ended and left no process"));
            }
            None => {
                let mut children = processes.iter().filter_map(started);
                children.next().filter(|_| children.next().is_none())
            }
        };
        let child = match main {
            Some((pid, start_time)) => self.processes.adopt(pid, start_time)?,
            None => None,
        };
        let (stop_signal, addresses) = (None, Vec::new());
        Ok(match child {
            Some(Child { pid, start_time, exit, .. }) => {
                self.main = Some(Main::new(pid, exit.clone()));
                Running { pid, start_time, stop_signal, addresses, exit: Box::pin(exit) }
            }
            None => {
                self.main = None;
                let exit = Box::pin(async move {
                    match cgroup.emptied().await {
                        Ok(()) => Exit::Status(0),
                        Err(_) => Exit::Lost,
                    }
                });
                Running { pid: 0, start_time: 0, stop_signal, addresses, exit }
            }
        })
    }

    /// Whether what the main process leaves runs on.
    pub(super) fn leaves_behind(&self) -> bool {
        self.spec.stop.mode == StopMode::Process && const { OWN.has(Feature::Units) }
    }

    /// Ends what the command has left, where that has no main process, or one that is not known yet.
    pub(super) async fn end_leaderless(&mut self, plan: StopPlan) -> Option<StopReport> {
        let forks = const { OWN.has(Feature::Units) } && self.spec.readiness == Readiness::Forks;
        if !forks
            || plan.timeout.is_zero()
            || self.main.as_ref().is_some_and(|main| main.exit.exited().is_none())
        {
            return None;
        }
        let cgroup = self.used_cgroup().filter(Cgroup::is_populated)?;
        let stop = StopSpec { mode: StopMode::Cgroup, ..self.spec.stop.clone() };
        let ended = || cgroup.emptied();
        Some(stop::end(0, plan, (&stop, stop.signal), Some(&cgroup), |_| {}, ended).await)
    }
}
