//! Follows the facts of a host that belongs to a fleet.

use std::collections::BTreeMap;
use std::time::Duration;

use kelson_conditions::Facts;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::hardware::Hardware;
use super::members::Command;
use crate::manager::Manager;

/// A process reads them. Not all changes are ones of devices.
const READ_EVERY: Duration = Duration::from_secs(300);
/// After a failure.
const RETRY: Duration = Duration::from_secs(10);
/// Events of one change: a host may lose a thousand disks at once.
const EVENTS: usize = 16;

/// Sends the facts at once and at each change, which is an event too, until the driver has ended.
pub async fn follow(facts: Facts, manager: Manager, commands: mpsc::UnboundedSender<Command>) {
    let mut hardware = Hardware::follow();
    let mut known: Option<BTreeMap<String, String>> = None;
    while !commands.is_closed() && !manager.closing() {
        // Its own problem is that of `kelsonctl facts` too.
        let Ok(now) = facts.read().await else {
            sleep(RETRY).await;
            continue;
        };
        if known.as_ref() != Some(&now) {
            let before = known.replace(now.clone());
            let changes = before.map(|before| changes(&before, &now)).unwrap_or_default();
            changes.iter().for_each(|text| manager.host_event(text));
            let _ = commands.send(Command::Facts(now));
        }
        hardware.changed(READ_EVERY).await;
    }
}

/// The difference between two readings, a sentence for each of the first facts.
fn changes(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<String> {
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

    fn facts(list: &[(&str, &str)]) -> BTreeMap<String, String> {
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
