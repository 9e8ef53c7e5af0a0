//! A host whose fleet is in Consul, which a stand-in plays.

use kelson_tests::consul::Consul;
use kelson_tests::{Host, eventually};

use super::is_registered;

#[test]
fn a_service_of_one_host_waits_for_that_of_another_in_consul() {
    let consul = Consul::start();
    let member = |name: &str| {
        Host::builder()
            .machine(&format!("fleet: {{consul: {{address: '{}'}}, name: {name}}}", consul.address()))
    };
    let waits = "depends: [{registered: postgres, tag: primary}]";
    let app = member("edge-1").runs_with("app", "serve", waits).start();
    eventually("what is missing to be named", || {
        let why = app.ctl(&["why", "app"]).stdout;
        why.contains("registered postgres with tag primary: 0 of 1")
    });
    let health = "register: {name: postgres, port: 5432, tags: [primary]}";
    let mut db = member("edge-2").runs_with("db", "serve", health).start();
    app.wait_up("app");
    assert!(is_registered(&db, "db"));
    let names = |words: &[&str], key: &str| {
        let list: Vec<serde_json::Value> = app.ctl(words).json();
        list.iter().map(|one| one[key].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    eventually("both hosts to be listed", || {
        names(&["fleet", "hosts", "-o", "json"], "name") == ["edge-1", "edge-2"]
    });
    assert_eq!(names(&["fleet", "services", "-o", "json"], "service"), ["db"]);
    db.poweroff();
    assert_eq!((consul.keys(), consul.services().len()), (vec!["kelson/v1/hosts/edge-1".to_owned()], 0));
}
