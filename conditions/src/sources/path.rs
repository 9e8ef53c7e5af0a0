//! Whether a path exists, or is a device, followed by inotify.
//!
//! A path exists while every component of it does and every symbolic link on its way leads somewhere: for a link itself,
//! its target must exist, and a dangling link starts to count when its target appears. Folders that are missing,
//! removed, moved or made again, mounts that come and go: all of it is followed, in both directions.
//!
//! PID 1 itself touches file systems that live in memory alone (tmpfs, proc and their like; the table of mounts tells).
//! For everything else it asks a process, one a mount, which may hang on a dead disk or server in its stead: what is not
//! answered does not exist yet, and after two seconds says that its file system does not answer.
//!
//! inotify tells nothing of files that the kernel makes in proc and sysfs, or that another host makes on a network file
//! system: such paths are looked at every second while they are missing, every ten seconds while they exist.
//!
//! - `mounts`: the table of mounts. `walk`: one walk along one path. `tree`: many paths, followed.
//! - `hub`: PID 1's one task. `remote`: PID 1's side of one process. `helper`: that process. `wire`: what they say.

mod helper;
mod hub;
mod mounts;
mod remote;
mod tree;
mod walk;
mod wire;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kelson_helper::Launcher;
use kelson_spec::service::{PathEvent, PathTrigger};
use kelson_sys::lock;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub use self::helper::path_helper;
use self::walk::{Question, Type};
use crate::condition::{BoxFuture, Condition, Level, changed};
use crate::missing::{Missing, Reason, Subject};

/// All the paths that are waited for. Cheap to clone; clones share their one task.
#[derive(Clone)]
pub struct Paths {
    shared: Arc<Shared>,
}

struct Shared {
    launcher: Arc<dyn Launcher>,
    registry: Mutex<Registry>,
    /// The task has changes to take.
    wake: Notify,
}

#[derive(Default)]
struct Registry {
    wanted: HashMap<Asked, Wanted>,
    /// The number of the last question of its own.
    last_number: u64,
    /// The changes that the task has not taken yet.
    changes: Vec<Change>,
    /// The task, while anybody wants a path.
    hub: Option<JoinHandle<()>>,
    ended: bool,
}

struct Wanted {
    conditions: usize,
    presence: Arc<watch::Sender<Presence>>,
}

/// What is asked, of which path.
type Asked = (PathBuf, Question);

enum Change {
    Want(Asked, Arc<watch::Sender<Presence>>),
    Forget(Asked),
}

/// The state of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Presence {
    Unknown,
    Missing,
    Exists(Type),
    /// The process that was asked does not answer.
    Silent,
    /// Nobody can be asked, and why.
    Failed(Arc<str>),
}

impl Paths {
    /// `launcher` starts the processes that watch paths on disks; it is not asked before there is such a path.
    pub fn new(launcher: Arc<dyn Launcher>) -> Self {
        let registry = Mutex::new(Registry::default());
        Paths { shared: Arc::new(Shared { launcher, registry, wake: Notify::new() }) }
    }

    /// Holds while the path exists; relative paths begin at `/`. A new condition of a path that nobody
    /// else follows is [`Level::Unknown`]; the answer comes as a change.
    pub fn condition(&self, path: impl AsRef<Path>) -> PathCondition {
        let written = path.as_ref().to_owned();
        self.follow((mounts::tidy(&written), Question::Exists), Subject::Path(written))
    }

    /// Holds while a block or character device is at the path, as [`Paths::condition`] does.
    pub fn device(&self, path: impl AsRef<Path>) -> PathCondition {
        let written = path.as_ref().to_owned();
        self.follow((mounts::tidy(&written), Question::Exists), Subject::Device(written))
    }

    /// Holds while a path is as a trigger has it. That of a change holds once there was one after this call.
    pub fn trigger(&self, trigger: &PathTrigger) -> PathCondition {
        let (path, question) = match (trigger.event, trigger.pattern()) {
            (PathEvent::Exists, None) => (trigger.path.as_str(), Question::Exists),
            (PathEvent::Exists, Some((folder, names))) => (folder, Question::Entry(Some(names.to_owned()))),
            (PathEvent::NotEmpty, _) => (trigger.path.as_str(), Question::Entry(None)),
            (event, _) => {
                let mut registry = lock(&self.shared.registry);
                registry.last_number = registry.last_number.wrapping_add(1);
                let number = registry.last_number;
                let writes = event == PathEvent::Modified;
                (trigger.path.as_str(), Question::Changed { writes, number })
            }
        };
        self.follow((mounts::tidy(Path::new(path)), question), Subject::Trigger(trigger.clone()))
    }

    fn follow(&self, asked: Asked, subject: Subject) -> PathCondition {
        let mut registry = lock(&self.shared.registry);
        let presence = match registry.wanted.get_mut(&asked) {
            Some(wanted) => {
                wanted.conditions = wanted.conditions.saturating_add(1);
                wanted.presence.subscribe()
            }
            None => {
                let presence = Arc::new(watch::Sender::new(Presence::Unknown));
                let receiver = presence.subscribe();
                registry.changes.push(Change::Want(asked.clone(), Arc::clone(&presence)));
                registry.wanted.insert(asked.clone(), Wanted { conditions: 1, presence });
                receiver
            }
        };
        if registry.hub.is_none() && !registry.ended {
            registry.hub = Some(kelson_sys::spawn(hub::follow(Arc::clone(&self.shared))));
        }
        drop(registry);
        self.shared.wake.notify_one();
        PathCondition { shared: Arc::clone(&self.shared), asked, subject, presence }
    }

    /// Follows nothing from now on: no condition gets another answer.
    pub async fn end(&self) {
        let hub = {
            let mut registry = lock(&self.shared.registry);
            registry.ended = true;
            registry.hub.take()
        };
        if let Some(hub) = hub {
            hub.abort();
            let _ = hub.await;
        }
    }

    /// Asks once. `None`: nobody knew within `deadline`. Cancelled by dropping.
    pub async fn exists_now(&self, path: impl AsRef<Path>, deadline: Duration) -> Option<bool> {
        let mut condition = self.condition(path);
        let answered = condition.presence.wait_for(|presence| presence.answer().is_some());
        timeout(deadline, answered).await.ok()?.ok()?.answer()
    }
}

impl Shared {
    fn take_changes(&self) -> Vec<Change> {
        std::mem::take(&mut lock(&self.registry).changes)
    }

    /// True: nobody wants anything, and the task must end.
    fn end_if_unwanted(&self) -> bool {
        let mut registry = lock(&self.registry);
        let unwanted = registry.wanted.is_empty() && registry.changes.is_empty();
        if unwanted {
            registry.hub = None;
        }
        unwanted
    }

    fn forget(&self, asked: &Asked) {
        let mut registry = lock(&self.registry);
        let Some(wanted) = registry.wanted.get_mut(asked) else { return };
        wanted.conditions = wanted.conditions.saturating_sub(1);
        if wanted.conditions == 0 {
            registry.wanted.remove(asked);
            registry.changes.push(Change::Forget(asked.clone()));
            drop(registry);
            self.wake.notify_one();
        }
    }
}

impl Presence {
    fn answer(&self) -> Option<bool> {
        match self {
            Presence::Exists(_) => Some(true),
            Presence::Missing => Some(false),
            Presence::Unknown | Presence::Silent | Presence::Failed(_) => None,
        }
    }
}

/// Holds while a path exists, a device is there, or a path is as a trigger has it. The path is followed until this is
/// dropped.
pub struct PathCondition {
    shared: Arc<Shared>,
    asked: Asked,
    /// As it was asked for.
    subject: Subject,
    presence: watch::Receiver<Presence>,
}

impl PathCondition {
    /// Only a device counts.
    fn is_device(&self) -> bool {
        matches!(self.subject, Subject::Device(_))
    }

    /// The same question once more: it has the same answer.
    pub fn again(&self) -> PathCondition {
        Paths { shared: Arc::clone(&self.shared) }.follow(self.asked.clone(), self.subject.clone())
    }
}

impl Condition for PathCondition {
    fn level(&self) -> Level {
        match &*self.presence.borrow() {
            Presence::Exists(Type::Other) if self.is_device() => Level::DoesNotHold,
            Presence::Exists(_) => Level::Holds,
            Presence::Unknown => Level::Unknown,
            // A disk that is silent may stay so: nobody is to wait for it.
            Presence::Missing | Presence::Silent | Presence::Failed(_) => Level::DoesNotHold,
        }
    }

    fn missing(&self) -> Vec<Missing> {
        let reason = match &*self.presence.borrow() {
            Presence::Exists(Type::Other) if self.is_device() => Some(Reason::NoDevice),
            Presence::Exists(_) => return Vec::new(),
            Presence::Unknown | Presence::Missing => None,
            Presence::Silent => Some(Reason::Silent),
            Presence::Failed(error) => Some(Reason::NoHelper(Arc::clone(error))),
        };
        vec![Missing { subject: self.subject.clone(), reason }]
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        changed(&mut self.presence)
    }
}

impl Drop for PathCondition {
    fn drop(&mut self) {
        self.shared.forget(&self.asked);
    }
}

#[cfg(test)]
mod tests;
