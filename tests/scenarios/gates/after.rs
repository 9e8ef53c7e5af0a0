//! `after`: an order of starts and stops without a need.

use kelson_tests::Host;

#[test]
fn after_orders_starts_and_stops_and_needs_nobody() {
    let mut host = Host::builder()
        .runs_with("db", "wait-path=$DIR/go, notify=READY=1, serve", "readiness: notify")
        .runs_with("broken", "exit=3", "restart: {delay: 1h, maxDelay: 1h}")
        .runs_with("by-hand", "serve", "start: manual")
        .runs_with("web", "serve", "after: [db, broken, by-hand, nobody]")
        .start();
    let web = host.wait_for("web", "to wait", |web| web.waiting_for == ["service \"db\" to be up or down"]);
    assert_eq!((web.state.as_str(), web.pid), ("waiting", None), "{web:?}");
    host.touch("go");
    host.wait_up("web");
    assert_eq!(host.service("broken").state, "backoff");
    // It needs none of them.
    host.ctl(&["stop", "db", "--wait"]).ok();
    assert!(host.service("web").up);
    host.ctl(&["restart", "web", "--wait"]).ok();
    host.ctl(&["start", "db", "--wait"]).ok();
    // The name that nobody has is no mistake, and hardly meant.
    let config = host.path("config");
    let said = host.ctl(&["validate", config.to_str().expect("a path in UTF-8")]).ok().stdout;
    assert!(said.contains("after: there is no service nobody, so it orders nothing"), "{said}");
    let graph: serde_json::Value = host.ctl(&["-o", "json", "graph"]).json();
    let edge = |to: &str| {
        let edges = graph["edges"].as_array().expect("edges");
        edges.iter().find(|edge| edge["from"] == "web" && edge["to"] == to).cloned().unwrap_or_default()
    };
    assert_eq!((edge("db")["event"].as_str(), edge("db")["holds"].as_bool()), (Some("settled"), Some(true)));
    host.poweroff();
}
