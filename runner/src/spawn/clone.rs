//! The clone itself: straight into the cgroup where the kernel can, and what to do where it cannot.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed, Ordering::SeqCst};

use super::child;
use super::control::NO_PIDFD;
use super::plan::Plan;
use super::stack::ChildStack;
use super::sys::{SysResult, clone_onto};

/// The features that this kernel (or the filter that we run under) refused once and will refuse again.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    clone3: AtomicBool,
}

const SHARED: i32 = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PARENT_SETTID;

/// Makes the child of `plan` and returns once it has executed its program or ended. The kernel writes its PID to
/// `pid`, and its pidfd to `pidfd` where it can, before the child runs.
///
/// # Errors
/// errno of the clone.
pub(crate) fn clone(
    plan: &mut Plan,
    stack: &mut ChildStack,
    refused: &Refused,
    pid: &AtomicI32,
    pidfd: &AtomicI32,
) -> SysResult {
    if !refused.clone3.load(Relaxed) {
        let mut result = clone3(plan, stack, pid, pidfd, plan.cgroup_fd);
        if plan.cgroup_fd >= 0 && result.is_err_and(may_be_the_cgroup) {
            plan.join_cgroup = true;
            // The folder of the cgroup may stand anywhere in the table.
            plan.table_end = None;
            result = clone3(plan, stack, pid, pidfd, -1);
        }
        match result {
            // Not known, or filtered away (container runtimes answer ENOSYS or EPERM).
            Err(libc::ENOSYS | libc::EPERM | libc::EINVAL | libc::E2BIG) => {}
            other => return other,
        }
    }
    plan.join_cgroup = plan.cgroup_fd >= 0;
    if plan.join_cgroup {
        plan.table_end = None;
    }
    plan.reset_all_signals = true;
    let result = clone2(plan, stack, pid);
    if result.is_ok() {
        refused.clone3.store(true, Relaxed);
    }
    result
}

/// Then the child tries to enter by itself: either it can, or the error is its own.
fn may_be_the_cgroup(errno: i32) -> bool {
    !matches!(errno, libc::ENOSYS | libc::EAGAIN | libc::ENOMEM)
}

fn clone3(
    plan: &mut Plan,
    stack: &mut ChildStack,
    pid: &AtomicI32,
    pidfd: &AtomicI32,
    cgroup: RawFd,
) -> SysResult {
    let clear_handlers: u64 = 0x1_0000_0000;
    let into_cgroup: u64 = 0x2_0000_0000;
    let shared = SHARED | libc::CLONE_PIDFD | share_table(plan) | plan.new_namespaces;
    let mut flags = u64::from(shared.cast_unsigned()) | clear_handlers;
    if cgroup >= 0 {
        flags |= into_cgroup;
    }
    let args = libc::clone_args {
        flags,
        pidfd: word(pidfd.as_ptr().addr()),
        child_tid: 0,
        parent_tid: word(pid.as_ptr().addr()),
        exit_signal: u64::from(libc::SIGCHLD.cast_unsigned()),
        stack: word(stack.bottom()),
        stack_size: word(stack.size()),
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: u64::from(cgroup.max(0).cast_unsigned()),
    };
    let address = std::ptr::from_ref(&args).addr();
    // SAFETY: the stack is this thread's to lend (`&mut`), CLONE_VFORK keeps it and the plan alive until the child
    // has executed or ended; pid and pidfd are ints that outlive the call.
    let result = unsafe {
        clone_onto(
            libc::SYS_clone3,
            [address, size_of::<libc::clone_args>(), 0, 0, 0],
            child::main,
            std::ptr::from_mut(plan).cast(),
        )
    };
    if result.is_err() {
        // The kernel writes the number before it asks the child's cgroup whether there is a place for it. Where there is
        // none it has closed the descriptor again, and the number is soon another's.
        pidfd.store(NO_PIDFD, SeqCst);
    }
    result
}

/// `clone`, which knows neither cgroups nor a pidfd beside the PID; the parent opens the pidfd.
fn clone2(plan: &mut Plan, stack: &mut ChildStack, pid: &AtomicI32) -> SysResult {
    let flags = (SHARED | share_table(plan) | plan.new_namespaces | libc::SIGCHLD).cast_unsigned() as usize;
    let top = stack.bottom().saturating_add(stack.size());
    // SAFETY: as in `clone3`.
    unsafe {
        clone_onto(
            libc::SYS_clone,
            [flags, top, pid.as_ptr().addr(), 0, 0],
            child::main,
            std::ptr::from_mut(plan).cast(),
        )
    }
}

fn share_table(plan: &Plan) -> i32 {
    if plan.table_end.is_some() { libc::CLONE_FILES } else { 0 }
}

fn word(value: usize) -> u64 {
    value as u64
}
