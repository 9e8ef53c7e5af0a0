//! `before` and points of the order: entries of `after` of the services that wait.
use crate::folder::Folder;
use kelson_spec::loaded::Loaded;
use kelson_spec::service::Requirement;

fn loaded(services: &[(&str, &str)]) -> Loaded {
    let folder = Folder::new();
    for (name, text) in services {
        folder.service(name, format!("name: {name}\nprocess: {{command: [/bin/{name}]}}\n{text}"));
    }
    folder.load()
}

/// `waiting < before before`, of each service that waits for others.
fn order(loaded: &Loaded) -> Vec<String> {
    let after = |spec: &kelson_spec::ServiceSpec| {
        spec.depends.iter().filter_map(Requirement::after).map(str::to_owned).collect::<Vec<_>>()
    };
    let waiting = loaded.services.iter().filter(|spec| !after(spec).is_empty());
    waiting.map(|spec| format!("{} < {}", spec.name, after(spec).join(" "))).collect()
}

fn said(loaded: &Loaded) -> (Vec<&str>, Vec<&str>) {
    let messages = |found: &'_ [kelson_spec::loaded::Diagnostic]| {
        found.iter().map(|one| one.message.as_str().to_owned()).collect::<Vec<_>>()
    };
    let leak = |all: Vec<String>| all.into_iter().map(|one| &*one.leak()).collect();
    (leak(messages(&loaded.diagnostics)), leak(messages(&loaded.warnings)))
}

#[test]
fn before_is_an_entry_of_after_in_the_other_file() {
    let found = loaded(&[
        ("db", "before: [web, worker]\n"),
        (
            "web",
            "depends: [{path: /a}, {any: [{service: worker}, {service: db}]}]\nwhen: [{service: worker}]\n",
        ),
        ("worker", "after: [db]\n"),
    ]);
    assert_eq!(said(&found), (vec![], vec![]));
    assert_eq!(order(&found), ["web < db", "worker < db"]);
    let unlike = loaded(&[("db", "before: [wep]\n"), ("web", "")]);
    let warning = "before: there is no service wep, so this means nothing; did you mean web?";
    assert_eq!(said(&unlike), (vec![], vec![warning]));
}

#[test]
fn what_is_before_a_point_is_before_all_that_is_after_it() {
    let found = loaded(&[
        ("dns", "before: [nss-lookup.target]\n"),
        ("ldap", "before: [nss-lookup.target, web]\nafter: [nss-lookup.target]\n"),
        ("mail", "after: [log, nss-lookup.target]\n"),
        ("web", "after: [network.target, nss-lookup.target]\nwhen: [{service: mail}]\n"),
    ]);
    let warning = "after: there is no service log, so it orders nothing; did you mean dns?";
    assert!(said(&found).0.is_empty() && said(&found).1.len() == 1, "{:?}", said(&found));
    assert!(warning.starts_with(said(&found).1[0].split(';').next().unwrap()));
    assert_eq!(order(&found), ["ldap < dns", "mail < log dns ldap", "web < dns ldap"]);
}

#[test]
fn who_waits_for_each_other_is_told() {
    let found = loaded(&[("a", "before: [b]\n"), ("b", "before: [a]\n"), ("c", "before: [c]\n")]);
    assert_eq!(
        said(&found).0,
        [
            "after: services wait for each other: a → b → a",
            "after: services wait for each other: b → a → b",
            "before: a service cannot start before itself; leave its own name out",
        ]
    );
    let wrong = loaded(&[("a", "before: [Web, x.service]\n")]);
    assert_eq!(said(&wrong).0.len(), 2, "{:?}", said(&wrong));
}

#[test]
fn of_two_services_that_conflict_one_starts_with_the_boot() {
    let found = loaded(&[
        ("a", "conflicts: [b, none]\n"),
        ("b", "start: manual\nconflicts: [a]\n"),
        ("c", "conflicts: [a]\n"),
        ("d", "conflicts: [d]\nstart: manual\n"),
    ]);
    let expected = [
        "conflicts: a starts with the boot too, and only one of the two can run; write start: manual in one of the files",
        "conflicts: a service cannot conflict with itself; leave its own name out",
    ];
    assert_eq!(said(&found), (expected.to_vec(), vec![]));
    let names: Vec<&str> = found.services.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn files_replace_defaults_and_the_environment_replaces_both() {
    let folder = Folder::new();
    folder.root_file("etc/web.env", "B=file\nC=file\n");
    folder.service(
        "web",
        "name: web\nprocess: {command: [/bin/web]}\nenvironmentDefaults: {A: default, B: default, C: default}\n\
         environmentFiles: [/etc/web.env]\nenvironment: {C: own, inherit: [LANG]}\n",
    );
    let loaded = folder.load();
    assert_eq!(loaded.diagnostics, []);
    let found: Vec<String> =
        loaded.services[0].environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(found, ["A=default", "B=file", "C=own"]);
}

#[test]
fn services_that_would_start_each_other_without_end_are_named() {
    let folder = crate::folder::Folder::new();
    for (name, more) in [
        ("a", "onFailure: [b]\n"),
        ("b", "onSuccess: [c]\n"),
        ("c", "onFailure: [a]\n"),
        ("d", "onSuccess: [d]\n"),
        ("e", "onFailure: [a, none]\n"),
    ] {
        folder.service(name, format!("name: {name}\nprocess: {{command: [/bin/a]}}\ntype: oneshot\n{more}"));
    }
    let loaded = folder.load();
    let found: Vec<&str> = loaded.diagnostics.iter().map(|found| found.message.as_str()).collect();
    let end =
        |key: &str, name: &str| format!("{key}: they would start each other without end; leave {name} out");
    let expected =
        [end("onFailure", "b"), end("onSuccess", "c"), end("onFailure", "a"), end("onSuccess", "d")];
    assert_eq!(found, expected);
    let warned: Vec<&str> = loaded.warnings.iter().map(|found| found.message.as_str()).collect();
    assert_eq!(warned, ["onFailure: there is no service none, so this means nothing"]);
    let names: Vec<&str> = loaded.services.iter().map(|service| service.name.as_str()).collect();
    assert_eq!(names, ["e"]);
}
