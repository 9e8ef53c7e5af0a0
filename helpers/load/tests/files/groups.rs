//! Groups: what each part waits for, and what becomes of a group with a mistake.
use crate::folder::{Folder, each_case};
use kelson_load::written;
use kelson_spec::service::*;
use kelson_spec::{Graph, Loaded, Refused};

const MIGRATE: &str = "type: oneshot\ngroup: shop\nlifecycle: {hook: prestart}\n";
const PROXY: &str = "group: shop\nlifecycle: {sidecar: true}\n";
const WEB: &str = "group: shop\nrestart: {scope: group}\n";
const WORKER: &str = "group: shop\n";
const TELL: &str = "group: shop\nlifecycle: {hook: poststart}\n";
const SWEEP: &str = "type: oneshot\ngroup: shop\nlifecycle: {hook: poststop}\n";

fn service(folder: &Folder, name: &str, rest: &str) {
    folder.service(name, format!("name: {name}\nprocess: {{command: [/bin/{name}]}}\n{rest}"));
}

fn folder(services: &[(&str, &str)]) -> Folder {
    let folder = Folder::new();
    for (name, rest) in services {
        service(&folder, name, rest);
    }
    folder
}

fn shop() -> Folder {
    folder(&[
        ("migrate", MIGRATE),
        ("proxy", PROXY),
        ("sweep", SWEEP),
        ("tell", TELL),
        ("web", WEB),
        ("worker", WORKER),
    ])
}

fn spec<'l>(loaded: &'l Loaded, name: &str) -> &'l ServiceSpec {
    loaded.services.iter().find(|spec| spec.name == name).unwrap_or_else(|| panic!("{name} is faulty"))
}

/// `a b!finished`: what a service waits for, `up` not written out.
fn waits(loaded: &Loaded, name: &str) -> String {
    let word = |requirement: &Requirement| match requirement {
        Requirement::Service { name, event, when_down } => {
            let event = match event {
                ServiceEvent::Up => "",
                ServiceEvent::Running => "!running",
                ServiceEvent::Finished => "!finished",
                ServiceEvent::Down => "!down",
                ServiceEvent::Settled => "!settled",
            };
            let minded = if *when_down == WhenDown::Ignore { "" } else { "?" };
            format!("{name}{event}{minded}")
        }
        Requirement::Any(_) => "any".to_owned(),
        other => panic!("{other:?}"),
    };
    spec(loaded, name).depends.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn each_part_waits_for_what_goes_before_it() {
    let loaded = shop().load();
    assert_eq!((loaded.diagnostics.as_slice(), loaded.refused.as_slice()), ([].as_slice(), [].as_slice()));
    assert_eq!(waits(&loaded, "migrate"), "");
    assert_eq!(waits(&loaded, "proxy"), "");
    assert_eq!(waits(&loaded, "web"), "migrate!finished proxy");
    assert_eq!(waits(&loaded, "worker"), "migrate!finished proxy");
    assert_eq!(waits(&loaded, "tell"), "web worker");
    assert_eq!(waits(&loaded, "sweep"), "web!down worker!down");
    let web = spec(&loaded, "web");
    assert_eq!((web.group.as_deref(), web.restart.scope), (Some("shop"), RestartScope::Group));
    assert!(web.lifecycle.is_main() && !spec(&loaded, "proxy").lifecycle.is_main());
    let hook = |name| spec(&loaded, name).lifecycle.hook;
    assert_eq!(hook("migrate"), Some(LifecycleHook::Prestart));
    assert_eq!(
        (hook("tell"), hook("sweep")),
        (Some(LifecycleHook::Poststart), Some(LifecycleHook::Poststop))
    );

    // A stop goes the other way round; sweep needs nobody.
    let graph = Graph::new(&loaded.services);
    assert_eq!(graph.stop_order(), [vec!["sweep", "tell"], vec!["web", "worker"], vec!["migrate", "proxy"]]);
}

#[test]
fn sidecars_stand_on_both_sides_of_the_mains() {
    let loaded = folder(&[
        ("after", "group: g\nlifecycle: {hook: poststart, sidecar: true}\n"),
        ("before", "group: g\nlifecycle: {hook: prestart, sidecar: true}\n"),
        ("main", "group: g\nlifecycle: {sidecar: false}\nstart: manual\n"),
        ("once", "group: g\nlifecycle: {hook: poststart}\ntype: oneshot\n"),
        ("other", "group: h\nlifecycle: {}\n"),
        ("alone", ""),
    ])
    .load();
    assert_eq!(loaded.diagnostics, []);
    assert_eq!(waits(&loaded, "before"), "");
    assert_eq!(waits(&loaded, "main"), "before");
    assert_eq!((waits(&loaded, "after"), waits(&loaded, "once")), ("main".into(), "main".into()));
    assert_eq!((waits(&loaded, "other"), waits(&loaded, "alone")), (String::new(), String::new()));
}

#[test]
fn what_a_file_says_itself_is_not_said_again() {
    let folder = shop();
    service(
        &folder,
        "web",
        "group: shop\ndepends: [{any: [{service: migrate, event: finished}]}, {service: proxy, whenDown: restart}, {service: migrate}]\n",
    );
    let loaded = folder.load();
    assert_eq!(loaded.diagnostics, []);
    assert_eq!(waits(&loaded, "web"), "migrate!finished any proxy? migrate");
}

#[test]
fn what_is_rendered_is_read_again() {
    let folder = shop();
    folder.service("box", "name: box\ncontainer: {image: a}\ngroup: shop\nrequired: false\n");
    let first = folder.load();
    assert_eq!(first.diagnostics, []);
    assert_eq!(waits(&first, "box"), "migrate!finished proxy containerd");
    for spec in &first.services {
        folder.service(&spec.name, written(spec).file());
    }
    let second = folder.load();
    assert_eq!(second.diagnostics, []);
    assert_eq!(second.services, first.services);
    let text = written(spec(&first, "migrate")).file();
    assert!(text.contains("group: shop\nlifecycle: {hook: prestart}\n"), "{text}");
    let text = written(spec(&first, "proxy")).file();
    assert!(text.contains("lifecycle: {sidecar: true}\n"), "{text}");
    let text = written(spec(&first, "web")).file();
    assert!(text.contains("  - {service: migrate, event: finished}\n"), "{text}");
    assert!(text.contains("restart: {scope: group}\ngroup: shop\n"), "{text}");
    // One alone, without the others of its group, can be read too, but names services that are not there.
    let alone = Folder::new();
    alone.service("web", text);
    assert_eq!(
        alone.messages(),
        [
            "services/web.yaml:5:15: depends: there is no service migrate",
            "services/web.yaml:6:15: depends: there is no service proxy"
        ]
    );
}

#[test]
fn a_faulty_member_is_waited_for() {
    let refused = |name: &str, group: Option<&str>, required| Refused {
        name: name.to_owned(),
        group: group.map(str::to_owned),
        required,
    };
    let cases = [
        // A mistake elsewhere in the file: its part holds.
        (
            "type: oneshot\ngroup: shop\nlifecycle: {hook: prestart}\nrequired: false\nusr: a\n",
            "!finished",
            false,
        ),
        (
            "type: oneshot\ngroup: shop\nlifecycle: {hook: prestart}\ndepends: [{service: nobody}]\n",
            "!finished",
            true,
        ),
        // Its part itself cannot be read.
        ("type: oneshot\ngroup: shop\nlifecycle: {hook: prestrat}\n", "", true),
        ("type: oneshot\ngroup: shop\nlifecycle: prestart\n", "", true),
        ("type: oneshot\ngroup: shop\nlifecycle: {hok: prestart}\n", "", true),
        ("type: oneshot\ngroup: shop\nlifecyle: {hook: prestart}\n", "", true),
        ("type: oneshot\ngrop: shop\nlifecycle: {hook: prestart}\n", "!finished", true),
        // No part of it can be read.
        ("group: shop  # of ours\nrequired: false\n\tlifecycle: {hook: prestart}\n", "", false),
        ("'\ngroup: 'shop'\n", "", true),
    ];
    for (rest, event, required) in cases {
        let folder = shop();
        service(&folder, "migrate", rest);
        let loaded = folder.load();
        assert_eq!(loaded.faulty(), ["migrate"], "{rest}");
        assert_eq!(waits(&loaded, "web"), format!("migrate{event} proxy"), "{rest}");
        assert_eq!(loaded.refused, [refused("migrate", Some("shop"), required)], "{rest}");
    }
    let folder = shop();
    service(&folder, "migrate", "group: Shop\nlifecycle: {hook: prestart}\ntype: oneshot\n");
    let loaded = folder.load();
    assert_eq!(waits(&loaded, "web"), "proxy");
    assert_eq!(loaded.refused, [refused("migrate", None, true)]);
    // One whose part cannot be read may be the main that the others need.
    let folder = self::folder(&[("proxy", PROXY), ("web", "group: shop\nlifecycle: {sidecr: false}\n")]);
    assert_eq!(folder.load().faulty(), ["web"]);
    // A faulty main is a main.
    let folder = shop();
    service(&folder, "worker", "group: shop\nusr: a\n");
    let loaded = folder.load();
    assert_eq!((waits(&loaded, "tell"), loaded.faulty()), ("web worker".into(), vec!["worker"]));
}

#[test]
fn a_group_without_a_main_cannot_be_ordered() {
    let folder = folder(&[
        ("migrate", MIGRATE),
        ("proxy", "group: shop\nlifecycle: {sidecar: true}\nusr: a\n"),
        ("web", "depends: [{service: proxy}]\n"),
        ("other", "group: other\n"),
    ]);
    let text = "group: nobody in group shop is a main, around which the others are ordered; put a service without lifecycle into it";
    let messages = folder.messages();
    assert_eq!(messages[0], format!("services/migrate.yaml:4:8: {text}"));
    assert_eq!(messages[1], format!("services/proxy.yaml:3:8: {text}"));
    assert_eq!(messages.len(), 3, "the mistake in the file itself is told too");
    let loaded = folder.load();
    assert_eq!(loaded.faulty(), ["migrate", "proxy"]);
    let names: Vec<&str> = loaded.services.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["other", "web"]);
}

#[test]
fn the_members_of_a_group_are_counted() {
    let load = |mains: usize, others: usize| {
        let folder = Folder::new();
        for n in 0..mains {
            service(&folder, &format!("main{n}"), "group: shop\n");
        }
        for n in 0..others {
            service(&folder, &format!("side{n}"), PROXY);
        }
        (folder.load(), folder.messages())
    };
    let (loaded, messages) = load(50, 50);
    assert_eq!((loaded.services.len(), messages), (100, vec![]));
    assert_eq!(spec(&loaded, "main7").depends.len(), 50);
    let (loaded, messages) = load(50, 51);
    assert_eq!((loaded.services.len(), messages.len()), (0, 101));
    assert_eq!(
        messages[0],
        "services/main0.yaml:3:8: group: 101 services are in group shop; a group has at most 100"
    );
}

#[test]
fn a_cycle_through_a_group_says_so() {
    let folder = shop();
    service(&folder, "migrate", &format!("{MIGRATE}depends:\n  - service: worker\n"));
    assert_eq!(
        folder.messages(),
        [
            "services/migrate.yaml:7:14: depends: services wait for each other: migrate → worker → migrate; worker → migrate comes from group shop",
            "services/worker.yaml:3:8: group: services wait for each other: worker → migrate → worker; worker → migrate comes from group shop",
        ]
    );
    let loaded = folder.load();
    assert_eq!(loaded.faulty(), ["migrate", "worker"]);
    // A service that merely waits for the cycle is sound.
    assert_eq!(waits(&loaded, "web"), "migrate!finished proxy");
}

#[test]
fn positions_of_what_is_written_hold_beside_what_is_added() {
    let folder = shop();
    service(&folder, "web", "group: shop\ndepends: [{service: nobody}]\nwhen: [{service: none}]\n");
    assert_eq!(
        folder.messages(),
        [
            "services/web.yaml:4:21: depends: there is no service nobody",
            "services/web.yaml:5:18: when: there is no service none"
        ]
    );
}

#[test]
fn built_in_services_are_in_no_group() {
    let folder = shop();
    folder.machine(
        "builtins:\n  containerd: {group: shop}\n  apid: {lifecycle: {sidecar: true}, restart: {scope: group}}\n  probe: {enabled: true}\n",
    );
    let allowed = "allowed here: enabled, environment, environmentFiles, depends, restart, required, startTimeout, health, hooks, stop, resources, limits, logs";
    assert_eq!(
        folder.messages(),
        [
            format!("machine.yaml:2:16: builtins.containerd.group: this is settled for containerd and cannot be changed; {allowed}"),
            format!("machine.yaml:3:10: builtins.apid.lifecycle: this is settled for apid and cannot be changed; {allowed}"),
            "machine.yaml:3:55: builtins.apid.restart.scope: a built-in service is in no group; leave scope out".to_owned(),
            "machine.yaml:4:11: builtins.probe.enabled: probe is there as long as a service has tcp, http, grpc or csi checks and cannot be changed in this; allowed here: resources".to_owned(),
        ]
    );
}

/// The keys of a member, and the mistakes that are reported.
const PARTS: &str = r#"
lifecycle: {sidecar: true}
=> 3:1: lifecycle: this is the part in a group, and the service is in none; write group: NAME too

restart: {scope: group}
=> 3:18: restart.scope: the service is in no group; write group: NAME too, or leave scope out

restart: {scope: grup}
=> 3:18: restart.scope: "grup" is not one of service, group; did you mean group?

group: Shop
=> 3:8: group: "Shop" is not a name; use small letters, digits and -, no - first, at most 63

group: shop
lifecycle: {hook: before}
=> 4:19: lifecycle.hook: "before" is not one of prestart, poststart, poststop

group: shop
lifecycle: {sidecar: yes}
=> 4:22: lifecycle.sidecar: "yes" is not true or false

group: shop
lifecycle: {hooks: prestart}
=> 4:13: lifecycle.hooks: this key is not known; did you mean hook? Allowed here: hook, sidecar

group: shop
lifecycle: {hook: prestart}
=> 4:13: lifecycle.hook: what goes before the mains has to end first; write type: oneshot, or sidecar: true for what runs on beside them

group: shop
lifecycle: {hook: poststop}
=> 4:13: lifecycle.hook: what comes after the mains has to end; write type: oneshot

group: shop
type: oneshot
lifecycle: {sidecar: true}
=> 5:13: lifecycle.sidecar: a sidecar runs beside the mains; write type: service, or leave sidecar out

group: shop
type: oneshot
lifecycle: {hook: poststart, sidecar: true}
=> 5:30: lifecycle.sidecar: a sidecar runs beside the mains; write type: service, or leave sidecar out

group: shop
type: oneshot
lifecycle: {hook: poststop, sidecar: true}
=> 5:29: lifecycle.sidecar: once the mains are down there is nobody to run beside; leave sidecar or hook out

## Of what cannot be read nothing is said twice.
group: shop
type: oneshoot
lifecycle: {hook: prestart}
=> 4:7: type: "oneshoot" is not one of service, oneshot; did you mean oneshot?
"#;

#[test]
fn each_mistake_of_a_part_is_pointed_at() {
    each_case(PARTS, |rest| {
        let messages = folder(&[("main", "group: shop\n"), ("web", rest)]).messages();
        messages.iter().map(|message| message.replacen("services/web.yaml:", "", 1)).collect()
    });
}
