//! Many services at once: the other tasks of PID 1 have their turns meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kelson_services::node_health::{HealthState, NodeHealth, NodeHealthSpec};
use nix::time::{ClockId, clock_gettime};
use tokio::task::yield_now;

use crate::house::*;

const MANY: usize = 3000;

fn many() -> impl Iterator<Item = kelson_spec::ServiceSpec> {
    (0..MANY).map(|n| spec(&format!("s{n:04}")))
}

/// A house that is not judged in the end: that reads all records for each service.
fn empty() -> House {
    let mut house = House::new();
    house.is_judged = false;
    house
}

/// Nanoseconds of a processor that this thread has had: a computer that is busy with others changes nothing of it.
fn used() -> u64 {
    let used = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
    u64::try_from(used.tv_sec() * 1_000_000_000 + used.tv_nsec()).unwrap()
}

/// Asserts that another task waits for its turn for a fraction of the time of `work` at most, and that it sees all
/// services of `house` or none.
async fn others_have_turns(house: &House, work: impl Future) {
    let before = house.manager.list().len();
    let longest = Arc::new(AtomicU64::new(0));
    let other = tokio::spawn({
        let (manager, longest) = (house.manager.clone(), Arc::clone(&longest));
        async move {
            loop {
                let begun = used();
                yield_now().await;
                longest.fetch_max(used() - begun, Ordering::Relaxed);
                let there = manager.list().len();
                assert!([before, before + MANY].contains(&there), "{there} are there");
            }
        }
    });
    yield_now().await;
    let begun = used();
    work.await;
    yield_now().await;
    let (longest, whole) = (longest.load(Ordering::Relaxed), used() - begun);
    assert!(!other.is_finished(), "{:?}", other.await);
    assert!(longest < whole / 4, "{longest} of {whole} ns without a turn");
}

#[tokio::test(start_paused = true)]
async fn others_have_turns_while_the_boot_takes_the_services_in() {
    let house = empty();
    others_have_turns(&house, house.manager.take_in(loaded(many()))).await;
    assert_eq!(house.manager.list().len(), MANY);
}

#[tokio::test(start_paused = true)]
async fn others_have_turns_while_a_reload_takes_new_services_in() {
    let house = empty();
    others_have_turns(&house, async {
        let report = house.manager.reload(loaded(many())).await.unwrap();
        assert_eq!(report.added.len(), MANY);
    })
    .await;
}

/// What was written down of them is gone: the next incarnation does not start them.
#[tokio::test(start_paused = true)]
async fn a_reload_that_meets_the_end_of_the_host_adds_nothing() {
    let house = House::new();
    let manager = house.manager.clone();
    let reload = tokio::spawn(async move { manager.reload(loaded(many())).await });
    let specs = || house.host_context.store.as_ref().unwrap().specs().len();
    while specs() == 0 {
        yield_now().await;
    }
    house.manager.starts_nothing_more();
    let refused = reload.await.unwrap().unwrap_err().to_string();
    assert!(refused.contains("the host is stopping"), "{refused}");
    assert_eq!((specs(), house.manager.list().len()), (0, 0));
}

/// One that is up would make it so, if it were judged before.
#[tokio::test(start_paused = true)]
async fn a_host_is_not_healthy_while_its_services_are_taken_in() {
    let house = empty();
    house.manager.bring_in(Arc::new(spec("logd")));
    house.settle().await;
    let newest = || *house.manager.newest_event().borrow();
    let before = newest();
    let manager = house.manager.clone();
    let taken = tokio::spawn(async move { manager.take_in(loaded(many())).await });
    let health = NodeHealth::of(&house.manager, NodeHealthSpec { minimum: Duration::ZERO, ..HEALTH });
    while !taken.is_finished() {
        assert_eq!((newest(), health.node_state()), (before, HealthState::Pending));
        yield_now().await;
    }
}
