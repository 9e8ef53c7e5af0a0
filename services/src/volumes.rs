//! PID 1's side of volumes of plugins: which plugins there are, which services use which volumes, and the process that has
//! the plugins mount them.
//!
//! [`Volumes`] is a handle; one driver future does the work with a [`Supervisor`](kelson_helper::supervisor::Supervisor)
//! that keeps one `kelson-volumes` at work while a service is a plugin or uses one, or something is not undone. PID 1 speaks
//! to no plugin. A helper that is replaced gets all plugins and claims again, and continues with what its records name.

mod claims;
mod duty;
mod failures;
mod messages;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::supervisor::{self, Status, Supervisor, Wake};
use kelson_helper::{BoxFuture, Launcher};
use kelson_proto::v1::volume_action::Action;
use kelson_proto::v1::volume_action_done::Answer;
use kelson_proto::v1::{Volume, VolumePlugin, VolumeProvider, VolumeUse};
use kelson_runner::RunnerError;
use kelson_spec::ServiceSpec;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::csi::plugin_folder;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::manager::Manager;
use crate::owned_helper::OwnedHelper;
use claims::{Claimed, Claims, Command, Times};
pub use claims::{Plugins, Report, VolumesStatus};
use failures::Failures;

/// Whether this build knows volumes: what it leaves out then is not in the program.
pub const SUPPORTED: bool = OWN.has(Feature::Volumes);
/// Why none runs where there is nothing to do.
const NOTHING: &str = "no service is a storage plugin or uses one";
/// The helper answers before, also where a plugin hangs.
const RELEASE: Duration = Duration::from_secs(100);
/// After this time an event says which volumes are waited for.
const QUIET: Duration = Duration::from_secs(2);
/// A plugin that hangs is in the answer too.
const QUESTION: Duration = Duration::from_secs(30);
/// The plugins have 5 s, and an operator asks for what is so now.
const STATISTICS: Times = Times { within: 8_000, age: 0 };
/// A scrape does not wait for a plugin that hangs, and plugins are not asked by each.
const FIGURES: Times = Times { within: 1_000, age: 30_000 };
/// The helper itself hangs, or is just being replaced.
const FIGURES_LATE: Duration = Duration::from_millis(1_500);
/// A plugin may copy the data of a volume.
const ACTION: Duration = Duration::from_secs(300);
const NO_PLUGIN: &str = "no service of this host is a storage plugin";

/// Why nothing is known of volumes or plugins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the helper kelson-volumes did not answer; kelsonctl status volumes says how it is")]
pub struct NoAnswer;

/// Has plugins provide volumes to services. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Volumes {
    commands: mpsc::UnboundedSender<Command>,
    status: watch::Receiver<VolumesStatus>,
    failures: Failures,
}

/// What metrics tell of volumes.
#[derive(Debug, Default)]
pub struct Figures {
    /// Those with statistics, each once, sorted by name.
    pub volumes: Vec<Volume>,
    /// Of plugin and step: how often it failed.
    pub failures: BTreeMap<(String, String), u64>,
}

impl Volumes {
    /// The handle, the driver to be spawned, and what is worth an event. The driver ends after the handles are dropped.
    /// `is_left`: an earlier incarnation had plugins, of whose volumes something may not be undone.
    pub fn new(
        launcher: Arc<dyn Launcher>,
        is_left: bool,
    ) -> (Volumes, BoxFuture<'static, ()>, mpsc::Receiver<Report>) {
        let (commands, queue) = mpsc::unbounded_channel();
        let (reports, reported) = mpsc::channel(64);
        let first = VolumesStatus { helper: Status::new(NOTHING), wanted: false, closing: false };
        let (publish, status) = watch::channel(first);
        let failures = Failures::default();
        let driver = run(launcher, Claims::new(is_left, publish, reports, failures.clone()), queue);
        (Volumes { commands, status, failures }, Box::pin(driver), reported)
    }

    /// From now on the plugins are those of all services that are known now, and all claims of earlier incarnations are
    /// known; never waits.
    pub fn arrange(&self, manager: &Manager, cgroup: impl Fn(&str) -> String) {
        let plugins = manager.known_specs().iter().filter_map(|spec| plugin(spec, &cgroup)).collect();
        self.send(Command::Arrange(plugins));
    }

    /// Has the volumes of a service published. Dropping the future leaves the claim: it has to be released.
    ///
    /// # Errors
    /// A sentence that names volume, plugin, step and answer.
    pub async fn claim(&self, service: &Arc<str>, uses: Vec<VolumeUse>) -> Result<(), RunnerError> {
        let service = Arc::clone(service);
        self.ask(|done| Command::Claim { service, uses, done: Some(done) }).await
    }

    /// An earlier incarnation of PID 1 has claimed these.
    pub fn hold(&self, service: &Arc<str>, uses: Vec<VolumeUse>) {
        self.send(Command::Claim { service: Arc::clone(service), uses, done: None });
    }

    /// Has the volumes of a service unpublished, if it has some.
    ///
    /// # Errors
    /// What could not be undone. The helper continues to try it.
    pub async fn release(&self, service: &Arc<str>) -> Result<(), RunnerError> {
        let asked = Arc::clone(service);
        let released = self.ask(|done| Command::Release { service: asked, done });
        tokio::pin!(released);
        if let Ok(released) = tokio::time::timeout(QUIET, &mut released).await {
            return released;
        }
        self.send(Command::Late(Arc::clone(service)));
        tokio::time::timeout(RELEASE, released).await.unwrap_or_else(|_| {
            Err(RunnerError::new(format!("its volumes are not released after {} s", RELEASE.as_secs())))
        })
    }

    /// Those that are in use, or could not be undone, sorted by name.
    ///
    /// # Errors
    /// The helper does not answer.
    pub async fn list(&self) -> Result<Vec<Volume>, NoAnswer> {
        self.question(|done| Command::List(None, done), QUESTION).await
    }

    /// The same with how full they are; the plugins are asked.
    ///
    /// # Errors
    /// The helper does not answer.
    pub async fn list_with_statistics(&self) -> Result<Vec<Volume>, NoAnswer> {
        self.question(|done| Command::List(Some(STATISTICS), done), QUESTION).await
    }

    /// For metrics. Never takes long: what is not known by then is left out.
    pub async fn figures(&self) -> Figures {
        let failures = self.failures.counts();
        if !self.status.borrow().wanted {
            return Figures { failures, ..Figures::default() };
        }
        let asked = self.question(|done| Command::List(Some(FIGURES), done), FIGURES_LATE).await;
        let mut volumes = asked.unwrap_or_default();
        volumes.retain(|volume| volume.statistics.is_some());
        // One with many users comes in several parts.
        volumes.dedup_by(|one, other| one.name == other.name);
        Figures { volumes, failures }
    }

    /// The plugins, each asked now; sorted by id and service.
    ///
    /// # Errors
    /// The helper does not answer.
    pub async fn providers(&self) -> Result<Vec<VolumeProvider>, NoAnswer> {
        self.question(Command::Providers, QUESTION).await
    }

    /// Has a plugin make, delete or expand the volume itself.
    ///
    /// # Errors
    /// A sentence that names volume, plugin, step and answer.
    pub async fn act(&self, action: Action) -> Result<Option<Answer>, RunnerError> {
        let (done, answer) = oneshot::channel();
        self.send(Command::Act { action, done });
        let done = match tokio::time::timeout(ACTION, answer).await {
            Ok(Ok(done)) => done,
            Ok(Err(_)) if !self.status.borrow().wanted => return Err(RunnerError::new(NO_PLUGIN)),
            Ok(Err(_)) | Err(_) => return Err(RunnerError::new(NoAnswer.to_string())),
        };
        match done.failure {
            Some(step) => Err(RunnerError::new(messages::of_step(&step))),
            None => Ok(done.answer),
        }
    }

    pub fn status(&self) -> watch::Receiver<VolumesStatus> {
        self.status.clone()
    }

    /// An operator's restart of the helper.
    pub fn restart(&self) {
        self.send(Command::Restart);
    }

    /// No claim is made any more; the helper is killed at `deadline`.
    pub async fn shutdown(&self, deadline: Instant) {
        supervisor::ask(&self.commands, |done| Command::Shutdown { deadline, done }).await;
    }

    fn send(&self, command: Command) {
        // The driver ends with the host.
        let _ = self.commands.send(command);
    }

    async fn ask(
        &self,
        command: impl FnOnce(oneshot::Sender<Claimed>) -> Command,
    ) -> Result<(), RunnerError> {
        let (done, answer) = oneshot::channel();
        self.send(command(done));
        let failures = match answer.await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(failures)) => failures,
            Err(_) => return Err(RunnerError::new("the host stops, and claims no volume any more")),
        };
        let texts: Vec<String> = failures.iter().map(messages::of_step).collect();
        Err(RunnerError::new(texts.join("; ")))
    }

    async fn question<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
        within: Duration,
    ) -> Result<T, NoAnswer> {
        let (done, answer) = oneshot::channel();
        self.send(command(done));
        match tokio::time::timeout(within, answer).await {
            Ok(Ok(list)) => Ok(list),
            Ok(Err(_)) | Err(_) => Err(NoAnswer),
        }
    }
}

/// The volumes of plugins that a service uses; empty: it uses none.
pub fn uses_of(spec: &ServiceSpec) -> Vec<VolumeUse> {
    let use_of = |volume: &kelson_spec::service::Volume| {
        let source = volume.source.csi()?;
        let flags = source.usage.mount_flags.clone();
        Some(VolumeUse {
            name: volume.name.clone(),
            volume: source.volume.clone(),
            plugin: source.plugin.clone(),
            access: source.usage.access.name().to_owned(),
            attachment: source.usage.attachment.name().to_owned(),
            mount_flags: flags.map(|flags| kelson_proto::v1::VolumeFlags { flags }),
            read_only: volume.read_only,
            published: source.published.to_string_lossy().into_owned(),
        })
    };
    spec.volumes.iter().filter_map(use_of).collect()
}

fn plugin(spec: &ServiceSpec, cgroup: impl Fn(&str) -> String) -> Option<(String, VolumePlugin)> {
    let provided = spec.provides.as_ref()?;
    let folder = plugin_folder(&provided.id);
    let socket = folder.join(&provided.socket).to_string_lossy().into_owned();
    let mount_dir = if spec.container().is_some() { &provided.mount_dir } else { &folder };
    let plugin = VolumePlugin {
        id: provided.id.clone(),
        service: spec.name.clone(),
        kind: provided.kind.name().to_owned(),
        socket: socket.clone(),
        mount_dir: mount_dir.to_string_lossy().into_owned(),
        cgroup: cgroup(&spec.name),
    };
    Some((socket, plugin))
}

async fn run(
    launcher: Arc<dyn Launcher>,
    mut claims: Claims,
    mut commands: mpsc::UnboundedReceiver<Command>,
) {
    let mut helper = OwnedHelper::new(launcher, NOTHING);
    let helper = &mut helper.0;
    loop {
        let (command, wake) = tokio::select! {
            biased;
            command = commands.recv() => match command {
                Some(command) => (Some(command), Wake::Ready),
                None => return,
            },
            wake = helper.next(&claims, None) => (None, wake),
        };
        let now = Instant::now();
        match command {
            Some(Command::Restart) => helper.stop(&mut claims, now),
            Some(Command::Shutdown { deadline, done }) => {
                claims.close();
                helper.shut_down(deadline, Some(done), &mut claims, now);
            }
            Some(command) => {
                let outgoing = claims.take(command);
                if !outgoing.is_empty() {
                    helper.expect(now);
                }
                outgoing.into_iter().for_each(|order| helper.enqueue(order));
            }
            None => {}
        }
        start_or_stop(helper, &mut claims, now);
        helper.advance(wake, &mut claims, now);
        // It may have reported that nothing is left.
        if start_or_stop(helper, &mut claims, now) {
            helper.advance(Wake::Ready, &mut claims, now);
        }
    }
}

/// As there is something to do by now, or is not any more. False: it is as before.
fn start_or_stop(helper: &mut Supervisor<Claims>, claims: &mut Claims, now: Instant) -> bool {
    match claims.became_wanted() {
        Some(true) => {
            if helper.want(claims, now) {
                helper.publish("being started", claims);
            }
        }
        Some(false) => {
            helper.unwant(claims, now);
            helper.stop(claims, now);
        }
        None => return false,
    }
    true
}
