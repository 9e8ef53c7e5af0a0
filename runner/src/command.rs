//! The description of a child: its program and its environment. Nothing is read or opened before the spawner
//! thread starts it.

use std::borrow::Cow;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use kelson_spec::service::{Attributes, ResourceLimit};
use tokio::sync::oneshot;

use crate::processes::Child;
use crate::seccomp::Filter;
use crate::spawn::Subject;

pub use kelson_spec::DEFAULT_PATH;

/// How long a start may take: a disk that spins up or a busy network file system is slow, not dead.
const DEADLINE: Duration = Duration::from_secs(30);

/// The program that a child executes.
#[derive(Debug)]
pub enum Program {
    /// A path, or a bare name that is looked up in the command's own `PATH`.
    Path(CString),
    /// An open file, for instance a memfd: no file system is touched.
    Descriptor(OwnedFd),
}

impl Default for Program {
    fn default() -> Self {
        Program::Path(CString::default())
    }
}

/// The source or target of a standard descriptor.
#[derive(Debug, Default)]
pub enum Stdio {
    /// `/dev/null`.
    #[default]
    Null,
    Descriptor(OwnedFd),
}

/// The PID namespace of a child.
#[derive(Debug, Default)]
pub(crate) enum PidNamespace {
    /// PID 1's.
    #[default]
    Own,
    /// A new one, in which it is the first process.
    New,
    /// An open `/proc/PID/ns/pid`.
    Of(OwnedFd),
}

/// The terminal that controls the session of a child.
#[derive(Debug, Default)]
pub(crate) struct ControllingTerminal {
    /// For messages. Empty: it was made for the child.
    pub(crate) path: String,
    /// It is taken from another session.
    pub(crate) force: bool,
}

/// A user by number, with exactly these supplementary groups.
#[derive(Debug)]
pub(crate) struct Ids {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
}

/// A child to be made by [`Processes::spawn`](crate::Processes::spawn).
///
/// Without more than a program it gets: no arguments, an empty environment, `/dev/null` three times, a session of its
/// own, the root directory, umask 022, default signals and limits, and PID 1's own user and capabilities.
#[derive(Debug, Default)]
pub struct Command {
    pub(crate) program: Program,
    pub(crate) argv: Vec<CString>,
    pub(crate) environment: Vec<CString>,
    pub(crate) working_directory: CString,
    pub(crate) stdin: Stdio,
    pub(crate) stdout: Stdio,
    pub(crate) stderr: Stdio,
    /// `stdout` and `stderr` are pipes made for this child: they become this user's and group's.
    pub(crate) pipe_owner: Option<(u32, u32)>,
    /// `stdin` is such a pipe too, and not a FIFO of others.
    pub(crate) has_own_stdin: bool,
    /// `stdin` is the terminal that is to control its session.
    pub(crate) terminal: Option<ControllingTerminal>,
    pub(crate) descriptors: Vec<(OwnedFd, i32)>,
    /// The child finds its own PID in `LISTEN_PID`: descriptors were passed to it, and not to a child of its own.
    pub(crate) listen_pid: bool,
    pub(crate) credentials: Option<Ids>,
    pub(crate) limits: Vec<ResourceLimit>,
    pub(crate) attributes: Attributes,
    pub(crate) no_new_privileges: bool,
    pub(crate) read_only_root: bool,
    pub(crate) bounding: Option<u64>,
    pub(crate) ambient: u64,
    pub(crate) seccomp: Option<Arc<Filter>>,
    /// One more filter, installed after that one: instructions as they are in memory. Empty: none.
    pub(crate) own_filter: Vec<u64>,
    pub(crate) pid_namespace: PidNamespace,
    /// The network namespace that it enters.
    pub(crate) network: Option<Arc<OwnedFd>>,
    /// The mount namespace that it enters.
    pub(crate) mounts: Option<Arc<OwnedFd>>,
    /// The user namespace that it enters.
    pub(crate) users: Option<Arc<OwnedFd>>,
    /// The program that guards the devices of its cgroup.
    pub(crate) devices: Option<Arc<OwnedFd>>,
    /// Spared by the kernel where memory is short, as long as there are others.
    pub(crate) spared: bool,
    pub(crate) cgroup: Option<Arc<OwnedFd>>,
    pub(crate) cgroup_name: String,
    pub(crate) deadline: Duration,
    /// Number of the service and of its run, for the spawn record.
    pub(crate) owner: (u32, u64),
    /// Dropped when no spawner works on the start any more, also long after it was given up; given the child where that
    /// runs its program by then.
    pub(crate) done: Option<oneshot::Sender<Child>>,
    /// The part of the command that holds a NUL byte.
    pub(crate) invalid: Option<&'static str>,
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
        Command { program, working_directory: c"/".to_owned(), deadline: DEADLINE, ..Command::default() }
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
    pub fn env(mut self, name: &str, value: impl AsRef<[u8]>) -> Command {
        let value = value.as_ref();
        // With room for the NUL at its end.
        let mut entry = Vec::with_capacity(name.len().saturating_add(value.len()).saturating_add(2));
        entry.extend_from_slice(name.as_bytes());
        entry.push(b'=');
        entry.extend_from_slice(value);
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

    /// The value of a variable that was set.
    pub(crate) fn variable(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.environment.iter().find_map(|entry| {
            let value = entry.to_bytes().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(Cow::Borrowed(value))
        })
    }

    pub fn working_directory(mut self, path: impl Into<Vec<u8>>) -> Command {
        self.working_directory = self.text("the working directory", path);
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

    /// The nice value and the CPUs of these alone: what another program keeps that it becomes.
    pub(crate) fn scheduled(mut self, attributes: &Attributes) -> Command {
        self.attributes.nice = attributes.nice;
        self.attributes.cpus.clone_from(&attributes.cpus);
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
        self.network = Some(Arc::new(namespace));
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

    /// Sets the service and the run that the child belongs to. The spawn record names them while it is made.
    pub fn owner(mut self, service: u32, run: u64) -> Command {
        self.owner = (service, run);
        self
    }

    /// The names that an error shows, kept beside the command.
    pub(crate) fn subject(&self) -> Subject {
        let program = match &self.program {
            Program::Path(path) => path.to_string_lossy(),
            Program::Descriptor(_) => {
                self.argv.first().map(|name| name.to_string_lossy()).unwrap_or_default()
            }
        };
        Subject {
            program: program.into_owned(),
            directory: self.working_directory.to_string_lossy().into_owned(),
            uid: self.credentials.as_ref().map_or(0, |ids| ids.uid),
            gid: self.credentials.as_ref().map_or(0, |ids| ids.gid),
            cgroup: self.cgroup_name.clone(),
            terminal: self.terminal.as_ref().map(|terminal| terminal.path.clone()).unwrap_or_default(),
            limits: self.limits.clone(),
        }
    }
}
