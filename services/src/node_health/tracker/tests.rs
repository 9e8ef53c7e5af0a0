use super::*;
use crate::manager::failed_snapshot;
use crate::model::State;

fn service(name: &str, up: bool, group: Option<&str>) -> Snapshot {
    Snapshot {
        state: if up { State::Running } else { State::Backoff },
        up,
        down: false,
        run: 1,
        group: group.map(Arc::from),
        ..failed_snapshot(&Arc::from(name), "", false)
    }
}

fn culprits(scope: &Scope) -> Vec<&str> {
    scope.culprits.keys().map(AsRef::as_ref).collect()
}

#[test]
fn a_group_is_there_while_it_has_members() {
    let at = Instant::now();
    let mut tracker = Tracker::new(NodeHealthSpec::default(), at);
    tracker.see(&service("web", false, Some("shop")), None, at);
    tracker.see(&service("db", true, Some("shop")), None, at);
    tracker.see(&service("lone", false, None), None, at);
    tracker.see(&service("db", true, Some("shop")), None, at);
    let shop = tracker.group("shop").unwrap();
    assert_eq!((culprits(shop), shop.asked), (vec!["web"], 2));
    assert_eq!((culprits(&tracker.node), tracker.node.asked), (vec!["lone", "web"], 3));
    // It moves, with a new file.
    tracker.see(&service("web", false, Some("other")), None, at);
    let shop = tracker.group("shop").unwrap();
    assert_eq!((culprits(shop), shop.asked), (vec![], 1));
    let other = tracker.group("other").unwrap();
    assert_eq!((culprits(other), other.asked), (vec!["web"], 1));
    assert_eq!((culprits(&tracker.node), tracker.node.asked), (vec!["lone", "web"], 3));
    tracker.forget("web");
    tracker.forget("web");
    assert!(tracker.group("other").is_none());
    assert_eq!((culprits(&tracker.node), tracker.node.asked), (vec!["lone"], 2));
}

#[test]
fn a_change_of_a_member_and_a_restart_renew_the_deadline() {
    let begun = Instant::now();
    let at = |seconds| begun + std::time::Duration::from_secs(seconds);
    let mut tracker = Tracker::new(NodeHealthSpec::default(), begun);
    let web = service("web", false, Some("shop"));
    let spec = |command: &str| Some(Arc::new(ServiceSpec::process("web", [command])));
    let web = Snapshot { spec: spec("old"), ..web };
    tracker.see(&web, None, begun);
    let begun_of = |tracker: &Tracker| tracker.group("shop").map(|scope| scope.begun);
    // A new file alone changes nothing yet.
    tracker.see(&Snapshot { changed: true, ..web.clone() }, None, at(10));
    assert_eq!(begun_of(&tracker), Some(at(0)));
    let web = Snapshot { spec: spec("new"), ..web };
    tracker.see(&web, None, at(20));
    assert_eq!(begun_of(&tracker), Some(at(20)));
    tracker.see(&service("db", false, Some("shop")), None, at(30));
    assert_eq!(begun_of(&tracker), Some(at(30)));
    for seconds in [40, 50] {
        tracker.restarted("shop", 1, at(seconds));
    }
    assert_eq!(begun_of(&tracker), Some(at(40)));
    assert_eq!(tracker.node.begun, begun);
}

#[test]
fn a_group_is_judged_by_its_own_file_and_a_change_of_that_renews_its_deadline() {
    let begun = Instant::now();
    let secs = std::time::Duration::from_secs;
    let file = |deadline: u64| GroupSpec {
        name: "shop".into(),
        minimum: Some(secs(1)),
        deadline: Some(secs(deadline)),
        ..GroupSpec::default()
    };
    let node = NodeHealthSpec { minimum: secs(10), deadline: secs(300) };
    let mut tracker = Tracker::new(HealthSpecs::new(node, &[file(20)]), begun);
    for (name, group) in [("web", "shop"), ("mail", "post")] {
        tracker.see(&service(name, false, Some(group)), None, begun);
    }
    assert!(tracker.conclude(begun).is_empty());
    assert_eq!(tracker.due(), Some(begun + secs(20)));
    let failed = |tracker: &mut Tracker, after: u64| {
        let turns = tracker.conclude(begun + secs(after)).into_iter();
        turns.filter_map(|(group, _)| group).map(|group| group.to_string()).collect::<Vec<_>>()
    };
    // The same file again is no change, and neither is one of the host's settings.
    let other = NodeHealthSpec { minimum: secs(11), ..node };
    tracker.set_specs(HealthSpecs::new(other, &[file(20)]), begun + secs(10));
    assert_eq!(failed(&mut tracker, 20), ["shop"]);
    tracker.report(Some("shop"));
    tracker.set_specs(HealthSpecs::new(node, &[file(30)]), begun + secs(40));
    assert_eq!(failed(&mut tracker, 40), ["shop"]);
    assert_eq!(tracker.group("shop").map(|scope| scope.state), Some(HealthState::Pending));
    tracker.report(Some("shop"));
    assert_eq!(failed(&mut tracker, 69), Vec::<String>::new());
    assert_eq!(failed(&mut tracker, 70), ["shop"]);
    // Without a file it is judged as the host.
    tracker.set_specs(node.into(), begun + secs(80));
    assert_eq!(tracker.spec(Some("shop")), node);
    assert_eq!(failed(&mut tracker, 379), ["post"]);
    assert_eq!(tracker.group("shop").map(|scope| scope.state), Some(HealthState::Pending));
}

#[test]
fn a_service_that_is_not_asked_any_more_is_no_culprit() {
    let at = Instant::now();
    let mut tracker = Tracker::new(NodeHealthSpec::default(), at);
    tracker.see(&service("web", false, Some("shop")), None, at);
    let aside = Snapshot { required: false, ..service("web", false, Some("shop")) };
    tracker.see(&aside, None, at);
    assert_eq!((culprits(&tracker.node), tracker.node.asked), (vec![], 0));
    let shop = tracker.group("shop").unwrap();
    assert_eq!((culprits(shop), shop.asked), (vec![], 0));
}

#[test]
fn another_run_is_a_break_that_nobody_saw() {
    let at = Instant::now();
    let minimum = std::time::Duration::from_secs(1);
    let mut tracker = Tracker::new(NodeHealthSpec { minimum, ..NodeHealthSpec::default() }, at);
    tracker.see(&service("web", true, Some("shop")), None, at);
    tracker.conclude(at);
    let later = at + std::time::Duration::from_secs(2);
    assert_eq!(tracker.conclude(later).len(), 2);
    tracker.see(&Snapshot { run: 2, ..service("web", true, Some("shop")) }, None, later);
    let turns = tracker.conclude(later);
    assert_eq!(turns, [(None, HealthState::Unhealthy), (Some(Arc::from("shop")), HealthState::Unhealthy)]);
}
