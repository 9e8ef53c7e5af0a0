//! The [`Runner`] of services that are plain processes: each run has a new cgroup and one child.

mod left;

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use kelson_spec::ServiceSpec;
use kelson_spec::features::{Feature, MissingFeature, OWN};
use kelson_spec::units::is_never;
use kelson_sys::device_program;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::cgroup::{Cgroup, without_cgroups};
use crate::command::{Command, Program};
use crate::processes::{Child, ExitReceiver, Processes};
use crate::runner::{
    Attachment, BoxFuture, KILL_DEADLINE, RunContext, Runner, RunnerError, Running, StopPlan, StopReport,
};
use crate::service_command::service_command;
use crate::{stop, strays};

/// Number of a service in the spawn record: FNV-1a of its name.
pub fn service_id(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Runs the process of one service.
///
/// A running service holds no descriptor here and no name of its own: its cgroup is opened when it is needed, and its
/// process is signalled by its PID under the lock of the reaper.
#[derive(Debug)]
pub struct ProcessRunner {
    processes: Processes,
    spec: Arc<ServiceSpec>,
    /// `None`: not made, or there are no cgroups on this host.
    cgroup: Option<CgroupState>,
    main: Option<Main>,
    /// A start that was given up may still be on its way to a child, or have one whose program runs.
    starting: Option<oneshot::Receiver<Child>>,
    /// Something was started that a stop has not yet cleared away.
    started: bool,
    warnings: Vec<String>,
    /// Executed instead of the file that the spec names, which is only the first argument then.
    binary: Option<Arc<OwnedFd>>,
    /// User and group to whom a delegated cgroup belongs, where the spec does not say it.
    owner: Option<(u32, u32)>,
}

/// Whether the cgroup can take a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CgroupState {
    Fresh,
    /// A run was started in it, or may have been, so the next run gets another cgroup:
    /// - The service may have enabled controllers for cgroups below it. Then it takes no process itself.
    /// - It may have been killed. Linux (seen on 6.18) holds its count of kills against that of the cgroup of the
    ///   process that clones, and kills a child that is cloned straight into it at birth.
    /// - What it counts, such as kills for memory, is to be of one run alone.
    Used,
    /// It was empty after a run, and removed at once: that says as much as a look at it, and costs less.
    Removed,
}

/// The process of the current run.
#[derive(Debug)]
struct Main {
    pid: i32,
    exit: ExitReceiver,
    /// It was sent a stop signal.
    is_signalled: bool,
}

impl Main {
    fn new(pid: i32, exit: ExitReceiver) -> Main {
        Main { pid, exit, is_signalled: false }
    }
}

impl ProcessRunner {
    pub fn new(processes: Processes, spec: Arc<ServiceSpec>) -> ProcessRunner {
        ProcessRunner {
            processes,
            spec,
            cgroup: None,
            main: None,
            starting: None,
            started: false,
            warnings: Vec::new(),
            binary: None,
            owner: None,
        }
    }

    /// For the image's user of a container.
    pub(crate) fn set_owner(&mut self, uid: u32, gid: u32) {
        self.owner = Some((uid, gid));
    }

    /// Runs this open file under the name that the spec's command begins with: a personality of PID 1's own binary.
    #[must_use]
    pub fn with_binary(mut self, binary: Arc<OwnedFd>) -> ProcessRunner {
        self.binary = Some(binary);
        self
    }

    /// Where its cgroup is, or is to be.
    fn cgroup(&self) -> Option<Cgroup> {
        self.processes.cgroups().map(|root| root.cgroup(&self.spec.name))
    }

    /// The cgroup, where it is there.
    fn used_cgroup(&self) -> Option<Cgroup> {
        self.cgroup().filter(|_| matches!(self.cgroup, Some(CgroupState::Fresh | CgroupState::Used)))
    }

    async fn open_cgroup(&mut self) -> Result<(), RunnerError> {
        let Some(cgroup) = self.cgroup() else {
            self.warnings = without_cgroups(&self.spec.resources);
            return Ok(());
        };
        let is_new = cgroup.make()?;
        self.prepare(&cgroup, is_new).await?;
        self.cgroup = Some(CgroupState::Fresh);
        Ok(())
    }

    fn user(&self) -> Option<(u32, u32)> {
        self.owner.or_else(|| self.spec.user.as_ref().map(|user| (user.uid, user.gid)))
    }

    /// Makes it ready for a run. Where this is broken off, the next run or the close goes on with it.
    async fn prepare(&mut self, cgroup: &Cgroup, is_new: bool) -> Result<(), RunnerError> {
        self.cgroup = Some(CgroupState::Used);
        self.warnings = cgroup.prepare(is_new, &self.spec, self.user()).await?;
        Ok(())
    }

    /// Each run after the first gets a new cgroup.
    async fn renew_cgroup(&mut self, cgroup: &Cgroup) -> Result<(), RunnerError> {
        match self.cgroup {
            Some(CgroupState::Used) => self.prepare(cgroup, false).await?,
            Some(CgroupState::Removed) => {
                let is_new = cgroup.make()?;
                self.prepare(cgroup, is_new).await?;
            }
            Some(CgroupState::Fresh) | None => self.cgroup = Some(CgroupState::Used),
        }
        Ok(())
    }

    fn take_up(&mut self, attachment: Attachment) -> Result<Option<Running>, RunnerError> {
        let Attachment { pid, start_time, opened, .. } = attachment;
        if !opened {
            return Ok(None);
        }
        self.refuse_while_it_runs()?;
        if let Some(cgroup) = self.cgroup() {
            cgroup.make()?;
            self.cgroup = Some(CgroupState::Used);
            self.warnings = cgroup.set_up(&self.spec, self.user())?;
        }
        self.started = true;
        let child = if pid == 0 { None } else { self.processes.adopt(pid, start_time)? };
        Ok(child.map(|Child { exit, .. }| {
            self.main = Some(Main::new(pid, exit.clone()));
            Running { pid, start_time, stop_signal: None, addresses: Vec::new(), exit: Box::pin(exit) }
        }))
    }

    fn refuse_while_it_runs(&self) -> Result<(), RunnerError> {
        if self.main.as_ref().is_some_and(|main| main.exit.exited().is_none()) {
            return Err(RunnerError::new(format!("service {} runs already", self.spec.name)));
        }
        Ok(())
    }

    async fn start(&mut self, context: RunContext) -> Result<Running, RunnerError> {
        let run = context.run;
        // A hook is a program of its own, not the personality that the service is.
        let binary = self.binary.as_ref().filter(|_| context.command.is_none());
        let mut command = service_command(&self.spec, context, &self.processes)?;
        if let Some(binary) = binary {
            let binary = binary
                .try_clone()
                .map_err(|error| RunnerError::system("cannot hand over Kelson's own binary", &error))?;
            command.program = Program::Descriptor(binary);
        }
        self.start_command(run, command).await
    }

    /// Starts this command as the main process of a run, in a new cgroup.
    pub(crate) async fn start_command(&mut self, run: u64, command: Command) -> Result<Running, RunnerError> {
        self.refuse_while_it_runs()?;
        let cgroup = self.cgroup().filter(|_| self.cgroup.is_some());
        if let Some(cgroup) = &cgroup {
            self.renew_cgroup(cgroup).await?;
        }
        let deadline = match is_never(self.spec.start_timeout) {
            // To be executed, a program needs no longer.
            true => ServiceSpec::START_TIMEOUT,
            false => self.spec.start_timeout,
        };
        let mut command = command.owner(service_id(&self.spec.name), run).deadline(deadline);
        if const { OWN.has(Feature::Units) }
            && let Some(program) = command.devices.take()
        {
            limit_devices(cgroup.as_ref(), program.as_fd())?;
        }
        if let Some(cgroup) = cgroup {
            let leaf = cgroup.of_main(self.spec.delegate);
            command = command.cgroup(leaf.folder()?, leaf.name());
        }
        self.started = true;
        let (done, starting) = oneshot::channel();
        self.starting = Some(starting);
        command.done = Some(done);
        let made = self.processes.spawn(command).await;
        self.starting = None;
        let Child { pid, start_time, exit, .. } = made?;
        self.main = Some(Main::new(pid, exit.clone()));
        Ok(Running { pid, start_time, stop_signal: None, addresses: Vec::new(), exit: Box::pin(exit) })
    }

    async fn end(&mut self, plan: StopPlan) -> Result<StopReport, RunnerError> {
        let mut report = StopReport::default();
        self.take_start().await;
        if let Some(main) = &mut self.main {
            main.is_signalled |= plan.signal != 0;
        }
        let is_left = self.leaves_behind();
        let by_itself = !is_left && self.main.as_ref().is_some_and(|main| main.exit.exited().is_some());
        if let Some(main) = self.main.as_ref().filter(|main| main.exit.exited().is_none()) {
            let cgroup = self.used_cgroup();
            let send = |signal| self.processes.signal(main.pid, &main.exit, signal);
            let ended = || main.exit.clone();
            let stop = &self.spec.stop;
            report = stop::end(main.pid, plan, (stop, stop.signal), cgroup.as_ref(), send, ended).await;
        }
        if !is_left && let Some(ended) = self.end_leaderless(plan).await {
            report = ended;
        }
        let ran = self.started;
        // Before the cgroup may be removed, and again after all in it have ended.
        report.out_of_memory = ran && self.was_out_of_memory();
        if let Some(cgroup) = self.used_cgroup().filter(|_| !self.remove_empty() && by_itself) {
            report.outlived = cgroup.count_of_run();
        }
        let strays;
        (strays, report.left_behind) = self.clear().await?;
        if by_itself {
            report.outlived = report.outlived.max(strays);
        }
        report.out_of_memory |= ran && self.was_out_of_memory();
        Ok(report)
    }

    /// Whether the kernel killed for memory since the run began: its cgroup was a new one then.
    fn was_out_of_memory(&self) -> bool {
        self.used_cgroup().is_some_and(|cgroup| cgroup.memory_kills() > 0)
    }

    /// Removes the cgroup of a run that has left nothing in it. Returns whether it is gone.
    fn remove_empty(&mut self) -> bool {
        let is_gone = self.started && self.used_cgroup().is_some_and(|cgroup| cgroup.remove_empty());
        if is_gone {
            self.cgroup = Some(CgroupState::Removed);
        }
        is_gone
    }

    /// Waits for a start that was given up: a spawner that has just begun would put its child, dead at birth, into a cgroup
    /// that was seen empty. One whose program ran by then is the run's process.
    async fn take_start(&mut self) {
        let Some(starting) = &mut self.starting else { return };
        if let Ok(Ok(Child { pid, exit, .. })) = timeout(KILL_DEADLINE, starting).await {
            self.main = Some(Main::new(pid, exit));
        }
        self.starting = None;
    }

    /// Ends whatever the service has left. Returns how many processes were found by their mark, where there is no cgroup
    /// to tell, and how many outlived it.
    async fn clear(&mut self) -> Result<(u32, u32), RunnerError> {
        if !self.started && self.main.is_none() {
            return Ok((0, 0));
        }
        self.take_start().await;
        let (strays, mut left) = match self.used_cgroup() {
            Some(cgroup) => {
                if self.leaves_behind() {
                    cgroup.leave_behind(&self.spec.resources);
                }
                (0, cgroup.clear().await?)
            }
            None if self.cgroup.is_some() || self.leaves_behind() => (0, 0),
            None => {
                let mark = format!("{}:{}:", self.processes.incarnation(), self.spec.name);
                strays::clear(mark, KILL_DEADLINE).await
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
        Ok((strays, left))
    }

    async fn end_all(&mut self) -> Result<(), RunnerError> {
        let left = self.clear().await;
        if let Some(cgroup) = self.used_cgroup() {
            // It is empty as a rule: then this is all.
            if cgroup.remove().is_err() {
                if left.as_ref().is_ok_and(|(_, left)| *left == 0) {
                    cgroup.clear().await?;
                }
                self.cgroup = None;
                cgroup.remove()?;
            }
        }
        self.cgroup = None;
        left.map(|_| ())
    }
}

/// Keeps all that is to run in a cgroup from devices, by a program that `kelson-task` has made.
fn limit_devices(cgroup: Option<&Cgroup>, program: BorrowedFd<'_>) -> Result<(), RunnerError> {
    let cgroup =
        cgroup.ok_or_else(|| RunnerError::new("security.devices needs cgroups, and there are none"))?;
    let attached = device_program::attach(program, cgroup.folder()?.as_fd());
    attached.map_err(|errno| RunnerError::system("cannot keep it from devices", &errno.into()))
}

impl Runner for ProcessRunner {
    fn owner(&mut self) -> BoxFuture<'_, Result<(u32, u32), RunnerError>> {
        Box::pin(std::future::ready(Ok(self.user().unwrap_or_default())))
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn open(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(self.open_cgroup())
    }

    fn run(&mut self, context: RunContext) -> BoxFuture<'_, Result<Running, RunnerError>> {
        Box::pin(self.start(context))
    }

    fn attach(&mut self, attachment: Attachment) -> BoxFuture<'_, Result<Option<Running>, RunnerError>> {
        Box::pin(std::future::ready(self.take_up(attachment)))
    }

    fn stop(&mut self, plan: StopPlan) -> BoxFuture<'_, Result<StopReport, RunnerError>> {
        Box::pin(self.end(plan))
    }

    fn is_signalled(&self) -> bool {
        self.main.as_ref().is_some_and(|main| main.is_signalled)
    }

    fn find_main(&mut self, named: Option<i32>) -> BoxFuture<'_, Result<Running, RunnerError>> {
        Box::pin(std::future::ready(match const { OWN.has(Feature::Units) } {
            true => self.find(named),
            false => Err(RunnerError::new(MissingFeature(Feature::Units).to_string())),
        }))
    }

    fn is_empty(&self) -> bool {
        !self.used_cgroup().is_some_and(|cgroup| cgroup.is_populated())
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(self.end_all())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;
    use crate::cgroup::CgroupRoot;
    use crate::processes::Options;

    const AT_ONCE: StopPlan = StopPlan { signal: libc::SIGTERM, timeout: Duration::ZERO };

    /// The folder is played: there is no memory controller to be had everywhere.
    #[tokio::test]
    async fn a_run_in_which_the_kernel_killed_for_memory_says_so_once() {
        let own = std::env::temp_dir().join(format!("kelson-memory-{}", std::process::id()));
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("cgroup.controllers"), "memory\n").unwrap();
        let options = Options { cgroups: Some(CgroupRoot::below(&own).unwrap()), ..Options::default() };
        let spec = Arc::new(ServiceSpec::process("web", ["/bin/true"]));
        let mut runner = ProcessRunner::new(Processes::new(options).unwrap(), spec);
        runner.open().await.unwrap();
        let events = runner.cgroup().unwrap().path().join("memory.events");
        let cgroup = runner.cgroup().unwrap();
        let mut ends = Vec::new();
        for text in [None, Some("oom 1\noom_kill 0\n"), Some("oom 1\noom_kill 1\n"), None] {
            runner.renew_cgroup(&cgroup).await.unwrap();
            if let Some(text) = text {
                fs::write(&events, text).unwrap();
            }
            runner.started = true;
            ends.push(runner.end(AT_ONCE).await.unwrap().out_of_memory);
            // The kernel's own files go with the folder.
            let _ = fs::remove_file(&events);
        }
        assert_eq!(ends, [false, false, true, false]);
        assert!(!runner.end(AT_ONCE).await.unwrap().out_of_memory, "without a run there is nothing to tell");
        runner.close().await.unwrap();
        fs::remove_dir_all(&own).unwrap();
    }
}
