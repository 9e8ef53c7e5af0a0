//! `config`: the file of contexts is listed and changed, and what is not asked for stays as it is.

use std::os::unix::fs::PermissionsExt as _;

use crate::generate::Place;
use crate::{done, kelsonctl};

const TWO: &str = "\
current: here
contexts:
  edge-1:
    endpoint: 192.0.2.7:50000
    ca: ca.pem
    certificate: admin.pem
    key: admin.key
  here:
    endpoint: unix:///run/kelson/init.sock
";

/// A PKI, and a file of two contexts.
fn place() -> Place {
    let place = Place::new();
    place.ok("gen ca");
    place.ok("gen cert --ca . --role os:admin");
    place.write("config", TWO);
    place
}

#[test]
fn contexts_are_listed_with_what_their_certificates_say() {
    let place = place();
    assert_eq!(
        place.ok("config contexts --file config"),
        "   NAME    ENDPOINT                      CN     ROLE      EXPIRES    TROUBLE\n\
         \x20  edge-1  192.0.2.7:50000               admin  os:admin  in 29d23h\n\
         *  here    unix:///run/kelson/init.sock  -      -         -\n"
    );
    place.ok("gen cert --ca . --server --host edge-2");
    let more = "  two: {endpoint: 'h:1', ca: ca.pem, certificate: edge-2.pem, key: edge-2.key}\n  \
        three: {endpoint: 'h:1', ca: ca.pem, certificate: gone.pem, key: edge-2.key}\n  \
        four: {endpoint: 'h:1', ca: ca.pem, certificate: ca.key, key: ca.key}\n  five: {endpoint: 'h:'}\n";
    place.write("config", &(TWO.to_owned() + more));
    let listed = place.json("config contexts --file config");
    let trouble = |name: &str| {
        let all = listed.as_array().unwrap();
        let found = all.iter().find(|context| context["name"] == name).unwrap();
        found["trouble"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(trouble("edge-1") + &trouble("here"), "");
    assert_eq!(trouble("two"), "its certificate has no role, and may do nothing");
    assert!(trouble("three").contains("cannot read `certificate:` gone.pem"), "{}", trouble("three"));
    assert_eq!(trouble("four"), "its certificate is damaged");
    assert!(trouble("five").contains("the port must be a number"), "{}", trouble("five"));
    assert_eq!((&listed[0]["name"], &listed[0]["current"]), (&"edge-1".into(), &false.into()));
    assert_eq!(listed[0].as_object().unwrap().len(), 7);
}

#[test]
fn another_context_becomes_the_current_one() {
    let place = place();
    let path = place.0.join("config");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("config", place.0.join("link")).unwrap();
    let run = |words: &[&str]| {
        let mut command = kelsonctl();
        done(command.args(words).env("KELSONCONFIG", place.0.join("link")).output().unwrap())
    };
    let used = run(&["config", "use", "edge-1"]);
    let told = format!("{}: \"edge-1\" is the current context\n", place.0.join("link").display());
    assert_eq!((used.status, used.out), (0, told));
    assert_eq!(place.read("config"), TWO.replace("current: here", "current: edge-1"));
    assert_eq!(place.mode("config"), 0o640);
    assert!(place.0.join("link").is_symlink());
    let wrong = run(&["config", "use", "edeg-1"]);
    assert_eq!(wrong.status, 2);
    assert!(
        wrong.err.ends_with("has no context \"edeg-1\" (config use); did you mean \"edge-1\"?\n"),
        "{wrong:?}"
    );
    let removed = run(&["-o", "json", "config", "remove", "edge-1"]);
    let left: serde_json::Value = serde_json::from_str(&removed.out).unwrap();
    assert_eq!((left.as_array().unwrap().len(), &left[0]["name"]), (1, &"here".into()));
    assert_eq!(place.read("config"), "contexts:\n  here:\n    endpoint: unix:///run/kelson/init.sock\n");
    assert!(run(&["config", "remove", "edge-1"]).err.contains("there are: here"));
    let names = run(&["complete", "--", "config", "use", ""]);
    assert_eq!(names.out, "here\tunix:///run/kelson/init.sock\n");
}

#[test]
fn contexts_are_added_and_brought_together() {
    let place = place();
    let add = "config add --file new/config edge-2 -e 192.0.2.8:50000 --ca ca.pem --certificate admin.pem";
    std::fs::create_dir(place.0.join("new")).unwrap();
    place.ok(&format!("{add} --key admin.key"));
    assert_eq!(place.mode("new/config"), 0o600);
    let whole = |name: &str| place.0.join(name).display().to_string();
    let file = place.read("new/config");
    assert!(file.contains(&format!("\n    key: {}\n", whole("admin.key"))), "{file}");
    assert_eq!(place.json("config contexts --file new/config")[0]["role"], "os:admin");
    let said = place.fails(&format!("{add} --key admin.key"), 1);
    assert!(said.contains("has a context \"edge-2\" already"), "{said}");
    place.ok("config add --file new/config here -e /run/other.sock");
    // Paths of the other file go on meaning its own neighbours; what both have alike is no conflict.
    place.write("config", &TWO.replace("unix:///run/kelson/init.sock", "unix:///run/other.sock"));
    let told = place.ok("config merge --file new/config config");
    assert_eq!(told, "new/config: the context \"edge-1\" was added\n");
    let file = place.read("new/config");
    assert!(
        file.starts_with("current: edge-2\n") && file.contains(&format!("ca: {}\n", whole("ca.pem"))),
        "{file}"
    );
    assert_eq!(
        place.ok("config merge --file new/config config"),
        "new/config: has all contexts of config already\n"
    );
    place.write("config", TWO);
    place.ok("config merge --file third config");
    assert_eq!(place.read("third"), TWO, "in the same folder all stays as it is");
    let said = place.fails("config merge --file new/config config", 1);
    assert!(said.contains("new/config has a context \"here\" already"), "{said}");
    assert_eq!(place.read("new/config"), file, "all, or none");
    place.ok("config merge --file new/config config --force");
    assert!(place.read("new/config").contains("unix:///run/kelson/init.sock"));
    // A key that comes along as text is for the eyes of its owner.
    place.ok("gen config --ca . -e h:1 --out other");
    let path = place.0.join("new/config");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    place.ok("config merge --file new/config other");
    assert_eq!(place.mode("new/config"), 0o600);
}

#[test]
fn mistakes_are_pointed_at_and_change_nothing() {
    let place = place();
    place.write("bad", "current: a\ncontexts:\n  a:\n    endpont: h:1\n");
    let before = place.read("bad");
    place.transcript("config-mistakes");
    assert_eq!((place.read("bad"), place.read("config")), (before, TWO.to_owned()));
    assert_eq!(place.names(""), ["admin.key", "admin.pem", "bad", "ca.key", "ca.pem", "config"]);
}
