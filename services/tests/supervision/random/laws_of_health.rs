//! Laws of the health of the host and of its group: the services make it, and the death of PID 1 does not
//! change it.

use kelson_proto::v1::HealthReport;
use kelson_services::model::{Snapshot, State};
use tokio::time::Instant;

use super::acts::Play;
use super::world::{GROUP, World};
use crate::house::MS;
use crate::node_health::Standing;

#[derive(Default)]
pub struct LawsOfHealth {
    before: Option<Look>,
}

/// All that the health of the host comes from, and what it was.
struct Look {
    services: Vec<Snapshot>,
    events: usize,
    /// Files written, and readings of them that have ended: a file says which services are asked.
    files: (usize, usize),
    standings: Vec<Option<Standing>>,
}

impl LawsOfHealth {
    pub fn ask(&mut self, play: &Play, world: &World, services: &[Snapshot], wrongs: &mut Vec<String>) {
        let Some(health) = &play.house.health else { return };
        let reports = [Some(health.node()), health.group(GROUP)];
        for report in reports.iter().flatten() {
            agrees_with_the_services(play, report, services, wrongs);
        }
        let now = Look {
            services: services.to_vec(),
            events: play
                .book
                .lock()
                .unwrap()
                .events
                .iter()
                .filter(|(_, event)| !event.service.is_empty())
                .count(),
            files: (
                world.versions.values().map(Vec::len).sum(),
                play.reloads.iter().filter(|reload| reload.is_finished()).count(),
            ),
            standings: reports.iter().map(|report| report.as_ref().map(Standing::of)).collect(),
        };
        if let Some(before) = self.before.take().filter(|before| {
            (before.events, before.files, &before.services) == (now.events, now.files, &now.services)
        }) {
            for (before, now) in before.standings.iter().zip(&now.standings) {
                let same = match (before, now) {
                    (Some(before), Some(now)) => is_what_time_makes_of(before, now),
                    (before, now) => before.is_none() && now.is_none(),
                };
                if !same {
                    wrongs.push(format!("nothing has changed, and the health {before:?} became {now:?}"));
                }
            }
        }
        self.before = Some(now);
    }
}

/// Time alone changes the state, and with it when that was entered and that a deadline runs.
fn is_what_time_makes_of(before: &Standing, now: &Standing) -> bool {
    let (mut before, now) = (before.clone(), now);
    if before.words[0] != now.words[0] {
        before.words[0].clone_from(&now.words[0]);
        before.times[0] = now.times[0];
        before.times[2] = now.times[2];
    }
    before.is(now)
}

/// A service that is blamed is not up, and since all are up none has been started again.
fn agrees_with_the_services(
    play: &Play,
    report: &HealthReport,
    services: &[Snapshot],
    wrongs: &mut Vec<String>,
) {
    let standing = Standing::of(report);
    for culprit in &report.culprits {
        if services.iter().any(|now| *now.name == culprit.service && now.up) {
            wrongs.push(format!("{} is blamed and is up: {report:?}", culprit.service));
        }
    }
    let (Some(steady), book) = (standing.times[1], play.book.lock().unwrap()) else { return };
    let begun = |now: &Snapshot| -> Option<Instant> {
        let of_it = book.events.iter().rev().filter(|(_, event)| event.service == now.name);
        let known = of_it.filter(|(_, event)| !book.late.contains(&event.seq));
        known
            .map(|(at, event)| (*at, event.state))
            .find(|(_, state)| *state == State::Starting)
            .map(|(at, _)| at)
    };
    let whole = report.services as usize == services.len();
    for now in services.iter().filter(|now| now.up && whole) {
        if begun(now).is_some_and(|begun| begun > steady + 20 * MS) {
            wrongs.push(format!("all are said to be up since {steady:?}, and {now:?} was started since"));
        }
    }
}
