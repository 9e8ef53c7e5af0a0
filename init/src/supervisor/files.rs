//! The configuration files while the host runs: read again, and taken up.

use std::sync::{Arc, Mutex};

use kelson_services::ServicesError;
use kelson_services::builtins::containerd;
use kelson_services::host::ReloadReport;
use kelson_services::manager::Manager;
use kelson_services::node_health::NodeHealth;
use kelson_services::state_store::StateStore;
use kelson_spec::{Loaded, ServiceSpec};
use kelson_sys::text::first_of_many;
use tokio::sync::{Notify, oneshot};

use super::builtin::containerd_spec;
use super::command;
use super::configuration::Configuration;
use super::intent::Intents;
use super::launchers::Personalities;
use super::trial::Trial;
use crate::options::Options;

/// The parts of PID 1 that take files up. Cheap to clone.
#[derive(Clone)]
pub(super) struct Files {
    pub(super) personalities: Personalities,
    pub(super) options: Arc<Options>,
    pub(super) manager: Manager,
    pub(super) configuration: Configuration,
    pub(super) health: NodeHealth,
    /// To be notified when other services have become known.
    pub(super) later_mounts: Arc<Notify>,
    pub(super) intents: Intents,
    pub(super) store: Option<StateStore>,
    /// One reading after the other: the later must be the one that counts.
    pub(super) turn: Arc<tokio::sync::Mutex<()>>,
    /// The configuration that waits for its confirmation.
    pub(super) trial: Arc<Mutex<Option<Trial>>>,
}

impl Files {
    /// Reads the files again beside all else: their disk may be slow.
    pub(super) fn reload(&self, reply: Option<oneshot::Sender<Result<ReloadReport, ServicesError>>>) {
        let files = self.clone();
        kelson_sys::spawn(async move {
            let _turn = files.turn.lock().await;
            let report = files.read_again().await;
            crate::heap::give_back();
            files.manager.host_event(&summary(&report));
            if let Some(reply) = reply {
                // The caller may have gone away.
                let _ = reply.send(report);
            }
        });
    }

    /// To be called by the one whose turn it is.
    pub(super) async fn read_again(&self) -> Result<ReloadReport, ServicesError> {
        match self.personalities.reload(&self.options, &self.configuration.machine()).await {
            Ok(loaded) => self.take_up(loaded).await,
            Err(failure) => {
                Err(ServicesError::NotNow(format!("{}: {failure}", self.options.config.display())))
            }
        }
    }

    /// As [`Self::read_again`], of what was read.
    pub(super) async fn take_up(&self, mut loaded: Loaded) -> Result<ReloadReport, ServicesError> {
        command::keep(&mut loaded, self.command());
        let first = loaded.containerd && loaded.unread().is_none();
        // The first container has come: containers wait for it from their first moment on.
        if first && self.manager.get(containerd::NAME).is_none() {
            let booted = self.configuration.machine();
            self.manager.bring_in(Arc::new(containerd_spec(&self.options, &booted, &self.manager)));
        }
        let report = self.configuration.reload(&self.manager, &self.health, loaded).await;
        self.later_mounts.notify_one();
        report
    }

    /// The command of `init`, as the boot has made it.
    pub(super) fn command(&self) -> Option<Arc<ServiceSpec>> {
        let main = self.configuration.machine().main.filter(|_| !self.options.command.is_empty());
        self.manager.spec(&main?)
    }
}

/// `; started: a, b`; nothing where there are none.
fn part(what: &str, names: &[impl std::fmt::Display]) -> String {
    match names {
        [] => String::new(),
        _ => format!("; {what}: {}", first_of_many(names.iter(), ", ")),
    }
}

fn summary(report: &Result<ReloadReport, ServicesError>) -> String {
    let report = match report {
        Ok(report) => report,
        Err(failure) => return format!("the files were not taken up, and nothing was changed: {failure}"),
    };
    let added: Vec<&String> = report.added.iter().filter(|name| !report.started.contains(name)).collect();
    let (next_run, restart): (Vec<&String>, Vec<&String>) =
        report.changed.iter().partition(|name| report.next_run.contains(name));
    let mut text = format!(
        "the files were read again{}{}{}{}{}{}{}{}",
        part("started", &report.started),
        part("added and not started", &added),
        part("stopped", &report.stopped),
        part("changed, restart them to take it up", &restart),
        part("changed, used by their next run", &next_run),
        part("groups, taken up", &report.groups),
        part("machine.yaml, taken up", &report.applied),
        part("machine.yaml, waits for the next boot", &report.waiting)
    );
    for error in &report.errors {
        text.push_str("; ");
        text.push_str(error);
    }
    text
}
