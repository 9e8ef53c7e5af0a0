//! Children that this incarnation of PID 1 did not make: an earlier one did, and `execve` keeps them.
//!
//! A PID alone proves nothing. It must be that of a child of ours, ended or not, and the process must have started when
//! the recorded one did. Both are asked under the lock of the reaper, where no child's number can change hands.

use std::sync::Arc;

use kelson_sys::{lock, pidfd, process};
use nix::errno::Errno;

use super::child::{Child, ExitCell};
use super::shared::{Processes, State};
use crate::runner::RunnerError;

impl Processes {
    /// Takes over a child that an earlier incarnation of PID 1 made: its exit is reaped for this owner, also where it
    /// ended meanwhile. `None`: there is no such child of ours; what has its PID is a stranger.
    ///
    /// A child that has ended is there until it is reaped: adopt, or [`hold`](Processes::hold), before the first
    /// [`reap`](Processes::reap) of this incarnation.
    ///
    /// # Errors
    /// When it cannot be found out, as no descriptor is free.
    pub fn adopt(&self, pid: i32, start_time: u64) -> Result<Option<Child>, RunnerError> {
        let mut state = lock(&self.shared.state);
        let held = state.held.iter().position(|child| (child.pid, child.start_time) == (pid, start_time));
        match held {
            Some(at) => Ok(Some(state.held.swap_remove(at))),
            None => state.take_over(pid, start_time),
        }
    }

    /// Keeps the status of a child that an earlier incarnation made for who adopts it later, however early it is
    /// reaped. Returns whether there is such a child.
    ///
    /// # Errors
    /// As [`Processes::adopt`].
    pub fn hold(&self, pid: i32, start_time: u64) -> Result<bool, RunnerError> {
        let mut state = lock(&self.shared.state);
        let child = state.take_over(pid, start_time)?;
        let found = child.is_some();
        state.held.extend(child);
        Ok(found)
    }

    /// When a child of this process was started, be it ended or not. `None`: it is no child of ours.
    pub fn child_started(&self, pid: i32) -> Option<u64> {
        is_child(pid).then(|| process::start_time(pid)).flatten()
    }
}

impl State {
    fn take_over(&mut self, pid: i32, started: u64) -> Result<Option<Child>, RunnerError> {
        // One that this incarnation made has its owner.
        if self.children.contains_key(&pid) || !is_child(pid) {
            return Ok(None);
        }
        let cannot = |error| RunnerError::system(format_args!("cannot watch process {pid}"), &error);
        if process::started(pid).map_err(cannot)? != Some(started) {
            return Ok(None);
        }
        let pidfd = pidfd::open(pid).map_err(cannot)?;
        Ok(pidfd.map(|pidfd| {
            let cell = Arc::new(ExitCell::default());
            self.children.insert(pid, Some(Arc::clone(&cell)));
            Child { pid, pidfd, start_time: started, exit: cell.receiver(None) }
        }))
    }
}

/// Whether this is a child of ours that has not been reaped. It is left as it is.
fn is_child(pid: i32) -> bool {
    let Ok(id) = libc::id_t::try_from(pid) else { return false };
    if id == 0 {
        return false;
    }
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: siginfo_t is plain data, for which zeroes are valid; waitid fills it.
    let asked = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_PID, id, &raw mut info, flags)
    };
    Errno::result(asked).is_ok()
}
