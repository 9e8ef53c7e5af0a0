//! The [`Runner`] of services that are plain processes: a cgroup for all runs, a child a run.

use std::sync::Arc;
use std::time::Duration;

use kelson_spec::ServiceSpec;
use tokio::time::timeout;

use crate::cgroup::{Cgroup, CgroupRoot};
use crate::command::{Command, Program};
use crate::processes::{Child, ExitReceiver, Processes, signal_pidfd};
use crate::runner::{BoxFuture, RunContext, Runner, RunnerError, Running, StopPlan, StopReport};
use crate::strays;

/// How long to wait for processes to end that were sent SIGKILL. One that takes longer sleeps where no signal reaches
/// it (a dead disk): it is left behind and counted.
const KILL_DEADLINE: Duration = Duration::from_secs(2);

/// Number of a service in the spawn record: FNV-1a of its name.
pub fn service_id(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Runs the process of one service.
#[derive(Debug)]
pub struct ProcessRunner {
    processes: Processes,
    spec: Arc<ServiceSpec>,
    cgroup: Option<Cgroup>,
    main: Option<Main>,
    /// Something was started that a stop has not yet cleared away.
    started: bool,
    warnings: Vec<String>,
    /// Executed instead of the file that the spec names, which is only the first argument then.
    binary: Option<Arc<std::os::fd::OwnedFd>>,
}

/// The process of the current run.
#[derive(Debug)]
struct Main {
    pidfd: std::os::fd::OwnedFd,
    exit: ExitReceiver,
}

impl ProcessRunner {
    pub fn new(processes: Processes, spec: Arc<ServiceSpec>) -> ProcessRunner {
        ProcessRunner {
            processes,
            spec,
            cgroup: None,
            main: None,
            started: false,
            warnings: Vec::new(),
            binary: None,
        }
    }

    /// Runs this open file under the name that the spec's command begins with: a personality of PID 1's own binary.
    #[must_use]
    pub fn with_binary(mut self, binary: Arc<std::os::fd::OwnedFd>) -> ProcessRunner {
        self.binary = Some(binary);
        self
    }

    async fn open_cgroup(&mut self) -> Result<(), RunnerError> {
        let Some(root) = self.processes.cgroups().cloned() else { return Ok(()) };
        if self.cgroup.is_none() {
            self.cgroup = Cgroup::open(&root, &self.spec.name)?;
        }
        // Processes and limits of an earlier life.
        if let Some(old) = &self.cgroup {
            let left = clear_cgroup(old).await?;
            if left > 0 {
                let name = &self.spec.name;
                return Err(RunnerError::new(format!(
                    "{left} processes of an earlier life of service {name} cannot be killed"
                )));
            }
            old.remove()?;
            self.cgroup = None;
        }
        self.make_cgroup(&root)
    }

    fn make_cgroup(&mut self, root: &CgroupRoot) -> Result<(), RunnerError> {
        let cgroup = Cgroup::create(root, &self.spec.name)?;
        self.warnings = cgroup.limit(&self.spec.resources);
        self.cgroup = Some(cgroup);
        Ok(())
    }

    /// A run after one whose left-overs were killed gets a new cgroup: the old one takes no process any more.
    fn renew_cgroup(&mut self) -> Result<(), RunnerError> {
        match (self.processes.cgroups().cloned(), &self.cgroup) {
            (Some(root), Some(old)) if old.is_spent() => {
                old.remove()?;
                self.make_cgroup(&root)
            }
            _ => Ok(()),
        }
    }

    async fn start(&mut self, context: RunContext) -> Result<Running, RunnerError> {
        if self.main.as_ref().is_some_and(|main| main.exit.exited().is_none()) {
            return Err(RunnerError::new(format!("service {} runs already", self.spec.name)));
        }
        self.renew_cgroup()?;
        let run = context.run;
        let mut command = Command::from_spec(&self.spec, context, &self.processes)?
            .owner(service_id(&self.spec.name), run)
            .deadline(self.spec.start_timeout);
        if let Some(binary) = &self.binary {
            let binary = binary
                .try_clone()
                .map_err(|error| RunnerError::system("cannot hand over Kelson's own binary", &error))?;
            command = command.program(Program::Descriptor(binary));
        }
        if let Some(cgroup) = &self.cgroup {
            command = command.cgroup(cgroup.folder(), cgroup.name());
        }
        self.started = true;
        let Child { pid, pidfd, start_time, exit } = self.processes.spawn(command).await?;
        self.main = Some(Main { pidfd, exit: exit.clone() });
        Ok(Running { pid, start_time, exit: Box::pin(exit) })
    }

    async fn end(&mut self, plan: StopPlan) -> Result<StopReport, RunnerError> {
        let mut killed = false;
        if let Some(main) = self.main.as_ref().filter(|main| main.exit.exited().is_none()) {
            signal_pidfd(&main.pidfd, plan.signal);
            // What is stopped or frozen would sleep through it.
            signal_pidfd(&main.pidfd, libc::SIGCONT);
            if let Some(cgroup) = self.cgroup.as_ref().filter(|cgroup| cgroup.is_frozen())
                && let Err(error) = cgroup.thaw()
            {
                tracing::warn!("{error}");
            }
            killed = timeout(plan.timeout, main.exit.clone()).await.is_err();
            if killed {
                signal_pidfd(&main.pidfd, libc::SIGKILL);
            }
        }
        let left_behind = self.clear().await?;
        Ok(StopReport { killed, left_behind })
    }

    /// Ends whatever the service has left. Returns how many processes outlived it.
    async fn clear(&mut self) -> Result<u32, RunnerError> {
        if !self.started && self.main.is_none() {
            return Ok(0);
        }
        let mut left = match &self.cgroup {
            Some(cgroup) => clear_cgroup(cgroup).await?,
            None => {
                let mark = format!("{}:{}:", self.processes.life(), self.spec.name);
                strays::clear(mark, KILL_DEADLINE).await.1
            }
        };
        if let Some(main) = &self.main {
            // Its status may still be on its way through the reaper.
            if timeout(KILL_DEADLINE, main.exit.clone()).await.is_ok() {
                self.main = None;
            } else {
                left = left.max(1);
            }
        }
        self.started = left > 0;
        Ok(left)
    }

    async fn end_all(&mut self) -> Result<(), RunnerError> {
        let left = self.clear().await;
        if let Some(cgroup) = self.cgroup.take() {
            if left.as_ref().is_ok_and(|left| *left == 0) {
                clear_cgroup(&cgroup).await?;
            }
            cgroup.remove()?;
        }
        left.map(|_| ())
    }
}

/// Kills all that is in a cgroup and waits for its end. Returns how many outlived it. One read where it is empty.
async fn clear_cgroup(cgroup: &Cgroup) -> Result<u32, RunnerError> {
    if !cgroup.is_populated() {
        return Ok(0);
    }
    cgroup.kill()?;
    if cgroup.unpopulated(KILL_DEADLINE).await? {
        return Ok(0);
    }
    Ok(u32::try_from(cgroup.processes(10_000).len()).unwrap_or(u32::MAX).max(1))
}

impl Runner for ProcessRunner {
    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn open(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(self.open_cgroup())
    }

    fn run(&mut self, context: RunContext) -> BoxFuture<'_, Result<Running, RunnerError>> {
        Box::pin(self.start(context))
    }

    fn stop(&mut self, plan: StopPlan) -> BoxFuture<'_, Result<StopReport, RunnerError>> {
        Box::pin(self.end(plan))
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(self.end_all())
    }
}
