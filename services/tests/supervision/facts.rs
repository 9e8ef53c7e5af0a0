//! The facts of a host without a fleet.

use std::sync::atomic::Ordering;

use kelson_services::model::State;
use kelson_spec::facts::FactTest;
use kelson_spec::service::{Requirement, ServiceSpec};
use tokio::time::sleep;

use crate::house::*;

/// Longer than between two readings of those who only follow them.
const LATER: u64 = 310;

fn set(stage: &Stage, name: &str, value: &str) {
    stage.facts.values.lock().unwrap().insert(name.to_owned(), value.to_owned());
}

/// A service that runs where there is no disk of this name.
fn without_disk(name: &str) -> ServiceSpec {
    let test = FactTest { name: "disk.none.size".to_owned(), is: Vec::new(), at_least: None };
    let not = Requirement::Not(Box::new(Requirement::Fact(test)));
    ServiceSpec { when: vec![Requirement::Any(vec![not])], ..spec(name) }
}

/// The events of facts.
fn changes(house: &House) -> Vec<String> {
    host_told(house).into_iter().filter(|text| text.starts_with("the fact ")).collect()
}

#[tokio::test(start_paused = true)]
async fn changes_of_facts_are_events_once_a_file_asks_for_one() {
    let house = House::with([spec("web")]).await;
    let reads = || house.stage.facts.reads.load(Ordering::Relaxed);
    set(&house.stage, "cpu.threads", "2");
    sleep(secs(86_400)).await;
    assert_eq!(reads(), 0, "nobody asks for one");
    for _ in 0..2 {
        house.manager.reload(loaded([spec("web"), without_disk("db")])).await.unwrap();
        house.settle().await;
    }
    assert_eq!(house.state("db"), State::Running);
    let before = reads();
    set(&house.stage, "cpu.threads", "4");
    sleep(secs(LATER)).await;
    assert_eq!(changes(&house), ["the fact cpu.threads is 4 now; it was 2"]);
    assert!(reads() - before <= 2, "one follows them for all, and {before} became {}", reads());
}

#[test]
fn a_new_incarnation_follows_the_facts_and_invents_no_change() {
    let ruin = first_life(async {
        let house = House::new();
        set(&house.stage, "cpu.threads", "2");
        house.boot([without_disk("db")]).await;
        set(&house.stage, "cpu.threads", "4");
        sleep(secs(LATER)).await;
        assert_eq!(changes(&house).len(), 1);
        house
    });
    next_life(ruin, async |house| {
        sleep(secs(LATER)).await;
        assert_eq!(changes(&house).len(), 1, "{:?}", changes(&house));
        set(&house.stage, "disk.vda.size", "9");
        sleep(secs(LATER)).await;
        assert_eq!(changes(&house)[1..], ["the fact disk.vda.size is new: 9"]);
    });
}
