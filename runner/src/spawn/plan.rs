//! A [`Command`] made ready for the child: plain pointers and numbers, so that nothing allocates after the clone.

use std::ffi::{CStr, CString, c_char};
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::{Arc, OnceLock};

use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::ResourceLimit;
use libc::{dev_t, ino_t};
use nix::sys::stat::fstat;
use nix::unistd::{Gid, Uid, fchown};

use super::control::Control;
use super::error::SpawnError;
use super::window::Window;
use crate::command::{Command, DEFAULT_PATH, PidNamespace, Program, Stdio};
use crate::runner::RunnerError;

/// `oom_score_adj` of what PID 1 cannot do without. Not the very last to be ended, should it be what eats the memory.
const SPARED: i16 = -900;

/// The resources that every child is given or must not inherit.
#[derive(Debug)]
pub(crate) struct Inheritance {
    pub(crate) limits: Vec<ResourceLimit>,
    pub(crate) signal_mask: u64,
    pub(crate) oom_score: Option<i16>,
    /// Signals that this process ignores; a child would go on ignoring them.
    pub(crate) ignored: u64,
    /// Later mounts arrive in mount namespaces of children: by their cgroups those can be found.
    pub(crate) later_mounts: bool,
    /// What PID 1's own standard output and error are.
    pub(crate) own_output: Vec<(dev_t, ino_t)>,
    pub(crate) null: OnceLock<Arc<OwnedFd>>,
}

impl Inheritance {
    /// For [`Self::own_output`].
    pub(crate) fn own_output() -> Vec<(dev_t, ino_t)> {
        let both = [fstat(std::io::stdout()), fstat(std::io::stderr())];
        both.into_iter().flatten().map(|stat| (stat.st_dev, stat.st_ino)).collect()
    }

    /// `/dev/null`, opened once.
    pub(crate) fn null(&self) -> Result<Arc<OwnedFd>, SpawnError> {
        if let Some(null) = self.null.get() {
            return Ok(Arc::clone(null));
        }
        match File::options().read(true).write(true).open("/dev/null") {
            Ok(file) => Ok(Arc::clone(self.null.get_or_init(|| Arc::new(file.into())))),
            Err(error) => {
                let error = RunnerError::system("cannot open /dev/null", &error);
                Err(SpawnError::prepare(error.message, error.errno))
            }
        }
    }
}

/// One descriptor of the child: where it comes from, where it is kept meanwhile, its number in the service.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Move {
    pub(crate) source: RawFd,
    pub(crate) staged: RawFd,
    pub(crate) target: RawFd,
}

/// Everything that the child reads, and the owners of what its pointers point to.
pub(crate) struct Plan {
    pub(crate) control: Arc<Control>,
    /// Owns what the pointers and numbers below name.
    pub(crate) command: Command,
    /// Tried one after the other; ends with the best error, as `execvp` does.
    pub(crate) candidates: Vec<*const c_char>,
    /// Executed instead of the candidates; -1: none.
    pub(crate) exec_fd: RawFd,
    pub(crate) argv: Vec<*const c_char>,
    pub(crate) envp: Vec<*const c_char>,
    /// A variable of the environment that the child writes itself: `LISTEN_PID=`, with room for digits and a NUL. Empty:
    /// there is none.
    pub(crate) listen_pid: Vec<u8>,
    /// -1: none.
    pub(crate) cgroup_fd: RawFd,
    /// `CLONE_NEW*`: the namespaces that the clone makes.
    pub(crate) new_namespaces: i32,
    /// -1: PID 1's own.
    pub(crate) network_fd: RawFd,
    /// -1: PID 1's own.
    pub(crate) mounts_fd: RawFd,
    /// -1: PID 1's own.
    pub(crate) users_fd: RawFd,
    /// The kernel could not clone straight into the cgroup.
    pub(crate) join_cgroup: bool,
    pub(crate) moves: Vec<Move>,
    pub(crate) limits: Vec<(u32, libc::rlimit64)>,
    /// Empty: left as PID 1's.
    pub(crate) oom_score: Vec<u8>,
    pub(crate) later_mounts: bool,
    pub(crate) seccomp: Option<libc::sock_fprog>,
    pub(crate) own_filter: Option<libc::sock_fprog>,
    /// Signals that PID 1 ignores: set back to their default.
    pub(crate) ignored: u64,
    /// Handlers of PID 1 are not cleared by the clone itself.
    pub(crate) reset_all_signals: bool,
    pub(crate) signal_mask: u64,
    /// The child shares PID 1's table of descriptors and first takes a copy of the numbers below this one.
    pub(crate) table_end: Option<RawFd>,
    /// Owners of candidates that were looked up.
    _paths: Vec<CString>,
    _null: Option<Arc<OwnedFd>>,
}

impl Plan {
    /// # Errors
    /// When a string of the command holds a NUL byte or it needs `/dev/null` and there is none.
    pub(crate) fn new(
        command: Command,
        control: Arc<Control>,
        inheritance: &Inheritance,
    ) -> Result<Plan, SpawnError> {
        if let Some(what) = command.invalid {
            return Err(SpawnError::prepare(format!("{what} holds a NUL byte"), Some(libc::EINVAL)));
        }
        let mut moves = Vec::with_capacity(command.descriptors.len().saturating_add(3));
        let mut null = None;
        for (stdio, target) in [(&command.stdin, 0), (&command.stdout, 1), (&command.stderr, 2)] {
            let source = match stdio {
                Stdio::Null => null.insert(inheritance.null()?).as_raw_fd(),
                Stdio::Descriptor(fd) => {
                    if let Some(owner) = command.pipe_owner.filter(|_| target > 0 || command.has_own_stdin) {
                        hand_over(fd, owner, &inheritance.own_output);
                    }
                    fd.as_raw_fd()
                }
            };
            moves.push(Move { source, staged: source, target });
        }
        for (fd, target) in &command.descriptors {
            if *target < 0 {
                let text = format!("{target} is no number for a descriptor");
                return Err(SpawnError::prepare(text, Some(libc::EBADF)));
            }
            moves.push(Move { source: fd.as_raw_fd(), staged: fd.as_raw_fd(), target: *target });
        }
        let (mut candidates, mut paths, mut exec_fd) = (Vec::new(), Vec::new(), -1);
        match &command.program {
            Program::Path(path) if path.to_bytes().contains(&b'/') => candidates.push(path.as_ptr()),
            Program::Path(name) => {
                paths = search_path(name, &command.environment);
                candidates.extend(paths.iter().map(|path| path.as_ptr()));
            }
            Program::Descriptor(fd) => exec_fd = fd.as_raw_fd(),
        }
        let mut listen_pid = match const { OWN.has(Feature::Units) } && command.listen_pid {
            true => [LISTEN_PID, &[0; DIGITS]].concat(),
            false => Vec::new(),
        };
        let mut envp = pointers(&command.environment);
        if !listen_pid.is_empty() {
            envp.insert(0, listen_pid.as_mut_ptr().cast_const().cast());
        }
        let limits = inheritance.limits.iter().chain(&command.limits);
        let limits = limits.map(|l| (l.resource, libc::rlimit64 { rlim_cur: l.soft, rlim_max: l.hard }));
        let usual = inheritance.oom_score.map(|usual| if command.spared { SPARED } else { usual });
        let oom_score = command.attributes.oom_score.or(usual);
        Ok(Plan {
            control,
            candidates,
            exec_fd,
            argv: pointers(&command.argv),
            envp,
            listen_pid,
            cgroup_fd: command.cgroup.as_ref().map_or(-1, |fd| fd.as_raw_fd()),
            new_namespaces: match command.pid_namespace {
                PidNamespace::New => libc::CLONE_NEWPID,
                // The thread that clones has entered it.
                PidNamespace::Own | PidNamespace::Of(_) => 0,
            },
            network_fd: command.network.as_ref().map_or(-1, |fd| fd.as_raw_fd()),
            mounts_fd: command.mounts.as_ref().map_or(-1, |fd| fd.as_raw_fd()),
            users_fd: command.users.as_ref().map_or(-1, |fd| fd.as_raw_fd()),
            join_cgroup: false,
            moves,
            limits: limits.collect(),
            oom_score: oom_score.map(|score| score.to_string().into_bytes()).unwrap_or_default(),
            later_mounts: inheritance.later_mounts,
            seccomp: command.seccomp.as_ref().map(|filter| filter.as_fprog()),
            own_filter: own_filter(&command.own_filter),
            ignored: inheritance.ignored,
            reset_all_signals: false,
            signal_mask: inheritance.signal_mask,
            table_end: None,
            command,
            _paths: paths,
            _null: null,
        })
    }

    /// Puts what the child needs into the window, so that it need not copy the whole table; leaves the plan as it is
    /// where there is too much of it. The window is to be cleared after the clone.
    pub(crate) fn stage(&mut self, window: &mut Window) {
        let single = [self.exec_fd, self.network_fd, self.mounts_fd, self.users_fd];
        let wanted = single.into_iter().filter(|fd| *fd >= 0);
        let sources = self.moves.iter().map(|each| each.source).chain(wanted);
        // SAFETY: the plan owns what it names, and lives as long as the borrow.
        let sources = sources.map(|source| unsafe { BorrowedFd::borrow_raw(source) });
        let held: Option<Vec<RawFd>> = sources.map(|source| window.hold(source)).collect();
        let Some(held) = held else { return };
        let singles = [&mut self.exec_fd, &mut self.network_fd, &mut self.mounts_fd, &mut self.users_fd];
        let singles = singles.into_iter().filter(|fd| **fd >= 0);
        let places = self.moves.iter_mut().map(|each| &mut each.source).chain(singles);
        for (place, number) in places.zip(held) {
            *place = number;
        }
        self.table_end = Some(window.end());
    }
}

/// The beginning of the variable that the child ends with its PID.
pub(crate) const LISTEN_PID: &[u8] = b"LISTEN_PID=";
/// The digits of a PID, and a NUL.
const DIGITS: usize = 11;

/// Gives a pipe to the user of the service, as opening `/dev/stdout` opens it again, which only its owner may. Nothing
/// but a pipe, and not PID 1's own output (`logs: {stdout: only}`); where this process may not (it lacks the capability)
/// the service writes to the open one all the same.
fn hand_over(pipe: &OwnedFd, (uid, gid): (u32, u32), own_output: &[(dev_t, ino_t)]) {
    if let Ok(stat) = fstat(pipe)
        && stat.st_mode & libc::S_IFMT == libc::S_IFIFO
        && !own_output.contains(&(stat.st_dev, stat.st_ino))
        && let Err(errno) = fchown(pipe, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))
    {
        tracing::debug!("cannot give a pipe of the log to user {uid}: {errno}");
    }
}

/// The kernel's form of instructions, which have its layout on a machine whose lowest byte comes first.
fn own_filter(instructions: &[u64]) -> Option<libc::sock_fprog> {
    let len = u16::try_from(instructions.len()).unwrap_or(u16::MAX);
    let filter = instructions.as_ptr().cast::<libc::sock_filter>().cast_mut();
    (len > 0).then_some(libc::sock_fprog { len, filter })
}

/// The strings' addresses and a null at the end. They stay right when the strings' owner moves.
fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// The paths that a bare name stands for: one for each entry of the service's own `PATH`.
pub fn search_path(name: &CStr, environment: &[CString]) -> Vec<CString> {
    let path = environment
        .iter()
        .rev()
        .find_map(|entry| entry.to_bytes().strip_prefix(b"PATH="))
        .unwrap_or(DEFAULT_PATH.as_bytes());
    let join = |directory: &[u8]| {
        let directory = if directory.is_empty() { b"." } else { directory };
        // Neither part holds a NUL byte: both were C strings before.
        CString::new([directory, b"/", name.to_bytes()].concat()).ok()
    };
    path.split(|byte| *byte == b':').filter_map(join).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_name_is_looked_up_in_the_services_own_path() {
        let list = |env: &[&CStr]| {
            let env: Vec<CString> = env.iter().map(|e| CString::from(*e)).collect();
            let found = search_path(c"sh", &env);
            found.iter().map(|c| c.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(list(&[c"A=1", c"PATH=/a::/b"]), ["/a/sh", "./sh", "/b/sh"]);
        assert_eq!(list(&[]).len(), DEFAULT_PATH.split(':').count());
    }
}
