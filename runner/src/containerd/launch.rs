//! One run of a container, from the leftovers of the last to a process that runs.
//!
//! It goes on in a task of its own: a start that is given up half way must not leave a process that nobody
//! knows. A caller that gives it up reports that, and waits for a moment until it has stopped where it is.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use containerd_client::types::v1::{Process, Status};
use kelson_containerd::{Containerd, Streams, TaskProcess};
use kelson_spec::ServiceSpec;
use prost_types::Any;
use tokio::sync::watch as channel;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::pidfd::ProcessHandle;
use super::retry::RetryWindow;
use super::watch::{self, Ending};
use super::{KILL_DEADLINE, RETRY_WINDOW, bundle, leftovers};
use crate::cgroup::CgroupRoot;
use crate::runner::{Origin, RunnerError};

/// A process that runs.
#[derive(Debug)]
pub(super) struct Launched {
    pub(super) pid: i32,
    /// `None`: it had ended before it could be looked at.
    pub(super) handle: Arc<Option<ProcessHandle>>,
    pub(super) ending: Ending,
    /// It was sent a stop signal.
    pub(super) is_signalled: bool,
}

/// The parts of a run.
pub(super) struct Launch {
    pub(super) containerd: Containerd,
    pub(super) service: String,
    pub(super) service_spec: Arc<ServiceSpec>,
    /// User and group of the container's main process.
    pub(super) owner: (u32, u32),
    pub(super) snapshotter: String,
    pub(super) spec: Any,
    pub(super) cgroups: Option<CgroupRoot>,
    pub(super) runtime_dir: Arc<Path>,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// A run on its way.
#[derive(Debug)]
pub(super) struct Launching {
    task: JoinHandle<Result<Launched, RunnerError>>,
    wanted: channel::Sender<bool>,
}

impl Launching {
    pub(super) fn begin(launch: Launch) -> Launching {
        let (wanted, still) = channel::channel(true);
        Launching { task: kelson_sys::spawn(launch.carry_out(Wanted(still))), wanted }
    }

    /// Cancelled by dropping; it goes on then.
    pub(super) async fn result(&mut self) -> Result<Launched, RunnerError> {
        match (&mut self.task).await {
            Ok(result) => result,
            Err(_) => Err(RunnerError::new("the start of a container broke off")),
        }
    }

    /// Ends it. Returns the process where it has come so far.
    pub(super) async fn give_up(mut self) -> Option<Launched> {
        self.wanted.send_replace(false);
        match timeout(KILL_DEADLINE, self.result()).await {
            Ok(result) => result.ok(),
            Err(_) => {
                // containerd notices that too, and undoes its operation.
                self.task.abort();
                None
            }
        }
    }
}

/// Whether a start is still wanted, as its task sees it.
struct Wanted(channel::Receiver<bool>);

impl Wanted {
    fn check(&self) -> Result<(), RunnerError> {
        if *self.0.borrow() { Ok(()) } else { Err(RunnerError::new("the start was given up")) }
    }

    /// Waits before another try. Returns false when there is to be none.
    async fn bears(&mut self, window: &mut RetryWindow) -> bool {
        tokio::select! {
            biased;
            // Also when nobody is left who could want it.
            _ = self.0.wait_for(|wanted| !wanted) => false,
            lasts = window.lasts() => lasts,
        }
    }
}

/// The path by which another process opens a descriptor of this one: a pipe behind it is a FIFO to who opens it. Good
/// for as long as the descriptor is open here.
pub(super) fn path_of(descriptor: &OwnedFd) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), descriptor.as_raw_fd())
}

impl Launch {
    async fn carry_out(self, mut wanted: Wanted) -> Result<Launched, RunnerError> {
        let mut window = RetryWindow::new(RETRY_WINDOW);
        loop {
            match self.attempt(&mut wanted, &mut window).await {
                Err(error) if error.is_away() || self.removes_leftovers(&error)? => {
                    if !wanted.bears(&mut window).await {
                        return Err(error);
                    }
                }
                other => return other,
            }
        }
    }

    async fn attempt(&self, wanted: &mut Wanted, window: &mut RetryWindow) -> Result<Launched, RunnerError> {
        let Launch { containerd, service, .. } = self;
        let cgroup = self.cgroups.as_ref().map(|root| root.cgroup(service));
        leftovers::remove_task(containerd, service, cgroup.as_ref(), false).await?;
        if let Some(cgroup) = &cgroup {
            cgroup.prepare(cgroup.make()?, &self.service_spec, Some(self.owner)).await?;
        }
        let rootfs = containerd.snapshot_mounts(&self.snapshotter, service).await?;
        containerd.set_spec(service, self.spec.clone()).await?;
        wanted.check()?;
        // Both, always: a shim of containerd 1.6 breaks when one is missing.
        let streams =
            Streams { stdin: String::new(), stdout: path_of(&self.stdout), stderr: path_of(&self.stderr) };
        let pid = containerd.make_task(service, rootfs, streams).await?;
        let pid = i32::try_from(pid).unwrap_or_default();
        // It waits for its start, so it lives.
        let handle = Arc::new(ProcessHandle::open(pid)?);
        let main = TaskProcess::main(service);
        let ending = watch::begin(containerd.clone(), main.clone(), Arc::clone(&handle));
        wanted.check()?;
        self.start(&main, wanted, window).await?;
        Ok(Launched { pid, handle, ending, is_signalled: false })
    }

    /// Removes the bundle that a containerd left which died before its shim had a task, and that shim. Returns whether
    /// there was one, so that another try may succeed.
    fn removes_leftovers(&self, refusal: &RunnerError) -> Result<bool, RunnerError> {
        if refusal.origin != Origin::ContainerdRefused {
            return Ok(false);
        }
        match bundle::remove_unused(&self.runtime_dir, &self.service) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error) => {
                let message =
                    format!("{refusal}; and what an earlier containerd left cannot be removed: {error}");
                return Err(RunnerError { message, ..refusal.clone() });
            }
        }
        tracing::info!("service {}: removed the task's folder that an earlier containerd left", self.service);
        if let Some(root) = &self.cgroups {
            root.shim_cgroup(&self.service).kill()?;
        }
        Ok(true)
    }

    /// A start whose answer was lost may have happened, or may yet happen: the shim is asked before it is tried again,
    /// and after a refusal.
    async fn start(
        &self,
        main: &TaskProcess,
        wanted: &mut Wanted,
        window: &mut RetryWindow,
    ) -> Result<(), RunnerError> {
        let Err(error) = self.containerd.start(main).await else { return Ok(()) };
        let mut error = RunnerError::from(error);
        while error.is_away() {
            if !wanted.bears(window).await {
                return Err(error);
            }
            error = match self.start_again(main).await {
                Err(again) => again,
                Ok(true) => return Ok(()),
                // Its shim died with that containerd: the whole attempt is repeated.
                Ok(false) => {
                    let text = "containerd lost the container while it was started";
                    return Err(RunnerError { origin: Origin::ContainerdAway, ..RunnerError::new(text) });
                }
            };
        }
        Err(error)
    }

    /// Returns false when containerd no longer has the process.
    async fn start_again(&self, main: &TaskProcess) -> Result<bool, RunnerError> {
        match self.has_started(main).await? {
            Some(false) => {}
            known => return Ok(known.is_some()),
        }
        let Err(error) = self.containerd.start(main).await else { return Ok(true) };
        if !error.is_away() && self.has_started(main).await? == Some(true) {
            return Ok(true);
        }
        Err(error.into())
    }

    /// None when containerd does not have the process.
    async fn has_started(&self, main: &TaskProcess) -> Result<Option<bool>, RunnerError> {
        let process = self.containerd.process(main).await?;
        Ok(process.map(|Process { status, .. }| status != Status::Created as i32))
    }
}
