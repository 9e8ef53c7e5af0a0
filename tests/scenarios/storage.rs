//! What operators do with volumes of a storage plugin: they look at one, make snapshots, and give the plugin its secrets.

use std::fs;
use std::path::Path;

use kelson_tests::{Host, eventually};
use serde_json::Value;

use crate::csi::{calls, faults, host, uses};

const PASSWORD: &str = "correct-horse-4711";

fn status(host: &Host, volume: &str) -> Value {
    host.ctl(&["volumes", "status", volume, "-o", "json"]).ok().json()
}

fn snapshots(host: &Host, of: &[&str]) -> Vec<Value> {
    host.ctl(&[&["volumes", "snapshot", "list", "-o", "json"], of].concat()).ok().json()
}

fn set(host: &Host, name: &str, value: &str) {
    let file = host.path("value");
    fs::write(&file, value).expect("the test's folder is writable");
    host.ctl(&["secret", "set", name, file.to_str().expect("UTF-8")]).ok();
}

/// The text of all files in a folder and below it.
fn texts(folder: &Path) -> String {
    let text = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.map(|path| if path.is_dir() { texts(&path) } else { text(&path) }).collect()
}

#[test]
fn status_shows_a_volume_whole_also_when_nothing_uses_it() {
    let mut host = host(&[("db", &uses("data", ""))]);
    host.wait_all_up(&["plugin", "db"]);
    let data = status(&host, "data");
    assert_eq!(
        [&data["plugin"], &data["id"], &data["step"]],
        [&"fault".into(), &"id-data".into(), &Value::Null]
    );
    assert_eq!([&data["uses"][0]["service"], &data["uses"][0]["state"]], ["db", "published"]);
    let provider = &data["providers"][0];
    assert_eq!([&provider["service"], &provider["name"]], ["plugin", "fault.kelson.test"]);
    let events: Vec<&str> = data["events"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|event| &event["message"])
        .filter_map(Value::as_str)
        .collect();
    assert!(
        events.iter().any(|text| text.contains("NodePublishVolume") && text.contains("succeeded")),
        "{events:?}"
    );
    let text = host.ctl(&["volumes", "status", "data"]).ok().stdout;
    assert!(text.contains("service plugin: fault.kelson.test 1.0") && !text.contains("hunter2"), "{text}");
    let unused = host.ctl(&["volumes", "status", "more"]).ok().stdout;
    assert!(unused.contains("id-more") && unused.contains("no service uses it"), "{unused}");
    let unknown = host.ctl(&["volumes", "status", "other"]).expect(1).stderr;
    assert!(unknown.contains("volumes/other.yaml does not exist; write that file"), "{unknown}");

    // What is left of a volume without a file is shown until it is undone.
    faults(&host, "NodeUnpublishVolume code 13\n");
    host.ctl(&["stop", "db", "--wait"]);
    fs::remove_file(host.path("config/volumes/data.yaml")).expect("it is there");
    let left = status(&host, "data");
    assert!(left["fileError"].as_str().is_some_and(|why| why.contains("does not exist")), "{left}");
    let user = &left["uses"][0];
    assert_eq!([&user["service"], &user["state"]], ["db", "released"]);
    assert!(user["attempt"].as_u64() >= Some(1), "{user}");
    assert!(user["trouble"].as_str().is_some_and(|text| text.contains("INTERNAL")), "{user}");
    faults(&host, "");
    eventually("its end", || host.ctl(&["volumes", "status", "data"]).status == 1);
    host.poweroff();
}

#[test]
fn a_snapshot_is_made_listed_restored_and_deleted() {
    let mut host = host(&[]);
    host.wait_up("plugin");
    let write = |name: &str, text: &str| {
        let path = host.path("plugin").join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("it is writable");
        fs::write(path, text).expect("it is writable");
    };
    write("volumes/id-data/file", "1");
    let create = |volume: &str, more: &[&str]| {
        host.ctl(&[&["volumes", "snapshot", "create", volume, "--name", "before"], more].concat())
    };
    let refused = create("data", &[]).expect(1).stderr;
    assert!(refused.contains("the plugin does not have CREATE_DELETE_SNAPSHOT"), "{refused}");
    write("capabilities", "stage create snapshot");
    write("unready", "");
    for _ in 0..2 {
        assert_eq!(create("data", &[]).ok().stdout, "snapshot snap-before is made; it is not ready yet\n");
    }
    assert_eq!(snapshots(&host, &["data"])[0]["ready"], false);
    let late = create("data", &["--wait", "--timeout", "1s"]).expect(1).stderr;
    assert!(late.contains("snapshot snap-before is not ready after 1 s"), "{late}");
    fs::remove_file(host.path("plugin/unready")).expect("it is there");
    assert_eq!(create("data", &["--wait"]).ok().stdout, "snapshot snap-before is made\n");
    let refused = create("more", &[]).expect(1).stderr;
    assert!(refused.contains("another snapshot with the name \"before\": choose another name"), "{refused}");

    // More than the plugin gives at once, and than one message of the helper takes.
    for number in 0..200 {
        write(&format!("snapshots/{number:0>120}/of"), "id-more");
    }
    assert_eq!((snapshots(&host, &[]).len(), snapshots(&host, &["more"]).len()), (201, 200));
    let of_data = snapshots(&host, &["data"]);
    assert_eq!(
        (of_data.len(), &of_data[0]["id"], &of_data[0]["volumeId"]),
        (1, &"snap-before".into(), &"id-data".into())
    );

    host.ctl(&["volumes", "create", "more", "--snapshot", "snap-before"]).ok();
    assert_eq!(fs::read_to_string(host.path("plugin/volumes/id-more/file")).expect("it is restored"), "1");
    let missing = host.ctl(&["volumes", "create", "more", "--snapshot", "snap-x"]).expect(1).stderr;
    assert!(missing.contains("NOT_FOUND: there is no snapshot snap-x"), "{missing}");
    write("capabilities", "stage create");
    let refused = host.ctl(&["volumes", "create", "more", "--snapshot", "snap-before"]).expect(1).stderr;
    assert!(refused.contains("the plugin does not have CREATE_DELETE_SNAPSHOT"), "{refused}");
    write("capabilities", "stage create snapshot");
    host.ctl(&["volumes", "snapshot", "delete", "snap-before"]).expect(2);
    for by in [["--volume", "data"], ["--plugin", "fault"]] {
        let deleted =
            host.ctl(&[&["volumes", "snapshot", "delete", "snap-before"], &by[..]].concat()).ok().stdout;
        assert_eq!(deleted, "snapshot snap-before is deleted\n", "one that is gone is no error");
    }
    assert!(snapshots(&host, &["data"]).is_empty());
    host.poweroff();
}

#[test]
fn a_plugin_gets_its_secrets_and_nobody_else_does() {
    let mut host = host(&[("db", &(uses("data", "") + "start: manual\n"))]);
    host.wait_up("plugin");
    fs::write(host.path("plugin/secret"), PASSWORD).expect("the folder of the plugin");
    fs::write(host.path("plugin/capabilities"), "stage attach create snapshot")
        .expect("the folder of the plugin");
    let file = host.path("config/volumes/data.yaml");
    fs::write(&file, format!("plugin: fault\nid: id-data\nsecrets: {{password: {PASSWORD}}}\n"))
        .expect("it is writable");
    let refused = host.ctl(&["validate", host.path("config").to_str().expect("UTF-8")]).expect(1);
    let refused = refused.stdout + &refused.stderr;
    assert!(refused.contains("write {secret: NAME}"), "{refused}");
    let reloaded = host.ctl(&["reload"]);
    let mut answers = vec![reloaded.stdout, reloaded.stderr];
    fs::write(&file, "plugin: fault\nid: id-data\nsecrets: {password: {secret: nas}}\n")
        .expect("it is writable");
    host.ctl(&["reload"]).ok();
    host.ctl(&["start", "db"]).ok();
    let why = |host: &Host| host.ctl(&["why", "db"]).ok().stdout;
    eventually("the cause", || {
        why(&host).contains("there is no secret nas; kelsonctl secret list shows those")
    });
    set(&host, "nas", PASSWORD);
    host.wait_up("db");

    answers.push(host.ctl(&["volumes", "snapshot", "create", "data", "--name", "one"]).ok().stdout);
    assert_eq!(snapshots(&host, &["data"]).len(), 1);
    let refused = host.ctl(&["volumes", "snapshot", "list", "--plugin", "fault"]).expect(1).stderr;
    assert!(refused.contains("UNAUTHENTICATED"), "without a volume there are no secrets: {refused}");
    answers.push(host.ctl(&["volumes", "snapshot", "delete", "snap-one", "--volume", "data"]).ok().stdout);
    // Another process of the helper has the records alone.
    host.ctl(&["restart", "volumes"]).ok();
    for command in [
        &["volumes", "status", "data", "-o", "json"][..],
        &["volumes", "list", "-o", "json"],
        &["status", "db", "-o", "json"],
        &["secret", "list", "-o", "json"],
        &["metrics"],
    ] {
        answers.push(host.ctl(command).ok().stdout);
    }
    let records = texts(&host.path("lib/volumes"));
    assert!(records.contains("id-data"), "{records}");
    host.ctl(&["stop", "db", "--wait"]).ok();
    let done = calls(&host);
    assert_eq!(done.last().map(String::as_str), Some("ControllerUnpublishVolume id-data"), "{done:?}");
    assert_eq!(host.ctl(&["volumes", "list", "-o", "json"]).ok().stdout.trim(), "[]");
    answers.push(host.ctl(&["events", "-o", "json"]).ok().stdout);
    host.poweroff();
    answers.extend([records, host.console(), texts(&host.path("log")), texts(&host.path("lib"))]);
    for answer in &answers {
        assert!(!answer.contains(PASSWORD), "{answer}");
    }
}
