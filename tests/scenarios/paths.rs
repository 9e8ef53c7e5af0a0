//! Services that a file or folder starts: states and changes, what comes during a run, and PID 1's own restarts.

use std::fs;

use kelson_tests::{Host, eventually};

/// How many lines the runs of a service have written to a file.
fn runs(host: &Host, file: &str) -> usize {
    fs::read_to_string(host.path(file)).unwrap_or_default().lines().count()
}

fn waits(host: &mut Host, name: &str) {
    let waits = |now: &kelson_tests::Service| now.state == "waiting" && now.up;
    host.wait_for(name, "to wait", waits);
}

const ONCE: &str = "type: oneshot\nrestart: {delay: 10ms, maxDelay: 10ms}\n";

#[test]
fn each_kind_of_path_starts_a_service() {
    let job = |key: &str, path: &str| format!("{ONCE}paths: [{{{key}: '$DIR/{path}'}}]");
    let mut host = Host::builder()
        .runs_with("flag", "append=$DIR/flags, remove=$DIR/flag", &job("exists", "flag"))
        .runs_with("job", "append=$DIR/jobs, remove=$DIR/jobs-in/1.job", &job("exists", "jobs-in/*.job"))
        .runs_with("spool", "append=$DIR/spools, remove=$DIR/spool/a", &job("notEmpty", "spool"))
        .runs_with("config", "append=$DIR/configs", &job("changed", "etc/a.conf"))
        .runs_with("folder", "append=$DIR/folders", &job("modified", "etc"))
        .runs_with("user", "serve", "depends: [{service: flag}]")
        .up(&["user"]);
    for name in ["flag", "job", "spool", "config", "folder"] {
        waits(&mut host, name);
    }
    let status = host.ctl(&["status", "spool"]).ok().stdout;
    assert!(status.contains("waiting for something in") && status.contains("notEmpty /"), "{status}");
    let why = host.ctl(&["why", "config"]).ok().stdout;
    assert!(why.contains("a change of"), "{why}");

    for (file, runs_of) in
        [("flag", "flags"), ("jobs-in/1.job", "jobs"), ("spool/a", "spools"), ("etc/a.conf", "configs")]
    {
        for count in 1..=2 {
            let path = host.path(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
            fs::write(&path, "new").expect("it can be written");
            eventually("it runs", || runs(&host, runs_of) >= count);
            for name in ["flag", "job", "spool", "config", "folder"] {
                waits(&mut host, name);
            }
        }
    }
    for (runs_of, expected) in [("flags", 2), ("jobs", 2), ("spools", 2)] {
        assert_eq!(runs(&host, runs_of), expected, "{runs_of}");
    }
    assert!(runs(&host, "folders") >= 2);
    assert_eq!(host.service("user").restarts, 0, "what waits is up");
    host.poweroff();
}

/// A change is not lost while the service runs, and not before a run that failed is repeated.
#[test]
fn a_change_during_a_run_leads_to_one_more() {
    // A file that is made and written changes twice, and one that is there once.
    let folder = tempfile::tempdir().expect("a folder");
    let [file, input] = ["file", "input"].map(|name| folder.path().join(name));
    for path in [&file, &input] {
        fs::write(path, "0").expect("it can be written");
    }
    let policy = "restart: {policy: untilSuccess, delay: 10ms, maxDelay: 10ms}";
    let mut host = Host::builder()
        .runs_with(
            "slow",
            "append=$DIR/runs, wait-path=$DIR/go",
            &format!("{ONCE}paths: [{{changed: {file:?}}}]"),
        )
        .runs_with(
            "fails",
            "append=$DIR/tries, fail-until=3:$DIR/count",
            &format!("type: oneshot\n{policy}\npaths: [{{changed: {input:?}}}]"),
        )
        .start();
    waits(&mut host, "slow");
    waits(&mut host, "fails");
    fs::write(&file, "1").expect("it can be written");
    eventually("it runs", || runs(&host, "runs") == 1);
    for text in ["2", "3"] {
        fs::write(&file, text).expect("it can be written");
    }
    fs::write(host.path("go"), "").expect("it can be written");
    eventually("it runs once more", || runs(&host, "runs") == 2);
    waits(&mut host, "slow");
    assert_eq!(runs(&host, "runs"), 2);

    fs::write(&input, "1").expect("it can be written");
    eventually("it is repeated until it succeeds", || runs(&host, "tries") == 3);
    waits(&mut host, "fails");
    assert_eq!(runs(&host, "tries"), 3);
    host.poweroff();
}

#[test]
fn an_operator_starts_it_at_once_and_each_incarnation_of_pid_1_watches() {
    let mut host = Host::builder()
        .runs_with("job", "append=$DIR/runs", &format!("{ONCE}paths: [{{changed: $DIR/file}}]"))
        .start();
    waits(&mut host, "job");
    host.ctl(&["start", "job"]).ok();
    eventually("it runs", || runs(&host, "runs") == 1);
    waits(&mut host, "job");
    host.ctl(&["reexec"]).ok();
    waits(&mut host, "job");
    host.crash(|| host.signal(libc::SIGSEGV));
    waits(&mut host, "job");
    assert_eq!(runs(&host, "runs"), 1);
    // The first look of the new process is the one that later ones are compared with.
    let mut written = 0;
    eventually("it runs", || {
        written += 1;
        fs::write(host.path("file"), written.to_string()).expect("it can be written");
        runs(&host, "runs") >= 2
    });
    host.ctl(&["stop", "job", "--wait"]).ok();
    fs::write(host.path("file"), "after").expect("it can be written");
    assert_eq!(host.service("job").state, "stopped");
    host.poweroff();
}
