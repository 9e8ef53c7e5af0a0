//! V1: over `reexec` every service keeps its PID, its counts, its health; no log line is lost or doubled; clients go on.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use kelson_tests::{Host, PATIENCE, eventually, paths};

use super::reexec;

const COUNT: usize = 30;
const TIMES: usize = 20;

fn name(n: usize) -> String {
    format!("n-{n}")
}

pub(super) type Seen = (Option<i32>, u32, bool, Option<bool>, String, String);

#[track_caller]
pub(super) fn seen(host: &Host) -> BTreeMap<String, Seen> {
    let all = host.services().into_iter();
    all.map(|now| {
        // Of logd the time of its event is what is known, which is a moment later.
        let since = if now.name == "logd" { String::new() } else { now.since.to_string() };
        (now.name, (now.pid, now.restarts, now.up, now.healthy, now.state, since))
    })
    .collect()
}

/// Open descriptors of PID 1.
fn descriptors(host: &Host) -> usize {
    fs::read_dir(format!("/proc/{}/fd", host.init_pid())).expect("it lives").count()
}

/// Private memory of PID 1 in KiB, its program apart.
fn memory(host: &Host) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", host.init_pid())).expect("it lives");
    let line = text.lines().find(|line| line.starts_with("RssAnon:")).expect("the kernel tells");
    line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number")
}

#[track_caller]
pub(super) fn numbers(log: &str) -> Vec<u64> {
    let all =
        log.lines().filter_map(|line| line.split_once("beat ")?.1.split_whitespace().next()?.parse().ok());
    all.collect()
}

#[test]
fn v1_twenty_times_in_a_row_nothing_of_the_services_changes() {
    let mut builder = Host::builder()
        .runs_with("told", "'notify=READY=1\\nSTATUS=fine', serve", "readiness: notify")
        .runs_with("late", "wait-path=$DIR/go, 'notify=READY=1', serve", "readiness: notify")
        .runs_with("piped", "wait-path=$DIR/go, newline-on=3, serve", "readiness: {fd: 3}")
        .runs_with("job", "print=done", "type: oneshot")
        .runs_with("waits", "serve", "depends: [{path: $DIR/never}]")
        .runs_with("pauses", "exit=3", "restart: {delay: 10m, maxDelay: 10m}")
        .runs("stopped", "serve")
        .runs_with("manual", "serve", "start: manual")
        .runs_with(
            "checked",
            "serve",
            "health: [{name: a, exec: {command: [$PROGRAM]}, interval: 200ms, restartAfter: 1}]",
        )
        .service("wrong", "process: {command: }");
    for n in 0..COUNT {
        builder = builder.runs(&name(n), &format!("'beat=10ms:40:$DIR/n-{n}'"));
    }
    let mut host = builder.start();
    for n in 0..COUNT {
        host.wait_log(&name(n), "beat 1 ");
    }
    host.wait_up("told");
    host.wait_up("checked");
    host.wait_finished("job");
    host.wait_state("pauses", "backoff");
    host.wait_state("waits", "waiting");
    host.ctl(&["stop", "stopped", "--wait"]).ok();
    let before = seen(&host);
    let boot = host.ctl(&["-o", "json", "boot"]).ok().stdout;
    let mut events = host.follow_events(1);
    let mut lines = host.follow(&["logs", "-f", "n-0"]);
    events.each_once(1..=1, PATIENCE);
    lines.find("beat ", PATIENCE);

    let (mut held, mut used) = (0, 0);
    for time in 1..=TIMES {
        reexec(&host);
        assert_eq!(seen(&host), before, "after {time} times");
        if time == 2 {
            (held, used) = (descriptors(&host), memory(&host));
        }
    }
    let (held_at_last, used_at_last) = (descriptors(&host), memory(&host));
    assert!(held_at_last <= held + 2, "{held} descriptors, and then {held_at_last}");
    assert!(used_at_last <= used + 512, "{used} KiB, and then {used_at_last}");
    let version: serde_json::Value = host.ctl(&["-o", "json", "version"]).ok().json();
    assert_eq!(version["server"]["reexecs"], TIMES);
    assert_eq!(host.ctl(&["-o", "json", "boot"]).ok().stdout, boot);
    assert!(host.ctl(&["status", "told"]).ok().stdout.contains("fine"));

    // Messages of services that had sent none before are received.
    host.touch("go");
    host.wait_up("late");
    host.wait_up("piped");
    // An end is seen and acted upon, and a start is possible.
    let pid = host.pid_of("n-1");
    host.kill(pid, libc::SIGKILL);
    let again = host.wait_for("n-1", "to run again", |now| now.up && now.pid != Some(pid));
    assert_eq!(again.restarts, 1);
    assert!(host.events_of("n-1").iter().any(|event| event.message.contains("SIGKILL")));
    host.ctl(&["start", "manual", "stopped", "--wait"]).ok();

    // The clients went on: no number is missing, none came twice.
    events.each_once(2..=host.newest_event(), PATIENCE);
    let mut got = Vec::new();
    let last = numbers(&host.log_text("n-0")).last().copied().expect("it writes");
    while got.last().is_none_or(|got| *got < last) {
        got.extend(numbers(&lines.next(PATIENCE).expect("a line")));
    }
    assert!(got.windows(2).all(|pair| pair[1] == pair[0] + 1), "{got:?}");

    host.poweroff();
    for n in 0..COUNT {
        let log = host.log_text(&name(n));
        let numbers = numbers(&log);
        let runs = if n == 1 { 2 } else { 1 };
        let breaks = numbers.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        assert_eq!(breaks, runs - 1, "{}: lines are lost or doubled", name(n));
        assert!(!log.contains("lost") && !log.contains("replaced"), "{}", name(n));
    }
}

#[test]
fn v1_a_file_that_cannot_go_on_is_refused_and_nothing_changes() {
    let mut host = Host::builder().runs("web", "serve").own_binary().up(&["web"]);
    let pid = host.pid_of("web");
    let newest = host.newest_event();
    let init = host.path("init");
    let good = fs::read(&init).expect("it was copied");
    // Not even a program, and one that is none of ours.
    for bad in [b"#!/no/such\n".to_vec(), fs::read("/bin/true").expect("it is there")] {
        fs::remove_file(&init).expect("the test's folder is writable");
        fs::write(&init, bad).expect("the test's folder is writable");
        let refused = host.ctl(&["reexec"]).expect(1);
        assert!(refused.stderr.contains("cannot go on as PID 1"), "{refused:?}");
    }
    assert_eq!(host.pid_of("web"), pid);
    host.wait_event(newest, "a reason", |event| event.message.contains("does not re-execute itself"));
    // Without a file it goes on from its copy in memory; with a good one from that.
    fs::remove_file(&init).expect("the test's folder is writable");
    let said = host.ctl(&["reexec"]).ok();
    assert!(said.stdout.contains("its copy in memory"), "{said:?}");
    fs::write(&init, good).expect("the test's folder is writable");
    fs::set_permissions(&init, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("it is ours");
    let said = host.ctl(&["reexec"]).ok();
    assert!(said.stdout.contains(&init.display().to_string()), "{said:?}");
    assert_eq!((host.pid_of("web"), host.service("web").restarts), (pid, 0));
    host.poweroff();
}

#[test]
fn v1_a_program_on_a_tmpfs_gets_no_copy_and_goes_on() {
    let folder = Path::new("/dev/shm").join(format!("kelson-init-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("/dev/shm is a tmpfs");
    let init = folder.join("init");
    fs::copy(paths::binary("init"), &init).expect("/dev/shm has room");
    let mut host = Host::builder().runs("web", "'beat=5ms:40:$DIR/web'").binary_at(init.clone()).start();
    host.wait_log("web", "beat 1 ");
    let pid = host.pid_of("web");
    let program = |process: i32| fs::read_link(format!("/proc/{process}/exe")).expect("it lives");
    assert_eq!(
        (program(host.init_pid()), program(host.outer_pid(host.pid_of("logd")))),
        (init.clone(), init.clone())
    );
    host.crash(|| host.signal(libc::SIGSEGV));
    assert_eq!(program(host.init_pid()), init);
    // Its times count from the first incarnation, and the file is found again.
    let said = host.ctl(&["reexec"]).ok();
    assert!(said.stdout.contains(&format!("from {} ", init.display())), "{said:?}");
    assert_eq!((host.pid_of("web"), host.service("web").restarts), (pid, 0));
    host.poweroff();
    let log = host.log_text("web");
    assert!(numbers(&log).windows(2).all(|pair| pair[1] == pair[0] + 1), "lines are lost or doubled:\n{log}");
    fs::remove_dir_all(folder).expect("it is the test's own");
}

/// The same program under another version.
pub(super) fn of_version(program: &[u8], old: &str, new: &str) -> Vec<u8> {
    assert_eq!(old.len(), new.len());
    let (mut changed, mut at) = (program.to_vec(), 0);
    while let Some(found) = changed[at..].windows(old.len()).position(|window| window == old.as_bytes()) {
        at += found;
        changed[at..at + old.len()].copy_from_slice(new.as_bytes());
    }
    assert_ne!(changed, program, "its version stands in it");
    changed
}

#[test]
fn v1_a_link_to_a_versioned_file_is_followed_and_both_versions_are_named() {
    let mut host = Host::builder().runs("web", "'beat=5ms:40:$DIR/web'").linked_binary().start();
    host.wait_log("web", "beat 1 ");
    let (pid, logd) = (host.pid_of("web"), host.pid_of("logd"));
    let (link, first, second) = (host.path("init"), host.path("init-1"), host.path("init-2"));
    let old = env!("CARGO_PKG_VERSION");
    let new = format!("9{}", &old[1..]);
    let bytes = of_version(&fs::read(&first).expect("it was copied"), old, &new);
    fs::write(&second, bytes).expect("the test's folder is writable");
    fs::set_permissions(&second, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("it is ours");
    // As ln -sfn has it; the old file goes with the old package.
    fs::remove_file(&link).expect("the test's folder is writable");
    std::os::unix::fs::symlink("init-2", &link).expect("the test's folder is writable");
    fs::remove_file(&first).expect("the test's folder is writable");
    let said = host.ctl(&["reexec"]).ok().stdout;
    let link = link.display();
    assert_eq!(said, format!("PID 1 runs version {new} (before: {old}), from {link} (kelson {new})\n"));
    let version: serde_json::Value = host.ctl(&["-o", "json", "version"]).ok().json();
    assert_eq!(version["server"]["version"], new);
    // logd is of the same release, and goes on with the pipes of the one before.
    host.wait_for("logd", "to be of the new version", |now| now.up && now.pid != Some(logd));
    // Once more, from the incarnation of another version; a crash in between changes nothing of it.
    host.crash(|| host.signal(libc::SIGSEGV));
    let said: serde_json::Value = host.ctl(&["-o", "json", "reexec"]).ok().json();
    assert_eq!((&said["oldVersion"], &said["version"]), (&new.clone().into(), &new.into()));
    assert!(host.events().iter().any(|event| event.message.contains(&format!("PID 1 of version {old} "))));
    assert_eq!((host.pid_of("web"), host.service("web").restarts), (pid, 0));
    host.poweroff();
    let log = host.log_text("web");
    assert!(numbers(&log).windows(2).all(|pair| pair[1] == pair[0] + 1), "lines are lost or doubled:\n{log}");
}

#[test]
fn v1_a_file_that_never_answers_holds_nobody_up() {
    let mut host = Host::builder().runs("web", "serve").own_binary().up(&["web"]);
    let (pid, init) = (host.pid_of("web"), host.path("init"));
    // A program that runs and says nothing.
    fs::remove_file(&init).expect("the test's folder is writable");
    fs::copy(paths::binary("kelson-test-program"), &init).expect("the test's folder has room");
    let refused = host.ctl(&["reexec"]).expect(1);
    assert!(refused.stderr.contains("it did not answer within 10 s"), "{refused:?}");
    // One that cannot be read to its end, as on a disk that does not answer.
    fs::remove_file(&init).expect("the test's folder is writable");
    let made = std::process::Command::new("mkfifo").arg(&init).status();
    assert!(made.is_ok_and(|status| status.success()));
    let said = host.ctl(&["reexec"]).ok();
    assert!(said.stdout.contains("its copy in memory"), "{said:?}");
    assert!(said.stdout.contains("its disk did not answer within 20 s"), "{said:?}");
    assert_eq!((host.pid_of("web"), host.service("web").restarts), (pid, 0));
    host.poweroff();
}

#[test]
fn v1_a_host_without_cgroups_goes_on_too() {
    let mut host = Host::builder().runs("web", "'spawn=serve', serve").without_cgroup().up(&["web"]);
    let pid = host.pid_of("web");
    reexec(&host);
    assert_eq!((host.pid_of("web"), host.service("web").restarts), (pid, 0));
    host.ctl(&["stop", "web", "--wait"]).ok();
    eventually("nothing to be left", || host.processes_with("serve").is_empty());
    host.poweroff();
}

#[test]
fn p3_nothing_leaks_into_what_a_later_life_starts() {
    let mut host = Host::builder()
        .runs("first", "report=$DIR/first, serve")
        .runs_with("later", "report=$DIR/later, serve", "start: manual")
        .burdened()
        .up(&["first"]);
    reexec(&host);
    reexec(&host);
    host.ctl(&["start", "later", "--wait"]).ok();
    let [first, later] = ["first", "later"].map(|name| host.wait_file(name));
    let lines = |text: &str| -> Vec<String> {
        let of_all = ["descriptor", "limit", "blocked", "ignored", "signal", "fd "];
        let kept = text.lines().filter(|line| of_all.iter().any(|word| line.starts_with(word)));
        kept.map(|line| line.replace("later", "first")).collect()
    };
    let strip = |lines: Vec<String>| -> Vec<String> {
        lines.into_iter().map(|line| line.split("pipe:").next().unwrap_or_default().to_owned()).collect()
    };
    assert!(!lines(&first).is_empty(), "{first}");
    assert_eq!(strip(lines(&later)), strip(lines(&first)));
    host.poweroff();
}
