//! The check `volume`: whether enough of a volume is free, where its service sees it.
//!
//! statvfs(2) hangs where the disk does, and the path is one that the service may change. So `kelson-task` enters the files of
//! the main process by `/proc/PID/root` and looks there, as a command of an `exec` check would, which the image of a container
//! need not have.

use std::sync::Arc;

use kelson_helper::task::VolumeRequest;
use kelson_helper::{BoxFuture, Launcher, Lease};
use kelson_services::ServicesError;
use kelson_services::health::{Answer, Probe, Verdict};
use kelson_services::service_runner::host_context::RunningProcess;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::VolumeProbe;
use kelson_spec::{MissingFeature, ServiceSpec};
use tokio::time::{Instant, timeout_at};

use crate::task::{Request, Started, TaskError};

/// Asks about a volume of this run.
pub(super) fn volume_check(
    tasks: &Arc<dyn Launcher>,
    spec: &ServiceSpec,
    run: RunningProcess,
    asked: &VolumeProbe,
) -> Result<Arc<dyn Probe>, ServicesError> {
    if const { !OWN.has(Feature::Volumes) } {
        return Err(MissingFeature(Feature::Volumes).into());
    }
    let VolumeProbe { volume, free_at_least } = asked;
    let unknown = || ServicesError::NotNow(format!("the service has no volume {volume}"));
    let found = spec.volumes.iter().find(|one| one.name == *volume).ok_or_else(unknown)?;
    let request = VolumeRequest::Free {
        volume: volume.clone(),
        pid: run.pid.unsigned_abs(),
        target: found.target.clone(),
        at_least: *free_at_least,
    };
    Ok(Arc::new(VolumeCheck { tasks: Arc::clone(tasks), request: request.whole() }))
}

struct VolumeCheck {
    tasks: Arc<dyn Launcher>,
    request: Request,
}

impl Probe for VolumeCheck {
    fn kind(&self) -> &'static str {
        "volume"
    }

    fn ask(&self, deadline: Instant) -> BoxFuture<'static, Answer> {
        let (tasks, request) = (Arc::clone(&self.tasks), self.request.clone());
        Box::pin(async move {
            let silent = |ending| Answer { verdict: Verdict::Silent, output: String::new(), ending };
            let mut started = match timeout_at(deadline, Started::new(&*tasks, &request, Vec::new())).await {
                Ok(Ok(started)) => started,
                Ok(Err(error)) => return Answer::fails(error.to_string()),
                Err(_) => return silent(None),
            };
            let kill = std::mem::replace(&mut started.process.kill, Box::new(|| {}));
            let lease = Lease(kill);
            match timeout_at(deadline, started.answer()).await {
                Ok(Ok(output)) => Answer::passes(output),
                Ok(Err(TaskError::Failed(why))) => Answer::fails(why),
                Ok(Err(error)) => Answer::fails(error.to_string()),
                Err(_) => {
                    // Where the disk hangs it does not end, and it is not asked again before that.
                    drop(lease);
                    silent(Some(Box::pin(async move { drop(started.process.exit.await) })))
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kelson_spec::service::{Share, Volume};

    use super::*;
    use crate::task::testing::Scripted;

    #[tokio::test(start_paused = true)]
    async fn the_answer_is_that_of_the_task_and_a_hanging_one_is_awaited() {
        let scripted = Arc::new(Scripted::new(|line| match line {
            "volumes free data 7 /srv/data 5%" => Some("done 40 % of 1.0 GiB are free"),
            "volumes free full 7 /srv/full 5%" => Some("failed volume full: 1 % of 1.0 GiB are free"),
            _ => None,
        }));
        let tasks: Arc<dyn Launcher> = scripted.clone();
        let mut spec = ServiceSpec::process("web", ["x"]);
        spec.volumes = ["data", "full", "dead"]
            .map(|name| Volume {
                name: name.to_owned(),
                target: format!("/srv/{name}").into(),
                ..Volume::default()
            })
            .into();
        let run = RunningProcess { run: 1, pid: 7, start_time: 0 };
        let ask = async |volume: &str| {
            let asked = VolumeProbe { volume: volume.to_owned(), free_at_least: Share::Percent(5) };
            let deadline = Instant::now() + Duration::from_secs(1);
            volume_check(&tasks, &spec, run, &asked).unwrap().ask(deadline).await
        };
        let free = ask("data").await;
        assert_eq!((free.verdict, &*free.output), (Verdict::Passes, "40 % of 1.0 GiB are free"));
        let full = ask("full").await;
        assert_eq!((full.verdict, &*full.output), (Verdict::Fails, "volume full: 1 % of 1.0 GiB are free"));
        let hangs = ask("dead").await;
        assert_eq!(hangs.verdict, Verdict::Silent);
        let ending = hangs.ending.expect("the process has not ended");
        tokio::time::timeout(Duration::from_secs(60), ending).await.expect_err("it hangs");
    }
}
