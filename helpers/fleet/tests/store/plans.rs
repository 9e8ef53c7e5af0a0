//! Plans of actions on many hosts, in a real etcd.

use kelson_proto::v1::fleet_question::Question;
use kelson_proto::v1::{FleetPage, FleetPlansRequest, PutFleetPlanRequest, RemoveFleetPlanRequest};
use kelson_tests::Etcd;

use crate::host::{Helper, Host};

fn put(helper: &mut Helper, name: &str, part: u32, revision: i64, value: &[u8]) -> i64 {
    let (name, value) = (name.to_owned(), value.to_vec());
    let page = helper.ask(1, Question::PutPlan(PutFleetPlanRequest { name, part, revision, value }));
    assert_eq!(page.problem, "");
    page.revision
}

fn remove(helper: &mut Helper, name: &str, revision: i64) -> i64 {
    helper.ask(2, Question::RemovePlan(RemoveFleetPlanRequest { name: name.to_owned(), revision })).revision
}

fn plans(helper: &mut Helper, plan: &str, after: &str, limit: u32) -> FleetPage {
    let (plan, after) = (plan.to_owned(), after.to_owned());
    helper.ask(3, Question::Plans(FleetPlansRequest { plan, after, limit }))
}

fn places(page: &FleetPage) -> Vec<(String, u32)> {
    page.plans.iter().map(|part| (format!("{}/{}", part.host, part.name), part.part)).collect()
}

#[test]
fn a_plan_is_written_by_who_knows_its_revision() {
    let Some(etcd) = Etcd::start() else { return };
    let (host, other) = (Host::new("edge-1", &etcd), Host::new("edge-2", &etcd));
    let mut helper = host.start_with(&[]);
    helper.connected(true);
    let first = put(&mut helper, "roll", 0, 0, b"head");
    assert!(first > 0);
    assert_eq!(put(&mut helper, "roll", 0, 0, b"another"), 0, "it is there already");
    assert_eq!(put(&mut helper, "roll", 1, first, &[7; 6 << 10]), first);
    let second = put(&mut helper, "roll", 0, first, b"renewed");
    assert!(second > first);
    // The one who wrote before knows nothing of that.
    assert_eq!(put(&mut helper, "roll", 1, first, b"late"), 0);
    assert_eq!(put(&mut helper, "roll", 0, first, b"late"), 0);
    put(&mut helper, "roll-2", 0, 0, b"head");

    // Another host reads it, and has plans of its own.
    let mut second_host = other.start_with(&[]);
    second_host.connected(true);
    assert!(put(&mut second_host, "roll", 0, 0, b"own") > 0);
    let all = plans(&mut second_host, "", "", 0);
    let names = ["edge-1/roll-2", "edge-1/roll", "edge-2/roll"];
    assert_eq!(places(&all), names.map(|name| (name.to_owned(), 0)));
    assert_eq!(all.plans[1].value, b"renewed");
    let whole = plans(&mut second_host, "edge-1/roll", "", 0);
    assert_eq!(places(&whole), [0, 1].map(|part| ("edge-1/roll".to_owned(), part)));
    assert_eq!(whole.plans[1].value, [7; 6 << 10]);

    // Page by page.
    let (mut seen, mut after) = (Vec::new(), String::new());
    for plan in ["", "edge-1/roll"] {
        loop {
            let page = plans(&mut second_host, plan, &after, 1);
            seen.extend(places(&page));
            after = page.cursor;
            if after.is_empty() {
                break;
            }
        }
    }
    assert_eq!(seen, [places(&all), places(&whole)].concat());

    assert_eq!(remove(&mut helper, "roll", first), 0);
    assert!(remove(&mut helper, "roll", second) > 0);
    assert_eq!(places(&plans(&mut helper, "", "", 0)).len(), 2);
    assert_eq!(etcd.keys("/kelson/v1/plans/").len(), 2);
    assert_eq!(plans(&mut helper, "edge-1/../hosts", "", 0).plans, []);
}

/// The largest plan: its parts are read in many messages, and the list of plans does not read them.
#[test]
fn the_parts_of_a_large_plan_are_read_and_not_in_the_list() {
    let Some(etcd) = Etcd::start() else { return };
    let host = Host::new("edge-1", &etcd);
    let mut helper = host.start_with(&[]);
    helper.connected(true);
    let revision = put(&mut helper, "roll", 0, 0, b"head");
    for part in 1..=250 {
        assert_eq!(put(&mut helper, "roll", part, revision, &[7; 6 << 10]), revision);
    }
    assert_eq!(places(&plans(&mut helper, "", "", 0)), [("edge-1/roll".to_owned(), 0)]);
    let (mut count, mut after) = (0, String::new());
    loop {
        let page = plans(&mut helper, "edge-1/roll", &after, 0);
        assert!(page.plans.iter().zip(count..).all(|(part, number)| part.part == number));
        count += u32::try_from(page.plans.len()).unwrap();
        after = page.cursor;
        if after.is_empty() {
            break;
        }
    }
    assert_eq!(count, 251);
}
