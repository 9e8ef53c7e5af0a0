//! The process at the other end of a Unix socket: who the kernel says it is, and what `/proc` says of it.
//!
//! The kernel remembers who made a connection. It may have ended since, and another process may have its number: what
//! is read of `/proc` counts only while a pidfd says that the process is still the same.

use std::fmt::Display;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use kelson_sys::{
    capability::SYS_ADMIN,
    pidfd,
    process::{self, Status},
};
use nix::errno::Errno;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::{PeerCredentials, PeerPidfd};

/// Ancestors of a process that are looked at.
const DEEPEST: usize = 128;

/// The process that made a connection.
#[derive(Debug)]
pub struct Peer {
    uid: u32,
    pid: i32,
    /// Names the process, also once its number is another's. `None`: the kernel has none, or the process has ended.
    pidfd: Option<OwnedFd>,
}

impl Peer {
    /// # Errors
    /// When it is no Unix socket.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Peer> {
        let credentials = getsockopt(&socket, PeerCredentials)?;
        let (uid, pid) = (credentials.uid(), credentials.pid());
        let pidfd = match getsockopt(&socket, PeerPidfd) {
            Ok(pidfd) => Some(pidfd),
            // Before Linux 6.5: the number may have become another process's since it connected, which takes all
            // numbers to be used up while the connection waits to be accepted.
            Err(Errno::ENOPROTOOPT) if pid > 0 => pidfd::open(pid)?,
            Err(_) => None,
        };
        Ok(Peer { uid, pid, pidfd })
    }

    /// The effective user at the time of the connection.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// `None`: a process of a PID namespace that is not below ours.
    pub fn pid(&self) -> Option<i32> {
        (self.pid > 0).then_some(self.pid)
    }

    /// Calls `read` with the number of this process, and returns its answer if the number was this process'
    /// all along.
    ///
    /// # Errors
    /// It has ended, or `read` fails.
    pub fn ask<T>(&self, read: impl FnOnce(i32) -> io::Result<T>) -> io::Result<T> {
        let ended = || io::Error::other("it has ended");
        let pidfd = self.pidfd.as_ref().ok_or_else(ended)?;
        let answer = read(self.pid);
        if pidfd::is_there(pidfd) { answer } else { Err(ended()) }
    }
}

/// The attributes that make a process as powerful as another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Power {
    /// The device and the inode that name its user namespace.
    user_namespace: (u64, u64),
    /// It holds CAP_SYS_ADMIN.
    pub administers: bool,
}

impl Power {
    /// That of this process.
    ///
    /// # Errors
    /// When there is no `/proc`.
    pub fn own() -> io::Result<Power> {
        Power::at("self")
    }

    /// That of the process with this number.
    ///
    /// # Errors
    /// When it has ended, or may not be looked at: it holds capabilities that this process lacks.
    pub fn of(pid: i32) -> io::Result<Power> {
        Power::at(pid)
    }

    fn at(pid: impl Copy + Display) -> io::Result<Power> {
        let user_namespace = process::namespace(pid, "user")?;
        let mask = Status::read(pid)?.mask("CapEff");
        let mask = mask.ok_or_else(|| io::Error::other("/proc does not say which capabilities it has"))?;
        Ok(Power { user_namespace, administers: mask & SYS_ADMIN != 0 })
    }

    pub fn same_user_namespace(&self, other: &Power) -> bool {
        self.user_namespace == other.user_namespace
    }
}

/// The process and its ancestors up to this process, which is not among them. `None`: it does not descend from this
/// process, but has entered its PID namespace from outside.
pub fn descent(pid: i32) -> Option<Vec<i32>> {
    let own = std::process::id().cast_signed();
    let mut found = Vec::new();
    let mut next = pid;
    while next != own && found.len() < DEEPEST {
        found.push(next);
        // One that has just ended is a child of ours at the most: its line ends here, with us.
        match process::parent(next) {
            Some(0) => return None,
            Some(parent) => next = parent,
            None => break,
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn this_process_is_as_powerful_as_itself() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(one.as_fd()).unwrap();
        assert_eq!(peer.pid(), Some(std::process::id().cast_signed()));
        assert_eq!(peer.uid(), nix::unistd::geteuid().as_raw());
        assert_eq!(peer.ask(Power::of).unwrap(), Power::own().unwrap());
        assert!(Peer::of(std::fs::File::open("/dev/null").unwrap().as_fd()).is_err());
    }

    #[test]
    fn one_that_has_ended_is_never_mistaken_for_another() {
        use nix::unistd::{ForkResult, fork};
        let path = std::env::temp_dir().join(format!("kelson-peer-{}", std::process::id()));
        let listener = UnixListener::bind(&path).unwrap();
        let (mut over, keep) = std::io::pipe().unwrap();
        // SAFETY: the child makes system calls and no memory of its own but for a path that it frees; then it ends.
        let child = match unsafe { fork() }.unwrap() {
            ForkResult::Parent { child } => child,
            ForkResult::Child => {
                let _connection = UnixStream::connect(&path);
                // SAFETY: as above; the grandchild holds the connection until the test is over.
                if let Ok(ForkResult::Child) = unsafe { fork() } {
                    drop(keep);
                    let _ = over.read(&mut [0]);
                }
                // SAFETY: it ends without a look at anything of the parent's.
                unsafe { libc::_exit(0) }
            }
        };
        let (stream, _) = listener.accept().unwrap();
        let peer = Peer::of(stream.as_fd()).unwrap();
        assert_eq!(peer.pid(), Some(child.as_raw()));
        nix::sys::wait::waitpid(child, None).unwrap();
        assert!(peer.ask(|_| Ok(())).is_err(), "it has ended, whoever holds the connection");
        drop(keep);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_child_descends_from_its_parent_alone() {
        let own = std::process::id().cast_signed();
        assert_eq!(descent(own), Some(Vec::new()));
        let script = "sleep 60 & echo $!; wait";
        let mut child = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = [0; 16];
        let length = child.stdout.take().unwrap().read(&mut said).unwrap();
        let below: i32 = String::from_utf8_lossy(&said[..length]).trim().parse().unwrap();
        assert_eq!(descent(below), Some(vec![below, child.id().cast_signed()]));
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(below), nix::sys::signal::SIGKILL).unwrap();
        child.wait().unwrap();
        // The first process of the namespace is nobody's descendant here.
        assert_eq!(descent(1), None);
    }
}
