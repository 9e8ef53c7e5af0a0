//! Mounts that are made while services with a read-only root run: one arrives in their mount namespaces as
//! writable as it is on the machine, and is made read-only there at once.
//!
//! Level-triggered: after each change of the machine's mounts all such services are looked at, whatever the change was.
//! A service that starts meanwhile is safe: its process is in its cgroup before it has a mount namespace of its own,
//! and makes all that is there read-only itself.

use std::fs::File;
use std::future::pending;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kelson_runner::cgroup::Cgroup;
use kelson_services::manager::Manager;
use kelson_spec::ServiceSpec;
use kelson_spec::service::{Security, Workload};
use kelson_sys::descriptor::Watched;
use tokio::io::Interest;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::launchers::Personalities;
use crate::task::{self, Request, TaskError};

/// Entering a few namespaces takes milliseconds.
const DEADLINE: Duration = Duration::from_secs(10);
/// The pause before a failed mount is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Keeps the mounts of services read-only, until it is ended.
pub(super) struct LaterMounts {
    /// To be notified when other services have become known.
    pub(super) services: Arc<Notify>,
    task: JoinHandle<()>,
}

impl LaterMounts {
    /// To be called before the root is unmounted: who has opened a table of mounts holds the root of that moment.
    pub(super) async fn end(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// Keeps the mounts of services read-only from now on.
pub(super) fn keep_read_only(manager: Manager, personalities: Personalities) -> LaterMounts {
    let services = Arc::new(Notify::new());
    let known = Arc::clone(&services);
    let task = kelson_sys::spawn(async move {
        let (mut mounts, mut told) = (None, None);
        loop {
            let names = names(&manager);
            // Opened before the first look: the kernel reports a change in between.
            if names.is_empty() {
                mounts = None;
            } else if mounts.is_none() {
                mounts = open().map_err(|error| tracing::error!("the table of mounts: {error}")).ok();
            }
            let failure = close(&personalities, &names).await.err().map(|error| error.to_string());
            if let Some(failure) = failure.as_ref().filter(|failure| told.as_ref() != Some(*failure)) {
                manager.host_event(&format!("later mounts of services with readOnlyRoot: {failure}"));
            }
            let again = failure.is_some() || (mounts.is_none() && !names.is_empty());
            told = failure;
            tokio::select! {
                () = known.notified() => {}
                () = change(mounts.as_ref()) => {}
                () = tokio::time::sleep(AGAIN), if again => {}
            }
        }
    });
    LaterMounts { services, task }
}

/// Processes that run, or may be started, with a read-only root. A container has its own mounts.
fn names(manager: &Manager) -> Vec<Arc<str>> {
    let services = manager.list().into_iter();
    let confined = services.filter(|service| {
        service
            .spec
            .as_ref()
            .is_some_and(|spec| is_closed(spec) && matches!(spec.workload, Workload::Process(_)))
    });
    confined.map(|service| service.name).collect()
}

/// A mount that arrives where a path is to stay writable may be meant to be so.
fn is_closed(spec: &ServiceSpec) -> bool {
    let Security { read_only_root, view, .. } = &spec.security;
    *read_only_root && view.writable.is_empty() && spec.directories.list.is_empty() && spec.volumes.is_empty()
}

fn open() -> io::Result<Watched<File>> {
    Watched::new(File::open("/proc/self/mountinfo")?, Interest::PRIORITY)
}

/// Returns once something was mounted or unmounted.
async fn change(mounts: Option<&Watched<File>>) {
    match mounts {
        Some(mounts) => {
            let _ = mounts.changed().await;
        }
        None => pending().await,
    }
}

/// Has `kelson-task` look at those that run.
async fn close(personalities: &Personalities, names: &[Arc<str>]) -> Result<(), TaskError> {
    let Some(root) = personalities.processes.cgroups() else { return Ok(()) };
    let cgroups = names.iter().map(|name| root.cgroup(name));
    let cgroups: Vec<PathBuf> = cgroups.filter(Cgroup::is_populated).map(|cgroup| cgroup.path()).collect();
    if cgroups.is_empty() {
        return Ok(());
    }
    task::run(&*personalities.tasks(), &Request::ReadOnly { cgroups }, DEADLINE).await.map(drop)
}
