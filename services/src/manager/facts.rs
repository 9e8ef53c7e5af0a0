//! Follows the facts of the host where the fleet or a condition of a service needs them.

use std::collections::BTreeMap;
use std::time::Duration;

use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::Requirement;
use tokio::sync::watch;
use tokio::time::sleep;

use super::Manager;
use crate::hardware::Hardware;

/// A process reads them. Not all changes are ones of devices.
const READ_EVERY: Duration = Duration::from_secs(300);
/// After a failure.
const RETRY: Duration = Duration::from_secs(10);
/// Events of one change: a host may lose a thousand disks at once.
const EVENTS: usize = 16;

/// The values of the facts by their names. Empty: not read yet.
pub type Known = BTreeMap<String, String>;

impl Manager {
    /// Follows the facts from now on if a service has a condition on one.
    pub(super) fn follow_asked_facts(&self) {
        let asks = |list: &[Requirement]| {
            let mut asks = false;
            Requirement::each_of(list, &mut |entry| asks |= matches!(entry, Requirement::Fact(_)));
            asks
        };
        if const { OWN.has(Feature::Inspect) }
            && self.known_specs().iter().any(|spec| asks(&spec.when) || asks(&spec.depends))
        {
            self.follow_facts();
        }
    }

    /// Follows the facts from now on. Each change is an event, and services that wait for a fact see it.
    pub(crate) fn follow_facts(&self) -> watch::Receiver<Known> {
        let begin = || {
            let (publish, known) = watch::channel(Known::new());
            if const { OWN.has(Feature::Inspect) } {
                kelson_sys::spawn(follow(self.clone(), publish));
            }
            known
        };
        self.inner.facts.get_or_init(begin).clone()
    }
}

/// Publishes the facts at once and at each change, until the host stops.
async fn follow(manager: Manager, publish: watch::Sender<Known>) {
    let facts = manager.inner.host_context.sources.facts.clone();
    let mut hardware = Hardware::follow();
    while !manager.closing() {
        // Its own problem is that of `kelsonctl facts` too.
        let Ok(now) = facts.read().await else {
            sleep(RETRY).await;
            continue;
        };
        if *publish.borrow() != now {
            let before = publish.send_replace(now);
            // What an earlier incarnation has read is not known: its changes are not either.
            if !before.is_empty() {
                changes(&before, &publish.borrow()).iter().for_each(|text| manager.host_event(text));
            }
        }
        hardware.changed(READ_EVERY).await;
    }
}

/// The difference between two readings, a sentence for each of the first facts.
fn changes(before: &Known, now: &Known) -> Vec<String> {
    let gone = before.iter().filter(|(name, _)| !now.contains_key(*name));
    let gone = gone.map(|(name, value)| format!("the fact {name} is gone; it was {value}"));
    let others = now.iter().filter_map(|(name, value)| match before.get(name) {
        Some(old) if old == value => None,
        Some(old) => Some(format!("the fact {name} is {value} now; it was {old}")),
        None => Some(format!("the fact {name} is new: {value}")),
    });
    let mut all: Vec<String> = gone.chain(others).collect();
    let more = all.len().saturating_sub(EVENTS);
    if more > 0 {
        all.truncate(EVENTS);
        all.push(format!("{more} more facts have changed; kelsonctl facts lists all"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(list: &[(&str, &str)]) -> Known {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn each_change_is_one_sentence_and_many_are_bounded() {
        let before = facts(&[("cpu.threads", "2"), ("disk.vda.size", "7"), ("memory.total", "9")]);
        let now = facts(&[("cpu.threads", "4"), ("disk.vdb.size", "8"), ("memory.total", "9")]);
        assert_eq!(
            changes(&before, &now),
            [
                "the fact disk.vda.size is gone; it was 7",
                "the fact cpu.threads is 4 now; it was 2",
                "the fact disk.vdb.size is new: 8",
            ]
        );
        let many = (0..1000).map(|number| (format!("disk.sd{number}.size"), "1".to_owned())).collect();
        let changes = changes(&facts(&[]), &many);
        assert_eq!(changes.len(), EVENTS + 1);
        assert_eq!(changes[EVENTS], "984 more facts have changed; kelsonctl facts lists all");
    }
}
