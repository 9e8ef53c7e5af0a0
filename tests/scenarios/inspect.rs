//! Looking at the machine: the answers, and the fate of the calls when a disk, the process that looks, or PID
//! 1 fails.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::time::Duration;

use kelson_tests::{Host, Output, PATIENCE, Process, eventually, remote, until};
use serde_json::Value;

/// The processes that look, which the host has at this moment.
fn looking(host: &Host) -> Vec<Process> {
    host.processes().into_iter().filter(|process| process.command == ["kelson-inspect"]).collect()
}

/// Whether it has read a part of a large file.
fn has_read(process: &Process) -> bool {
    let io = fs::read_to_string(format!("/proc/{}/io", process.outer_pid)).unwrap_or_default();
    let read = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    read.and_then(|bytes| bytes.parse().ok()).is_some_and(|bytes: u64| bytes > 1 << 20)
}

/// The cgroups of those that look, or have looked.
fn cgroups_of_looking(host: &Host) -> Vec<String> {
    let root = host.cgroup_of("web");
    let root = root.parent().expect("services are below a root");
    let names = fs::read_dir(root).expect("the root of the services' cgroups").flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with("_inspect-")).collect()
}

#[track_caller]
fn nobody_looks(host: &Host) {
    eventually("nobody to look any more", || looking(host).is_empty() && cgroups_of_looking(host).is_empty());
}

/// The entries of a list.
fn list(output: &Output) -> Vec<Value> {
    output.json()
}

/// It listens at a port that the kernel chooses: other hosts of these tests have the same network.
const WEB: &str = "process: {command: [$PROGRAM, 'orphan=hang', 'spawn=tcp=0', serve]}";

#[test]
fn processes_and_sockets_are_told_by_service() {
    let host = Host::builder().service("web", WEB).runs("db", "serve").up(&["web", "db"]);
    eventually("all of its processes", || {
        let told = list(&host.ctl(&["processes", "web", "-o", "json"]).ok());
        told.len() == 3
    });
    let processes = list(&host.ctl(&["processes", "-o", "json"]).ok());
    let of = |service: &str| -> Vec<i64> {
        let of = processes.iter().filter(|process| process["service"] == service);
        of.filter_map(|process| process["pid"].as_i64()).collect()
    };
    assert_eq!(of("db"), [i64::from(host.pid_of("db"))]);
    assert!(of("web").len() == 3 && of("web").contains(&i64::from(host.pid_of("web"))), "{processes:?}");
    assert_eq!(of("logd").len(), 1);
    let init = processes.iter().find(|process| process["pid"] == 1).expect("PID 1 is among them");
    assert_eq!((init["service"].is_null(), init["parent"].as_i64()), (true, Some(0)));
    let listens = until("its port", PATIENCE, || {
        let mut sockets = list(&host.ctl(&["netstat", "web", "-o", "json"]).ok());
        assert!(sockets.len() < 2, "{sockets:?}");
        sockets.pop()
    });
    assert_eq!(listens["protocol"], "tcp");
    let local = listens["local"].as_str().expect("an address");
    assert!(local.starts_with("127.0.0.1:"), "{local}");
    std::net::TcpStream::connect(local).expect("somebody listens there");
    assert_eq!(listens["processes"][0]["service"], "web");
    let told: Value = host.ctl(&["cgroups", "-o", "json"]).ok().json();
    let cgroups = told["cgroups"].as_array().expect("a list");
    let web = cgroups.iter().find(|cgroup| cgroup["service"] == "web").expect("it has a cgroup");
    assert_eq!(web["processes"], 3);
    nobody_looks(&host);
}

#[test]
fn without_cgroups_ancestors_tell_whose_a_process_is() {
    let host = Host::builder().without_cgroup().service("web", WEB).up(&["web"]);
    eventually("both that have a parent there", || {
        let told = list(&host.ctl(&["processes", "web", "-o", "json"]).ok());
        told.len() == 2
    });
    let refused = host.ctl(&["cgroups"]).expect(1);
    assert!(refused.stderr.contains("no writable cgroup2"), "{refused:?}");
}

#[test]
fn the_machine_is_told_in_every_way() {
    let host = Host::builder().service("web", WEB).start();
    let memory: Value = host.ctl(&["memory", "-o", "json"]).ok().json();
    assert!(memory["total"].as_u64() > memory["available"].as_u64(), "{memory}");
    let mounts = list(&host.ctl(&["mounts", "-o", "json"]).ok());
    let root = mounts.iter().find(|mount| mount["target"] == "/").expect("there is a root");
    assert!(root["size"].as_u64() >= root["used"].as_u64() && root["trouble"].is_null(), "{root}");
    for command in ["cpu", "disks", "time", "mounts", "memory", "processes", "netstat", "network", "cgroups"]
    {
        let table = host.ctl(&[command]).ok().stdout;
        assert!(table.lines().count() >= 1 && !table.contains('\u{1b}'), "{command}: {table:?}");
    }
    let time: Value = host.ctl(&["time", "-o", "json"]).ok().json();
    assert!(time.to_string().contains("20"), "{time}");
}

#[test]
fn files_are_for_admins_and_it_is_written_down_who_read_them() {
    let (_, machine) = remote::door();
    let host = Host::builder().machine(&machine).service("web", WEB).up(&["apid"]);
    let folder = host.path("tree");
    fs::create_dir_all(folder.join("inner")).expect("the test's folder is writable");
    let bytes: Vec<u8> = (0..200_000_u32).map(|number| number.to_le_bytes()[1]).collect();
    fs::write(folder.join("inner/bytes"), &bytes).expect("the test's folder is writable");
    let path = |name: &str| folder.join(name).display().to_string();
    let away = remote::client(&host);
    let listed = away.run(&["ls", "-R", &path("")]).ok().stdout;
    assert!(listed.contains("inner/bytes"), "{listed}");
    let copy = host.path("copy");
    away.run(&["cp", &path("inner"), &copy.display().to_string()]).ok();
    let copied =
        [copy.join("bytes"), copy.join("inner/bytes")].into_iter().find_map(|file| fs::read(file).ok());
    assert!(copied.is_some_and(|copied| copied == bytes), "it is not there, or not the same");
    for (arguments, text) in [
        (["read", "/dev/null"], "not a regular file"),
        (["ls", "/no/where"], "No such file"),
        (["read", "/no/where"], "No such file"),
    ] {
        let refused = away.run(&arguments).expect(1);
        assert!(refused.stderr.contains(text), "{refused:?}");
    }
    let log = host.wait_log("audit", "call=Inspect.Copy");
    let copy = log.lines().find(|line| line.contains("call=Inspect.Copy")).unwrap_or_default();
    let expected = format!("role=os:admin what=\"{}\" result=ok", path("inner"));
    assert!(copy.contains("who=\"CN=operator sha256:") && copy.contains(&expected), "{copy}");
    assert!(!log.contains("Inspect.Processes"), "who only looks is not written down: {log}");
    nobody_looks(&host);
}

#[test]
fn a_file_goes_to_the_host_whole_or_not_at_all_and_through_no_link() {
    let (_, machine) = remote::door();
    let host = Host::builder()
        .machine(&machine)
        .service("web", WEB)
        .runs_with("granted", "serve", "api: admin")
        .runs_with("operator", "serve", "api: operator")
        .start();
    for service in ["apid", "web", "granted", "operator"] {
        host.wait_up(service);
    }
    let folder = host.path("there");
    fs::create_dir_all(folder.join("real")).expect("the test's folder is writable");
    std::os::unix::fs::symlink("real", folder.join("link")).expect("the test's folder is writable");
    let there = |name: &str| format!(":{}", folder.join(name).display());
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| number.to_le_bytes()[1]).collect();
    let file = host.path("app.conf");
    fs::write(&file, &bytes).expect("the test's folder is writable");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("it is ours");
    let here = file.display().to_string();
    let away = remote::client(&host);
    away.run(&["cp", &here, &there("real")]).ok();
    let copied = folder.join("real/app.conf");
    assert!(fs::read(&copied).expect("it is there") == bytes);
    let found = fs::metadata(&copied).expect("it is there");
    assert_eq!((found.mode() & 0o7777, found.uid()), (0o640, 0));
    for (words, text) in [
        (vec!["cp", &here, &there("real")], "--force"),
        (vec!["cp", "-f", &here, &there("link/x")], "symbolic link"),
        (vec!["cp", "-f", &here, &there("link")], "is no regular file"),
        (vec!["cp", "-f", &here, &there("none/x")], "No such file"),
    ] {
        let refused = away.run(&words).expect(1);
        assert!(refused.stderr.contains(text), "{refused:?}");
    }
    fs::write(&file, "second").expect("the test's folder is writable");
    away.run(&["cp", "-f", &here, &there("real/app.conf")]).ok();
    assert_eq!(fs::read(&copied).expect("it is there"), b"second");
    // One that breaks off: its client is killed while the file is on its way.
    fs::File::create(&file).and_then(|file| file.set_len(1 << 30)).expect("a file with a hole");
    let mut sending =
        away.command(&["cp", &here, &there("real/half")]).spawn().expect("kelsonctl can be started");
    let names = || {
        let entries = fs::read_dir(folder.join("real")).expect("it is there").flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    };
    eventually("half of a file", || names().len() == 2);
    sending.kill().expect("it is our child");
    sending.wait().expect("it is our child");
    nobody_looks(&host);
    assert_eq!(names(), ["app.conf"]);
    // A service may do it with its grant, and not with less; who did it is in the audit.
    let kelsonctl = kelson_tests::paths::binary("kelsonctl").display().to_string();
    let socket = format!("unix://{}", host.path("run/init.sock").display());
    let by = |service: &str| {
        let target = there(service);
        let words = ["exec", service, "--", &kelsonctl, "-e", &socket, "cp", "/etc/hostname", &target];
        host.ctl(&words)
    };
    by("granted").ok();
    assert!(folder.join("granted").is_file());
    let denied = by("operator").expect(4);
    assert!(denied.stderr.contains("Inspect.WriteFile needs `api: admin`"), "{denied:?}");
    let log = host.wait_log("audit", "process");
    let written = format!("what=\"{} (6 bytes, mode 640)\" result=ok", copied.display());
    assert!(
        log.contains("call=Inspect.WriteFile who=\"CN=operator sha256:") && log.contains(&written),
        "{log}"
    );
}

#[test]
fn p5_a_file_system_that_does_not_answer_holds_up_nobody() {
    let host = Host::builder()
        .service("web", WEB)
        .runs_with("dead", "'dead-mount=$DIR/dead', 'touch=$DIR/mounted', serve", "start: manual")
        .up(&["web"]);
    fs::create_dir(host.path("dead")).expect("the test's folder is writable");
    host.ctl(&["start", "dead"]).ok();
    host.wait_file("mounted");
    let dead = host.path("dead").display().to_string();
    let mounts = list(&host.ctl(&["mounts", "--all", "-o", "json"]).ok());
    let find = |target: &str| mounts.iter().find(|mount| mount["target"] == target).expect("it is mounted");
    assert_eq!(
        (find(&dead)["trouble"].as_str(), find(&dead)["size"].is_null()),
        (Some("does not answer"), true)
    );
    assert!(find("/")["size"].is_u64() && find("/")["trouble"].is_null(), "{mounts:?}");
    let waits = host.follow(&["ls", &dead]);
    until("one that looks", PATIENCE, || looking(&host).pop());
    // Nothing else waits for it.
    assert!(host.service("web").up);
    assert!(!list(&host.ctl(&["processes", "-o", "json"]).ok()).is_empty());
    let (_, given_up) = waits.rest();
    assert_eq!(given_up.status, 5, "{given_up:?}");
    assert!(given_up.stderr.contains("a disk does not answer"), "{given_up:?}");
    nobody_looks(&host);
}

#[test]
fn one_that_looks_and_is_killed_or_stopped_is_told_of() {
    let host = Host::builder().service("web", WEB).up(&["web"]);
    let endless = host.path("sparse");
    let file = fs::File::create(&endless).expect("the test's folder is writable");
    file.set_len(1 << 40).expect("a file with a hole");
    let endless = endless.display().to_string();
    for (signal, status, text) in [
        (libc::SIGKILL, 3, "kelson-inspect ended before it had said all"),
        (libc::SIGSTOP, 5, "nothing came for 10 s"),
    ] {
        let mut reading = host.client().command(&["cp", &endless, "-"]);
        let reading = reading.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
        let reading = reading.spawn().expect("kelsonctl can be started");
        // kelsonctl asks for what the path is first.
        let one = until("one that reads", PATIENCE, || looking(&host).into_iter().find(has_read));
        kelson_tests::host::send(one.outer_pid, signal);
        let ended = reading.wait_with_output().expect("it is our child");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!((ended.status.code(), said.contains(text)), (Some(status), true), "{said}");
        nobody_looks(&host);
    }
}

#[test]
fn v1_whoever_looks_ends_with_the_life_of_pid_1_that_began_it() {
    let mut host = Host::builder().service("web", WEB).up(&["web"]);
    let pid = host.pid_of("web");
    let file = fs::File::create(host.path("sparse")).expect("the test's folder is writable");
    file.set_len(1 << 40).expect("a file with a hole");
    let mut reading = host.client().command(&["cp", &host.path("sparse").display().to_string(), "-"]);
    // Nobody takes what comes, so that it is under way for as long as it may be.
    let (unread, output) = std::io::pipe().expect("a pipe");
    let mut reading = reading.stdout(output).spawn().expect("kelsonctl can be started");
    until("one that looks", PATIENCE, || looking(&host).pop());
    host.ctl(&["reexec"]).ok();
    drop(unread);
    reading.wait().expect("it is our child");
    eventually("nobody to look any more", || looking(&host).is_empty());
    assert_eq!(host.pid_of("web"), pid);
    // The cgroups that the previous incarnation has left go with the next look, or have gone.
    assert!(!list(&host.ctl(&["processes", "-o", "json"]).ok()).is_empty());
    assert!(cgroups_of_looking(&host).len() <= 1);
    let began = std::time::Instant::now();
    host.poweroff();
    assert!(began.elapsed() < Duration::from_secs(10), "nothing holds the end up");
}

#[test]
fn each_fact_names_what_says_so() {
    let host = Host::builder().runs("web", "serve").up(&["web"]);
    let facts = list(&host.ctl(&["facts", "-o", "json"]).ok());
    let said =
        |fact: &Value| ["name", "value", "source"].iter().all(|key| fact[key] != "" && fact[key].is_string());
    assert!(facts.iter().all(said), "{facts:?}");
    let value = |name: &str| facts.iter().find(|fact| fact["name"] == name).map(|fact| fact["value"].clone());
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("the kernel has one");
    assert_eq!(value("kernel.release"), Some(release.trim().into()));
    assert_eq!(value("architecture"), Some(std::env::consts::ARCH.into()));
    nobody_looks(&host);
}
