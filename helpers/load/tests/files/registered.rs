//! `registered` in `depends`: instances that other hosts of the fleet register.
use std::time::Duration;

use crate::folder::{Folder, each_case};
use kelson_spec::fleet::Instances;
use kelson_spec::service::{Requirement, WhenDown};

const FLEET: &str = "fleet: {endpoints: [\"http://192.0.2.1:2379\"]}\n";

/// Entries of `depends`, in line 3 from column 11 on.
const ENTRIES: &str = r#"
{registered: Postgres}
=> 3:24: depends[0].registered: "Postgres" is not a name; use small letters, digits and -, no - first, at most 63

{registered: postgres, tag: "a b"}
=> 3:39: depends[0].tag: "a b" is not a tag; use letters, digits and . _ : -, a letter or digit first, at most 63

{registered: postgres, min: 0}
=> 3:39: depends[0].min: 0 is out of range; write a number from 1 to 4294967295

{registered: postgres, staleFor: 5s}
=> 3:44: depends[0].staleFor: 5s is out of range; write a duration from 30s to 365d

{registered: postgres, event: up, whenDown: stop}
=> 3:34: depends[0].event: event belongs to service, not to registered

{service: logd, tag: primary, min: 2, staleFor: 1m}
=> 3:27: depends[0].tag: tag belongs to registered, not to service
=> 3:41: depends[0].min: min belongs to registered, not to service
=> 3:49: depends[0].staleFor: staleFor belongs to registered, not to service

{any: [{registered: postgres, whenDown: stop}]}
=> 3:41: depends[0].any[0].whenDown: inside any another entry may do; write whenDown in an entry of its own

{not: {registered: postgres}}
=> 3:18: depends[0].not.registered: this cannot be negated; for a service write event: down; allowed here: path, device, network, interface, time, mount, kernelArgument, fact

{registered: postgres, whenDwn: stop}
=> 3:34: depends[0].whenDwn: this key is not known; did you mean whenDown?
"#;

fn folder(entry: &str) -> Folder {
    let folder = Folder::new();
    folder.service("app", format!("name: app\nprocess: {{command: [/bin/app]}}\ndepends: [{entry}]\n"));
    folder
}

fn depends(entry: &str) -> Vec<Requirement> {
    let folder = folder(entry);
    folder.machine(FLEET);
    let loaded = folder.load();
    assert_eq!((&loaded.diagnostics, &loaded.warnings), (&vec![], &vec![]));
    loaded.services.into_iter().next().unwrap().depends
}

#[test]
fn mistakes_say_what_to_do() {
    let said = |entry: &str| {
        let folder = folder(entry);
        folder.machine(FLEET);
        let short = |text: String| text.trim_start_matches("services/app.yaml:").trim_start().to_owned();
        folder.messages().into_iter().map(short).collect()
    };
    assert_eq!(each_case(ENTRIES, said), 9);
}

#[test]
fn one_is_enough_and_the_last_answer_counts_for_ten_minutes() {
    let expected =
        Instances { name: "postgres".into(), tag: None, min: 1, stale_for: Duration::from_secs(600) };
    let when_down = WhenDown::Ignore;
    assert_eq!(
        depends("{registered: postgres}"),
        [Requirement::Registered { instances: expected, when_down }]
    );
    let expected = Instances {
        name: "postgres".into(),
        tag: Some("primary".into()),
        min: 2,
        stale_for: Duration::from_secs(60),
    };
    let when_down = WhenDown::Stop;
    assert_eq!(
        depends("{whenDown: stop, staleFor: 1m, min: 2, tag: primary, registered: postgres}"),
        [Requirement::Registered { instances: expected, when_down }]
    );
}

#[test]
fn without_a_fleet_the_service_is_faulty() {
    for (entry, column) in
        [("{registered: a}, {registered: b}", 24), ("{any: [{path: /a}, {registered: a}]}", 43)]
    {
        let folder = folder(entry);
        let text = format!(
            "services/app.yaml:3:{column}: machine.yaml names no fleet, so nothing can be found registered; \
             write fleet there, or leave registered out"
        );
        assert_eq!(folder.messages(), [text]);
        assert_eq!(folder.load().services.len(), 0);
        // A machine file that cannot be read may name one.
        folder.machine("hostname: [");
        assert!(folder.messages().iter().all(|text| text.starts_with("machine.yaml")));
        // A source may name one.
        folder.machine("sources: {from: [disk]}\n");
        assert_eq!(folder.messages(), [""; 0]);
    }
}
