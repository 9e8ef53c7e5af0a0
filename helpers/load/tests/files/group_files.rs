//! The files of groups: what they say, and what is wrong in them.
use std::time::Duration;

use crate::folder::Folder;
use kelson_spec::service::{Check, Exhausted, Probe, RestartPolicy, RestartScope, RestartSpec};
use kelson_spec::{GroupSpec, Loaded, wire};

const WEB: &str = "name: web\ngroup: shop\nprocess: {command: [/bin/web]}\n";

fn with(name: &str, content: &str) -> Folder {
    let folder = Folder::new();
    folder.service("web", WEB);
    folder.group(name, content);
    folder
}

fn warnings(loaded: &Loaded) -> Vec<String> {
    loaded.warnings.iter().map(|warning| warning.message.clone()).collect()
}

#[test]
fn a_file_says_all_that_it_may() {
    let secs = Duration::from_secs;
    let text = "name: shop\nminimum: 3s\ndeadline: 1m\n\
                restart: {delay: 2s, maxDelay: 9s, attempts: 3, interval: 10m, exhausted: delay}\n\
                health: [{tcp: {port: 80}}, {name: front, tcp: {port: 81}, restartAfter: 5}]\n";
    let loaded = with("shop", text).load();
    assert_eq!(loaded.diagnostics, []);
    let restart = RestartSpec {
        policy: RestartPolicy::Forever,
        delay: secs(2),
        max_delay: secs(9),
        attempts: 3,
        interval: secs(600),
        exhausted: Exhausted::Delay,
        scope: RestartScope::Group,
        ..RestartSpec::default()
    };
    let shop = GroupSpec {
        name: "shop".into(),
        minimum: Some(secs(3)),
        deadline: Some(secs(60)),
        restart: Some(restart),
        health: vec![
            Check::new("tcp", Probe::tcp(80)),
            Check { restart_after: 5, ..Check::new("front", Probe::tcp(81)) },
        ],
    };
    assert_eq!(loaded.groups, [shop]);
    assert_eq!(warnings(&loaded), Vec::<String>::new());
    assert_eq!(wire::decode::<Loaded>(&wire::encode(&loaded).unwrap()).unwrap(), loaded);
    // Each key may be left out.
    let loaded = with("shop", "{}").load();
    assert_eq!(loaded.groups, [GroupSpec { name: "shop".into(), ..GroupSpec::default() }]);
}

#[test]
fn each_mistake_is_told_and_the_services_stay_sound() {
    for (text, expected) in [
        ("minimum: 5", "1:10: minimum: \"5\" is not a duration"),
        (
            "minimum: 5s\ndeadline: 2s",
            "2:11: deadline: deadline is less than minimum, so the group could never be healthy",
        ),
        ("restart: {delay: 9s, maxDelay: 2s}", "1:32: restart.maxDelay: maxDelay is less than delay"),
        ("restart: {scope: group}", "1:11: restart.scope: a group is restarted when a member with restart"),
        (
            "health: [{exec: {command: [/bin/true]}}]",
            "1:11: health[0].exec: a group has no process in which a command could run",
        ),
        ("health: [{tcp: {port: 1}, startup: true}]", "1:27: health[0].startup: a group has no process"),
        ("health: [{interval: 1s}]", "1:10: health[0]: one of the keys http, tcp, grpc, csi is missing"),
        ("health: [{tcp: {port: 1}}, {tcp: {port: 2}}]", "health[1].name: two checks are named tcp"),
        ("minimun: 5s", "1:1: minimun: this key is not known; did you mean minimum?"),
        ("name: shops", "1:7: name: \"shops\" is not the file's name; write shop"),
        ("minimum: [", "not YAML"),
        ("", "the file is empty"),
    ] {
        let folder = with("shop", text);
        let messages = folder.messages();
        assert_eq!(messages.len(), 1, "{text}: {messages:#?}");
        let whole = &messages[0];
        assert!(whole.starts_with("groups/shop.yaml:"), "{whole}");
        assert!(whole.contains(expected) || expected == "not YAML", "{text}: {whole}");
        let loaded = folder.load();
        assert_eq!((loaded.groups.len(), loaded.services.len()), (0, 1), "{text}");
        assert_eq!(loaded.faulty_groups(), ["shop"]);
        assert!(!loaded.machine_is_faulty() && loaded.faulty().is_empty() && loaded.unread().is_none());
    }
}

#[test]
fn a_file_without_services_is_a_warning_and_a_faulty_member_is_one() {
    let loaded = with("lonely", "minimum: 5s").load();
    assert_eq!(loaded.diagnostics, []);
    assert_eq!(warnings(&loaded), ["no service is in group lonely, so this file has no effect"]);
    assert_eq!(loaded.groups.len(), 1);
    let folder = with("shop", "minimum: 5s");
    folder.service("web", format!("{WEB}proces: 3\n"));
    assert_eq!(warnings(&folder.load()), Vec::<String>::new());
}

#[test]
fn names_of_files_are_names_of_groups() {
    // As the machine file is called, and as parts of Kelson are.
    for name in ["machine", "probe", "load"] {
        let folder = with(name, "minimum: soon");
        let loaded = folder.load();
        assert_eq!(loaded.faulty_groups(), [name]);
        assert!(!loaded.machine_is_faulty());
    }
    let messages = with("Shop", "minimum: 5s").messages();
    assert_eq!(messages, ["groups/Shop.yaml: Shop is not the name of a group; use a-z, 0-9 and -"]);
    let folder = with("shop", "minimum: 5s");
    std::fs::rename(folder.config().join("groups/shop.yaml"), folder.config().join("groups/shop.yml"))
        .unwrap();
    assert_eq!(folder.messages(), ["groups/shop.yml: this file is not read; rename it to shop.yaml"]);
    let loaded = folder.load();
    assert!(loaded.faulty().is_empty() && loaded.unread().is_none());
    // A folder that cannot be read is not an empty one.
    std::fs::remove_dir_all(folder.config().join("groups")).unwrap();
    std::fs::write(folder.config().join("groups"), "").unwrap();
    assert!(folder.load().unread().unwrap().contains("groups: the folder cannot be read"));
}
