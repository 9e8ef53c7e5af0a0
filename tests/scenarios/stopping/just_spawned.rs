//! A stop that meets a start whose program runs, and whose spawner has not said so yet: the program has its stop signal.

use std::fs;

use kelson_tests::{Host, PATIENCE, until};

/// Threads of PID 1, each of which halts when the program of a child that it makes runs.
struct Spawners {
    threads: Vec<i32>,
    halted: Option<i32>,
}

impl Spawners {
    #[track_caller]
    fn of(host: &Host) -> Spawners {
        let folder = format!("/proc/{}/task", host.init_pid());
        let mut threads = Vec::new();
        for thread in fs::read_dir(folder).expect("PID 1 lives").flatten() {
            let name = fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
            let number = thread.file_name().to_str().and_then(|number| number.parse::<i32>().ok());
            threads.extend(number.filter(|_| name.starts_with("spawn-")));
        }
        assert!(!threads.is_empty(), "PID 1 has started something, so it has a spawner");
        for thread in &threads {
            // SAFETY: numbers only.
            let seized =
                unsafe { libc::ptrace(libc::PTRACE_SEIZE, *thread, 0, libc::PTRACE_O_TRACEVFORKDONE) };
            assert_eq!(seized, 0, "ptrace: {}", std::io::Error::last_os_error());
        }
        Spawners { threads, halted: None }
    }

    /// Returns once one of them has made a child that executes its program.
    #[track_caller]
    fn wait(&mut self) {
        let made = libc::SIGTRAP | (libc::PTRACE_EVENT_VFORK_DONE << 8);
        self.halted = Some(until("a spawner to have made a child", PATIENCE, || {
            let is_made =
                |thread: &&i32| wait(**thread, libc::WNOHANG).is_some_and(|status| status >> 8 == made);
            self.threads.iter().find(is_made).copied()
        }));
    }
}

impl Drop for Spawners {
    fn drop(&mut self) {
        for thread in &self.threads {
            if self.halted != Some(*thread) {
                // SAFETY: numbers only.
                unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, *thread, 0, 0) };
                wait(*thread, 0);
            }
            // SAFETY: numbers only.
            unsafe { libc::ptrace(libc::PTRACE_DETACH, *thread, 0, 0) };
        }
    }
}

/// The status of a thread that ended.
fn wait(thread: i32, flags: i32) -> Option<i32> {
    let mut status = 0;
    // SAFETY: the status lives over the call.
    let found = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL | flags) };
    (found == thread).then_some(status)
}

#[test]
fn g3_a_stop_while_a_spawn_is_confirmed_signals_the_program_that_runs() {
    let mut host = Host::builder()
        .runs("other", "serve")
        .runs_with("web", "touch=$DIR/begun, await=SIGTERM, touch=$DIR/obeyed", "start: manual")
        .up(&["other"]);
    for _ in 0..3 {
        let mut spawners = Spawners::of(&host);
        host.ctl(&["start", "web"]).ok();
        spawners.wait();
        host.wait_file("begun");
        host.ctl(&["stop", "web"]).ok();
        drop(spawners);
        host.wait_for("web", "to be stopped", |web| web.state == "stopped" && web.stopped);
        assert!(host.path("obeyed").exists(), "it was killed: {:#?}", host.events_of("web"));
        let killed = |text: &str| text.contains("killed");
        assert!(!host.events_of("web").iter().any(|event| killed(&event.message)));
        host.assert_nothing_left("web", "await=SIGTERM");
        for file in ["begun", "obeyed"] {
            fs::remove_file(host.path(file)).expect("it is there");
        }
    }
    host.poweroff();
}
