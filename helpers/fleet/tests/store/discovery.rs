//! Tests against a real etcd how kelson-fleet follows what services wait for.

use std::time::{Duration, Instant};

use crate::host::store::Store;
use crate::host::{Helper, Host, TTL, register};
use kelson_proto::v1::fleet_command::Command as Order;
use kelson_proto::v1::fleet_report::Report;
use kelson_proto::v1::{FleetInterest, FleetRegister, FleetRemove, FleetWanted};
use kelson_tests::Etcd;
use nix::sys::signal::Signal::{SIGCONT, SIGSTOP};

const DB: &str = "/kelson/v1/services/postgres/db-1/db";

fn interest(wanted: &[(&str, &str)]) -> Order {
    let wanted = wanted.iter().map(|(name, tag)| FleetWanted { name: (*name).into(), tag: (*tag).into() });
    Order::Interest(FleetInterest { wanted: wanted.collect() })
}

/// All answers in the order in which they came: `NAME TAG COUNT/ALL`.
fn answers(helper: &Helper) -> Vec<String> {
    helper.reports.iter().filter_map(answer).collect()
}

fn answer(report: &Report) -> Option<String> {
    let Report::Found(found) = report else { return None };
    let wanted = found.wanted.as_ref().unwrap();
    Some(format!("{} {} {}/{}", wanted.name, wanted.tag, found.count, found.all))
}

/// Until this is the next answer about its name and tag.
#[track_caller]
fn answered(helper: &mut Helper, expected: &str) {
    let (subject, _) = expected.rsplit_once(' ').unwrap();
    let answer = helper.wait(|report| {
        answer(report).filter(|one| one.rsplit_once(' ').is_some_and(|(one, _)| one == subject))
    });
    assert_eq!(answer, expected);
}

/// Until the store has confirmed the answers once more: when, in microseconds.
#[track_caller]
fn confirmed(helper: &mut Helper) -> u64 {
    helper.wait(|report| match report {
        Report::FoundAt(at) => Some(*at),
        _ => None,
    })
}

/// For this time the helper reports nothing of what services wait for.
#[track_caller]
fn says_nothing(helper: &mut Helper, time: Duration) {
    let known = answers(helper);
    let until = Instant::now() + time;
    while Instant::now() < until {
        helper.drain();
        assert_eq!(answers(helper), known);
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn tagged(tags: &[&str]) -> String {
    format!(r#"{{"address":"192.0.2.1","port":5432,"tags":{tags:?}}}"#)
}

#[test]
fn instances_of_all_hosts_are_counted_as_they_come_and_go() {
    let Some(etcd) = Etcd::start() else { return };
    let store = Store::new(&etcd);
    for key in [
        "postgres-old/db-1/db",
        "postgres2/db-1/db",
        "postgre/db-1/db",
        "postgres/db-1/db/x",
        "postgres/db-1",
    ] {
        store.put(format!("/kelson/v1/services/{key}"), tagged(&["primary"]));
    }
    store.put("/kelson/v1/services/postgres/odd/db", "{");
    store.put(DB, tagged(&["primary", "blue"]));
    store.put("/kelson/v1/services/postgres/db-2/db", tagged(&["standby"]));
    let host = Host::new("edge-1", &etcd);
    let mut helper = host.start_with(&[]);
    helper.send(interest(&[("postgres", "primary"), ("postgres", ""), ("web", "")]));
    confirmed(&mut helper);
    answered(&mut helper, "postgres  2/2");
    answered(&mut helper, "postgres primary 1/2");
    answered(&mut helper, "web  0/0");
    // The host's own counts too.
    let own = FleetRegister { tags: vec!["primary".into()], ..register("db", "postgres") };
    helper.send(Order::Register(own));
    answered(&mut helper, "postgres primary 2/3");
    store.put(DB, tagged(&["standby"]));
    answered(&mut helper, "postgres primary 1/3");
    store.put("/kelson/v1/services/postgres/odd/db", tagged(&["primary"]));
    answered(&mut helper, "postgres primary 2/4");
    store.put("/kelson/v1/services/postgres/odd/db", "7");
    answered(&mut helper, "postgres primary 1/3");
    etcd.ctl(&["del", DB]);
    answered(&mut helper, "postgres primary 1/2");
    helper.send(Order::Remove(FleetRemove { service: "db".into(), number: 1 }));
    answered(&mut helper, "postgres primary 0/1");

    // What is no longer wanted is not said, and the rest not again.
    helper.send(interest(&[("postgres", "standby"), ("web", "")]));
    answered(&mut helper, "postgres standby 1/1");
    store.put(DB, tagged(&["primary"]));
    answered(&mut helper, "postgres standby 1/2");
    assert_eq!(answers(&helper).iter().filter(|one| one.starts_with("web")).count(), 1);
}

#[test]
fn many_instances_are_read_and_followed() {
    let Some(etcd) = Etcd::start() else { return };
    let store = Store::new(&etcd);
    let instance = |number| {
        let tags: &[&str] = if number % 3 == 0 { &["primary"] } else { &[] };
        (format!("/kelson/v1/services/postgres/db-{number:04}/db"), tagged(tags))
    };
    store.put_all((0..1200).map(instance), 0);
    // Longer than an answer can be with 100 of them.
    (0..40).for_each(|number| {
        store.put(format!("/kelson/v1/services/postgres/a-{number}/db"), "x".repeat(500_000));
    });
    let host = Host::new("edge-1", &etcd);
    let mut helper = host.start_with(&[]);
    helper.send(interest(&[("postgres", "primary")]));
    answered(&mut helper, "postgres primary 400/1200");
    etcd.ctl(&["del", "--prefix", "/kelson/v1/services/postgres/db-00"]);
    helper.wait(|report| answer(report).filter(|one| one == "postgres primary 366/1100"));
}

#[test]
fn the_last_answer_stays_while_the_store_is_away_and_when_it_returns() {
    let Some(mut etcd) = Etcd::start() else { return };
    let store = Store::new(&etcd);
    store.put(DB, tagged(&["primary"]));
    let host = Host::new("edge-1", &etcd);
    let mut helper = host.start_with(&[]);
    helper.send(interest(&[("postgres", "primary")]));
    answered(&mut helper, "postgres primary 1/1");
    let first = confirmed(&mut helper);
    for _ in 0..3 {
        etcd.stop();
        helper.connected(false);
        helper.drain();
        // Another helper knows it without the store.
        drop(helper);
        helper = host.start_with(&[]);
        helper.send(interest(&[("postgres", "primary")]));
        let last = confirmed(&mut helper);
        answered(&mut helper, "postgres primary 1/1");
        assert!(last >= first);
        says_nothing(&mut helper, Duration::from_millis(300));
        etcd.restart();
        assert!(confirmed(&mut helper) > last);
        confirmed(&mut helper);
        assert_eq!(answers(&helper), ["postgres primary 1/1"]);
    }
    // Changes that the store has dropped since are found all the same.
    helper.signal(SIGSTOP);
    etcd.ctl(&["del", DB]);
    let revision: i64 = (0..50)
        .map(|_| {
            let put = etcd.ctl(&["put", "/other", "x", "-w", "json"]);
            let put: serde_json::Value = serde_json::from_str(&put).unwrap();
            put["header"]["revision"].as_i64().unwrap()
        })
        .max()
        .unwrap();
    etcd.ctl(&["compact", &revision.to_string()]);
    etcd.stop();
    etcd.restart();
    helper.signal(SIGCONT);
    answered(&mut helper, "postgres primary 0/0");
}

#[test]
fn hosts_that_were_cut_off_together_have_time_to_return() {
    let Some(etcd) = Etcd::start() else { return };
    let (one, other) = (Host::new("edge-1", &etcd), Host::new("edge-2", &etcd));
    let mut db = one.start_with(&[register("db", "postgres")]);
    db.state("db", "registered");
    let mut app = other.start_with(&[]);
    app.send(interest(&[("postgres", "")]));
    answered(&mut app, "postgres  1/1");
    // Both leases end while nobody is watching.
    [&db, &app].iter().for_each(|helper| helper.signal(SIGSTOP));
    kelson_tests::eventually("the leases have ended", || etcd.keys("/").is_empty());
    std::thread::sleep(TTL / 4);
    app.signal(SIGCONT);
    app.connected(true);
    db.signal(SIGCONT);
    db.connected(true);
    db.state("db", "registered");
    confirmed(&mut app);
    assert_eq!(answers(&app), ["postgres  1/1"]);
    // One that does not return is missed in the end.
    drop(db);
    app.signal(SIGSTOP);
    kelson_tests::eventually("the leases have ended", || etcd.keys("/").is_empty());
    app.signal(SIGCONT);
    answered(&mut app, "postgres  0/0");
}
