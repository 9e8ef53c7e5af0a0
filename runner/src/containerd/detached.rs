//! A container that is ended without containerd: its process is named by PID and start time, and held by a pidfd, which
//! needs no child of one's own; all else of it is in its cgroup.

use std::sync::Arc;

use kelson_spec::ServiceSpec;

use super::pidfd::ProcessHandle;
use crate::cgroup::Cgroup;
use crate::processes::Processes;
use crate::runner::{
    Attachment, BoxFuture, Exit, RunContext, Runner, RunnerError, Running, StopPlan, StopReport,
};

/// Ends the container of one service, and can do nothing else.
#[derive(Debug)]
pub struct DetachedContainer {
    spec: Arc<ServiceSpec>,
    cgroup: Option<Cgroup>,
    main: Option<Arc<ProcessHandle>>,
}

impl DetachedContainer {
    pub fn new(processes: &Processes, spec: Arc<ServiceSpec>) -> DetachedContainer {
        let cgroup = processes.cgroups().map(|root| root.cgroup(&spec.name));
        DetachedContainer { spec, cgroup, main: None }
    }

    fn take_up(&mut self, attachment: Attachment) -> Result<Option<Running>, RunnerError> {
        let Attachment { pid, start_time, .. } = attachment;
        if pid <= 0 || start_time == 0 {
            return Ok(None);
        }
        let handle = ProcessHandle::open(pid)?.filter(|handle| handle.start_time() == start_time);
        let Some(handle) = handle.map(Arc::new) else { return Ok(None) };
        self.main = Some(Arc::clone(&handle));
        let exit = Box::pin(async move {
            handle.ended().await;
            // Its shim knows how.
            handle.exit().unwrap_or(Exit::Lost)
        });
        Ok(Some(Running { pid, start_time, stop_signal: None, addresses: Vec::new(), exit }))
    }

    async fn end(&mut self, plan: StopPlan) -> Result<StopReport, RunnerError> {
        let mut report = StopReport::default();
        if let Some(main) = &self.main {
            report = main.end(plan, (&self.spec.stop, plan.signal), self.cgroup.as_ref()).await;
        }
        report.left_behind = match &self.cgroup {
            Some(cgroup) => cgroup.clear().await?,
            None => 0,
        };
        Ok(report)
    }
}

impl Runner for DetachedContainer {
    fn open(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn run(&mut self, _: RunContext) -> BoxFuture<'_, Result<Running, RunnerError>> {
        let text =
            format!("nothing is started in the container of service {} without containerd", self.spec.name);
        Box::pin(std::future::ready(Err(RunnerError::new(text))))
    }

    fn attach(&mut self, attachment: Attachment) -> BoxFuture<'_, Result<Option<Running>, RunnerError>> {
        Box::pin(std::future::ready(self.take_up(attachment)))
    }

    fn stop(&mut self, plan: StopPlan) -> BoxFuture<'_, Result<StopReport, RunnerError>> {
        Box::pin(self.end(plan))
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), RunnerError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use super::*;
    use crate::processes::Options;

    /// A process that Kelson did not make, as a container's is its shim's. It says so once its traps stand.
    fn shell(script: &str) -> (Child, Attachment) {
        let mut child = Command::new("/bin/sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let start_time = kelson_sys::process::start_time(pid).unwrap();
        (child, Attachment { run: 1, pid, start_time, opened: true })
    }

    fn container() -> DetachedContainer {
        let spec = Arc::new(ServiceSpec::process("web", [""]));
        DetachedContainer::new(&Processes::new(Options::default()).unwrap(), spec)
    }

    #[tokio::test]
    async fn it_has_its_signal_and_its_time() {
        let (mut child, found) = shell("trap 'exit 7' QUIT; echo r; while :; do sleep 0.01; done");
        let mut container = container();
        let running = container.attach(found).await.unwrap().unwrap();
        assert_eq!(running.pid, found.pid);
        let patient = StopPlan { signal: libc::SIGQUIT, timeout: Duration::from_secs(30) };
        assert_eq!(container.stop(patient).await.unwrap(), StopReport::default());
        assert_eq!(child.wait().unwrap().code(), Some(7));
    }

    #[tokio::test]
    async fn one_that_is_deaf_is_killed_and_one_that_is_stopped_is_woken() {
        for (script, killed) in [
            ("trap '' TERM; echo r; while :; do sleep 0.01; done", true),
            ("echo r; kill -STOP $$; exec sleep 1000", false),
        ] {
            let (mut child, found) = shell(script);
            let mut container = container();
            container.attach(found).await.unwrap().unwrap();
            let timeout = Duration::from_millis(if killed { 200 } else { 30_000 });
            let report = container.stop(StopPlan { signal: libc::SIGTERM, timeout }).await.unwrap();
            assert_eq!(report.killed, killed, "{script}");
            let signal = if killed { libc::SIGKILL } else { libc::SIGTERM };
            assert_eq!(child.wait().unwrap().signal(), Some(signal));
        }
    }

    #[tokio::test]
    async fn a_stranger_with_its_pid_is_never_signalled() {
        let (mut child, found) = shell("echo r; exec sleep 1000");
        let stranger = Attachment { start_time: found.start_time + 1, ..found };
        for attachment in [stranger, Attachment { start_time: 0, ..found }, Attachment { pid: 0, ..found }] {
            let mut container = container();
            assert!(container.attach(attachment).await.unwrap().is_none());
            let plan = StopPlan { signal: libc::SIGKILL, timeout: Duration::ZERO };
            container.stop(plan).await.unwrap();
        }
        assert!(child.try_wait().unwrap().is_none(), "it lives");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
