//! `support`: what is in the archive, and what is not.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use kelson_proto::v1::{GetMetricsResponse, KernelMessage, Line, Reason, StatusResponse};
use serde_json::{Value, json};

use crate::fake::{Fake, Seen, State};
use crate::looking::process;
use crate::machine::all;
use crate::nodes::Fleet;
use crate::samples::Folder;
use crate::streams::line;
use crate::{at, done, event, two};

/// A host with a secret wherever one may be.
fn leaky() -> State {
    let mut seen = all();
    seen.processes.push(process(
        300,
        1,
        "db",
        &["/bin/db", "--password", "hunter2", "--url=postgres://a:hunter2@db/x"],
    ));
    let key = ["-----BEGIN PRIVATE KEY-----", "aHVudGVyMg==", "-----END PRIVATE KEY-----"];
    let mut lines: Vec<Line> = key.iter().map(|text| line("db", 0, text.as_bytes())).collect();
    lines.push(line("db", 1, b"Authorization: Bearer hunter2"));
    lines.push(Line { partial: true, ..line("db", 2, b"in two pieces: pass") });
    lines.push(line("db", 2, b"word=hunter2 and on"));
    lines.push(line("web", 3, b"quiet \xff"));
    let spec = "process:\n  command: [/bin/db, --token=hunter2]\n  environment: {SECRET: hunter2, LANG: C}\n";
    State {
        lines,
        events: vec![event(1, "db", "cannot reach https://u:hunter2@h/")],
        kernel: vec![KernelMessage {
            seq: 1,
            level: 6,
            text: "init: password=hunter2".to_owned(),
            ..KernelMessage::default()
        }],
        status: StatusResponse {
            spec: spec.to_owned(),
            service: two().services.into_iter().next(),
            ..StatusResponse::default()
        },
        why: Reason {
            subject: "service \"web\"".to_owned(),
            text: "token: hunter2".to_owned(),
            ..Reason::default()
        },
        metrics: vec![GetMetricsResponse::default()],
        seen,
        ..two()
    }
}

/// The contents of the archive, below its one folder.
fn unpacked(path: &Path) -> (String, BTreeMap<String, String>) {
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(path).unwrap()));
    let (mut top, mut files) = (String::new(), BTreeMap::new());
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let (folder, name) = name.split_once('/').unwrap();
        folder.clone_into(&mut top);
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        files.insert(name.to_owned(), text);
    }
    (top, files)
}

/// The one archive of a folder.
fn only(folder: &Path) -> PathBuf {
    let mut names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (Some(path), None) = (names.next(), names.next()) else { panic!("there is one archive") };
    path
}

fn manifest(files: &BTreeMap<String, String>) -> Value {
    serde_json::from_str(&files["manifest.json"]).unwrap()
}

#[test]
fn all_that_helps_and_no_secret() {
    let fake = Fake::start(leaky());
    let folder = Folder::new();
    let made = done(at(&fake.socket(), "support").current_dir(&folder).output().unwrap()).silent(0);
    let path = only(&folder);
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(name.starts_with("kelson-support-edge-1-20") && name.ends_with("Z.tar.gz"), "{name}");
    assert!(
        made.out.starts_with(&format!("wrote {name} (")) && made.out.contains(": 27 files\n"),
        "{made:?}"
    );
    assert!(made.out.contains("read it before you send it"), "{made:?}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let (top, files) = unpacked(&path);
    assert_eq!(format!("{top}.tar.gz"), name);
    let names: Vec<&str> = files.keys().map(String::as_str).collect();
    let all = "boot.json cgroups.json cpu.json disks.json dmesg.txt events.json facts.json fleet.json graph.dot \
        graph.txt health.json images.json logs/db.log logs/web.log manifest.json memory.json metrics.txt \
        mounts.json netstat.json network.json processes.json registry.json services.json status/db.json status/web.json \
        time.json version.json why/web.json";
    assert_eq!(names, all.split(' ').collect::<Vec<_>>());
    for (name, text) in &files {
        assert!(!text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{name}: {text}");
        if name.ends_with(".json") {
            serde_json::from_str::<Value>(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
    let t = "2026-11-21T09:48:0";
    assert_eq!(
        files["logs/db.log"],
        format!(
            "{t}5.000Z stdout (removed)\n{t}5.000Z stdout (removed)\n{t}5.000Z stdout (removed)\n\
             {t}6.000Z stdout Authorization: (removed)\n{t}7.000Z stdout in two pieces: password=(removed) and on\n"
        )
    );
    assert_eq!(files["logs/web.log"], format!("{t}8.000Z stdout quiet \u{fffd}\n"));
    let status: Value = serde_json::from_str(&files["status/db.json"]).unwrap();
    assert_eq!(
        status["spec"]["process"],
        json!({"command": ["/bin/db", "--token=(removed)"], "environment": {"SECRET": "(removed)", "LANG": "(removed)"}})
    );
    let manifest = manifest(&files);
    assert_eq!(manifest["missing"], json!([]));
    assert_eq!(
        manifest["removed"],
        json!({"arguments": 3, "assignments": 3, "authorization": 1, "environment": 4, "privateKeys": 1, "urls": 2})
    );
    assert_eq!(manifest["files"].as_array().unwrap().len(), 27);
    assert!(manifest["about"].as_str().unwrap().contains("read it before it goes on"));
    assert!(fake.asked().contains(&"logs tail=Some(2000) last=false".to_owned()), "{:?}", fake.asked());
}

#[test]
fn what_cannot_be_had_is_told_in_the_archive() {
    let fake = Fake::start(State { seen: Seen { unknown: true, ..Seen::default() }, ..leaky() });
    let folder = Folder::new();
    let out = folder.join("x.tar.gz");
    let told = fake.json(&format!("support --lines 5 --out {}", out.display()));
    let (top, files) = unpacked(&out);
    assert!(top.starts_with("kelson-support-edge-1-"), "{top}");
    let why = "the host does not know this command; `kelsonctl version` tells how old its Kelson is";
    let missing: Vec<Value> =
        ["processes", "netstat", "network", "mounts", "disks", "facts", "memory", "cpu", "cgroups", "time"]
            .iter()
            .map(|name| json!({"name": format!("{name}.json"), "why": why}))
            .collect();
    assert_eq!((&manifest(&files)["missing"], &told["missing"]), (&json!(missing), &json!(missing)));
    assert_eq!((told["file"].as_str(), told["files"].as_u64()), (out.to_str(), Some(17)));
    assert_eq!(told["bytes"], fs::metadata(&out).unwrap().len());
    assert!(fake.asked().contains(&"logs tail=Some(5) last=false".to_owned()));
    let again = fake.run(&format!("support --out {}", out.display())).refused(1);
    let said = "is there already and is not overwritten; --out names another\n";
    assert_eq!(again.err, format!("kelsonctl: {} {said}", out.display()));
    only(&folder);
}

#[test]
fn what_hangs_does_not_hold_up_the_rest() {
    let fake = Fake::start(State { seen: Seen { hangs: Some("mounts"), ..Seen::default() }, ..leaky() });
    let folder = Folder::new();
    let out = folder.join("x.tar.gz");
    let told = fake.json(&format!("support --timeout 2s --out {}", out.display()));
    assert_eq!(told["missing"], json!([{"name": "mounts.json", "why": "no answer within 2s"}]));
    let (_, files) = unpacked(&out);
    assert!(files.contains_key("time.json") && !files.contains_key("mounts.json"), "{:?}", files.keys());
}

#[test]
fn a_host_that_tells_nothing_leaves_no_archive() {
    let denied = Fake::start(State { deny: true, ..leaky() });
    let mut gone = Fake::start(leaky());
    gone.cut();
    let folder = Folder::new();
    for (fake, status, said) in [(&denied, 4, "only root may ask"), (&gone, 3, "nobody serves")] {
        let made = done(at(&fake.socket(), "support").current_dir(&folder).output().unwrap());
        assert_eq!((made.status, made.out.as_str()), (status, ""), "{made:?}");
        assert!(made.err.contains(said), "{made:?}");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "{said}");
    }
}

#[test]
fn several_hosts_are_refused() {
    let fleet = Fleet::new(vec![("a", two()), ("b", two())]);
    let refused = fleet.run("-n a,b support").refused(2);
    assert!(refused.err.contains("one host at a time"), "{refused:?}");
}
