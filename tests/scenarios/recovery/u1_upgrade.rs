//! U1: `reexec` to another release and back, with services running. A release that reads another format of state is
//! refused, and nothing changes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kelson_tests::{Host, HostBuilder, PATIENCE, eventually, free_port, paths, remote};

use super::u1_other_release::{LATER, later_fields};
use super::v1_reexec::{Seen, numbers, of_version, seen};
use super::v3_stranger::rewrite;

const OWN: &str = env!("CARGO_PKG_VERSION");
/// Of the same length as [`OWN`]: it is put in its place.
const OTHER: &str = "9.9.9";
const WRITERS: usize = 100;

fn writer(n: usize) -> String {
    format!("n-{n}")
}

/// Services in many states, and a hundred that write.
fn services() -> HostBuilder {
    let mut builder = Host::builder()
        .runs_with("told", "'notify=READY=1\\nSTATUS=fine', serve", "readiness: notify")
        .runs_with(
            "failed",
            "fail-until=3:$DIR/tries, notify=READY=1, serve",
            "readiness: notify\nrestart: {delay: 1ms}",
        )
        .runs_with("job", "print=done", "type: oneshot")
        .runs_with("waits", "serve", "depends: [{path: $DIR/never}]")
        .runs_with("pauses", "exit=3", "restart: {delay: 10m, maxDelay: 10m}")
        .runs_with("manual", "serve", "start: manual")
        .runs_with("checked", "serve", "health: [{name: a, exec: {command: [$PROGRAM]}, interval: 1s}]");
    for n in 0..WRITERS {
        builder = builder.runs(&writer(n), &format!("'beat=100ms:40:$DIR/n-{n}'"));
    }
    builder
}

#[track_caller]
fn settled(builder: HostBuilder) -> Host {
    let host = builder.start();
    host.wait_all_up(&["told", "checked", "failed"]);
    host.wait_finished("job");
    host.wait_state("pauses", "backoff");
    host.wait_state("waits", "waiting");
    all_write(&host);
    assert_eq!(host.service("failed").restarts, 2);
    host
}

/// Returns once each of the hundred has written another line, and that has been collected.
#[track_caller]
fn all_write(host: &Host) {
    let last = |name: &str| numbers(&host.log_text(name)).last().copied();
    let before: Vec<_> = (0..WRITERS).map(writer).map(|name| (last(&name), name)).collect();
    for (number, name) in before {
        eventually("a later line", || last(&name) > number);
    }
}

/// The state that an upgrade must not change: all of the services but for the helpers, which are replaced.
#[track_caller]
fn kept(host: &Host) -> Vec<(String, Seen)> {
    seen(host).into_iter().filter(|(name, _)| name != "logd" && name != "apid").collect()
}

/// Has PID 1 execute this program of another version. Returns once the helpers of that version have taken over.
#[track_caller]
fn execute(host: &Host, program: &[u8], version: &str) {
    let (before, logd) = (kept(host), host.service("logd"));
    host.put_init(program);
    let said = host.ctl(&["reexec"]).ok().stdout;
    assert!(said.starts_with(&format!("PID 1 runs version {version} (before: ")), "{said}");
    host.wait_for("logd", "to be of another version", |now| now.up && now.pid != logd.pid);
    assert_eq!(host.service("logd").restarts, logd.restarts, "an upgrade is no failure");
    assert_eq!(kept(host), before, "after {version}");
    all_write(host);
}

/// No line of those that write is missing, or there twice.
#[track_caller]
fn whole_logs(mut host: Host) {
    host.poweroff();
    for name in (0..WRITERS).map(writer) {
        let log = host.log_text(&name);
        let numbers = numbers(&log);
        assert_eq!(numbers.first(), Some(&1), "{name}");
        assert!(
            numbers.windows(2).all(|pair| pair[1] == pair[0] + 1),
            "{name}: lines are lost or doubled: {log}"
        );
        assert!(!log.contains("lost") && !log.contains("dropped"), "{name}: {log}");
    }
}

fn own() -> Vec<u8> {
    fs::read(paths::binary("init")).expect("it was built")
}

#[test]
fn u1_an_upgrade_and_a_downgrade_replace_logd_without_losing_a_line() {
    let host = settled(services().own_binary());
    let own = own();
    let other = of_version(&own, OWN, OTHER);
    execute(&host, &other, OTHER);
    // As the other release may write it: one service in a phase, and with a field, that this one does not know.
    let newest = host.newest_event();
    rewrite(&host, "told", host.pid_of("told"), 4, &LATER.concat());
    execute(&host, &own, OWN);
    host.wait_event(newest, "the phase that is not known", |event| {
        event.service == "told" && event.message.contains("it was in phase 99")
    });
    execute(&host, &other, OTHER);
    assert!(later_fields(&host) > 0, "its field is lost");
    whole_logs(host);
}

#[test]
fn u1_apid_of_another_version_is_replaced_and_clients_connect_again() {
    let (_, machine) = remote::door();
    let port = free_port();
    let mut host = Host::builder()
        .machine(&machine.replace("127.0.0.1:0", &format!("127.0.0.1:{port}")))
        .runs("web", "serve")
        .own_binary()
        .up(&["web", "apid"]);
    let away = remote::client(&host);
    let (web, first) = (host.pid_of("web"), host.service("apid"));
    let mut events = away.follow_events(1);
    events.each_once(1..=1, PATIENCE);
    let version = |host: &Host| {
        let process = host.outer_pid(host.pid_of("apid"));
        let variables = fs::read_to_string(format!("/proc/{process}/environ")).expect("it runs");
        let named = variables.split('\0').filter_map(|variable| variable.strip_prefix("KELSON_VERSION="));
        named.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(version(&host), [OWN]);
    // The same version again: apid stays, and so do its clients.
    host.ctl(&["reexec"]).ok();
    assert_eq!(host.service("apid").pid, first.pid);

    let own = own();
    let mut before = first;
    for (program, new) in [(of_version(&own, OWN, OTHER), OTHER), (own, OWN)] {
        let newest = host.newest_event();
        host.put_init(&program);
        host.ctl(&["reexec"]).ok();
        let now = host.wait_for("apid", "to be of another version", |now| now.up && now.pid != before.pid);
        assert_eq!((now.restarts, version(&host)), (0, vec![new.to_owned()]));
        host.wait_event(newest, "a reason", |event| {
            event.service == "apid" && event.message.contains("the upgrade of PID 1 replaces version ")
        });
        assert_eq!(away.service("web").pid, Some(web));
        // A crash is no upgrade.
        host.crash(|| host.signal(libc::SIGSEGV));
        assert_eq!(host.service("apid").pid, now.pid);
        before = now;
    }
    // A client goes on with the number that it had.
    events.each_once(2..=host.newest_event(), PATIENCE);
    // A service that an operator has stopped stays so.
    host.ctl(&["stop", "apid", "--wait"]).ok();
    host.put_init(&of_version(&self::own(), OWN, OTHER));
    host.ctl(&["reexec"]).ok();
    assert_eq!(host.service("apid").state, "stopped");
    host.ctl(&["start", "apid", "--wait"]).ok();
    assert_eq!(version(&host), [OTHER]);
    assert_eq!((host.pid_of("web"), host.service("web").restarts), (web, 0));
    host.poweroff();
}

/// PID 1 refuses to execute this program, and nothing changes.
#[track_caller]
fn refuses(host: &Host, program: &[u8], version: &str) {
    let (before, logd) = (seen(host), host.pid_of("logd"));
    let newest = host.newest_event();
    host.put_init(program);
    let refused = host.ctl(&["reexec"]).expect(1);
    for text in [&*host.path("init").display().to_string(), &format!("kelson {version}"), "reboot"] {
        assert!(refused.stderr.contains(text), "no {text} in {refused:?}");
    }
    host.wait_event(newest, "a reason", |event| event.message.contains("does not re-execute itself"));
    assert_eq!((seen(host), host.pid_of("logd")), (before, logd));
    all_write(host);
}

#[test]
fn u1_a_release_that_reads_another_format_is_refused_and_nothing_changes() {
    let host = settled(services().own_binary());
    // It answers as such a release does.
    let program = fs::read(paths::binary("kelson-test-program")).expect("it was built");
    refuses(&host, &[&program[..], b"\0kelson 0.1.0\n"].concat(), "0.1.0");
    whole_logs(host);
}

/// Whether an `init` reads state of this format, and its version.
#[track_caller]
fn reads(init: &Path, format: u32) -> (bool, String) {
    let asked = Command::new(init).args(["--can-go-on-from", &format.to_string()]).output();
    let answer = asked.expect("it can be started");
    let said = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    (answer.status.success(), said.strip_prefix("kelson ").expect("it names itself").to_owned())
}

/// The format of state that a host writes, as the first of its files says.
fn format_of(host: &Host) -> u32 {
    let state = fs::read(host.path("run/state/services")).expect("the state");
    u32::from_le_bytes(state[8..12].try_into().expect("four bytes"))
}

#[test]
fn u1_a_release_says_which_format_of_state_it_reads() {
    let host = Host::builder().runs("web", "serve").start();
    let (init, format) = (paths::binary("init"), format_of(&host));
    assert_eq!(reads(&init, format), (true, OWN.to_owned()));
    for other in [format - 1, format + 1] {
        assert_eq!(reads(&init, other), (false, OWN.to_owned()));
    }
    // The changelog tells the same of the release that is being made.
    let changelog = fs::read_to_string(paths::top().join("CHANGELOG.md")).expect("it is there");
    let newest = changelog.split("\n## ").nth(1).expect("a release");
    assert!(
        newest.contains(&format!("State format {format}.")),
        "CHANGELOG.md names another format than {format}"
    );
}

#[test]
fn u1_more_than_16_failures_still_count_after_a_reexec() {
    let mut host = Host::builder()
        .runs_with(
            "web",
            "fail-until=21:$DIR/tries, notify=READY=1, serve",
            "readiness: notify\n\
             restart: {attempts: 20, interval: 10m, exhausted: fail, delay: 1ms, maxDelay: 1ms}",
        )
        .own_binary()
        .up(&["web"]);
    let before = host.service("web");
    assert_eq!(before.restarts, 20);
    host.put_init(&of_version(&own(), OWN, OTHER));
    host.ctl(&["reexec"]).ok();
    assert_eq!(host.service("web").pid, before.pid);
    // One more than its budget has.
    host.kill(host.pid_of("web"), libc::SIGKILL);
    let failed = host.wait_for("web", "to be at rest", |now| now.pid.is_none() && now.state != "stopping");
    assert_eq!((&*failed.state, failed.restarts), ("failed", 20), "{failed:?}");
    host.poweroff();
}

/// The release before this one: its version, the format of its state, and its `init`.
#[track_caller]
fn predecessor() -> (String, u32, PathBuf) {
    let changelog = fs::read_to_string(paths::top().join("CHANGELOG.md")).expect("it is there");
    let mut releases = changelog.split("\n## [").skip(1);
    let (version, format) = releases
        .find_map(|release| {
            let version = release.split(']').next()?;
            let named = release.lines().find(|line| line.starts_with("Commit "))?;
            let format = named.split("State format ").nth(1)?.trim_end_matches('.').parse().ok()?;
            (version != OWN).then(|| (version.to_owned(), format))
        })
        .expect("CHANGELOG.md names a release before this one, with its commit and state format");
    let init = paths::init_of_release(&version);
    assert_eq!(reads(&init, format), (true, version.clone()), "CHANGELOG.md");
    (version, format, init)
}

#[test]
fn long_the_predecessor_is_upgraded_and_back_or_refused() {
    let (version, format, old) = predecessor();
    let (old_bytes, own) = (fs::read(&old).expect("it was built"), own());
    let compatible = reads(&paths::binary("init"), format).0;
    let host = settled(services().copy_of(old));
    if compatible {
        execute(&host, &own, OWN);
        execute(&host, &old_bytes, &version);
        execute(&host, &own, OWN);
        return whole_logs(host);
    }
    refuses(&host, &own, OWN);
    whole_logs(host);
    let host = settled(services().own_binary());
    refuses(&host, &old_bytes, &version);
    whole_logs(host);
}

/// For hack/state-fixture: the state of a host of the release before this one, for the tests that read it.
#[test]
#[ignore = "writes to tests/state"]
fn record_state_of_the_predecessor() {
    let (version, _, init) = predecessor();
    let to = paths::top().join("tests/state").join(version);
    let mut host = Host::builder()
        .runs("web", "print=hello, serve")
        .service("job", "process: {command: [$PROGRAM]}\ntype: oneshot")
        .copy_of(init)
        .up(&["web"]);
    host.wait_finished("job");
    let _ = fs::remove_dir_all(&to);
    for folder in ["", "papers"] {
        let from = host.path("run/state").join(folder);
        fs::create_dir_all(to.join(folder)).expect("the repository is writable");
        for file in fs::read_dir(from).expect("the state").map(|entry| entry.expect("a name").path()) {
            if file.is_file() {
                let name = file.file_name().expect("it has one");
                fs::copy(&file, to.join(folder).join(name)).expect("the repository is writable");
            }
        }
    }
    host.poweroff();
}
