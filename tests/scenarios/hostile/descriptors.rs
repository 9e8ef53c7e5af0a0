//! No descriptor is left: in PID 1, in logd.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kelson_tests::{Host, HostBuilder, eventually};

use super::Fault;
use super::siege::told_since;

pub const OF_PID_1: Fault = Fault { name: "no-descriptors", host: with_restless, inject: exhaust_pid_1 };
pub const OF_LOGD: Fault =
    Fault { name: "logd-no-descriptors", host: |builder| builder, inject: exhaust_logd };

/// One that is started again and again: each start needs descriptors.
fn with_restless(builder: HostBuilder) -> HostBuilder {
    builder.runs_with("own-restless", "sleep=50ms, exit=3", "restart: {delay: 50ms, maxDelay: 50ms}")
}

/// The limit on open files of a process, as it was; it is given back when this is dropped.
struct Shortage {
    pid: i32,
    was: libc::rlimit,
}

impl Shortage {
    /// From now on the process (a PID of the test's own namespace) can open nothing more.
    #[track_caller]
    fn of(pid: i32) -> Shortage {
        let mut was = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a number, and a place for the limit that lives over the call.
        let got = unsafe { libc::prlimit(pid, libc::RLIMIT_NOFILE, std::ptr::null(), &raw mut was) };
        assert_eq!(got, 0, "{}", std::io::Error::last_os_error());
        let shortage = Shortage { pid, was };
        // Numbers below the first free one are taken, and none from there on is given out.
        eventually("all descriptors to be used up", || shortage.tighten());
        shortage
    }

    /// Keeps descriptors that were closed since from being given out again. False: one was, just now.
    fn tighten(&self) -> bool {
        let open = open_files(self.pid);
        let free = (0..).find(|number| !open.contains(number)).unwrap_or_default();
        self.set(free);
        open_files(self.pid).iter().filter(|number| **number < free).count() as u64 == free
    }

    fn set(&self, soft: u64) {
        let limit = libc::rlimit { rlim_cur: soft, rlim_max: self.was.rlim_max };
        // SAFETY: a number, and a limit that lives over the call.
        unsafe { libc::prlimit(self.pid, libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut()) };
    }
}

impl Drop for Shortage {
    fn drop(&mut self) {
        self.set(self.was.rlim_cur);
    }
}

fn open_files(pid: i32) -> Vec<u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The processor time that a process has used.
#[track_caller]
pub fn processor_time(pid: i32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number")).sum();
    // SAFETY: sysconf(3) has no preconditions.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Duration::from_millis(ticks * 1000 / u64::try_from(per_second).expect("more than none"))
}

fn exhaust_pid_1(host: &Host) {
    let newest = host.newest_event();
    let init = host.init_pid();
    let said = |text: &str| host.console().matches(text).count();
    let (refused, failed) = (said("cannot take connections"), said("too many open files"));
    let shortage = Shortage::of(init);
    // A client that comes meanwhile waits, and is answered once there is a descriptor.
    let ask = || {
        let client = host.client().clone();
        std::thread::spawn(move || client.run(&["services"]).status)
    };
    let mut waiting = vec![ask()];
    eventually("a start to fail", || {
        shortage.tighten();
        said("too many open files") > failed
    });
    eventually("a client to be refused", || {
        // A process that ends lets go of a descriptor now and then, and a client may get it.
        shortage.tighten();
        if waiting.last().is_some_and(std::thread::JoinHandle::is_finished) {
            waiting.push(ask());
        }
        said("cannot take connections") > refused
    });
    let before = processor_time(init);
    std::thread::sleep(Duration::from_secs(1));
    let used = processor_time(init) - before;
    assert!(used < Duration::from_millis(500), "PID 1 spins: {used:?} in a second");
    // Once each time.
    assert!(said("cannot take connections") < refused + 10, "said again and again");
    drop(shortage);
    for waiting in waiting {
        assert_eq!(waiting.join().expect("it ends"), 0);
    }
    // All may have been let in before nobody could be; the next one reports that clients can be again.
    assert_eq!(ask().join().expect("it ends"), 0);
    eventually("all to be well again", || host.console().contains("connections are taken again"));
    host.wait_event(newest, "what could not be started, and why", |event| {
        event.service == "own-restless" && event.message.contains("too many open files")
    });
    let restarts = host.service("own-restless").restarts;
    host.wait_for("own-restless", "to be started again", |now| now.restarts > restarts + 2);
}

fn exhaust_logd(host: &Host) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let late = format!("own-late-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let newest = host.newest_event();
    let logd = host.pid_of("logd");
    let shortage = Shortage::of(host.outer_pid(logd));
    host.write_service(&late, "process: {command: [$PROGRAM, lines=5000, serve]}");
    host.signal(libc::SIGHUP);
    // It writes more than its pipe holds: somebody has to read it.
    host.wait_event(newest, "what logd is short of", |event| {
        event.service == "logd" && event.message.contains("no descriptor is free")
    });
    host.wait_log(&late, "line 5000");
    std::mem::forget(shortage);
    host.wait_for("logd", "to be another and up", |now| now.up && now.pid != Some(logd));
    assert_eq!(told_since(host, newest, "dropped"), 0, "{:#?}", host.events());
    host.remove_service(&late);
    host.signal(libc::SIGHUP);
    eventually("it to be gone", || host.services().iter().all(|now| now.name != late));
}
