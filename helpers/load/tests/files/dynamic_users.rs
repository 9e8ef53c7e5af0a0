//! `user: dynamic`: an id of its own for each service, and the same one at each reading.
use std::collections::{BTreeMap, BTreeSet};

use crate::folder::Folder;
use kelson_load::written;
use kelson_spec::service::{Credentials, ServiceSpec};

const TEXT: &str = "process: {command: [/bin/web]}\nuser: dynamic\n";

fn user(spec: &ServiceSpec) -> (u32, u32, &str) {
    let user = spec.user.as_ref().unwrap();
    (user.uid, user.gid, &user.name)
}

#[test]
fn it_is_read_and_written_as_it_was() {
    for text in ["dynamic", "dynamic:7"] {
        let folder = Folder::of("web", &format!("process: {{command: [/bin/web]}}\nuser: '{text}'\n"));
        let loaded = folder.load();
        assert_eq!(loaded.diagnostics, []);
        let first = Credentials::dynamic_ids("web").next().unwrap();
        let group = if text == "dynamic" { first } else { 7 };
        assert_eq!(user(&loaded.services[0]), (first, group, "dynamic"));
        let file = written(&loaded.services[0]).file();
        assert!(file.contains(&format!("user: {text}")) || file.contains("user: \"dynamic:7\""), "{file}");
        folder.service("web", file);
        assert_eq!(folder.load().services, loaded.services);
    }
}

#[test]
fn no_two_services_have_the_same() {
    let first = |name: &str| Credentials::dynamic_ids(name).next().unwrap();
    let mut seen = BTreeMap::new();
    let names = (0_u64..).map(|number| format!("s{}", number * number * 7919));
    let (one, two) = names
        .filter_map(|name| seen.insert(first(&name), name.clone()).map(|earlier| (earlier, name)))
        .next()
        .unwrap();
    let names = [one, two, "s100".to_owned()];
    let folder = Folder::of(&names[0], TEXT);
    let service = |name: &str, rest: &str| folder.service(name, format!("name: {name}\n{rest}"));
    for name in &names {
        service(name, TEXT);
    }
    // Another service runs as the user that one of them wants.
    let taken = first("s100");
    service("other", &format!("process: {{command: [/bin/web]}}\nuser: '{taken}:{taken}'\n"));
    let loaded = folder.load();
    assert_eq!(loaded.diagnostics, []);
    let ids: BTreeSet<u32> = loaded.services.iter().map(|spec| user(spec).0).collect();
    assert_eq!(ids.len(), names.len() + 1);
    for spec in loaded.services.iter().filter(|spec| spec.name != "other") {
        let (uid, gid, _) = user(spec);
        assert!(uid == gid && uid != taken, "{}", spec.name);
    }
    assert_eq!(folder.load().services, loaded.services, "the next reading gives them the same");
}

#[test]
fn a_container_has_none() {
    let folder = Folder::of("web", "container: {image: a}\nuser: dynamic\n");
    let text = "user: a container has no dynamic user; write userNamespace: true for users of its own";
    assert_eq!(folder.load().diagnostics[0].message, text);
}
