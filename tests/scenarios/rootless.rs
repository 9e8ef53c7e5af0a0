//! PID 1 as container engines run it without root: in user namespaces, as a user without a passwd entry or a capability,
//! on a read-only root. Each scenario takes away one more thing.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use kelson_tests::{Ctl, Host, HostBuilder, PATIENCE, Without, eventually, until};

/// The user of PID 1 where no passwd entry names it.
const UNKNOWN: &str = "4242:4242";
const SERVICES: [&str; 4] = ["own", "plain", "notifies", "checked"];

/// A service that asks for all that needs no privilege where it is had already.
fn services(builder: HostBuilder, user: &str) -> HostBuilder {
    let drops = "security: {noNewPrivileges: true, capabilities: {drop: [all]}}\nlogs: {stdout: prefix}\n";
    builder
        .runs_with("own", "'report-of=uid', 'orphan=setsid,hang', serve", &format!("user: '{user}'\n{drops}"))
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
pub fn shared(host: &Host) -> PathBuf {
    let namespace = fs::metadata(format!("/proc/{}/ns/pid", host.init_pid())).expect("it runs").ino();
    PathBuf::from(format!("/dev/shm/kelson-{namespace}"))
}

/// Calls the host whose sockets are in `folder`, as the user who started it.
pub fn client(folder: &Path) -> Ctl {
    Ctl::at(format!("unix://{}/init.sock", folder.display())).run_as(Some(54_321))
}

#[test]
fn a_writable_runtime_folder_is_enough() {
    let mut host = services(Host::builder(), UNKNOWN).contained(Without::ALL_BUT_SHARED_MEMORY).up(&SERVICES);
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
    let mut host =
        services(Host::builder(), UNKNOWN).contained(Without::ALL_BUT_SHARED_MEMORY).usual_folders().spawn();
    let folder = shared(&host);
    let ctl = client(&folder);
    for name in SERVICES {
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
        .contained(Without { shared_memory: true, ..Without::ALL_BUT_SHARED_MEMORY })
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

/// Where PID 1 keeps its sockets and state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Folder {
    Given,
    SharedMemory,
    None,
}

#[test]
fn services_run_whatever_combination_of_privileges_is_missing() {
    let folders = [Folder::Given, Folder::SharedMemory, Folder::None];
    std::thread::scope(|scope| {
        for folder in folders {
            scope.spawn(move || {
                for bits in 0..16 {
                    let missing = |bit: u32| bits & (1 << bit) != 0;
                    let without = Without {
                        user_name: missing(0),
                        capabilities: missing(1),
                        writable_root: missing(2),
                        cgroup: missing(3),
                        shared_memory: folder == Folder::None,
                    };
                    works(without, folder);
                }
            });
        }
    });
}

/// All services come up, nothing is reported as wrong but what is missing, and all ends in order.
fn works(without: Without, folder: Folder) {
    let user = if without.user_name { UNKNOWN } else { "0:0" };
    let mut builder = services(Host::builder(), user).contained(without);
    if folder != Folder::Given {
        builder = builder.usual_folders();
    }
    let mut host = builder.spawn();
    let case = format!("{without:?} {folder:?}");
    for line in ["plain: hello\n", "own: running - ", "notifies: running - ", "checked: running - "] {
        eventually(&format!("{line} of {case}"), || host.console().contains(line));
    }
    let sockets = match folder {
        Folder::Given => Some(host.dir().join("run")),
        Folder::SharedMemory => Some(shared(&host)),
        Folder::None => None,
    };
    if let Some(ctl) = sockets.as_deref().map(client) {
        for name in SERVICES {
            ctl.run(&["wait", name, "--for", "up", "--timeout", "30s"]).ok();
        }
    }
    let mut notable = notable(&host);
    // A namespace with one group has none to give the socket to.
    notable.retain(|line| without.user_name || !line.contains("cannot be given to the group"));
    let lines = notable.iter().filter(|line| line.starts_with("/run/kelson: ")).count();
    assert_eq!(
        (notable.len(), lines),
        if folder == Folder::Given { (0, 0) } else { (1, 1) },
        "{case}: {notable:?}"
    );
    host.signal(libc::SIGTERM);
    assert_eq!(host.wait_exit(), 0, "{case}");
}
