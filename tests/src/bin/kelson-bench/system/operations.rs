//! What is done to a supervisor that runs, and how long it takes.

use std::fs;
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kelson_tests::until;

use super::{Run, System, TIMEOUT, name};
use crate::board::now;

/// What is repeated while it does not take long.
const REPEATS: usize = 100;
const REPEATING: Duration = Duration::from_secs(2);

impl Run<'_> {
    /// Chain of services where the supervisors are all there first and the services come one by one. s6 has no
    /// dependencies of its own: this is what s6-rc does, in its smallest form. Nanoseconds from the first command to
    /// the start of the last service.
    pub fn start_chain_by_commands(&mut self) -> u64 {
        let control = |slot| self.dir.join("scan").join(name(slot)).join("supervise/control");
        until("all of s6-supervise to be there", TIMEOUT, || {
            (0..self.services).all(|slot| control(slot).exists()).then_some(())
        });
        let script = "cd \"$1\" && for s in s*; do s6-svc -uwU \"$s\" || exit; done";
        let began = now();
        let status = Command::new("sh").args(["-c", script, "sh"]).arg(self.dir.join("scan")).status();
        if !status.expect("sh can be started").success() {
            self.give_up("s6-svc failed");
        }
        self.wait_started();
        self.started_since(began)
    }

    fn scan(&self, slot: usize) -> PathBuf {
        self.dir.join("scan").join(name(slot))
    }

    /// Kills one service after the other and returns how long each took until it ran again, in nanoseconds.
    pub fn kill_some(&mut self, kills: usize) -> Vec<u64> {
        // s6-supervise waits a second after each death.
        let kills = if self.system.is_s6() { kills.min(10) } else { kills };
        let (_, services) = self.processes();
        let step = (self.services / kills.max(1)).max(1);
        let mut times = Vec::new();
        for slot in (0..self.services).step_by(step).take(kills) {
            let inner = self.board.slots()[slot].pid();
            let found = services.iter().find(|p| p.pid as u32 == inner);
            let Some(outer) = found.map(|p| p.outer_pid) else {
                self.give_up(&format!("service {slot} has no process {inner}"));
            };
            self.board.expect(1);
            let killed = now();
            // SAFETY: kill(2) has no preconditions; the PID is a service's that runs.
            unsafe { libc::kill(outer, libc::SIGKILL) };
            if !self.board.wait(TIMEOUT) || self.board.slots()[slot].runs() != 2 {
                self.give_up(&format!("service {slot} did not start again"));
            }
            times.push(self.board.slots()[slot].started() - killed);
            // The next one finds the supervisor at rest.
            std::thread::sleep(Duration::from_millis(20));
        }
        times
    }

    /// Kills all services at once; nanoseconds until the last of them has started again.
    pub fn kill_all(&mut self) -> u64 {
        let (_, services) = self.processes();
        self.board.expect(services.len() as u32);
        let began = now();
        for process in &services {
            // SAFETY: kill(2) has no preconditions; the PID is a service's that runs.
            unsafe { libc::kill(process.outer_pid, libc::SIGKILL) };
        }
        if !self.board.wait(TIMEOUT) {
            self.give_up("not all services started again");
        }
        let last = self.board.slots().iter().map(|slot| slot.started()).max();
        last.unwrap_or(0).saturating_sub(began)
    }

    /// How long the command that lists all services takes, in nanoseconds, each time; nothing where there is none.
    pub fn list(&self) -> Vec<u64> {
        if matches!(self.system, System::Loop | System::S6Overlay | System::Tini) {
            return Vec::new();
        }
        let began = now();
        let mut times = Vec::new();
        while times.len() < 3 || times.len() < REPEATS && now() - began < REPEATING.as_nanos() as u64 {
            let before = now();
            let status = self.list_command().stdout(Stdio::null()).status();
            times.push(now() - before);
            if !status.is_ok_and(|status| status.success()) {
                self.give_up("the list of services failed");
            }
        }
        times
    }

    fn list_command(&self) -> Command {
        let mut command;
        match self.system {
            System::Loop | System::S6Overlay | System::Tini => unreachable!("they have no list"),
            System::Kelson => command = self.kelsonctl(&["services"]),
            System::Dinit => {
                command = Command::new("dinitctl");
                command.arg("--socket-path").arg(self.dir.join("dinitctl")).arg("list");
            }
            System::S6 | System::S6WithoutLogs => {
                command = Command::new("sh");
                command.args(["-c", "for s in \"$0\"/s*; do s6-svstat \"$s\" || exit; done"]);
                command.arg(self.dir.join("scan"));
            }
            System::Runit => {
                command = Command::new("sv");
                command.arg("status").args((0..self.services).map(|slot| self.scan(slot)));
            }
        }
        command
    }

    /// Kills a service that so many clients watch; nanoseconds until the last client knows, or nothing where there are no
    /// clients that watch.
    pub fn tell_watchers(&mut self, watchers: usize) -> Option<u64> {
        let slot = self.services - 1;
        let mut clients: Vec<Watcher> = (0..watchers).map(|_| self.watcher(slot)).collect::<Option<_>>()?;
        match self.system {
            // Each makes itself a FIFO.
            System::S6 | System::S6WithoutLogs => until("all of s6-svwait to wait", TIMEOUT, || {
                let listeners = fs::read_dir(self.scan(slot).join("event")).into_iter().flatten().flatten();
                (listeners.count() >= watchers).then_some(())
            }),
            _ => clients.iter_mut().for_each(Watcher::wait_answer),
        }
        let inner = self.board.slots()[slot].pid();
        let (_, services) = self.processes();
        let found = services.iter().find(|process| process.pid as u32 == inner);
        let Some(outer) = found.map(|process| process.outer_pid) else {
            self.give_up(&format!("service {slot} has no process {inner}"));
        };
        self.board.expect(1);
        let killed = now();
        // SAFETY: kill(2) has no preconditions; the PID is a service's that runs.
        unsafe { libc::kill(outer, libc::SIGKILL) };
        clients.iter_mut().for_each(Watcher::wait_answer);
        let took = now() - killed;
        if !self.board.wait(TIMEOUT) {
            self.give_up("the watched service did not start again");
        }
        Some(took)
    }

    fn watcher(&self, slot: usize) -> Option<Watcher> {
        let mut command;
        match self.system {
            // dinit-monitor is not told of a restart with smooth-recovery, since the service stays started.
            System::Dinit => return None,
            System::Loop | System::S6Overlay | System::Tini | System::Runit => return None,
            System::Kelson => command = self.kelsonctl(&["events", "--follow", &name(slot)]),
            System::S6 | System::S6WithoutLogs => {
                command = Command::new("s6-svwait");
                command.arg("-d").arg(self.scan(slot));
            }
        }
        Some(Watcher(
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("a client can be started"),
        ))
    }
}

/// A client that writes a line, or ends, when it knows of a change.
struct Watcher(Child);

impl Watcher {
    /// Returns once it has written, with all that it has written so far, or has ended.
    fn wait_answer(&mut self) {
        let output = self.0.stdout.as_mut().expect("it is a pipe");
        let mut poll = libc::pollfd { fd: output.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one live pollfd.
        let ready = unsafe { libc::poll(&mut poll, 1, TIMEOUT.as_millis() as i32) };
        assert!(ready == 1, "a client has not heard of anything");
        // At most what is there: a pipe holds 64 KiB.
        let _ = output.read(&mut [0; 65536]);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
