//! Configurations: apply, confirm, rollback, history, diff, edit, get.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use kelson_proto::v1::service_change::Change;
use kelson_proto::v1::{
    ApplyResponse, ConfigurationFile, ConfigurationMistake, Generation, HistoryResponse, ServiceChange,
};

use crate::fake::{Fake, Kept, State};
use crate::{at, done, samples};

const WEB: &str = "name: web\nprocess: {command: [/usr/bin/web]}\n";
const DB: &str = "name: db\nprocess: {command: [/usr/bin/db]}\n";

fn file(name: &str, text: &str) -> ConfigurationFile {
    ConfigurationFile { name: name.to_owned(), content: text.as_bytes().to_vec() }
}

fn kept() -> Kept {
    let generation = |number, author: &str| Generation {
        number,
        current: number == 3,
        applied: Some(samples::at(1_795_254_485).unwrap()).filter(|_| number != 0),
        author: author.to_owned(),
        message: if number == 3 { "more workers".to_owned() } else { String::new() },
        reverted: number == 4 || number == 2,
    };
    let generations = vec![
        generation(4, "CN=bob\x1b[2J"),
        generation(3, "CN=ann"),
        generation(2, "CN=bob"),
        generation(1, "CN=ann"),
        generation(0, ""),
    ];
    let now = vec![file("services/db.yaml", DB), file("services/web.yaml", WEB)];
    let old = vec![file("services/web.yaml", "name: web\nprocess: {command: [/usr/bin/old]}\n")];
    Kept {
        files: BTreeMap::from([(3, now), (1, old)]),
        history: HistoryResponse { generations, rollback_at: None },
        applied: ApplyResponse { generation: 5, before: 3, applied: true, ..ApplyResponse::default() },
        refusal: None,
    }
}

fn host(kept: Kept) -> Fake {
    let fake = Fake::start(State { kept, ..State::default() });
    let config = fake.folder().join("config");
    fs::create_dir_all(config.join("services")).unwrap();
    fs::write(config.join("services/web.yaml"), "name: web\nprocess: {command: [/usr/bin/web, -v]}\n")
        .unwrap();
    fs::write(config.join("machine.yaml"), "hostname: edge-1\n").unwrap();
    fs::write(config.join("README.md"), "not a part of it").unwrap();
    fake
}

fn service(name: &str, change: Change, acts: bool) -> ServiceChange {
    ServiceChange { name: name.to_owned(), change: change.into(), acts }
}

#[test]
fn an_apply_shows_what_differs_and_what_it_does() {
    let mut state = kept();
    state.applied.services = vec![
        service("added", Change::Added, true),
        service("by-hand", Change::Added, false),
        service("db", Change::Removed, true),
        service("gone", Change::Removed, false),
        service("same", Change::Unchanged, false),
        service("waits", Change::Changed, false),
        service("web", Change::Changed, true),
    ];
    state.applied.groups = vec!["shop".to_owned()];
    state.applied.machine_keys = vec!["health".to_owned()];
    state.applied.reboot_keys = vec!["hostname".to_owned()];
    host(state).transcript("apply");
}

#[test]
fn mistakes_have_the_paths_of_the_author() {
    let mistake = |file: &str, line, message: &str, warning| ConfigurationMistake {
        file: file.to_owned(),
        line,
        column: line,
        message: message.to_owned(),
        warning,
    };
    let mistakes = vec![
        mistake("services/web.yaml", 2, "unknown key \"proces\"\x1b[2J", false),
        mistake("machine.yaml", 0, "the file is empty", false),
        mistake("groups/shop.yaml", 0, "no service is in group shop", true),
    ];
    let applied = ApplyResponse { generation: 3, before: 3, mistakes, ..ApplyResponse::default() };
    host(Kept { applied, ..kept() }).transcript("apply-mistakes");
    let refusal = Some("generation 4 (applied by CN=bob) is in force and not 3");
    host(Kept { refusal, ..kept() }).transcript("apply-refused");
}

#[test]
fn the_history_and_the_ways_back() {
    host(kept()).transcript("configurations");
}

#[test]
fn each_value_is_shown_with_its_origin() {
    let mut state = kept();
    let files = vec![
        file("machine.yaml", "sources: {from: [disk, commandLine]}\nhostname: image\n"),
        file("services/web.yaml", WEB),
        file("sources/disk/machine.yaml", "modules: [a, \"b\\e[2J\"]\n"),
        file("sources/disk/services/db.yaml", DB),
        file("sources/commandLine/machine.yaml", "hostname: edge-1\n"),
    ];
    state.files.insert(3, files);
    host(state).transcript("config-origins");
}

#[test]
fn a_trial_is_shown() {
    let mut state = kept();
    // Longer than any test lasts.
    let end = std::time::SystemTime::now() + std::time::Duration::from_secs(3 * 86_400 + 600);
    state.history.rollback_at = Some(end.into());
    state.applied.rollback_at = Some(end.into());
    state.applied.reboot_keys = vec!["hostname".to_owned()];
    let fake = host(state);
    let shown = fake.run("history");
    assert!(
        shown.out.contains("on trial") && shown.err.contains("`kelsonctl confirm` within 3d"),
        "{shown:?}"
    );
    let config = fake.folder().join("config");
    let said = fake.run(&format!("apply {} --auto-rollback 2m", config.display())).silent(0).out;
    assert!(
        said.contains("it returns to generation 3\n") && said.contains("confirm before you reboot\n"),
        "{said}"
    );
    assert!(fake.asked().last().unwrap().ends_with("base=3 trial=120s"), "{:?}", fake.asked());
}

#[test]
fn an_editor_changes_one_file() {
    let fake = host(kept());
    let editor = fake.folder().join("editor");
    let write = |script: &str| {
        fs::write(&editor, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).unwrap();
    };
    let edit = |words: &str| {
        let mut call = at(&fake.socket(), &format!("edit {words}"));
        done(call.env("TMPDIR", fake.folder()).env("VISUAL", &editor).output().unwrap())
    };
    write("sed -i s/bin/sbin/ \"$1\"");
    let said = edit("web -m slower");
    assert!(said.out.contains("+process: {command: [/usr/sbin/web]}"), "{said:?}");
    assert_eq!(
        fake.asked(),
        ["get None", "apply services/db.yaml services/web.yaml base=3 slower"],
        "the other files stay"
    );
    write("true");
    let said = edit("web");
    assert_eq!((said.status, said.err.as_str()), (0, "kelsonctl: nothing was changed\n"));
    write("exit 3");
    assert!(edit("web").refused(1).err.contains("nothing was applied"));
    assert!(edit("nobody").refused(1).err.contains("it has services/db.yaml and services/web.yaml"));
    assert!(edit("../x.yaml").refused(2).err.contains("is no file of a configuration"));
    // A text that the host refuses is kept.
    fake.change(|state| state.kept.refusal = Some("no"));
    write("echo more >>\"$1\"");
    let said = edit("web").refused(1).err;
    let path = said.split("your text is in ").nth(1).and_then(|rest| rest.split(';').next()).unwrap();
    assert!(fs::read_to_string(path).unwrap().ends_with("more\n"), "{said}");
}

#[test]
fn a_folder_is_written_once_and_only_with_a_configuration() {
    let fake = host(kept());
    let to = fake.folder().join("to");
    let words = format!("get {}", to.display());
    assert!(fake.run(&words).silent(0).out.starts_with("generation 3: 2 files written to "));
    assert_eq!(fs::read_to_string(to.join("services/web.yaml")).unwrap(), WEB);
    assert_eq!(fs::metadata(to.join("services/web.yaml")).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(fake.run(&words).refused(1).err.contains("is not empty; nothing was written"));
    fake.change(|state| _ = state.kept.files.insert(3, vec![file("services/../../x.yaml", WEB)]));
    let other = format!("get {}/other", fake.folder().display());
    assert!(fake.run(&other).refused(1).err.contains("something else than a configuration"));
    assert!(!fake.folder().join("x.yaml").exists());
}
