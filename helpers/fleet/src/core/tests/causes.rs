//! Why a host is not healthy, in its entry.

use kelson_proto::v1::{FleetHealth, FleetObstacle};

use super::*;
use crate::entry::{Entry as _, HostEntry};

impl Fleet {
    /// PID 1 says how the host is: each cause with its service.
    fn is(&mut self, state: &str, causes: &[(&str, &str)]) {
        let obstacle = |&(service, detail): &(&str, &str)| FleetObstacle {
            service: service.into(),
            cause: String::new(),
            detail: detail.into(),
        };
        let causes = causes.iter().map(obstacle).collect();
        self.send(Command::Health(FleetHealth { state: state.into(), causes }));
    }

    /// The health and the causes in the store.
    fn entry(&self) -> (String, Vec<String>) {
        let (stored, _) = self.store.values.iter().find(|(key, _)| ***key == *HOST.as_bytes()).unwrap().1;
        let HostEntry { health, causes, .. } = HostEntry::read(&stored.value).unwrap();
        (health, causes.into_iter().map(|one| format!("{}: {}", one.service, one.cause)).collect())
    }
}

#[test]
fn the_causes_come_with_the_health() {
    let mut fleet = registered(&[]);
    fleet.is("unhealthy", &[("db", "disk full after 3 s"), ("web", "gone")]);
    assert_eq!(fleet.changes().len(), 1);
    let causes = ["db: disk full after N s", "web: gone"].map(str::to_owned).to_vec();
    assert_eq!(fleet.entry(), ("unhealthy".to_owned(), causes));
    // The same cause with another number.
    fleet.is("unhealthy", &[("db", "disk full after 4 s"), ("web", "gone")]);
    fleet.pass(Duration::from_secs(60));
    assert_eq!(fleet.changes(), [""; 0]);
    fleet.is("healthy", &[]);
    assert_eq!((fleet.changes().len(), fleet.entry()), (1, ("healthy".to_owned(), vec![])));
}

#[test]
fn a_cause_that_flaps_is_put_once_in_ten_seconds_and_health_at_once() {
    let mut fleet = registered(&[]);
    for _ in 0..100 {
        fleet.is("unhealthy", &[("db", "gone")]);
        fleet.pass(Duration::from_millis(250));
        fleet.is("unhealthy", &[("web", "gone")]);
        fleet.pass(Duration::from_millis(250));
    }
    let puts = fleet.changes().len();
    assert!((5..=6).contains(&puts), "{puts}");
    fleet.is("unhealthy", &[("api", "gone")]);
    fleet.is("failed", &[("api", "gone")]);
    assert_eq!((fleet.changes().len(), fleet.entry().0), (1, "failed".to_owned()));
    // What was true last is put in the end.
    fleet.is("failed", &[("app", "gone")]);
    assert_eq!(fleet.changes(), [""; 0]);
    fleet.pass(Duration::from_secs(10));
    assert_eq!((fleet.changes().len(), fleet.entry().1), (1, vec!["app: gone".to_owned()]));
}

#[test]
fn a_new_helper_changes_no_cause() {
    let mut fleet = registered(&[]);
    fleet.is("unhealthy", &[("db", "gone")]);
    fleet.changes();
    let mut fleet = fleet.replace();
    fleet.send(Command::Complete(true));
    fleet.pass(Duration::from_secs(60));
    fleet.is("unhealthy", &[("db", "gone")]);
    assert_eq!((fleet.changes(), fleet.entry().1), (vec![], vec!["db: gone".to_owned()]));
}
