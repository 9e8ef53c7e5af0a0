//! Secrets: values that an operator sets, which the services that name them get as files, and nobody else.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};

use kelson_tests::{Host, HostBuilder, Image, PATIENCE, Without, archive, eventually, until};
use serde_json::{Value, json};

use crate::rootless::{client, shared};

/// The user of a host that is contained.
const CONTAINED: u32 = 54_321;

/// Sets a secret from a file.
#[track_caller]
fn set(host: &Host, name: &str, value: &str) -> String {
    let file = host.path("value");
    fs::write(&file, format!("{value}\n")).expect("the test's folder is writable");
    host.ctl(&["secret", "set", name, file.to_str().expect("UTF-8")]).ok().stderr
}

#[track_caller]
fn list(host: &Host) -> Vec<Value> {
    host.ctl(&["-o", "json", "secret", "list"]).ok().json()
}

/// The folder of the secrets of a service, as the host sees it.
fn folder(host: &Host, service: &str) -> PathBuf {
    let folder = host.dir().join("run/secrets").join(service);
    Path::new(&format!("/proc/{}/root", host.init_pid())).join(folder.strip_prefix("/").expect("from /"))
}

/// Prints what its secrets are, and runs on.
fn shows(files: &str, more: &str) -> String {
    let script = format!("cd \"$CREDENTIALS_DIRECTORY\" && head {files} && exec sleep 1000");
    format!("process: {{command: [/bin/sh, -c, '{script}']}}\n{more}\n")
}

#[test]
fn a_service_waits_for_its_secrets_and_has_them_alone() {
    let spy = "process: {command: [/bin/cat, $DIR/run/secrets/web/db]}\ntype: oneshot\nstart: manual\n";
    let mut host = Host::builder()
        .service(
            "web",
            &shows(
                "db tls/key.pem",
                "secrets: [db, {name: tls-key, file: tls/key.pem, mode: 0440}]\nuser: '1234:1235'",
            ),
        )
        .service("spy", &format!("{spy}user: '65534:65534'"))
        .service("root", spy)
        .start();
    host.wait_state("web", "waiting");
    let unset = |name: &str| format!("secret \"{name}\" to be set (set it with kelsonctl secret set {name})");
    host.wait_for("web", "both are missing", |web| web.waiting_for == [unset("db"), unset("tls-key")]);
    let why = host.ctl(&["why", "web"]).stdout;
    assert!(why.contains("secret \"db\" to be set: set it with kelsonctl secret set db"), "{why}");
    set(&host, "db", "hush");
    host.wait_for("web", "one is missing", |web| web.waiting_for == [unset("tls-key")]);
    assert_eq!(host.service("web").state, "waiting");
    set(&host, "tls-key", "PEM");
    host.wait_up("web");
    host.wait_log("web", "hush");
    host.wait_log("web", "PEM");

    host.ctl(&["start", "spy"]).ok();
    host.wait_state("spy", "failed");
    host.wait_log("spy", "Permission denied");
    // The path is right, and root reads everything.
    host.ctl(&["start", "root"]).ok();
    host.wait_finished("root");
    host.wait_log("root", "hush");
    // What the service executes beside itself has them too.
    let beside = host.ctl(&["exec", "web", "--", "/bin/sh", "-c", "cat $CREDENTIALS_DIRECTORY/db"]).ok();
    assert_eq!(beside.stdout, "hush\n");

    host.ctl(&["stop", "web", "--wait"]).ok();
    assert!(!folder(&host, "web").exists());
    host.poweroff();
}

#[test]
fn a_new_value_is_there_at_the_next_start_and_a_removed_one_is_waited_for() {
    let mut host =
        Host::builder().service("web", &shows("db", "secrets: [db]")).service("lazy", "target: {}").start();
    set(&host, "db", "one");
    host.wait_up("web");
    host.wait_log("web", "one");
    let shown = list(&host).remove(0);
    assert_eq!(
        (&shown["name"], &shown["size"], &shown["services"], &shown["outdated"], &shown["source"]),
        (&json!("db"), &json!(4), &json!(["web"]), &json!([]), &Value::Null)
    );
    assert!(shown["author"].as_str().is_some_and(|author| author.contains("user 0")), "{shown}");

    let note = set(&host, "db", "other");
    assert!(note.contains("web run with the value before; `kelsonctl restart web`"), "{note}");
    assert_eq!(list(&host)[0]["outdated"], json!(["web"]));
    assert!(host.ctl(&["secret", "list"]).ok().stdout.contains("web (older)"));
    let newer = "db has another value since its start; `kelsonctl restart web` gives it";
    for command in ["status", "why"] {
        let shown = host.ctl(&[command, "web"]).ok().stdout;
        assert!(shown.contains(newer), "{shown}");
    }
    assert_eq!(fs::read_to_string(folder(&host, "web").join("db")).expect("it is placed"), "one\n");
    host.ctl(&["restart", "web", "--wait"]).ok();
    host.wait_log("web", "other");
    assert_eq!(list(&host)[0]["outdated"], json!([]));
    assert!(!host.ctl(&["status", "web"]).ok().stdout.contains("another value"));

    let refused = host.ctl(&["secret", "remove", "db"]).expect(1);
    assert!(refused.stderr.contains("secret \"db\" is used by web"), "{}", refused.stderr);
    host.ctl(&["secret", "remove", "db", "--force"]).ok();
    assert_eq!(list(&host), Vec::<Value>::new());
    assert!(host.service("web").up, "it runs with what it has");
    host.ctl(&["restart", "web"]).expect(0);
    host.wait_state("web", "waiting");
    set(&host, "db", "again");
    host.wait_up("web");
    let gone = host.ctl(&["secret", "remove", "none"]).expect(1);
    assert!(gone.stderr.contains("there is no secret none"), "{}", gone.stderr);
    for name in ["../db", ".db", ""] {
        let refused = host.ctl(&["secret", "set", name, "/dev/null"]);
        assert!(refused.stderr.contains("is not the name of a secret"), "{name}: {refused:?}");
    }
    let file = host.path("long");
    fs::write(&file, vec![b'x'; (64 << 10) + 1]).expect("it is writable");
    host.ctl(&["secret", "set", "long", file.to_str().expect("UTF-8")]).expect(2);
    fs::write(&file, vec![b'x'; 64 << 10]).expect("it is writable");
    host.ctl(&["secret", "set", "long", file.to_str().expect("UTF-8")]).ok();
    assert_eq!(list(&host)[1]["size"], json!(64 << 10));
    host.poweroff();
}

#[test]
fn another_value_restarts_a_service_or_reaches_it_with_a_signal() {
    let reads = "trap \"head db\" HUP; head db; while :; do sleep 0.05; done";
    let signalled =
        format!("process: {{command: [/bin/sh, -c, 'cd \"$CREDENTIALS_DIRECTORY\" && {reads}']}}\n");
    let mut host = Host::builder()
        .service(
            "signalled",
            &format!("{signalled}secrets: [{{name: db, onChange: HUP}}]\nuser: '1234:1235'"),
        )
        .service("restarted", &shows("db", "secrets: [{name: db, onChange: restart}, other]"))
        .service("neither", &shows("db", "secrets: [db]"))
        .start();
    set(&host, "db", "one");
    set(&host, "other", "x");
    host.wait_all_up(&["signalled", "restarted", "neither"]);
    let pids = |host: &Host| ["signalled", "restarted", "neither"].map(|name| host.pid_of(name));
    let before = pids(&host);
    host.wait_log("signalled", "one");
    let note = set(&host, "db", "two");
    assert!(note.starts_with("kelsonctl: neither run with the value before"), "{note}");
    host.wait_log("signalled", "two");
    host.wait_log("restarted", "two");
    host.wait_all_up(&["signalled", "restarted", "neither"]);
    let after = pids(&host);
    assert_eq!((after[0], after[2]), (before[0], before[2]));
    assert_ne!(after[1], before[1]);
    assert_eq!(list(&host)[0]["outdated"], json!(["neither"]));
    assert_eq!(host.service("restarted").restarts, 0, "it has not failed");
    let placed = fs::metadata(folder(&host, "signalled").join("db")).expect("it is placed");
    assert_eq!(((placed.uid(), placed.gid()), placed.mode() & 0o7777), ((1234, 1235), 0o400));
    // The value before does nothing to a service that does not name the secret so.
    let pids_before = pids(&host);
    set(&host, "other", "y");
    assert_eq!(pids(&host), pids_before);
    host.poweroff();
}

#[test]
fn secrets_stay_through_a_reexec_and_a_crash() {
    let mut host = Host::builder().service("web", &shows("db", "secrets: [db]")).start();
    set(&host, "db", "one");
    host.wait_up("web");
    let pid = host.pid_of("web");
    for incarnation in 0..2 {
        match incarnation {
            0 => drop(host.ctl(&["reexec"]).ok()),
            _ => host.crash(|| host.signal(libc::SIGSEGV)),
        }
        assert_eq!(host.pid_of("web"), pid);
        let beside = host.ctl(&["exec", "web", "--", "/bin/sh", "-c", "cat $CREDENTIALS_DIRECTORY/db"]).ok();
        assert_eq!(beside.stdout, "one\n");
        assert_eq!(list(&host)[0]["outdated"], json!([]));
    }
    set(&host, "db", "two");
    host.ctl(&["restart", "web", "--wait"]).ok();
    host.wait_log("web", "two");
    host.crash(|| host.signal(libc::SIGSEGV));
    host.ctl(&["stop", "web", "--wait"]).ok();
    assert!(!folder(&host, "web").exists());
    host.poweroff();
}

#[test]
fn a_container_has_its_secrets_at_run_secrets() {
    let image = Image::new("test:1", &["report", "serve"]).set("User", json!("web"));
    let service = "container: {image: 'test:1'}\nsecrets: [db]\n";
    let mut host = Host::builder()
        .containers()
        .archive("0.tar", archive(std::slice::from_ref(&image)))
        .service("web", service)
        .service("root", &format!("{service}user: root\n"))
        .start();
    set(&host, "db", "hush");
    host.wait_all_up(&["web", "root"]);
    for (name, ids) in [("web", (1000, 1001)), ("root", (0, 0))] {
        host.wait_log(name, "env.CREDENTIALS_DIRECTORY /run/secrets");
        let process = PathBuf::from(format!("/proc/{}", host.outer_pid(host.pid_of(name))));
        let file = process.join("root/run/secrets/db");
        assert_eq!(fs::read_to_string(&file).expect("it is placed"), "hush\n");
        let found = fs::metadata(&file).expect("it is placed");
        assert_eq!(((found.uid(), found.gid()), found.mode() & 0o7777), (ids, 0o400));
        let mounts = fs::read_to_string(process.join("mountinfo")).expect("it runs");
        let mount = mounts.lines().find(|line| line.contains(" /run/secrets ")).expect("a mount");
        assert!(mount.contains(" ro,nosuid,nodev,noexec"), "{mount}");
    }
    host.ctl(&["reexec"]).ok();
    set(&host, "db", "other");
    host.ctl(&["restart", "web", "--wait"]).ok();
    let process = host.outer_pid(host.pid_of("web"));
    let found = fs::metadata(format!("/proc/{process}/root/run/secrets/db")).expect("it is placed");
    assert_eq!((found.uid(), found.len()), (1000, 6));
    host.ctl(&["stop", "web", "--wait"]).ok();
    assert!(!folder(&host, "web").exists());
    host.poweroff();
}

/// With the user of PID 1 or not.
fn without_mounts(user_name: bool) -> HostBuilder {
    let without = Without { user_name, writable_root: false, ..Without::ALL_BUT_SHARED_MEMORY };
    Host::builder().contained(without).service("web", &shows("db", "secrets: [db]"))
}

#[test]
fn without_a_right_to_mount_secrets_are_in_a_folder_in_memory_or_nowhere() {
    for user_name in [false, true] {
        let state = tempfile::tempdir().expect("a folder");
        chown(state.path(), Some(CONTAINED), Some(CONTAINED)).expect("it is ours");
        let state = state.path().to_str().expect("UTF-8");
        // The runtime folder is in shared memory, because /run cannot be written.
        let builder = without_mounts(user_name).usual_folders();
        let mut host = builder.argument("--state-dir").argument(state).spawn();
        let folder = shared(&host);
        let ctl = client(&folder);
        let value = host.path("value");
        fs::write(&value, "hush\n").expect("the test's folder is writable");
        until("the secret to be set", PATIENCE, || {
            ctl.run(&["secret", "set", "db", value.to_str().expect("UTF-8")]).status.eq(&0).then_some(())
        });
        eventually("the secret in the log", || ctl.run(&["logs", "web"]).stdout.contains("hush"));
        let placed = folder.join("secrets/web/db");
        assert_eq!(fs::metadata(&placed).expect("it is placed").mode() & 0o7777, 0o400);
        ctl.run(&["restart", "web", "--wait"]).ok();
        ctl.run(&["stop", "web", "--wait"]).ok();
        assert!(!placed.exists());
        ctl.run(&["poweroff"]).ok();
        assert_eq!(host.wait_exit(), 0);
    }
    let mut on_disk = without_mounts(false).start();
    set(&on_disk, "db", "hush");
    let why = "run/secrets/web: memory for the secrets cannot be mounted: Operation not permitted";
    on_disk.wait_for("web", "the reason", |web| web.message.contains(why));
    assert!(!on_disk.dir().join("run/secrets/web").exists());
    on_disk.poweroff();
}

/// All files below a folder that hold these bytes; special files and the folder `but` are left out.
fn holding(folder: &Path, but: &Path, marker: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().expect("a type"));
        if path == but {
            continue;
        }
        if kind.is_dir() {
            found.extend(holding(&path, but, marker));
        } else if kind.is_file() && fs::read(&path).is_ok_and(|bytes| holds(&bytes, marker)) {
            found.push(path);
        }
    }
    found
}

fn holds(bytes: &[u8], marker: &[u8]) -> bool {
    bytes.windows(marker.len()).any(|part| part == marker)
}

#[test]
fn no_answer_and_no_file_of_the_host_has_a_value() {
    let marker = std::process::id().to_string() + &format!("-{:?}-marker", std::time::SystemTime::now());
    let marker: String = marker.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let quiet = "process: {command: [/bin/sh, -c, 'test -s $CREDENTIALS_DIRECTORY/db && exec sleep 1000']}\n";
    let mut host = Host::builder()
        .service("web", &format!("{quiet}secrets: [db]\n"))
        .service("later", &format!("{quiet}secrets: [db, none]\n"))
        .start();
    set(&host, "db", &marker);
    fs::remove_file(host.path("value")).expect("it was written");
    host.wait_up("web");
    host.crash(|| host.signal(libc::SIGSEGV));
    host.ctl(&["reexec"]).ok();
    set(&host, "db", &format!("{marker}-2"));
    fs::remove_file(host.path("value")).expect("it was written");
    host.ctl(&["restart", "web", "--wait"]).ok();

    let (support, got) = (host.path("support.tar.gz"), host.path("got"));
    let (support, got) = (support.to_str().expect("UTF-8"), got.to_str().expect("UTF-8"));
    for command in [
        &["secret", "list"][..],
        &["-o", "json", "secret", "list"],
        &["status", "web"],
        &["status", "later"],
        &["why", "later"],
        &["-o", "json", "services"],
        &["-o", "json", "events"],
        &["logs", "web"],
        &["logs", "audit"],
        &["boot"],
        &["graph"],
        &["get", got],
        &["config", "show"],
        &["metrics"],
        &["processes"],
        &["mounts"],
        &["support", "--out", support],
    ] {
        let said = host.ctl(command);
        for text in [&said.stdout, &said.stderr] {
            assert!(!text.contains(&marker), "{command:?}: {text}");
        }
    }
    let unpacked = host.path("unpacked");
    fs::create_dir(&unpacked).expect("it is writable");
    let mut tar = std::process::Command::new("tar");
    let tar = tar.args(["xf", support, "-C"]).arg(&unpacked).status().expect("tar runs");
    assert!(tar.success());
    // The folder is found where it may be: the search works.
    let root = Path::new(&format!("/proc/{}/root", host.init_pid()))
        .join(host.dir().strip_prefix("/").expect("from /"));
    let found = holding(&root, Path::new(""), marker.as_bytes());
    assert_eq!(found, [root.join("run/secrets/web/db")]);
    assert!(!holds(host.console().as_bytes(), marker.as_bytes()));
    host.poweroff();
    assert_eq!(holding(host.dir(), Path::new(""), marker.as_bytes()), Vec::<PathBuf>::new());
}
