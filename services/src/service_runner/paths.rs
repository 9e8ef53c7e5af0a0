//! The paths that start a service: part of its gate while it waits, and followed for changes across its runs.
//!
//! A change that comes while the service runs, or before a run that failed and is repeated, must not be lost. So each
//! path that is followed for changes has a question that was asked before the run, and the gate holds only once the
//! question for the run after that has been asked, too.

use std::sync::{Arc, Mutex};

use kelson_conditions::{BoxFuture, Condition, Level, Missing, PathCondition, Paths, Subject};
use kelson_spec::service::PathTrigger;
use kelson_sys::lock;

/// Those of one service.
pub struct HeldPaths {
    held: Vec<Held>,
    /// The last run that has taken in what had changed before it.
    taken_by: u64,
}

struct Held {
    trigger: PathTrigger,
    /// `None`: a state that lasts, which is asked again before each run.
    change: Option<Arc<Mutex<Asked>>>,
}

/// Whether a path has changed.
struct Asked {
    /// Since before the last run.
    last: PathCondition,
    /// Since before the next run.
    next: Option<PathCondition>,
}

impl HeldPaths {
    /// Follows those whose changes count.
    pub fn new(triggers: &[PathTrigger], paths: &Paths) -> HeldPaths {
        let asked =
            |trigger: &PathTrigger| Arc::new(Mutex::new(Asked { last: paths.trigger(trigger), next: None }));
        let held = |trigger: &PathTrigger| Held {
            trigger: trigger.clone(),
            change: trigger.event.is_change().then(|| asked(trigger)),
        };
        HeldPaths { held: triggers.iter().map(held).collect(), taken_by: 0 }
    }

    /// Whether these are the ones that a spec names.
    pub fn are(&self, triggers: &[PathTrigger]) -> bool {
        self.held.iter().map(|held| &held.trigger).eq(triggers)
    }

    /// This run has taken in what had changed before it. To be called before the next run is waited for.
    pub fn taken(&mut self, run: u64) {
        if std::mem::replace(&mut self.taken_by, run) == run {
            return;
        }
        for change in self.held.iter().filter_map(|held| held.change.as_ref()) {
            let mut asked = lock(change);
            if let Some(next) = asked.next.take() {
                asked.last = next;
            }
        }
    }

    /// Each of them as a condition.
    pub fn conditions(&self, paths: &Paths) -> Vec<Box<dyn Condition>> {
        let condition = |held: &Held| -> Box<dyn Condition> {
            match &held.change {
                None => Box::new(paths.trigger(&held.trigger)),
                Some(change) => Box::new(Change::new(held.trigger.clone(), change, paths)),
            }
        };
        self.held.iter().map(condition).collect()
    }
}

/// Holds once a path has changed and the next change would be seen.
struct Change {
    trigger: PathTrigger,
    asked: Arc<Mutex<Asked>>,
    paths: Paths,
    last: PathCondition,
    next: Option<PathCondition>,
}

impl Change {
    fn new(trigger: PathTrigger, asked: &Arc<Mutex<Asked>>, paths: &Paths) -> Change {
        let (last, next) = {
            let asked = lock(asked);
            (asked.last.again(), asked.next.as_ref().map(PathCondition::again))
        };
        Change { trigger, asked: Arc::clone(asked), paths: paths.clone(), last, next }
    }
}

impl Condition for Change {
    fn level(&self) -> Level {
        match self.last.level() {
            // Also where nobody can be asked about the next change.
            Level::Holds => match self.next.as_ref().map(Condition::level) {
                None | Some(Level::Unknown) => Level::Unknown,
                Some(_) => Level::Holds,
            },
            other => other,
        }
    }

    fn missing(&self) -> Vec<Missing> {
        match (self.level(), self.last.missing()) {
            (Level::Holds, _) => Vec::new(),
            (_, missing) if missing.is_empty() => vec![Subject::Trigger(self.trigger.clone()).into()],
            (_, missing) => missing,
        }
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            match &mut self.next {
                Some(next) => next.changed().await,
                None if self.last.holds() => {
                    let next = self.paths.trigger(&self.trigger);
                    self.next = Some(next.again());
                    lock(&self.asked).next = Some(next);
                }
                None => self.last.changed().await,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use kelson_conditions::sentence;
    use kelson_helper::{CONTROL, Launched, Launcher, Start};
    use kelson_spec::service::PathEvent;
    use tokio::time::timeout;

    use super::*;

    /// Runs the inside of `kelson-task watch-paths` in a thread.
    struct Threads;

    impl Launcher for Threads {
        fn launch(&self, mut start: Start) -> BoxFuture<'static, std::io::Result<Launched>> {
            let socket = start.take(CONTROL).unwrap();
            std::thread::spawn(move || kelson_conditions::path_helper(socket));
            let exit = Box::pin(std::future::pending());
            Box::pin(async { Ok(Launched { pid: 7, start_time: 0, exit, kill: Box::new(|| {}) }) })
        }
    }

    async fn comes(conditions: &mut [Box<dyn Condition>], level: Level) {
        let all = async {
            for one in conditions {
                while one.level() != level {
                    one.changed().await;
                }
            }
        };
        timeout(Duration::from_secs(60), all).await.unwrap();
    }

    fn write(path: &Path) {
        std::fs::write(path, "x").unwrap();
    }

    #[tokio::test]
    async fn a_change_holds_until_a_run_has_taken_it_in() {
        let folder = tempfile::tempdir().unwrap();
        let [file, flag] = ["file", "flag"].map(|name| folder.path().join(name));
        let paths = Paths::new(Arc::new(Threads));
        let trigger = |event, path: &Path| PathTrigger { event, path: path.to_str().unwrap().to_owned() };
        let changed = [trigger(PathEvent::Changed, &file)];
        let mut held = HeldPaths::new(&changed, &paths);
        assert!(held.are(&changed) && !held.are(&[trigger(PathEvent::Exists, &file)]));
        let mut gate = held.conditions(&paths);
        comes(&mut gate, Level::DoesNotHold).await;
        assert_eq!(sentence(&gate[0].missing()), format!("a change of {file:?}"));
        write(&file);
        comes(&mut gate, Level::Holds).await;
        assert!(gate[0].missing().is_empty());
        drop(gate);
        // The run failed: the same change starts the next one.
        let mut gate = held.conditions(&paths);
        comes(&mut gate, Level::Holds).await;
        drop(gate);
        held.taken(2);
        comes(&mut held.conditions(&paths), Level::DoesNotHold).await;
        write(&file);
        comes(&mut held.conditions(&paths), Level::Holds).await;
        held.taken(2);
        comes(&mut held.conditions(&paths), Level::Holds).await;
        // It changes while a run takes in an earlier change.
        write(&file);
        held.taken(3);
        comes(&mut held.conditions(&paths), Level::Holds).await;

        // A state lasts as long as it lasts.
        let mut held = HeldPaths::new(&[trigger(PathEvent::Exists, &flag)], &paths);
        let mut gate = held.conditions(&paths);
        comes(&mut gate, Level::DoesNotHold).await;
        write(&flag);
        comes(&mut gate, Level::Holds).await;
        held.taken(1);
        comes(&mut held.conditions(&paths), Level::Holds).await;
    }
}
