//! The systems to compare, and how each is started and stopped: in a PID namespace, a cgroup and a folder of
//! its own.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kelson_tests::cgroup::Cgroup;
use kelson_tests::process::{self, Process};
use kelson_tests::until;

use crate::board::{Board, now};

/// Longer than the slowest of them takes for anything.
pub const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum System {
    Loop,
    Kelson,
    S6,
    S6WithoutLogs,
    Runit,
    RunitWithoutLogs,
}

impl System {
    pub const ALL: [System; 6] = [
        System::Loop,
        System::Kelson,
        System::S6,
        System::S6WithoutLogs,
        System::Runit,
        System::RunitWithoutLogs,
    ];

    pub fn name(self) -> &'static str {
        match self {
            System::Loop => "C loop",
            System::Kelson => "Kelson",
            System::S6 => "s6",
            System::S6WithoutLogs => "s6, no logs",
            System::Runit => "runit",
            System::RunitWithoutLogs => "runit, no logs",
        }
    }

    /// Whether it can be told to start a service only once another is ready.
    pub fn has_readiness(self) -> bool {
        !matches!(self, System::Runit | System::RunitWithoutLogs)
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
}

/// Where the programs are.
#[derive(Clone)]
pub struct Programs {
    pub service: PathBuf,
    /// The same without a C library.
    pub bare_service: PathBuf,
    pub bare_loop: PathBuf,
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
        command.args(["--pid", "--fork", "--mount", "--mount-proc", "--kill-child=KILL", "--"]);
        match system {
            System::Loop => {
                command.arg(&programs.bare_loop).arg(board.path());
                command.arg(services.to_string()).arg(&programs.service);
                if shape == Shape::Chain {
                    command.arg("chain");
                }
            }
            System::Kelson => {
                write_kelson(shape, services, dir, &board, programs);
                command.arg(&programs.init).args(["--mode", "container", "--config"]).arg(dir.join("config"));
                command.arg("--runtime-dir").arg(dir.join("run")).arg("--images").arg(dir.join("images"));
                command.arg("--log-dir").arg(dir.join("log"));
            }
            System::S6 | System::S6WithoutLogs => {
                write_scandir(system, shape, services, dir, &board, programs);
                command.args(["s6-svscan", "-c", "4000"]).arg(dir.join("scan"));
            }
            System::Runit | System::RunitWithoutLogs => {
                write_scandir(system, shape, services, dir, &board, programs);
                command.arg("runsvdir").arg(dir.join("scan"));
            }
        }
        let console = File::create(dir.join("console")).expect("the folder is writable");
        command
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
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

    /// Returns once all services have started; nanoseconds since the start to the first and to the last of them.
    pub fn wait_started(&mut self) -> (u64, u64) {
        if !self.board.wait(PATIENCE) {
            self.give_up(&format!("{} of {} services started", self.board.count(), self.services));
        }
        self.started_since(self.began)
    }

    /// The starts of the first and of the last service, in nanoseconds since `since`.
    fn started_since(&self, since: u64) -> (u64, u64) {
        let starts = || self.board.slots().iter().map(|slot| slot.started().saturating_sub(since));
        if let Some(slot) = self.board.slots().iter().position(|slot| slot.runs() != 1) {
            self.give_up(&format!("service {slot} has started {} times", self.board.slots()[slot].runs()));
        }
        (starts().min().unwrap_or(0), starts().max().unwrap_or(0))
    }

    /// Chain of services where the supervisors are all there first and the services come one by one. s6 has no
    /// dependencies of its own: this is what s6-rc does, in its smallest form. Nanoseconds from the first command to
    /// the start of the last service.
    pub fn start_chain_by_commands(&mut self) -> u64 {
        let control = |slot| self.dir.join("scan").join(name(slot)).join("supervise/control");
        until("all of s6-supervise to be there", PATIENCE, || {
            (0..self.services).all(|slot| control(slot).exists()).then_some(())
        });
        let script = "cd \"$1\" && for s in s*; do s6-svc -uwU \"$s\" || exit; done";
        let began = now();
        let status = Command::new("sh").args(["-c", script, "sh"]).arg(self.dir.join("scan")).status();
        if !status.expect("sh can be started").success() {
            self.give_up("s6-svc failed");
        }
        self.wait_started();
        self.started_since(began).1
    }

    /// Kelson alone: returns when `kelsonctl services` says that all are up; nanoseconds since the start.
    pub fn wait_said_up(&self) -> u64 {
        until("kelsonctl services to say that all are up", PATIENCE, || {
            let services = self.ctl(&["services", "-o", "json"])?;
            let services: Vec<serde_json::Value> = serde_json::from_slice(&services).ok()?;
            let up = services.iter().filter(|s| s["up"] == true && s["builtin"] != true).count();
            (up == self.services).then_some(())
        });
        now() - self.began
    }

    fn ctl(&self, words: &[&str]) -> Option<Vec<u8>> {
        let endpoint = format!("unix://{}", self.dir.join("run/init.sock").display());
        let output = Command::new(&self.programs.ctl).arg("--endpoint").arg(endpoint).args(words).output();
        output.ok().filter(|output| output.status.success()).map(|output| output.stdout)
    }

    /// PID 1 of the namespace, as seen from here.
    pub fn init_pid(&mut self) -> i32 {
        if self.init == 0 {
            let unshare = self.child.id();
            self.init = until("unshare(1) to have made PID 1", PATIENCE, || {
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

    /// Kills one service after the other and returns how long each took until it ran again, in nanoseconds.
    pub fn kill_some(&mut self, kills: usize) -> Vec<u64> {
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
            if !self.board.wait(PATIENCE) || self.board.slots()[slot].runs() != 2 {
                self.give_up(&format!("service {slot} did not start again"));
            }
            times.push(self.board.slots()[slot].started() - killed);
            // The next one finds the supervisor at rest.
            std::thread::sleep(Duration::from_millis(20));
        }
        times
    }

    /// Stops all; nanoseconds until no service was left, and until the end of PID 1 (where it waits for its services).
    pub fn stop(mut self) -> (u64, Option<u64>) {
        let init = self.init_pid();
        let began = now();
        if matches!(self.system, System::Runit | System::RunitWithoutLogs) {
            // runsvdir itself does not wait for its services: as PID 1 its end would kill them.
            let scan = self.dir.join("scan");
            let services = (0..self.services).map(|slot| scan.join(name(slot)));
            let mut sv = Command::new("sv");
            sv.args(["-w", "120", "down"]).args(services).stdout(Stdio::null());
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
        if !status.success() {
            self.give_up(&format!("it ended with {status}"));
        }
        (gone, Some(ended))
    }

    fn wait_gone(&self, began: u64) -> u64 {
        if self.services > 0 && !self.board.wait_gone(PATIENCE) {
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

fn write_kelson(shape: Shape, services: usize, dir: &Path, board: &Board, programs: &Programs) {
    for folder in ["config/services", "images", "run", "log"] {
        fs::create_dir_all(dir.join(folder)).expect("the folder is writable");
    }
    for slot in 0..services {
        let word = board.word(slot, if shape == Shape::Chain { 's' } else { '-' });
        let mut yaml = format!(
            "name: {}\nprocess: {{command: [\"{}\", \"{word}\"]}}\nrestart: {{policy: forever, delay: 0s}}\n",
            name(slot),
            programs.service.display()
        );
        if shape == Shape::Chain {
            yaml.push_str("readiness: notify\n");
            if let Some(before) = slot.checked_sub(1) {
                yaml.push_str(&format!("depends: [{{service: {}}}]\n", name(before)));
            }
        }
        fs::write(dir.join(format!("config/services/{}.yaml", name(slot))), yaml).expect("it is writable");
    }
}

/// The folder of s6-svscan or runsvdir. A run script is the program itself behind `#!`, which costs no shell.
fn write_scandir(
    system: System,
    shape: Shape,
    services: usize,
    dir: &Path,
    board: &Board,
    programs: &Programs,
) {
    let is_s6 = matches!(system, System::S6 | System::S6WithoutLogs);
    let scan = dir.join("scan");
    fs::create_dir_all(scan.join(".s6-svscan")).expect("the folder is writable");
    // PID 1 ends with this.
    write_script(&scan.join(".s6-svscan/finish"), "#!/bin/true\n");
    for slot in 0..services {
        let folder = scan.join(name(slot));
        fs::create_dir(&folder).expect("the folder is writable");
        let word = board.word(slot, if shape == Shape::Chain { '3' } else { '-' });
        write_script(&folder.join("run"), &format!("#!{} {word}\n", programs.service.display()));
        if shape == Shape::Chain {
            fs::write(folder.join("notification-fd"), "3\n").expect("it is writable");
            fs::write(folder.join("down"), "").expect("it is writable");
        }
        if system.has_logs() {
            fs::create_dir_all(folder.join("log/main")).expect("the folder is writable");
            // What Kelson does by default as well: three files of 1 MiB, each line with its time.
            let logger = if is_s6 { "s6-log T n3 s1048576 ./main" } else { "svlogd -tt ./main" };
            write_script(&folder.join("log/run"), &format!("#!/bin/sh\nexec {logger}\n"));
            if !is_s6 {
                fs::write(folder.join("log/main/config"), "s1048576\nn3\n").expect("it is writable");
            }
        }
    }
}

fn write_script(path: &Path, text: &str) {
    fs::write(path, text).expect("the folder is writable");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
}
