//! G10: `why` and `graph` know a condition by what it is, and not by a text that may stand inside another.

use kelson_tests::{Host, Reason};
use serde_json::Value;

fn subjects(why: &Reason) -> Vec<&str> {
    why.causes.iter().map(|cause| cause.subject.as_str()).collect()
}

/// Whether an edge of the graph holds.
#[track_caller]
fn holds(host: &Host, from: &str, to: &str) -> bool {
    let graph: Value = host.ctl(&["-o", "json", "graph"]).ok().json();
    let edges = graph["edges"].as_array().expect("edges");
    let edge = edges.iter().find(|edge| edge["from"] == from && edge["to"] == to);
    edge.unwrap_or_else(|| panic!("no edge from {from} to {to}: {graph:#}"))["holds"].as_bool().unwrap()
}

#[test]
fn g10_a_path_with_two_slashes_is_named_as_the_cause() {
    let mut host = Host::builder().runs_with("web", "serve", "depends: [{path: $DIR//flag}]").start();
    host.wait_state("web", "waiting");
    let path = format!("path \"{}//flag\" to exist", host.dir().display());
    assert_eq!(host.service("web").waiting_for, std::slice::from_ref(&path));
    let why = host.client().why("web");
    assert_eq!(subjects(&why), [path.as_str()], "{why:#?}");
    assert!(!why.causes[0].holds);
    assert!(!holds(&host, "web", &path));
    host.touch("flag");
    host.wait_up("web");
    assert!(holds(&host, "web", &path));
    host.poweroff();
}

#[test]
fn g10_a_text_inside_another_is_no_cause() {
    // The message of the failure has the text of the condition that holds.
    let mut host = Host::builder()
        .service("db", "process: {command: ['/none/path \"$DIR\" to exist']}\nrestart: {policy: once}")
        .runs_with("web", "serve", "depends: [{service: db}, {path: $DIR}]")
        .start();
    host.wait_state("db", "failed");
    let there = format!("path \"{}\" to exist", host.dir().display());
    let web = host.wait_for("web", "to wait for what failed", |web| {
        web.waiting_for.iter().any(|text| text.contains("it failed"))
    });
    assert_eq!(web.waiting_for.len(), 1, "{web:?}");
    assert!(web.waiting_for[0].contains(&there), "{web:?}");
    let why = host.client().why("web");
    assert_eq!(subjects(&why), ["service \"db\" to be up"], "{why:#?}");
    assert!(holds(&host, "web", &there) && !holds(&host, "web", "db"));
    // Programs read what is wrong with it without looking into a text.
    let why: Value = host.ctl(&["-o", "json", "why", "web"]).ok().json();
    let missing = &why["causes"][0]["missing"];
    assert_eq!((&missing["kind"], &missing["problem"]), (&"service".into(), &"failed".into()), "{why:#}");
    host.poweroff();
}
