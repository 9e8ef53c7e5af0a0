//! PID 1 as container engines run it without root: in user namespaces, as a user without a passwd entry or a capability,
//! on a read-only root. Each scenario takes away one more thing.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use kelson_tests::{Ctl, Host, HostBuilder, PATIENCE, eventually, until};

/// Nothing can be written in the shared memory.
const NO_SHARED_MEMORY: &str = "mount -t tmpfs -o ro none /dev/shm &&";

/// A service that asks for all that needs no privilege where it is had already.
fn services(builder: HostBuilder) -> HostBuilder {
    let drops = "security: {noNewPrivileges: true, capabilities: {drop: [all]}}\nlogs: {stdout: prefix}\n";
    builder
        .runs_with(
            "own",
            "'report-of=uid', 'orphan=setsid,hang', serve",
            &format!("user: '4242:4242'\n{drops}"),
        )
        .runs_with("plain", "print=hello, serve", drops)
        .runs_with("notifies", "notify=READY=1, serve", "readiness: notify\n")
        .runs_with("checked", "serve", "health: [{exec: {command: [/bin/true]}}]\n")
}

/// The lines of PID 1 itself that tell of anything but services that start, of what it is, and of missing cgroups.
fn notable(host: &Host) -> Vec<String> {
    let console = host.console();
    assert!(console.matches("strays are found by").count() <= 1, "{console}");
    let own = console.lines().filter_map(|line| line.strip_prefix("kelson: "));
    let usual = [
        "cannot make cgroup ",
        "own: ",
        "plain: ",
        "notifies: ",
        "checked: ",
        "logd: ",
        "probe: ",
        "version ",
        "the boot is over",
    ];
    own.filter(|line| !usual.iter().any(|usual| line.starts_with(usual))).map(str::to_owned).collect()
}

/// What is in shared memory for a host.
fn shared(host: &Host) -> PathBuf {
    let namespace = fs::metadata(format!("/proc/{}/ns/pid", host.init_pid())).expect("it runs").ino();
    PathBuf::from(format!("/dev/shm/kelson-{namespace}"))
}

#[test]
fn a_writable_runtime_folder_is_enough() {
    let mut host = services(Host::builder()).contained("").up(&["own", "plain", "notifies", "checked"]);
    eventually("the lines of services", || host.console().contains("plain: hello\n"));
    host.wait_log("plain", "hello");
    assert_eq!(notable(&host), Vec::<String>::new());
    host.ctl(&["reexec"]).ok();
    host.ctl(&["stop", "own"]).ok();
    host.wait_down("own");
    assert!(host.processes_with("orphan=").is_empty(), "{:?}", host.processes());
    host.poweroff();
}

#[test]
fn shared_memory_takes_the_place_of_the_runtime_folder() {
    let mut host = services(Host::builder()).contained("").usual_folders().spawn();
    let folder = shared(&host);
    let ctl = Ctl::at(format!("unix://{}/init.sock", folder.display())).run_as(Some(54_321));
    for name in ["own", "plain", "notifies", "checked"] {
        until(&format!("{name} to be up"), PATIENCE, || {
            ctl.run(&["wait", name, "--for", "up", "--timeout", "1s"]).status.eq(&0).then_some(())
        });
    }
    let notable = notable(&host);
    let [line] = notable.as_slice() else { panic!("{notable:?}") };
    assert!(line.starts_with("/run/kelson: ") && line.contains("--runtime-dir"), "{line}");
    assert!(line.contains(&format!("state and sockets are in {}", folder.display())), "{line}");
    ctl.run(&["reexec"]).ok();
    until("logs", PATIENCE, || ctl.run(&["logs", "plain"]).stdout.contains("hello").then_some(()));
    ctl.run(&["poweroff"]).ok();
    assert_eq!(host.wait_exit(), 0);
    assert!(!folder.exists(), "it goes with the host");
}

#[test]
fn services_run_where_nothing_can_be_written() {
    let mut host = Host::builder()
        .contained(NO_SHARED_MEMORY)
        .usual_folders()
        .runs_with("web", "print=begun, await=TERM, print=ended", "logs: {stdout: prefix}\n")
        .runs_with(
            "frail",
            "print=tried, exit=3",
            "logs: {stdout: only}\nrestart: {delay: 10ms, maxDelay: 10ms}\n",
        )
        .spawn();
    let begun = |host: &Host| host.console().matches("web: begun\n").count();
    eventually("web to run", || begun(&host) == 1);
    eventually("restarts", || host.console().matches("tried\n").count() > 3);
    let others = ["frail: ", "web: "];
    let mut notable = notable(&host);
    notable.retain(|line| !others.iter().any(|other| line.starts_with(other)));
    let [line] = notable.as_slice() else { panic!("{notable:?}") };
    assert!(line.starts_with("/run/kelson: ") && line.contains("--runtime-dir"), "{line}");
    // After a crash all begins again, once.
    host.signal(libc::SIGSEGV);
    eventually("web to run again", || begun(&host) == 2);
    eventually("one process of web", || host.processes_with("print=begun").len() == 1);
    host.signal(libc::SIGTERM);
    assert_eq!(host.wait_exit(), 0);
    assert_eq!(host.console().matches("web: ended\n").count(), 1, "{}", host.console());
}
