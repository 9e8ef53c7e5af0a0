//! The published snapshots of all services by name, and the followers of their changes.
//!
//! A follower keeps the names that changed since it last asked, each once: a service that changes often costs it
//! nothing more, and a follower that is slow loses nothing but what was overtaken.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use tokio::sync::{Notify, watch};

use crate::model::Snapshot;

/// All services that there are. Cheap to clone.
#[derive(Clone, Default)]
pub struct Registry {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    snapshots: RwLock<HashMap<Arc<str>, watch::Receiver<Snapshot>>>,
    followers: Mutex<Vec<Weak<Follower>>>,
    /// Counts as changed with each service that is added.
    added: watch::Sender<()>,
}

#[derive(Default)]
struct Follower {
    names: Mutex<HashSet<Arc<str>>>,
    filled: Notify,
}

impl Follower {
    fn note(&self, name: &Arc<str>) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).insert(Arc::clone(name));
        self.filled.notify_one();
    }

    fn take(&self) -> HashSet<Arc<str>> {
        std::mem::take(&mut *self.names.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The names of services that came, changed or went since it was last asked.
pub struct Changes {
    follower: Arc<Follower>,
}

impl Changes {
    /// Waits until there is at least one. Cancelled by dropping; loses nothing then.
    pub async fn next(&mut self) -> HashSet<Arc<str>> {
        loop {
            let names = self.follower.take();
            if !names.is_empty() {
                return names;
            }
            self.follower.filled.notified().await;
        }
    }
}

impl Registry {
    pub fn add(&self, name: Arc<str>, snapshot: watch::Receiver<Snapshot>) {
        let noted = Arc::clone(&name);
        self.inner.snapshots.write().unwrap_or_else(PoisonError::into_inner).insert(name, snapshot);
        self.inner.added.send_replace(());
        self.changed(&noted);
    }

    pub fn remove(&self, name: &str) {
        let removed = self.inner.snapshots.write().unwrap_or_else(PoisonError::into_inner).remove_entry(name);
        if let Some((name, _)) = removed {
            self.changed(&name);
        }
    }

    pub fn get(&self, name: &str) -> Option<watch::Receiver<Snapshot>> {
        self.inner.snapshots.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Returns its snapshots once there is such a service. Cancelled by dropping.
    pub async fn find(&self, name: &str) -> watch::Receiver<Snapshot> {
        let mut added = self.inner.added.subscribe();
        loop {
            // One that is just being removed has no publisher any more.
            if let Some(found) = self.get(name).filter(|found| found.has_changed().is_ok()) {
                return found;
            }
            if added.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The names of all services.
    pub fn names(&self) -> HashSet<Arc<str>> {
        self.inner.snapshots.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Its snapshot has been published again.
    pub fn changed(&self, name: &Arc<str>) {
        self.inner.followers.lock().unwrap_or_else(PoisonError::into_inner).retain(|follower| {
            let follower = follower.upgrade();
            if let Some(follower) = &follower {
                follower.note(name);
            }
            follower.is_some()
        });
    }

    /// Hears of all changes from now on, and first of each service that there is.
    pub fn follow(&self) -> Changes {
        let follower = Arc::new(Follower::default());
        self.inner.followers.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&follower));
        for name in self.inner.snapshots.read().unwrap_or_else(PoisonError::into_inner).keys() {
            follower.note(name);
        }
        Changes { follower }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::failed_snapshot;

    fn told(changes: &mut Changes) -> Option<Vec<String>> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let mut next = std::pin::pin!(changes.next());
        match std::future::Future::poll(next.as_mut(), &mut context) {
            std::task::Poll::Ready(names) => {
                let mut names: Vec<String> = names.iter().map(ToString::to_string).collect();
                names.sort();
                Some(names)
            }
            std::task::Poll::Pending => None,
        }
    }

    #[test]
    fn each_change_is_heard_once_by_each_follower() {
        let registry = Registry::default();
        let names: [Arc<str>; 2] = [Arc::from("a"), Arc::from("b")];
        for name in &names {
            registry.add(Arc::clone(name), watch::channel(failed_snapshot(name, "", false)).1);
        }
        let (mut first, mut second) = (registry.follow(), registry.follow());
        let both = Some(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!((told(&mut first), told(&mut second)), (both.clone(), both));
        assert_eq!(told(&mut first), None);
        registry.changed(&names[1]);
        registry.changed(&names[1]);
        assert_eq!(told(&mut first), Some(vec!["b".to_owned()]));
        assert_eq!(told(&mut first), None);
        registry.remove("a");
        assert_eq!(told(&mut first), Some(vec!["a".to_owned()]));
        assert_eq!(told(&mut second), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert!(registry.get("a").is_none());
        drop(first);
        registry.remove("nobody");
        registry.changed(&names[0]);
        assert_eq!(registry.inner.followers.lock().unwrap().len(), 1);
        assert_eq!(told(&mut second), Some(vec!["a".to_owned()]));
    }
}
