//! The systems to compare, and how each is started and stopped: in a PID namespace, a cgroup and a folder of
//! its own.

mod files;
mod operations;

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kelson_tests::cgroup::Cgroup;
use kelson_tests::process::{self, Process};
use kelson_tests::until;

use crate::board::{Board, now};
use crate::cost::{self, Memory};

/// Longer than the slowest of them takes for anything.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// How many of a chain of dependencies dinit accepts.
const DINIT_CHAIN: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    Loop,
    Kelson,
    Dinit,
    S6,
    /// As in a container, where each service writes to the output of PID 1.
    S6WithoutLogs,
    /// In a root of its own, which it needs.
    S6Overlay,
    Runit,
    Tini,
}

impl System {
    pub const ALL: [System; 8] = [
        System::Loop,
        System::Kelson,
        System::Dinit,
        System::S6,
        System::S6WithoutLogs,
        System::S6Overlay,
        System::Runit,
        System::Tini,
    ];

    pub fn name(self) -> &'static str {
        match self {
            System::Loop => "loop",
            System::Kelson => "kelson",
            System::Dinit => "dinit",
            System::S6 => "s6",
            System::S6WithoutLogs => "s6-no-logs",
            System::S6Overlay => "s6-overlay",
            System::Runit => "runit",
            System::Tini => "tini",
        }
    }

    /// The program that has to be in PATH.
    pub fn needs(self) -> Option<&'static str> {
        match self {
            System::Loop | System::Kelson | System::S6Overlay => None,
            System::Dinit => Some("dinit"),
            System::S6 | System::S6WithoutLogs => Some("s6-svscan"),
            System::Runit => Some("runsvdir"),
            System::Tini => Some("tini"),
        }
    }

    pub fn is_s6(self) -> bool {
        matches!(self, System::S6 | System::S6WithoutLogs)
    }

    /// Whether it can be told to start a service only once another is ready, in a chain of so many.
    pub fn has_chain(self, length: usize) -> bool {
        match self {
            System::S6Overlay | System::Runit | System::Tini => false,
            System::Dinit => length < DINIT_CHAIN,
            _ => true,
        }
    }

    /// Whether it is for hosts of many services.
    pub fn is_for_many(self) -> bool {
        !matches!(self, System::S6WithoutLogs | System::S6Overlay | System::Tini)
    }

    /// Whether it is for containers of one service, and waits for its end.
    pub fn is_for_one(self) -> bool {
        !matches!(self, System::S6 | System::Runit)
    }

    fn has_logs(self) -> bool {
        matches!(self, System::S6 | System::Runit)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Services that have nothing to do with each other.
    Flat,
    /// Each waits until the one before is ready.
    Chain,
    /// They write to their standard output at full speed, and have started once they have written all.
    Writer,
    /// As that one, and the C loop hands them no pipe to a file but /dev/null.
    Silent,
}

impl Shape {
    /// How the service says that it is ready, as service.c has it.
    fn readiness(self, system: System) -> char {
        match self {
            Shape::Flat => '-',
            Shape::Chain if system == System::Kelson => 's',
            Shape::Chain => '3',
            Shape::Writer | Shape::Silent => 'w',
        }
    }
}

/// Where the programs are.
#[derive(Clone)]
pub struct Programs {
    pub service: PathBuf,
    /// The same without a C library.
    pub bare_service: PathBuf,
    pub bare_loop: PathBuf,
    /// The root of a container with s6-overlay and without a service; a folder that may not exist.
    pub overlay: PathBuf,
    pub init: PathBuf,
    pub ctl: PathBuf,
}

/// One of them, running.
pub struct Run<'a> {
    system: System,
    dir: PathBuf,
    programs: &'a Programs,
    pub board: Board,
    child: Child,
    init: i32,
    services: usize,
    /// CLOCK_MONOTONIC in nanoseconds, before unshare(1) was started.
    pub began: u64,
    // After the child: it can be removed once nobody is in it.
    _cgroup: Option<Cgroup>,
}

fn name(slot: usize) -> String {
    format!("s{slot:04}")
}

impl<'a> Run<'a> {
    /// Writes the files, then starts it. `dir` is an empty folder on a tmpfs.
    pub fn start(
        system: System,
        shape: Shape,
        services: usize,
        dir: &Path,
        programs: &'a Programs,
    ) -> Run<'a> {
        let board = Board::new(&dir.join("board"), services).expect("the board can be made");
        board.expect(services as u32);
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount", "--mount-proc", "--uts", "--ipc", "--kill-child=KILL"]);
        if system == System::S6Overlay {
            command.arg("--root").arg(dir);
        }
        command.arg("--");
        files::write(system, shape, services, dir, &board, programs);
        match system {
            System::Loop if matches!(shape, Shape::Writer | Shape::Silent) => {
                let (word, log) = (board.word(0, 'w'), dir.join("log"));
                let to = if shape == Shape::Silent { ">/dev/null" } else { "| cat >\"$2\"" };
                command.args(["sh", "-c", &format!("\"$0\" \"$1\" {to}")]);
                command.arg(&programs.service).arg(word).arg(log);
            }
            System::Loop => {
                command.arg(&programs.bare_loop).arg(board.path());
                command.arg(services.to_string()).arg(&programs.service);
                if shape == Shape::Chain {
                    command.arg("chain");
                }
            }
            System::Kelson => {
                command.arg(&programs.init).args(["--mode", "container", "--config"]).arg(dir.join("config"));
                command.arg("--runtime-dir").arg(dir.join("run")).arg("--images").arg(dir.join("images"));
                command.arg("--log-dir").arg(dir.join("log"));
            }
            System::Dinit => {
                command.args(["dinit", "--container", "--quiet", "--services-dir"]).arg(dir.join("dinit.d"));
                command.arg("--socket-path").arg(dir.join("dinitctl"));
                command.arg("--log-file").arg(dir.join("dinit.log"));
            }
            System::S6 | System::S6WithoutLogs => {
                command.args(["s6-svscan", "-c", &(4 * services + 500).to_string()]).arg(dir.join("scan"));
            }
            System::S6Overlay => {
                command.arg("/init");
            }
            System::Runit => {
                command.arg("runsvdir").arg(dir.join("scan"));
            }
            System::Tini => {
                command.args(["tini", "--"]).arg(&programs.service).arg(board.word(0, '-'));
            }
        }
        let console = File::create(dir.join("console")).expect("the folder is writable");
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::null())
            .stdout(console.try_clone().expect("a descriptor"))
            .stderr(console);
        let cgroup = Cgroup::new();
        let door = cgroup.as_ref().map(|cgroup| {
            OpenOptions::new().write(true).open(cgroup.door()).expect("the cgroup can be entered")
        });
        // SAFETY: between fork and exec only prctl(2) and write(2) on an open descriptor, which allocate nothing.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                door.as_ref().map_or(Ok(()), |door| (&mut &*door).write_all(b"0"))
            });
        }
        let began = now();
        let child = command.spawn().expect("unshare(1) can be started");
        Run { system, dir: dir.to_owned(), programs, board, child, init: 0, services, began, _cgroup: cgroup }
    }

    /// Returns once all services have started; nanoseconds since the start to that of the last of them.
    pub fn wait_started(&mut self) -> u64 {
        if self.services > 0 && !self.board.wait(TIMEOUT) {
            self.give_up(&format!("{} of {} services started", self.board.count(), self.services));
        }
        self.started_since(self.began)
    }

    /// The start of the last service, in nanoseconds since `since`.
    fn started_since(&self, since: u64) -> u64 {
        if let Some(slot) = self.board.slots().iter().position(|slot| slot.runs() != 1) {
            self.give_up(&format!("service {slot} has started {} times", self.board.slots()[slot].runs()));
        }
        let starts = self.board.slots().iter().map(|slot| slot.started().saturating_sub(since));
        starts.max().unwrap_or(0)
    }

    /// Kelson alone: returns when `kelsonctl services` says that all are up; nanoseconds since the start.
    pub fn wait_said_up(&self) -> u64 {
        until("kelsonctl services to say that all are up", TIMEOUT, || {
            let output = self.kelsonctl(&["services", "-o", "json"]).output().ok()?;
            let services: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).ok()?;
            let up = services.iter().filter(|s| s["up"] == true && s["builtin"] != true).count();
            (up == self.services).then_some(())
        });
        now() - self.began
    }

    fn kelsonctl(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.programs.ctl);
        command
            .arg("--endpoint")
            .arg(format!("unix://{}", self.dir.join("run/init.sock").display()))
            .args(words);
        command
    }

    /// PID 1 of the namespace, as seen from here.
    pub fn init_pid(&mut self) -> i32 {
        if self.init == 0 {
            let unshare = self.child.id();
            self.init = until("unshare(1) to have made PID 1", TIMEOUT, || {
                let children = fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children")).ok()?;
                children.split_whitespace().next()?.parse().ok()
            });
        }
        self.init
    }

    /// All processes: those of the supervisor, and those of the services.
    pub fn processes(&mut self) -> (Vec<Process>, Vec<Process>) {
        let init = self.init_pid();
        let service = self.programs.service.to_string_lossy().into_owned();
        let is_service =
            |p: &Process| p.command.first().is_some_and(|word| *word == service || word == "service");
        process::of_namespace(init).into_iter().partition(|process| !is_service(process))
    }

    /// The memory of the supervisor, and of all that belongs to it.
    pub fn memory(&mut self) -> Memory {
        let mut folders = vec![self.dir.join("run")];
        for slot in 0..self.services {
            let folder = self.dir.join("scan").join(name(slot));
            folders.extend([folder.join("supervise"), folder.join("log/supervise")]);
        }
        let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
        cost::memory(&self.processes().0, &folders)
    }

    /// Stops all; nanoseconds until no service was left, and until the end of PID 1 (where it waits for its services).
    pub fn stop(mut self) -> (u64, Option<u64>) {
        let init = self.init_pid();
        let began = now();
        if self.system == System::Runit {
            // runsvdir itself does not wait for its services: as PID 1 its end would kill them.
            let scan = self.dir.join("scan");
            let services = (0..self.services).map(|slot| scan.join(name(slot)));
            let mut sv = Command::new("sv");
            sv.args(["-w", "300", "down"]).args(services).stdout(Stdio::null());
            let mut sv = sv.spawn().expect("sv can be started");
            let gone = self.wait_gone(began);
            sv.wait().expect("it is our child");
            // SAFETY: kill(2) has no preconditions; PID 1 is our child's child.
            unsafe { libc::kill(init, libc::SIGKILL) };
            self.child.wait().expect("it is our child");
            return (gone, None);
        }
        // SAFETY: as above.
        unsafe { libc::kill(init, libc::SIGTERM) };
        let gone = self.wait_gone(began);
        let status = self.child.wait().expect("it is our child");
        let ended = now() - began;
        // tini's status is that of its service.
        if !status.success() && self.system != System::Tini {
            self.give_up(&format!("it ended with {status}"));
        }
        (gone, Some(ended))
    }

    fn wait_gone(&self, began: u64) -> u64 {
        if self.services > 0 && !self.board.wait_gone(TIMEOUT) {
            self.give_up("some services did not stop");
        }
        now() - began
    }

    fn give_up(&self, what: &str) -> ! {
        let console = fs::read(self.dir.join("console")).unwrap_or_default();
        let console = String::from_utf8_lossy(&console);
        let tail: Vec<&str> = console.lines().rev().take(20).collect();
        panic!(
            "{}: {what}; the end of its console, last line first:\n{}",
            self.system.name(),
            tail.join("\n")
        );
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        // The end of unshare(1) takes PID 1 along, and that its namespace.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
