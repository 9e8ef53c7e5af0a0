//! The one task that follows all paths of PID 1, for as long as a condition wants one.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::mounts::MountKey;
use super::remote::{Answer, Command, serve};
use super::tree::{Changes, Tree, until};
use super::walk::{Finding, Question};
use super::wire::{Found, MOST_ALLOWED};
use super::{Asked, Change, Presence, Shared};
use crate::on_demand::publish;

/// A path that nobody watches any more is kept this long: at the boot one service follows another.
const LINGER: Duration = Duration::from_secs(1);

pub(super) async fn follow(shared: Arc<Shared>) {
    let (answers, mut heard) = mpsc::unbounded_channel();
    let mut hub = Hub {
        shared,
        answers,
        tree: Tree::new(),
        paths: HashMap::new(),
        ids: HashMap::new(),
        asked: HashMap::new(),
        remotes: HashMap::new(),
        last_id: 0,
        idle_since: None,
    };
    let shared = Arc::clone(&hub.shared);
    loop {
        for change in shared.take_changes() {
            hub.take(change);
        }
        hub.drop_idle_remotes();
        if hub.is_idle_for_long() && shared.end_if_unwanted() {
            return;
        }
        let due = hub.next_due();
        tokio::select! {
            () = shared.wake.notified() => {}
            changes = hub.tree.changes() => hub.apply(changes),
            Some((id, answer)) = heard.recv() => hub.hear(id, answer),
            () = until(due) => {}
        }
    }
}

struct Hub {
    shared: Arc<Shared>,
    answers: mpsc::UnboundedSender<(u64, Answer)>,
    tree: Tree,
    paths: HashMap<u64, Followed>,
    ids: HashMap<Asked, u64>,
    /// From the number under which a remote was asked to the path's own. A new question has a new number, so that
    /// late answers to an old one reach nobody.
    asked: HashMap<u64, u64>,
    remotes: HashMap<MountKey, Remote>,
    last_id: u64,
    idle_since: Option<Instant>,
}

struct Followed {
    path: PathBuf,
    asks: Question,
    presence: Arc<watch::Sender<Presence>>,
    /// The mounts that lead to it and are no memory, in this order; the last one's remote is asked.
    route: Vec<MountKey>,
    /// Number of the question.
    question: Option<u64>,
}

struct Remote {
    commands: mpsc::UnboundedSender<Command>,
    paths: usize,
    idle_since: Option<Instant>,
}

impl Hub {
    fn take(&mut self, change: Change) {
        match change {
            Change::Want(asked, presence) => {
                let id = self.new_id();
                self.ids.insert(asked.clone(), id);
                let (path, asks) = asked;
                let followed = Followed {
                    path: path.clone(),
                    asks: asks.clone(),
                    presence,
                    route: Vec::new(),
                    question: None,
                };
                self.paths.insert(id, followed);
                let finding = self.tree.want(id, path, asks, Vec::new());
                self.find(id, finding);
            }
            Change::Forget(asked) => {
                if let Some(id) = self.ids.remove(&asked) {
                    self.ask_no_more(id);
                    self.tree.forget(id);
                    self.paths.remove(&id);
                }
            }
        }
        self.idle_since = if self.paths.is_empty() { Some(Instant::now()) } else { None };
    }

    fn apply(&mut self, changes: Changes) {
        if changes.mounts {
            // A remote whose mount is gone may hang for ever; its paths lead elsewhere now.
            let mounts = self.tree.mounts();
            let lost = |followed: &Followed| followed.route.iter().any(|key| !mounts.contains(*key));
            let lost: Vec<u64> =
                self.paths.iter().filter(|(_, path)| lost(path)).map(|(id, _)| *id).collect();
            for id in lost {
                self.ask_no_more(id);
                if let Some(finding) = self.tree.finding(id) {
                    self.find(id, finding);
                }
            }
        }
        for (id, finding) in changes.found {
            self.find(id, finding);
        }
    }

    /// Takes a finding of this task itself.
    fn find(&mut self, id: u64, finding: Finding) {
        match finding {
            Finding::Elsewhere(mount) => {
                let asked =
                    self.paths.get(&id).is_some_and(|followed| followed.route.first() == Some(&mount));
                if !asked {
                    self.ask(id, vec![mount]);
                }
            }
            Finding::Exists(kind) => {
                self.ask_no_more(id);
                self.publish(id, Presence::Exists(kind));
            }
            Finding::Missing => {
                self.ask_no_more(id);
                self.publish(id, Presence::Missing);
            }
        }
    }

    /// Takes an answer of a remote.
    fn hear(&mut self, question: u64, answer: Answer) {
        let Some(id) = self.asked.get(&question).copied() else { return };
        let presence = match answer {
            Answer::Found(Found::Exists(kind)) => Presence::Exists(kind),
            Answer::Found(Found::Missing) => Presence::Missing,
            Answer::Unknown => Presence::Unknown,
            Answer::Silent => Presence::Silent,
            Answer::Failed(error) => Presence::Failed(error),
            Answer::Found(Found::Elsewhere(mount)) => {
                // The other process may know of a mount before this one does.
                let changes = self.tree.follow_mounts();
                self.apply(changes);
                if !self.asked.contains_key(&question) {
                    return;
                }
                let route = self.paths.get(&id).map(|followed| followed.route.clone()).unwrap_or_default();
                match self.tree.mounts().by_id(mount) {
                    Some(key) if !route.contains(&key) && route.len() < MOST_ALLOWED => {
                        return self.ask(id, route.into_iter().chain([key]).collect());
                    }
                    _ => Presence::Missing,
                }
            }
        };
        self.publish(id, presence);
    }

    /// Asks the remote of the last mount of a route.
    fn ask(&mut self, id: u64, route: Vec<MountKey>) {
        self.ask_no_more(id);
        let question = self.new_id();
        let Some(mount) = route.last().copied() else { return };
        let Some(followed) = self.paths.get_mut(&id) else { return };
        let (path, asks) = (followed.path.clone(), followed.asks.clone());
        let allowed = route.iter().map(|key| key.id).collect();
        followed.route = route;
        followed.question = Some(question);
        self.asked.insert(question, id);
        let remote = self.remotes.entry(mount).or_insert_with(|| {
            let (commands, orders) = mpsc::unbounded_channel();
            let launcher = Arc::clone(&self.shared.launcher);
            kelson_sys::spawn(serve(launcher, orders, self.answers.clone()));
            Remote { commands, paths: 0, idle_since: None }
        });
        remote.paths = remote.paths.saturating_add(1);
        remote.idle_since = None;
        let _ = remote.commands.send(Command::Watch { id: question, path, question: asks, allowed });
        self.publish(id, Presence::Unknown);
    }

    fn ask_no_more(&mut self, id: u64) {
        let Some(followed) = self.paths.get_mut(&id) else { return };
        let mount = followed.route.last().copied();
        followed.route.clear();
        let Some(question) = followed.question.take() else { return };
        self.asked.remove(&question);
        if let Some(remote) = mount.and_then(|mount| self.remotes.get_mut(&mount)) {
            let _ = remote.commands.send(Command::Forget { id: question });
            remote.paths = remote.paths.saturating_sub(1);
            if remote.paths == 0 {
                remote.idle_since = Some(Instant::now());
            }
        }
    }

    fn publish(&self, id: u64, presence: Presence) {
        if let Some(followed) = self.paths.get(&id) {
            let is_change = matches!(followed.asks, Question::Changed { .. });
            // A change that was seen stays one after the next answer too.
            if !is_change || !matches!(*followed.presence.borrow(), Presence::Exists(_)) {
                publish(&followed.presence, presence);
            }
        }
    }

    fn new_id(&mut self) -> u64 {
        self.last_id = self.last_id.wrapping_add(1);
        self.last_id
    }

    fn drop_idle_remotes(&mut self) {
        self.remotes.retain(|_, remote| remote.idle_since.is_none_or(|since| since.elapsed() < LINGER));
    }

    fn is_idle_for_long(&self) -> bool {
        self.idle_since.is_some_and(|since| since.elapsed() >= LINGER)
    }

    fn next_due(&self) -> Option<Instant> {
        let remotes = self.remotes.values().filter_map(|remote| remote.idle_since);
        remotes.chain(self.idle_since).min().and_then(|since| since.checked_add(LINGER))
    }
}
