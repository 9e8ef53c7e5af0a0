//! What a child is: its program and everything around it. Nothing is looked at before the spawner thread starts it.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use kelson_spec::ServiceSpec;
use kelson_spec::service::{Credentials, ResourceLimit, Seccomp, Security, Workload};

use crate::processes::{Child, Processes};
use tokio::sync::oneshot;

use crate::runner::{RunContext, RunnerError};
use crate::seccomp::Filter;
use crate::spawn::Subject;
use crate::spawn::plan::Ids;

pub use kelson_spec::DEFAULT_PATH;

/// How long a start may take: a disk that spins up or a busy network file system is slow, not dead.
const DEADLINE: Duration = Duration::from_secs(30);

/// What is executed.
#[derive(Debug)]
pub enum Program {
    /// A path, or a bare name that is looked up in the command's own `PATH`.
    Path(CString),
    /// An open file, for instance a memfd: no file system is touched.
    Descriptor(OwnedFd),
}

/// What a standard descriptor is.
#[derive(Debug)]
pub enum Stdio {
    /// `/dev/null`.
    Null,
    Descriptor(OwnedFd),
}

/// A child to be made by [`Processes::spawn`](crate::Processes::spawn).
///
/// Without more than a program it gets: no arguments, an empty environment, `/dev/null` three times, a session of its
/// own, the root directory, umask 022, default signals and limits, and PID 1's own user and capabilities.
#[derive(Debug)]
pub struct Command {
    pub(crate) program: Program,
    pub(crate) argv: Vec<CString>,
    pub(crate) environment: Vec<CString>,
    pub(crate) working_directory: Option<CString>,
    pub(crate) stdin: Stdio,
    pub(crate) stdout: Stdio,
    pub(crate) stderr: Stdio,
    /// `stdout` and `stderr` are pipes made for this child: they become its user's.
    pub(crate) own_pipes: bool,
    /// `stdin` is the terminal that is to control its session.
    pub(crate) controlling_terminal: bool,
    pub(crate) descriptors: Vec<(OwnedFd, i32)>,
    pub(crate) credentials: Option<Ids>,
    pub(crate) limits: Vec<ResourceLimit>,
    pub(crate) no_new_privileges: bool,
    pub(crate) read_only_root: bool,
    pub(crate) bounding: Option<u64>,
    pub(crate) ambient: u64,
    pub(crate) seccomp: Option<Arc<Filter>>,
    /// The network namespace that it enters.
    pub(crate) network: Option<OwnedFd>,
    /// Spared by the kernel where memory is short, as long as there are others.
    pub(crate) spared: bool,
    pub(crate) cgroup: Option<Arc<OwnedFd>>,
    pub(crate) cgroup_name: String,
    pub(crate) deadline: Duration,
    /// Number of the service and of its run, for the spawn record.
    pub(crate) owner: (u32, u64),
    pub(crate) done: Option<oneshot::Sender<Child>>,
    /// What of the command holds a NUL byte.
    pub(crate) invalid: Option<&'static str>,
}

/// By which the processes of a run are found where there are no cgroups: the value of `KELSON_RUN`.
pub(crate) fn run_mark(spec: &ServiceSpec, run: u64, processes: &Processes) -> String {
    format!("{}:{}:{run}", processes.incarnation(), spec.name)
}

impl Command {
    /// `program` is also the first argument.
    pub fn new(program: impl Into<Vec<u8>>) -> Command {
        let mut command = Command::with_program(Program::Path(CString::default()));
        let program = command.text("the program", program);
        command.program = Program::Path(program.clone());
        command.argv.push(program);
        command
    }

    /// Executes an open file; `name` is the first argument, which chooses Kelson's personalities.
    pub fn from_descriptor(program: OwnedFd, name: impl Into<Vec<u8>>) -> Command {
        let mut command = Command::with_program(Program::Descriptor(program));
        let name = command.text("the program's name", name);
        command.argv.push(name);
        command
    }

    fn with_program(program: Program) -> Command {
        Command {
            program,
            argv: Vec::new(),
            environment: Vec::new(),
            working_directory: Some(c"/".to_owned()),
            stdin: Stdio::Null,
            stdout: Stdio::Null,
            stderr: Stdio::Null,
            own_pipes: false,
            controlling_terminal: false,
            descriptors: Vec::new(),
            credentials: None,
            limits: Vec::new(),
            no_new_privileges: false,
            read_only_root: false,
            bounding: None,
            ambient: 0,
            seccomp: None,
            network: None,
            spared: false,
            cgroup: None,
            cgroup_name: String::new(),
            deadline: DEADLINE,
            owner: (0, 0),
            done: None,
            invalid: None,
        }
    }

    fn text(&mut self, what: &'static str, bytes: impl Into<Vec<u8>>) -> CString {
        CString::new(bytes).unwrap_or_else(|_| {
            self.invalid = Some(what);
            CString::default()
        })
    }

    pub fn arg(mut self, argument: impl Into<Vec<u8>>) -> Command {
        let argument = self.text("an argument", argument);
        self.argv.push(argument);
        self
    }

    pub fn args<T: Into<Vec<u8>>>(self, arguments: impl IntoIterator<Item = T>) -> Command {
        arguments.into_iter().fold(self, Command::arg)
    }

    /// Sets a variable; a later value replaces an earlier one.
    pub fn env(mut self, name: &str, value: &str) -> Command {
        // With room for the NUL at its end.
        let mut entry = Vec::with_capacity(name.len().saturating_add(value.len()).saturating_add(2));
        entry.extend_from_slice(name.as_bytes());
        entry.push(b'=');
        entry.extend_from_slice(value.as_bytes());
        let entry = self.text("the environment", entry);
        let same = |known: &CString| {
            known.to_bytes().strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='))
        };
        match self.environment.iter_mut().find(|known| same(known)) {
            Some(known) => *known = entry,
            None => self.environment.push(entry),
        }
        self
    }

    /// Executes this instead; the arguments stay.
    pub fn program(mut self, program: Program) -> Command {
        self.program = program;
        self
    }

    /// Its input is a terminal, which is to control its session.
    pub(crate) fn with_terminal(mut self) -> Command {
        self.controlling_terminal = true;
        self
    }

    pub fn working_directory(mut self, path: impl Into<Vec<u8>>) -> Command {
        self.working_directory = Some(self.text("the working directory", path));
        self
    }

    pub fn stdin(mut self, stdio: Stdio) -> Command {
        self.stdin = stdio;
        self
    }

    pub fn stdout(mut self, stdio: Stdio) -> Command {
        self.stdout = stdio;
        self
    }

    pub fn stderr(mut self, stdio: Stdio) -> Command {
        self.stderr = stdio;
        self
    }

    /// A further descriptor and its number in the child.
    pub fn descriptor(mut self, fd: OwnedFd, number: i32) -> Command {
        self.descriptors.push((fd, number));
        self
    }

    /// Runs as this user, with exactly these groups.
    pub fn user(mut self, uid: u32, gid: u32, groups: Vec<u32>) -> Command {
        self.credentials = Some(Ids { uid, gid, groups });
        self
    }

    /// rlimits, over those that [`Options`](crate::Options) gives to every child.
    pub fn limits(mut self, limits: &[ResourceLimit]) -> Command {
        self.limits.extend_from_slice(limits);
        self
    }

    pub fn no_new_privileges(mut self, yes: bool) -> Command {
        self.no_new_privileges = yes;
        self
    }

    /// A mount namespace in which every mount is read-only, those below `/` too.
    pub fn read_only_root(mut self, yes: bool) -> Command {
        self.read_only_root = yes;
        self
    }

    /// Bit n: capability n stays in the bounding set. `None`: all that PID 1 has.
    pub fn bounding(mut self, set: Option<u64>) -> Command {
        self.bounding = set;
        self
    }

    /// Bit n: a user other than root holds capability n.
    pub fn ambient(mut self, set: u64) -> Command {
        self.ambient = set;
        self
    }

    pub fn seccomp(mut self, filter: Option<Arc<Filter>>) -> Command {
        self.seccomp = filter;
        self
    }

    /// The folder of its cgroup; `name` for messages.
    pub fn cgroup(mut self, folder: Arc<OwnedFd>, name: impl Into<String>) -> Command {
        self.cgroup = Some(folder);
        self.cgroup_name = name.into();
        self
    }

    /// Runs in this network namespace, an open `/proc/PID/ns/net` ([`open_network`](crate::open_network)), and in PID 1's
    /// own namespaces otherwise. It is entered before privileges are given up.
    pub fn network_of(mut self, namespace: OwnedFd) -> Command {
        self.network = Some(namespace);
        self
    }

    /// PID 1 cannot do without it: where memory is short the kernel ends others first. Nothing changes where PID 1 has not
    /// made itself safe either ([`Options::oom_score`](crate::Options)).
    pub fn spared(mut self) -> Command {
        self.spared = true;
        self
    }

    /// How long the start may take, from the call of `spawn` to the exec; then it is given up. 30 s by default.
    pub fn deadline(mut self, deadline: Duration) -> Command {
        self.deadline = deadline;
        self
    }

    /// Dropped when no spawner works on the start any more, also long after it was given up; given the child where that
    /// runs its program by then.
    pub fn done(mut self, done: oneshot::Sender<Child>) -> Command {
        self.done = Some(done);
        self
    }

    /// Whose child it is: stands in the spawn record while it is made.
    pub fn owner(mut self, service: u32, run: u64) -> Command {
        self.owner = (service, run);
        self
    }

    /// The child of one run of a service: all that its spec asks for but the cgroup.
    ///
    /// # Errors
    /// When the service is a container, or has no command.
    pub fn from_spec(
        spec: &ServiceSpec,
        context: RunContext,
        processes: &Processes,
    ) -> Result<Command, RunnerError> {
        let Workload::Process(process) = &spec.workload else {
            return Err(RunnerError::new(format!("service {} is a container, not a process", spec.name)));
        };
        let words = context.command.as_ref().unwrap_or(&process.command);
        let Some((program, arguments)) = words.split_first() else {
            return Err(RunnerError::new(format!("service {} has no command", spec.name)));
        };
        let mut command = Command::new(program.as_str()).args(arguments.iter().map(String::as_str));
        command = command.env("PATH", DEFAULT_PATH);
        let of_root = Security { seccomp: Seccomp::Unconfined, ..Security::default() };
        let (user, security) = match context.as_root {
            true => (None, &of_root),
            false => (spec.user.as_ref(), &spec.security),
        };
        if let Some(user) = user {
            command = command.with_credentials(user);
        }
        for (name, value) in &spec.environment {
            command = command.env(name, value);
        }
        command = command
            .env("KELSON_SERVICE", &spec.name)
            .env("KELSON_RUN", &run_mark(spec, context.run, processes));
        for (name, value) in &context.environment {
            command = command.env(name, value);
        }
        let all = security.capabilities.unwrap_or(u64::MAX);
        let filter = match security.seccomp {
            Seccomp::Unconfined => None,
            Seccomp::Default => {
                let held = command.held_capabilities(all, security.ambient);
                Some(processes.default_filter(held))
            }
        };
        command.descriptors.extend(context.descriptors);
        command.own_pipes = true;
        Ok(command
            .working_directory(process.working_directory.as_os_str().as_encoded_bytes())
            .stdout(Stdio::Descriptor(context.stdout))
            .stderr(Stdio::Descriptor(context.stderr))
            .limits(&spec.limits)
            .no_new_privileges(security.no_new_privileges)
            .read_only_root(security.read_only_root)
            .bounding(security.capabilities)
            .ambient(security.ambient & all)
            .seccomp(filter))
    }

    /// What an error names, kept beside the command.
    pub(crate) fn subject(&self) -> Subject {
        let program = match &self.program {
            Program::Path(path) => Some(path),
            Program::Descriptor(_) => self.argv.first(),
        };
        let text =
            |string: Option<&CString>| string.map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        Subject {
            program: text(program),
            directory: text(self.working_directory.as_ref()),
            uid: self.credentials.as_ref().map_or(0, |ids| ids.uid),
            gid: self.credentials.as_ref().map_or(0, |ids| ids.gid),
            cgroup: self.cgroup_name.clone(),
            limits: self.limits.clone(),
        }
    }

    fn with_credentials(self, user: &Credentials) -> Command {
        let command = self.user(user.uid, user.gid, user.groups.clone());
        // As written in the file, which may name a group too.
        let name = user.name.split(':').next().unwrap_or(&user.name);
        let command = command.env("USER", name).env("LOGNAME", name).env("SHELL", "/bin/sh");
        match &user.home {
            Some(home) => command.env("HOME", home),
            None => command,
        }
    }

    /// The capabilities that the program can ever hold: the seccomp profile opens what they allow. A user other than
    /// root holds the ambient ones; a set-user-id program may give it more, up to the bounding set.
    fn held_capabilities(&self, bounding: u64, ambient: u64) -> u64 {
        let root = self.credentials.as_ref().is_none_or(|ids| ids.uid == 0);
        if root { bounding } else { ambient & bounding }
    }
}
