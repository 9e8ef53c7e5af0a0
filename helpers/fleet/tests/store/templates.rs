//! Tests against a real etcd how kelson-fleet renders templates.

use std::fs;
use std::path::Path;

use crate::host::store::Store;
use crate::host::{Helper, Host};
use kelson_proto::v1::fleet_command::Command as Order;
use kelson_proto::v1::fleet_report::Report;
use kelson_proto::v1::{FleetTemplate, FleetTemplates};
use kelson_spec::templates::rendered;
use kelson_tests::{Etcd, eventually};
use nix::sys::signal::Signal::SIGKILL;

const TEXT: &str =
    "{% for db in registered('postgres') %}{{ db.host }} {{ db.tags | join(',') }};{% endfor %}";

fn put(store: &Store, host: &str, tag: &str) {
    let value = format!(r#"{{"address":"192.0.2.1","port":5432,"tags":["{tag}"],"meta":{{"a":"b"}}}}"#);
    store.put(format!("/kelson/v1/services/postgres/{host}/db"), value);
}

fn reported(helper: &mut Helper) -> FleetTemplate {
    helper.wait(|report| match report {
        Report::Template(template) => Some(template.clone()),
        _ => None,
    })
}

fn problem(helper: &mut Helper, words: &str) {
    helper.wait(|report| match report {
        Report::Template(template) => template.problem.contains(words).then_some(()),
        _ => None,
    });
}

#[test]
fn a_text_follows_the_registry_and_stays_without_it() {
    let Some(mut etcd) = Etcd::start() else { return };
    let store = Store::new(&etcd);
    let host = Host::new("edge-1", &etcd);
    let source = host.path("template").display().to_string();
    fs::write(&source, TEXT).unwrap();
    let file = rendered(&host.path("runtime"), Path::new(&source));
    let text = || fs::read_to_string(&file).unwrap_or_default();
    let templates = || Order::Templates(FleetTemplates { sources: vec![source.clone()] });
    let mut helper = host.start_with(&[]);
    helper.send(templates());
    problem(&mut helper, "no instance of postgres");
    put(&store, "db-2", "standby");
    put(&store, "db-1", "primary");
    eventually("both", || {
        helper.drain();
        text() == "db-1 primary;db-2 standby;"
    });
    put(&store, "db-1", "blue");
    eventually("the other tag", || {
        helper.drain();
        text() == "db-1 blue;db-2 standby;"
    });
    // A mistake leaves the text as it is.
    fs::write(&source, "{{ nothing }}").unwrap();
    problem(&mut helper, "line 1, column 4: ");
    assert_eq!(text(), "db-1 blue;db-2 standby;");
    fs::remove_file(&source).unwrap();
    problem(&mut helper, "there is no such file");
    fs::write(&source, TEXT).unwrap();
    let now = loop {
        let now = reported(&mut helper);
        if now.problem.is_empty() {
            break now;
        }
    };
    assert!(now.is_rendered);

    // The next helper has the last text, also without the store.
    helper.signal(SIGKILL);
    drop(helper);
    etcd.stop();
    let mut helper = host.start();
    helper.send(templates());
    let now = reported(&mut helper);
    assert_eq!(
        (now.is_rendered, now.problem.as_str(), text().as_str()),
        (true, "", "db-1 blue;db-2 standby;")
    );
    etcd.restart();
    put(&store, "db-3", "new");
    eventually("the third", || {
        helper.drain();
        text() == "db-1 blue;db-2 standby;db-3 new;"
    });
}
