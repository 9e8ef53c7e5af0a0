//! Runs the body of a test as PID 1 of a namespace of its own, in a cgroup of its own: the test binary calls itself
//! again through `unshare`.

#![allow(dead_code, reason = "each test file uses a part")]

use std::future::Future;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command as Outer, Stdio as OuterStdio};
use std::time::Duration;

use kelson_runner::{CgroupRoot, Command, Exit, Options, Processes, Stdio};
use kelson_sys::descriptor::Watched;
use kelson_tests::cgroup::Cgroup;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};

const INSIDE: &str = "KELSON_TEST_INSIDE";
/// No test takes a tenth of this.
const DEADLINE: Duration = Duration::from_secs(60);

/// The path of the running test, as `--exact` takes it.
pub fn test_name() -> String {
    std::env::var(INSIDE).unwrap_or_else(|_| std::thread::current().name().unwrap_or_default().to_owned())
}

/// Runs `body` as PID 1.
pub fn as_pid_one<F: Future<Output = ()>>(body: impl FnOnce() -> F) {
    let mut unshare = Outer::new("unshare");
    unshare.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
    as_pid_one_of(unshare, body);
}

/// As [`as_pid_one`], in the namespaces that this command makes.
pub fn as_pid_one_of<F: Future<Output = ()>>(mut outer: Outer, body: impl FnOnce() -> F) {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { tokio::time::timeout(DEADLINE, body()).await.expect("the test hangs") });
        return;
    }
    let name = test_name();
    let cgroup = Cgroup::at_the_top(name.rsplit("::").next().unwrap_or_default());
    let procs = cgroup.door();
    outer
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--nocapture", "--test-threads=1"])
        .env(INSIDE, &name)
        .stdin(OuterStdio::null());
    // SAFETY: the child of this test binary is a fork; what runs there is a write and a change of the mask.
    unsafe {
        outer.pre_exec(move || {
            std::fs::write(&procs, "0")?;
            // Blocked from the first instruction on, in all threads, as in PID 1.
            let mut set = SigSet::empty();
            set.add(Signal::SIGCHLD);
            sigprocmask(SigmaskHow::SIG_BLOCK, Some(&set), None)?;
            Ok(())
        });
    }
    let output = outer.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    print!("{out}");
}

/// Does PID 1's work on SIGCHLD.
pub fn reap_on_sigchld(processes: &Processes) -> tokio::task::JoinHandle<()> {
    let mut set = SigSet::empty();
    set.add(Signal::SIGCHLD);
    let signals = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).unwrap();
    let signals = Watched::reading(signals).unwrap();
    let processes = processes.clone();
    tokio::spawn(async move {
        loop {
            let mut ready = signals.readable().await.unwrap();
            while let Ok(Some(_)) = ready.get_inner().read_signal() {}
            ready.clear_ready();
            while processes.reap().more {
                tokio::task::yield_now().await;
            }
        }
    })
}

/// Processes with cgroups, reaped as PID 1 does.
pub fn processes() -> Processes {
    let options = Options { cgroups: Some(CgroupRoot::discover().unwrap()), ..Options::default() };
    let processes = Processes::new(options).unwrap();
    reap_on_sigchld(&processes);
    processes
}

/// A pipe, both ends closed on exec.
pub fn pipe() -> (OwnedFd, OwnedFd) {
    nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap()
}

/// Everything that comes out of a pipe until its last writer closes it, read beside the runtime.
pub async fn read_all(end: OwnedFd) -> String {
    let reading = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        std::fs::File::from(end).read_to_string(&mut text).unwrap();
        text
    });
    reading.await.unwrap()
}

/// Runs a command, and returns its standard output.
pub async fn output(processes: &Processes, command: Command) -> String {
    let (read, write) = pipe();
    let child = processes.spawn(command.stdout(Stdio::Descriptor(write))).await.unwrap();
    let text = read_all(read).await;
    assert_eq!(child.exit.await, Exit::Status(0), "{text}");
    text
}

/// PIDs in this namespace but our own, zombies included.
pub fn all_processes() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| *pid != 1).collect()
}

/// Asks again, beside the other tasks, until it holds. Fails the test when it does not within the deadline.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}
