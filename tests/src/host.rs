//! A host in a PID namespace: `unshare --pid --fork --mount --mount-proc init --mode container …`.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::cgroup::Cgroup;
use crate::containers::{self, Containers};
use crate::ctl::{Ctl, Event, Events, Output, Service};
use crate::deadline::{PATIENCE, until};
use crate::namespace::Namespace;
use crate::paths;
use crate::process::{self, Process};
use crate::stream::Lines;

/// `PATH` of a host.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The user of [`HostBuilder::contained`], seen from outside.
const CONTAINED: u32 = 54_321;

/// What PID 1 has to do without in the user namespace of [`HostBuilder::contained`].
#[derive(Clone, Copy, Debug)]
pub struct Without {
    /// It is user 4242, which no passwd entry names, and not root.
    pub user_name: bool,
    pub capabilities: bool,
    /// Only the test's own folder can be written.
    pub writable_root: bool,
    pub cgroup: bool,
    pub shared_memory: bool,
}

impl Without {
    /// What engines take as a rule.
    pub const ALL_BUT_SHARED_MEMORY: Without = Without {
        user_name: true,
        capabilities: true,
        writable_root: true,
        cgroup: true,
        shared_memory: false,
    };

    /// The commands of a shell that take it away and end with the exec of the command in `$@`.
    fn script(&self, folder: &Path) -> String {
        let mut steps = vec![format!("mount --bind {0} {0}", folder.display())];
        if self.writable_root {
            steps.push("mount -o remount,bind,ro /".to_owned());
        }
        if self.shared_memory {
            steps.push("mount -t tmpfs -o ro none /dev/shm".to_owned());
        }
        steps.push(match (self.user_name, self.capabilities) {
            (false, false) => r#"exec "$@""#.to_owned(),
            (false, true) => r#"exec setpriv --bounding-set=-all --inh-caps=-all "$@""#.to_owned(),
            (true, capabilities) => format!(
                r#"exec unshare --user --map-user=4242 --map-group=4242 {} "$@""#,
                if capabilities { "" } else { "--keep-caps" }
            ),
        });
        steps.join(" && ")
    }
}

/// How a host is to be, before it starts.
#[derive(Debug, Default)]
pub struct HostBuilder {
    services: BTreeMap<String, String>,
    groups: BTreeMap<String, String>,
    volumes: BTreeMap<String, String>,
    machine: Option<String>,
    arguments: Vec<String>,
    without_cgroup: bool,
    network: Option<String>,
    cgroups_left: Vec<String>,
    burdened: bool,
    own_binary: Option<PathBuf>,
    binary: Option<PathBuf>,
    linked_binary: bool,
    faulty: bool,
    console_unread: bool,
    stdout_unread: bool,
    variables: BTreeMap<String, String>,
    contained: Option<Without>,
    usual_folders: bool,
    memory: BTreeMap<String, String>,
    own_folders: Vec<&'static str>,
    containers: Option<Containers>,
    user: Option<u32>,
    suspended: Option<Duration>,
}

impl HostBuilder {
    /// Adds a service file. `name:` is put before `yaml`, unless it has that line; `$PROGRAM` and `$DIR` are replaced.
    pub fn service(mut self, name: &str, yaml: &str) -> HostBuilder {
        self.services.insert(name.to_owned(), yaml.to_owned());
        self
    }

    /// Adds a service that runs these steps of `kelson-test-program`.
    pub fn runs(self, name: &str, steps: &str) -> HostBuilder {
        self.runs_with(name, steps, "")
    }

    /// As [`HostBuilder::runs`], with more lines in its file.
    pub fn runs_with(self, name: &str, steps: &str, more: &str) -> HostBuilder {
        self.service(name, &process(steps, more))
    }

    /// Adds a process that ignores SIGTERM. It is up only once it does: an earlier SIGTERM would end it.
    pub fn runs_deaf(self, name: &str, more: &str) -> HostBuilder {
        self.runs_with(name, "ignore=TERM, notify=READY=1, hang", &format!("readiness: notify\n{more}"))
    }

    /// Adds the file of a group.
    pub fn group(mut self, name: &str, yaml: &str) -> HostBuilder {
        self.groups.insert(name.to_owned(), yaml.to_owned());
        self
    }

    /// Adds the file of a volume.
    pub fn volume(mut self, name: &str, yaml: &str) -> HostBuilder {
        self.volumes.insert(name.to_owned(), yaml.to_owned());
        self
    }

    /// The machine file.
    pub fn machine(mut self, yaml: &str) -> HostBuilder {
        self.machine = Some(yaml.to_owned());
        self
    }

    /// One more argument for `init`.
    pub fn argument(mut self, argument: &str) -> HostBuilder {
        self.arguments.push(argument.to_owned());
        self
    }

    /// How often PID 1 may crash: `3/1m`.
    pub fn crash_limit(self, limit: &str) -> HostBuilder {
        self.argument("--crash-limit").argument(limit)
    }

    /// Runs PID 1 as this user, without a capability; `kelsonctl` is run as the same user.
    pub fn unprivileged(mut self, user: u32) -> HostBuilder {
        self.user = Some(user);
        self
    }

    /// A cgroup of a service that an earlier host has left where this one has its own.
    pub fn cgroup_left(mut self, name: &str) -> HostBuilder {
        self.cgroups_left.push(name.to_owned());
        self
    }

    /// Runs in this network, and not in that of this computer.
    pub fn network(mut self, network: &Namespace) -> HostBuilder {
        self.network = Some(network.id());
        self
    }

    /// Hides every cgroup file system from the host: strays are then found by the mark in their environment.
    pub fn without_cgroup(mut self) -> HostBuilder {
        self.without_cgroup = true;
        self
    }

    /// Starts PID 1 with much that no service should get: descriptor 77, the variable `BURDEN`, SIGHUP and SIGPIPE
    /// ignored, SIGUSR1 blocked, at most 1000 open files (4000 hard), a limit of 12345 bytes on core files.
    pub fn burdened(mut self) -> HostBuilder {
        self.burdened = true;
        self
    }

    /// Runs from a copy of `init` in the test's own folder, which the test may replace.
    pub fn own_binary(self) -> HostBuilder {
        self.copy_of(paths::binary("init"))
    }

    /// Runs from a copy of this `init`, another release's perhaps, in the test's own folder.
    pub fn copy_of(mut self, init: PathBuf) -> HostBuilder {
        self.own_binary = Some(init);
        self
    }

    /// Runs from this very file.
    pub fn binary_at(mut self, init: PathBuf) -> HostBuilder {
        self.binary = Some(init);
        self
    }

    /// Runs from a link `init` in the test's own folder, to a copy `init-1`: the test may put another file in its
    /// place.
    pub fn linked_binary(mut self) -> HostBuilder {
        self.linked_binary = true;
        self
    }

    /// Runs binaries that crash on demand: `kelsonctl fault`.
    pub fn faulty(mut self) -> HostBuilder {
        self.faulty = true;
        self
    }

    /// Sends PID 1's messages to a small pipe that nobody reads; [`Host::take_console`] reads it.
    pub fn console_unread(mut self) -> HostBuilder {
        self.console_unread = true;
        self
    }

    /// Runs PID 1 as an engine does without root: in a user namespace of an ordinary user.
    pub fn contained(mut self, without: Without) -> HostBuilder {
        self.user = Some(CONTAINED);
        self.contained = Some(without);
        self
    }

    /// Leaves the folders for sockets, state and logs where they are without options.
    pub fn usual_folders(mut self) -> HostBuilder {
        self.usual_folders = true;
        self
    }

    /// A variable of PID 1's environment.
    pub fn variable(mut self, name: &str, value: &str) -> HostBuilder {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    /// PID 1's standard output is a small pipe that nobody reads; [`Host::take_console`] reads it.
    pub fn stdout_unread(mut self) -> HostBuilder {
        self.stdout_unread = true;
        self
    }

    /// This folder of the test's own (`run`, `log`) is a file system in memory, so large (`4m`).
    pub fn memory(mut self, folder: &str, size: &str) -> HostBuilder {
        self.memory.insert(folder.to_owned(), size.to_owned());
        self
    }

    /// In place of this folder of the computer the host has an empty one of its own.
    pub fn own_folder(mut self, path: &'static str) -> HostBuilder {
        self.own_folders.push(path);
        self
    }

    /// Runs containers: containerd is on, and has a disk of its own in memory.
    pub fn containers(mut self) -> HostBuilder {
        self.containers.get_or_insert_default();
        self
    }

    /// With containerd, which runs containers with crun.
    pub fn crun(mut self) -> HostBuilder {
        self.containers.get_or_insert_default().crun = true;
        self
    }

    /// Without containerd: Kelson runs containers itself.
    pub fn without_containerd(mut self) -> HostBuilder {
        self.containers.get_or_insert_default().alone = true;
        self
    }

    /// An archive of images, of a host with containers.
    pub fn archive(mut self, file: &str, bytes: Vec<u8>) -> HostBuilder {
        self.containers.get_or_insert_default().archives.push((file.to_owned(), bytes));
        self
    }

    /// How large the disk of containerd is (`64m`); plenty otherwise.
    pub fn disk(mut self, size: &str) -> HostBuilder {
        self.containers.get_or_insert_default().disk = Some(size.to_owned());
        self
    }

    /// containerd's programs can be replaced: [`Host::put_containerd`].
    pub fn replaceable_containerd(mut self) -> HostBuilder {
        self.containers.get_or_insert_default().replaceable = true;
        self
    }

    /// Keeps the files that outlive the host (`/var/lib/kelson` of a machine) in this folder.
    pub fn state(mut self, folder: &Path) -> HostBuilder {
        self.containers.get_or_insert_default().state = Some(folder.to_owned());
        self
    }

    /// CLOCK_BOOTTIME is this far ahead of CLOCK_MONOTONIC, as on a machine that was suspended for as long.
    pub fn suspended(mut self, time: Duration) -> HostBuilder {
        self.suspended = Some(time);
        self
    }

    /// Starts it and returns once it answers.
    #[track_caller]
    pub fn start(self) -> Host {
        let mut host = self.spawn();
        let socket = host.dir.join("run/init.sock");
        until("init to answer on its socket", PATIENCE, || {
            if let Some(status) = host.child.try_wait().expect("it is our child") {
                panic!("init ended before it answered, with {status}; its console:\n{}", host.console());
            }
            (socket.exists() && host.ctl(&["version"]).status == 0).then_some(())
        });
        host
    }

    /// Starts it and returns once these services are up.
    #[track_caller]
    pub fn up(self, names: &[&str]) -> Host {
        let host = self.start();
        host.wait_all_up(names);
        host
    }

    /// Starts it and does not wait.
    #[track_caller]
    pub fn spawn(self) -> Host {
        // SAFETY: geteuid(2) has no preconditions.
        assert_eq!(unsafe { libc::geteuid() }, 0, "these tests make PID namespaces: run them as root");
        let dir = new_dir();
        for folder in ["config/services", "images", "run", "log", "lib"] {
            fs::create_dir_all(dir.join(folder)).expect("the test's folder is writable");
        }
        let memory: Vec<Memory> =
            self.memory.iter().map(|(folder, size)| Memory::mount(dir.join(folder), size)).collect();
        let host_files = Files { dir: dir.clone() };
        for (name, yaml) in &self.groups {
            host_files.write_group(name, yaml);
        }
        for (name, yaml) in &self.volumes {
            host_files.write("config/volumes", name, yaml);
        }
        for (name, yaml) in &self.services {
            host_files.write_service(name, yaml);
        }
        let mut machine = self.machine.clone();
        if let Some(containers) = &self.containers {
            machine = Some(machine.unwrap_or_default() + "\n" + &containers::machine(containers));
            if containers.replaceable {
                containers::put(&dir, "1.6");
            }
            if containers.crun {
                containers::put_crun(&dir);
            }
        }
        // An empty file is a mistake.
        if let Some(machine) = machine.filter(|text| !text.trim().is_empty()) {
            fs::write(dir.join("config/machine.yaml"), host_files.fill_in(&machine)).expect("it is writable");
        }

        let console = File::create(dir.join("console")).expect("the test's folder is writable");
        let first = if self.contained.is_some() { "setpriv" } else { "unshare" };
        let mut command = match &self.network {
            Some(target) => {
                let mut command = Command::new("nsenter");
                command.args(["--net", "--target", target, "--", first]);
                command
            }
            None => Command::new(first),
        };
        if self.contained.is_some() {
            command.args(["--clear-groups", "--inh-caps=-all"]);
            command.args([format!("--reuid={CONTAINED}"), format!("--regid={CONTAINED}")]);
            command.args(["unshare", "--user", "--map-root-user"]);
        }
        // Whatever becomes of the test, nothing of the host outlives it.
        command.args(["--pid", "--fork", "--mount", "--mount-proc", "--kill-child=KILL"]);
        if let Some(without) = &self.contained {
            command.args(["sh", "-c", &without.script(&dir), "sh"]);
        }
        if let Some(suspended) = self.suspended {
            command.args(["--time", "--boottime", &suspended.as_secs().to_string()]);
        }
        for folder in &self.own_folders {
            command.args(["sh", "-c", "mount -t tmpfs none \"$0\" && exec \"$@\"", folder]);
        }
        if self.without_cgroup {
            command.args(["sh", "-c", "mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"", "sh"]);
        }
        let state = self.containers.as_ref().and_then(|containers| containers.state.clone());
        let state = state.unwrap_or_else(|| dir.join("lib"));
        if let Some(containers) = &self.containers {
            for (file, bytes) in &containers.archives {
                fs::write(dir.join("images").join(file), bytes).expect("the test's folder is writable");
            }
            let size = match (&containers.disk, &containers.state) {
                (Some(size), _) => size,
                (None, Some(_)) => "",
                (None, None) => "1g",
            };
            command.args(["sh", "-c", containers::PREPARE, "sh"]).arg(&state).arg(size);
        }
        if let Some(user) = self.user {
            for folder in ["", "config", "config/services", "images", "run", "log", "lib"] {
                chown(dir.join(folder), Some(user), Some(user)).expect("the test's folder is ours");
            }
            if self.contained.is_none() {
                // The bounding set stays, as with `docker run --user`: who holds no capability cannot change it.
                command.args(["setpriv", "--clear-groups", "--inh-caps=-all"]);
                command.args([format!("--reuid={user}"), format!("--regid={user}")]);
            }
        }
        let mut binary = if self.faulty { paths::faulty_binary("init") } else { paths::binary("init") };
        if let Some(given) = &self.binary {
            binary = given.clone();
        }
        if let Some(own) = &self.own_binary {
            let copy = dir.join("init");
            fs::copy(own, &copy).expect("the test's folder has room");
            binary = copy;
        }
        if self.linked_binary {
            fs::copy(&binary, dir.join("init-1")).expect("the test's folder has room");
            binary = dir.join("init");
            std::os::unix::fs::symlink("init-1", &binary).expect("the test's folder is writable");
        }
        command.arg(binary).args(["--mode", "container"]).args([
            Path::new("--config"),
            &dir.join("config"),
            Path::new("--images"),
            &dir.join("images"),
        ]);
        if !self.usual_folders {
            command
                .args([
                    Path::new("--runtime-dir"),
                    &dir.join("run"),
                    Path::new("--log-dir"),
                    &dir.join("log"),
                ])
                .args([Path::new("--state-dir"), &state]);
        }
        command
            .args(&self.arguments)
            .env_clear()
            .env("PATH", PATH)
            .envs(&self.variables)
            .stdin(Stdio::null())
            .stdout(console.try_clone().expect("a descriptor"))
            .stderr(console);
        let mut unread = None;
        if self.console_unread || self.stdout_unread {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            // SAFETY: an open descriptor and numbers.
            unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
            if self.console_unread {
                command.stderr(writer)
            } else {
                command.stdout(writer)
            };
            unread = Some(reader);
        }
        if self.burdened {
            command.env("BURDEN", "1");
            // SAFETY: `burden` makes system calls alone, which allocate nothing.
            unsafe { command.pre_exec(burden) };
        }
        let cgroup = if self.without_cgroup { None } else { Cgroup::new() };
        for (cgroup, name) in
            cgroup.iter().flat_map(|cgroup| self.cgroups_left.iter().map(move |name| (cgroup, name)))
        {
            fs::create_dir_all(cgroup.path().join("kelson").join(name))
                .expect("a cgroup2 that can be written");
        }
        if let (Some(cgroup), Some(Without { cgroup: false, .. })) = (&cgroup, &self.contained) {
            for file in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
                chown(cgroup.path().join(file), Some(CONTAINED), Some(CONTAINED))
                    .expect("the test's cgroup is ours");
            }
        }
        let door = cgroup.as_ref().map(|cgroup| {
            OpenOptions::new().write(true).open(cgroup.door()).expect("the test's cgroup can be entered")
        });
        // SAFETY: between fork and exec only prctl(2) and write(2) on an open descriptor, which allocate nothing.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                match &door {
                    Some(door) => (&mut &*door).write_all(b"0"),
                    None => Ok(()),
                }
            });
        }
        let child = command.spawn().expect("unshare(1) can be started");
        let ctl = Ctl::at(format!("unix://{}", dir.join("run/init.sock").display())).run_as(self.user);
        Host { child, ctl, files: host_files, dir, ended: None, unread, cgroup, memory }
    }
}

/// A running host. When it is dropped, all of it is killed; if the test fails, its console and events are printed.
#[derive(Debug)]
pub struct Host {
    child: Child,
    ctl: Ctl,
    files: Files,
    dir: PathBuf,
    ended: Option<ExitStatus>,
    unread: Option<std::io::PipeReader>,
    // After the child: it can be removed once nobody is in it.
    cgroup: Option<Cgroup>,
    memory: Vec<Memory>,
}

/// A file system in memory, taken off when dropped.
#[derive(Debug)]
struct Memory(PathBuf);

impl Memory {
    #[track_caller]
    fn mount(folder: PathBuf, size: &str) -> Memory {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("mode=0755,size={size}"), "none"]).arg(&folder);
        assert!(mount.status().is_ok_and(|status| status.success()), "{mount:?}");
        Memory(folder)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

impl Host {
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// The test's own folder: `config/`, `run/`, `log/`, `images/`, `console`, and whatever `$DIR` is used for.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A path in the test's own folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    // ---- kelsonctl ----

    /// Runs a command of kelsonctl to its end, for example `["stop", "--cascade", "db"]`.
    pub fn ctl(&self, args: &[&str]) -> Output {
        self.ctl.run(args)
    }

    /// A command of kelsonctl that goes on: `["logs", "-f", "web"]`.
    pub fn follow(&self, args: &[&str]) -> Lines {
        self.ctl.follow(args)
    }

    /// The client itself, to be cloned into threads.
    pub fn client(&self) -> &Ctl {
        &self.ctl
    }

    #[track_caller]
    pub fn services(&self) -> Vec<Service> {
        self.ctl.services()
    }

    #[track_caller]
    pub fn service(&self, name: &str) -> Service {
        self.ctl.service(name)
    }

    /// All events that are still kept, oldest first.
    #[track_caller]
    pub fn events(&self) -> Vec<Event> {
        self.ctl.events()
    }

    /// The events of one service.
    #[track_caller]
    pub fn events_of(&self, name: &str) -> Vec<Event> {
        self.events().into_iter().filter(|event| event.service == name).collect()
    }

    /// The states that one service went through, in order.
    #[track_caller]
    pub fn states_of(&self, name: &str) -> Vec<String> {
        let mut states: Vec<String> = self.events_of(name).into_iter().map(|event| event.state).collect();
        states.dedup();
        states
    }

    /// Number of the newest event; what happens from now on has a larger one.
    #[track_caller]
    pub fn newest_event(&self) -> u64 {
        self.events().last().map_or(0, |event| event.seq)
    }

    /// Events from this number on, as they come; 0 from the oldest.
    pub fn follow_events(&self, since: u64) -> Events {
        self.ctl.follow_events(since)
    }

    /// The first event after number `after` that is so; panics with `what` when none comes in time.
    #[track_caller]
    pub fn wait_event(&self, after: u64, what: &str, is_so: impl FnMut(&Event) -> bool) -> Event {
        self.ctl.follow_events(after + 1).find(what, PATIENCE, is_so)
    }

    /// Returns when the service is in this state.
    #[track_caller]
    pub fn wait_state(&self, name: &str, state: &str) -> Service {
        self.wait_for(name, &format!("to be {state}"), |service| service.state == state)
    }

    /// Returns when the service is so; panics with `what` when it is not in time.
    #[track_caller]
    pub fn wait_for(&self, name: &str, what: &str, is_so: impl FnMut(&Service) -> bool) -> Service {
        self.ctl.wait_for(name, what, PATIENCE, is_so)
    }

    #[track_caller]
    pub fn wait_up(&self, name: &str) {
        self.wait(name, "up");
    }

    #[track_caller]
    pub fn wait_all_up(&self, names: &[&str]) {
        names.iter().for_each(|name| self.wait_up(name));
    }

    #[track_caller]
    pub fn wait_down(&self, name: &str) {
        self.wait(name, "down");
    }

    #[track_caller]
    pub fn wait_finished(&self, name: &str) {
        self.wait(name, "finished");
    }

    #[track_caller]
    fn wait(&self, name: &str, event: &str) {
        let timeout = format!("{}s", PATIENCE.as_secs());
        self.ctl(&["wait", name, "--for", event, "--timeout", &timeout]).ok();
    }

    // ---- processes ----

    /// The main process of a service, in the host's namespace.
    #[track_caller]
    pub fn pid_of(&self, name: &str) -> i32 {
        let service = self.service(name);
        service.pid.unwrap_or_else(|| panic!("{name} has no process: {service:?}"))
    }

    /// All processes of the host.
    pub fn processes(&self) -> Vec<Process> {
        process::of_namespace(self.init_pid())
    }

    /// The processes whose command line holds this text.
    pub fn processes_with(&self, text: &str) -> Vec<Process> {
        self.processes().into_iter().filter(|p| p.command.iter().any(|word| word.contains(text))).collect()
    }

    /// The number that a PID of the host's namespace has in the test's own.
    #[track_caller]
    pub fn outer_pid(&self, pid: i32) -> i32 {
        let all = self.processes();
        all.iter().find(|p| p.pid == pid).unwrap_or_else(|| panic!("no process {pid} in {all:?}")).outer_pid
    }

    /// Where the cgroup of a service is, whether it exists or not.
    #[track_caller]
    pub fn cgroup_of(&self, name: &str) -> PathBuf {
        let cgroup = self.cgroup.as_ref().expect("a cgroup2 that can be written");
        cgroup.path().join("kelson").join(name)
    }

    /// Panics unless nothing is left of a service: no process that names it (its steps hold `word`), no cgroup, no
    /// socket.
    #[track_caller]
    pub fn assert_nothing_left(&self, name: &str, word: &str) {
        assert_eq!(self.service(name).pid, None);
        let processes = self.processes_with(word);
        assert!(processes.is_empty(), "processes of {name} are left: {processes:?}");
        assert!(!self.cgroup_of(name).exists(), "the cgroup of {name} is left");
        let socket = self.dir.join("run/notify").join(name);
        assert!(!socket.exists(), "{} is left", socket.display());
    }

    /// Sends a signal to a process of the host.
    #[track_caller]
    pub fn kill(&self, pid: i32, signal: i32) {
        send(self.outer_pid(pid), signal);
    }

    /// PID 1 of the host, in the test's own namespace.
    #[track_caller]
    pub fn init_pid(&self) -> i32 {
        let unshare = self.child.id();
        until("unshare(1) to have made PID 1", PATIENCE, || {
            let children = fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children")).ok()?;
            children.split_whitespace().next()?.parse().ok()
        })
    }

    /// Sends a signal to PID 1.
    #[track_caller]
    pub fn signal(&self, signal: i32) {
        send(self.init_pid(), signal);
    }

    /// Has PID 1 crash in this way, and returns once its next incarnation has told of it.
    #[track_caller]
    pub fn crash(&self, fault: impl FnOnce()) {
        let told = || {
            // A question that is overtaken by the crash is asked again.
            let events = self.ctl(&["-o", "json", "events"]);
            let count = events.stdout.matches("PID 1 crashed and goes on").count();
            (events.status == 0).then_some(count)
        };
        let before = until("PID 1 to answer", PATIENCE, told);
        fault();
        until("PID 1 to tell of its crash", PATIENCE, || told().filter(|now| *now > before));
    }

    /// Has PID 1 crash by `kelsonctl fault`; the host must be [`HostBuilder::faulty`].
    #[track_caller]
    pub fn fault(&self, fault: &str) {
        let ctl = paths::faulty_binary("kelsonctl");
        let socket = format!("unix://{}", self.dir.join("run/init.sock").display());
        let output = Command::new(ctl).args(["--endpoint", &socket, "fault", fault]).output();
        let output = output.expect("kelsonctl can be started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Puts a program at the path by which the host of [`HostBuilder::copy_of`] was started.
    pub fn put_init(&self, program: &[u8]) {
        let new = self.path("init.new");
        fs::write(&new, program).expect("the test's folder has room");
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).expect("it is ours");
        fs::rename(new, self.path("init")).expect("the test's folder is writable");
    }

    // ---- logs ----

    /// The log file of a service as it is now, with the time and stream of each line; empty where there is none.
    pub fn log_text(&self, name: &str) -> String {
        fs::read(self.dir.join(format!("log/{name}.log")))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Returns the log file of a service once it holds this text.
    #[track_caller]
    pub fn wait_log(&self, name: &str, text: &str) -> String {
        until(&format!("\"{text}\" in the log of {name}"), PATIENCE, || {
            Some(self.log_text(name)).filter(|log| log.contains(text))
        })
    }

    /// The messages of PID 1 on stderr.
    pub fn console(&self) -> String {
        fs::read(self.dir.join("console"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Takes the messages that wait in the pipe of [`HostBuilder::console_unread`] or [`HostBuilder::stdout_unread`].
    #[track_caller]
    pub fn take_console(&self) -> String {
        let mut reader = self.unread.as_ref().expect("a console that nobody reads");
        let mut waiting: libc::c_int = 0;
        // SAFETY: FIONREAD writes one int to the place it is given.
        unsafe { libc::ioctl(reader.as_raw_fd(), libc::FIONREAD, &raw mut waiting) };
        let mut bytes = vec![0; usize::try_from(waiting).unwrap_or(0)];
        reader.read_exact(&mut bytes).expect("it is there");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns a file of the test's own folder once it is there.
    #[track_caller]
    pub fn wait_file(&self, name: &str) -> String {
        let path = self.path(name);
        until(&format!("{} to exist", path.display()), PATIENCE, || fs::read_to_string(&path).ok())
    }

    // ---- configuration ----

    /// Writes a service file again; Kelson reads it after SIGHUP.
    pub fn write_service(&self, name: &str, yaml: &str) {
        self.files.write_service(name, yaml);
    }

    /// Asks for the files to be read again, as SIGHUP does; returns once that is done, with what PID 1 says of it.
    #[track_caller]
    pub fn read_again(&self) -> String {
        let before = self.newest_event();
        self.signal(libc::SIGHUP);
        let is_read = |event: &Event| event.service.is_empty() && event.message.contains("read again");
        self.wait_event(before, "that the files were read", is_read).message
    }

    /// Makes an empty file in the test's own folder.
    pub fn touch(&self, name: &str) {
        fs::write(self.path(name), "").expect("the test's folder is writable");
    }

    /// Writes the file of a group; `kelsonctl reload` applies it.
    pub fn write_group(&self, name: &str, yaml: &str) {
        self.files.write_group(name, yaml);
    }

    pub fn remove_service(&self, name: &str) {
        fs::remove_file(self.dir.join(format!("config/services/{name}.yaml"))).expect("the service's file");
    }

    // ---- the end ----

    /// Asks for a power off and returns once PID 1 has ended; panics unless its status is 0.
    #[track_caller]
    pub fn poweroff(&mut self) {
        self.ctl(&["poweroff"]).ok();
        assert_eq!(
            self.wait_exit(),
            0,
            "the status of PID 1 after a power off; its console:\n{}",
            self.console()
        );
    }

    /// Returns the exit status of PID 1 (128 + signal if it was killed) once it has ended.
    #[track_caller]
    pub fn wait_exit(&mut self) -> i32 {
        self.wait_exit_within(PATIENCE)
    }

    #[track_caller]
    pub fn wait_exit_within(&mut self, patience: Duration) -> i32 {
        let child = &mut self.child;
        let status = until("PID 1 to end", patience, || child.try_wait().expect("it is our child"));
        self.ended = Some(status);
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        if failed {
            let said = |args: &[&str]| {
                let output = self.ctl.run(args);
                format!("{}{}", output.stdout, output.stderr)
            };
            let alive = self.ended.is_none() && matches!(self.child.try_wait(), Ok(None));
            let (services, events) =
                if alive { (said(&["services"]), said(&["events"])) } else { Default::default() };
            eprintln!(
                "---- console of the host ----\n{}\n---- services ----\n{services}\n---- events ----\n{events}\n---- its folder is kept: {} ----",
                self.console(),
                self.dir.display()
            );
        }
        if self.ended.is_none() {
            // The death of PID 1 takes all of its namespace along; unshare(1) goes after it.
            let unshare = self.child.id();
            let children =
                fs::read_to_string(format!("/proc/{unshare}/task/{unshare}/children")).unwrap_or_default();
            match children.split_whitespace().next().and_then(|pid| pid.parse().ok()) {
                Some(init) => send(init, libc::SIGKILL),
                None => drop(self.child.kill()),
            }
            let _ = self.child.wait();
        }
        self.memory.clear();
        if !failed {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// The configuration of a host.
#[derive(Debug)]
pub(crate) struct Files {
    dir: PathBuf,
}

impl Files {
    fn fill_in(&self, text: &str) -> String {
        fill_in(text, &paths::binary("kelson-test-program"), &self.dir)
    }

    fn write_service(&self, name: &str, yaml: &str) {
        let text = with_name(name, &self.fill_in(yaml));
        fs::write(self.dir.join(format!("config/services/{name}.yaml")), text)
            .expect("the test's folder is writable");
    }

    fn write_group(&self, name: &str, yaml: &str) {
        self.write("config/groups", name, yaml);
    }

    fn write(&self, folder: &str, name: &str, yaml: &str) {
        let folder = self.dir.join(folder);
        fs::create_dir_all(&folder).expect("the test's folder is writable");
        fs::write(folder.join(format!("{name}.yaml")), yaml).expect("the test's folder is writable");
    }
}

/// The file of a service that runs these steps of `kelson-test-program`.
pub fn process(steps: &str, more: &str) -> String {
    format!("process: {{command: [$PROGRAM, {steps}]}}\n{more}")
}

/// Replaces `$PROGRAM` and `$DIR`.
pub(crate) fn fill_in(text: &str, program: &Path, dir: &Path) -> String {
    text.replace("$PROGRAM", &program.display().to_string()).replace("$DIR", &dir.display().to_string())
}

/// Puts `name:` before the text, unless it has that line.
pub(crate) fn with_name(name: &str, yaml: &str) -> String {
    if yaml.lines().any(|line| line.starts_with("name:")) {
        yaml.to_owned()
    } else {
        format!("name: {name}\n{yaml}\n")
    }
}

/// Sends a signal to a process of the test's own namespace.
#[track_caller]
pub fn send(pid: i32, signal: i32) {
    // SAFETY: kill(2) has no preconditions.
    let result = unsafe { libc::kill(pid, signal) };
    assert_eq!(result, 0, "signal {signal} to {pid}: {}", std::io::Error::last_os_error());
}

/// Applies [`HostBuilder::burdened`], between fork and exec.
fn burden() -> std::io::Result<()> {
    // SAFETY: system calls on numbers and on initialised values of this frame.
    unsafe {
        libc::dup2(0, 77);
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGUSR1);
        libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        libc::setrlimit(libc::RLIMIT_NOFILE, &libc::rlimit { rlim_cur: 1000, rlim_max: 4000 });
        libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 12345, rlim_max: 12345 });
    }
    Ok(())
}

/// A short path: that of a Unix socket below it must not be longer than 107 bytes.
pub(crate) fn new_dir() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("kelson-{}-{count}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("a folder for temporary files");
    dir
}
