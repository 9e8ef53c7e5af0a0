//! Taking up what an earlier incarnation of PID 1 began: the container stands in containerd's records, its process is
//! named by PID and start time, and its exit status is the shim's to tell, also of a process that ended between two
//! incarnations.
//!
//! A containerd that is away is asked later: until then the kernel tells whether the process lives.

use std::sync::Arc;
use std::time::Duration;

use kelson_containerd::TaskProcess;
use tokio::time::timeout;

use super::launch::Launched;
use super::pidfd::ProcessHandle;
use super::runner::ContainerRunner;
use super::{made_of, watch};
use crate::images::ImageConfig;
use crate::runner::{Attachment, RunnerError, Running};

/// How long containerd may take to tell of a container that goes on without it.
const BRIEFLY: Duration = Duration::from_secs(2);

impl ContainerRunner {
    pub(super) async fn take_up(&mut self, attachment: Attachment) -> Result<Option<Running>, RunnerError> {
        if !attachment.opened {
            return Ok(None);
        }
        self.refuse_while_it_runs()?;
        (self.made, self.task) = (true, true);
        if let Some(cgroup) = self.cgroup().filter(|cgroup| cgroup.path().exists()) {
            self.warnings = cgroup.limit(&self.spec.resources);
        }
        let running = match attachment.pid {
            0 => None,
            _ => self.take_up_run(attachment).await?,
        };
        self.recall_briefly().await;
        Ok(running)
    }

    async fn take_up_run(&mut self, attachment: Attachment) -> Result<Option<Running>, RunnerError> {
        let Attachment { pid, start_time, .. } = attachment;
        let handle =
            ProcessHandle::open(pid)?.filter(|handle| start_time != 0 && handle.start_time() == start_time);
        if handle.is_none() && self.is_of_another_run(pid).await {
            return Ok(None);
        }
        let handle = Arc::new(handle);
        let main = TaskProcess::main(&self.spec.name);
        let ending = watch::begin(self.containerd.clone(), main, Arc::clone(&handle));
        // The earlier incarnation has written the signal down: containerd may be away.
        let running = Running {
            pid,
            start_time,
            stop_signal: None,
            addresses: Vec::new(),
            exit: ending.clone().into_future(),
        };
        self.main = Some(Launched { pid, handle, ending, is_signalled: false });
        Ok(Some(running))
    }

    /// The process has ended, and containerd says that it is not the one whose status it has.
    async fn is_of_another_run(&self, pid: i32) -> bool {
        let main = TaskProcess::main(&self.spec.name);
        match timeout(BRIEFLY, self.containerd.process(&main)).await {
            Ok(Ok(found)) => found.is_none_or(|found| u32::try_from(pid) != Ok(found.pid)),
            // It may tell when it is back.
            Ok(Err(_)) | Err(_) => false,
        }
    }

    /// Reads what the container was made of, where this incarnation does not know it.
    pub(super) async fn recall_briefly(&mut self) {
        match timeout(BRIEFLY, self.recall()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::debug!("the image of service {} is not known yet: {error}", self.spec.name);
            }
            Err(_) => tracing::debug!("the image of service {} is not known yet", self.spec.name),
        }
    }

    async fn recall(&mut self) -> Result<(), RunnerError> {
        if self.image.is_none() && self.made {
            let record = self.containerd.container(&self.spec.name).await?;
            self.image = record.as_ref().and_then(made_of::read);
        }
        Ok(())
    }

    /// The configuration of the container's image. Asks containerd for it if the container was taken up while
    /// containerd was away.
    pub(super) async fn known_image(&mut self) -> Result<ImageConfig, RunnerError> {
        if self.image.is_none() && self.made {
            self.reach().await?;
            self.recall().await?;
            if self.image.is_none() {
                // Its record is gone, or is of a Kelson that did not write it.
                self.image = Some(self.prepare_image().await?);
            }
        }
        self.image
            .clone()
            .ok_or_else(|| RunnerError::new(format!("service {} has no container yet", self.spec.name)))
    }
}
