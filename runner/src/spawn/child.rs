//! The steps of the child between clone and exec.
//!
//! The rule of this file: no allocation, no lock, nothing of libc, nothing that can panic. The memory is PID 1's own;
//! the stack is borrowed; only the raw calls of [`super::sys`] are made. Each step is written to the parent before it
//! is tried, so that a start that hangs can be named as well as one that fails.

mod calls;
mod credentials;

use std::convert::Infallible;
use std::ffi::{CStr, c_char, c_void};
use std::os::fd::RawFd;

use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::Attributes;

use super::plan::{LISTEN_PID, Plan};
use super::sys::{SET_IO_FLUSHER, exit, syscall};
use super::{Step, control::Control};
use calls::{address, call, descriptor, prctl, signed, wide};
use credentials::{credentials, enter_users};

/// Whether this build starts services with sockets and users of their own.
const UNITS: bool = OWN.has(Feature::Units);

/// The kernel's `struct sigaction`, all zero: the default action, no flags, an empty mask.
const DEFAULT_ACTION: [u64; 4] = [0; 4];
/// Bytes of the kernel's `sigset_t`.
const SIGSET_SIZE: usize = 8;
/// `TIOCSCTTY`, whose type differs from one C library to the next. Without its argument it takes no terminal that
/// controls another session.
const SET_CONTROLLING_TERMINAL: usize = 0x540e;
/// Where the child begins, on its own stack. `argument` is its [`Plan`].
pub(crate) extern "C" fn main(argument: *mut c_void) -> ! {
    // SAFETY: the parent passes its Plan and is suspended until this process executes or ends.
    let plan = unsafe { &mut *argument.cast::<Plan>() };
    match steps(plan) {
        Err(errno) => plan.control.fail(errno),
        Ok(never) => match never {},
    }
    exit(127)
}

fn steps(plan: &mut Plan) -> Result<Infallible, i32> {
    // Before anything that opens or closes: the table is PID 1's own until then.
    if let Some(end) = plan.table_end {
        plan.control.enter(Step::Table);
        let flags = wide(libc::CLOSE_RANGE_UNSHARE);
        call(libc::SYS_close_range, [signed(end), wide(u32::MAX), flags, 0, 0])?;
    }
    if plan.join_cgroup {
        plan.control.enter(Step::Cgroup);
        join_cgroup(plan.cgroup_fd)?;
    }
    if plan.network_fd >= 0 {
        plan.control.enter(Step::Network);
        call(libc::SYS_setns, [signed(plan.network_fd), signed(libc::CLONE_NEWNET), 0, 0, 0])?;
    }
    plan.control.enter(Step::Session);
    call(libc::SYS_setsid, [0; 5])?;
    call(libc::SYS_umask, [wide(plan.command.attributes.umask), 0, 0, 0, 0])?;
    plan.control.enter(Step::Descriptors);
    descriptors(plan)?;
    if UNITS && !plan.listen_pid.is_empty() {
        let pid = call(libc::SYS_getpid, [0; 5])?;
        write_number(plan.listen_pid.iter_mut().skip(LISTEN_PID.len()), pid);
    }
    if let Some(terminal) = &plan.command.terminal {
        plan.control.enter(Step::Terminal);
        call(libc::SYS_ioctl, [0, SET_CONTROLLING_TERMINAL, usize::from(terminal.force), 0, 0])?;
    }
    plan.control.enter(Step::Limits);
    limits(plan)?;
    if !plan.oom_score.is_empty() {
        plan.control.enter(Step::OomScore);
        let written = write_file(libc::AT_FDCWD, c"/proc/self/oom_score_adj", &plan.oom_score);
        // At the machine's end /proc may be gone, and then who unmounts it is spared as PID 1 is.
        if !plan.command.spared {
            written?;
        }
        // Of a PID 1 that protects itself a child inherits that it gets memory without input and output, too
        // (`init/src/swap.rs`). A kernel before 5.6 knows no such thing.
        let _ = prctl(SET_IO_FLUSHER, 0, 0);
    }
    schedule(plan)?;
    // Only now: in the view of a service /proc may be read-only.
    if plan.mounts_fd >= 0 {
        plan.control.enter(Step::FileView);
        call(libc::SYS_setns, [signed(plan.mounts_fd), signed(libc::CLONE_NEWNS), 0, 0, 0])?;
    }
    if plan.command.read_only_root {
        plan.control.enter(Step::ReadOnlyRoot);
        read_only_root(plan.later_mounts)?;
    }
    plan.control.enter(Step::WorkingDirectory);
    call(libc::SYS_chdir, [plan.command.working_directory.as_ptr().addr(), 0, 0, 0, 0])?;
    if UNITS && plan.users_fd >= 0 {
        enter_users(plan)?;
    }
    if plan.command.no_new_privileges {
        plan.control.enter(Step::NoNewPrivileges);
        prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0)?;
    } else {
        // Without no_new_privs only who holds CAP_SYS_ADMIN may install a filter: before it is given up.
        seccomp(plan)?;
    }
    credentials(plan)?;
    plan.control.enter(Step::Signals);
    signals(plan)?;
    let mask = plan.signal_mask;
    // SAFETY: the set lives on this stack and has the kernel's size.
    unsafe {
        let how = signed(libc::SIG_SETMASK);
        syscall(libc::SYS_rt_sigprocmask, [how, address(&mask), 0, SIGSET_SIZE, 0])?;
    }
    if plan.command.no_new_privileges {
        // The last step: the filter need not allow what is done before.
        seccomp(plan)?;
    }
    plan.control.enter(Step::Execute);
    if plan.control.is_cancelled() {
        return Err(libc::ECANCELED);
    }
    execute(plan)
}

/// Writes it in decimal digits, from the first of the bytes on; those that are left stay as they are.
fn write_number<'a>(bytes: impl Iterator<Item = &'a mut u8>, number: usize) {
    let mut power = 1_usize;
    while number.checked_div(power).unwrap_or_default() > 9 {
        power = power.saturating_mul(10);
    }
    for byte in bytes {
        let digit = number.checked_div(power).and_then(|digits| digits.checked_rem(10)).unwrap_or_default();
        *byte = b'0'.wrapping_add(digit.to_le_bytes().first().copied().unwrap_or_default());
        power = power.checked_div(10).unwrap_or_default();
        if power == 0 {
            return;
        }
    }
}

fn write_file(directory: RawFd, path: &CStr, bytes: &[u8]) -> Result<(), i32> {
    let flags = signed(libc::O_WRONLY | libc::O_CLOEXEC);
    let fd = call(libc::SYS_openat, [signed(directory), path.as_ptr().addr(), flags, 0, 0])?;
    let written = call(libc::SYS_write, [fd, bytes.as_ptr().addr(), bytes.len(), 0, 0]);
    call(libc::SYS_close, [fd, 0, 0, 0, 0])?;
    written.map(|_| ())
}

fn join_cgroup(directory: RawFd) -> Result<(), i32> {
    write_file(directory, c"cgroup.procs", b"0")
}

/// All of PID 1's descriptors are marked to close; then each that the service gets is put at its number. A source
/// that stands at or below the highest number is first moved above it, so that none overwrites another.
fn descriptors(plan: &mut Plan) -> Result<(), i32> {
    close_from_three()?;
    let highest = plan.moves.iter().map(|each| each.target).max().unwrap_or(2).max(2);
    let above = highest.saturating_add(1);
    let control: &Control = &plan.control;
    let lift = |fd: RawFd| -> Result<RawFd, i32> {
        if fd > highest {
            return Ok(fd);
        }
        let command = signed(libc::F_DUPFD_CLOEXEC);
        let lifted = call(libc::SYS_fcntl, [signed(fd), command, signed(above), 0, 0]);
        // Refused where the highest number is beyond the limit.
        lifted.map(descriptor).inspect_err(|_| control.set_detail(highest.cast_unsigned()))
    };
    for each in &mut plan.moves {
        each.staged = lift(each.source)?;
    }
    if plan.exec_fd >= 0 {
        plan.exec_fd = lift(plan.exec_fd)?;
    }
    for namespace in [&mut plan.mounts_fd, &mut plan.users_fd] {
        if UNITS && *namespace >= 0 {
            *namespace = lift(*namespace)?;
        }
    }
    for each in &plan.moves {
        control.set_detail(each.target.cast_unsigned());
        call(libc::SYS_dup3, [signed(each.staged), signed(each.target), 0, 0, 0])?;
    }
    Ok(())
}

fn close_from_three() -> Result<(), i32> {
    let flags = wide(libc::CLOSE_RANGE_CLOEXEC);
    match call(libc::SYS_close_range, [3, wide(u32::MAX), flags, 0, 0]) {
        // Before Linux 5.11: one by one, up to where PID 1 never has any.
        Err(libc::ENOSYS | libc::EINVAL) => {
            for fd in 3..65_536 {
                let _ = call(libc::SYS_fcntl, [fd, signed(libc::F_SETFD), signed(libc::FD_CLOEXEC), 0, 0]);
            }
            Ok(())
        }
        other => other.map(|_| ()),
    }
}

fn limits(plan: &Plan) -> Result<(), i32> {
    for (resource, limit) in &plan.limits {
        plan.control.set_detail(*resource);
        call(libc::SYS_prlimit64, [0, wide(*resource), address(limit), 0, 0])?;
    }
    Ok(())
}

/// Its share of the CPUs, and those on which it may run.
fn schedule(plan: &Plan) -> Result<(), i32> {
    let Attributes { nice, cpus, .. } = &plan.command.attributes;
    if let Some(nice) = *nice {
        plan.control.enter(Step::Nice);
        // PRIO_PROCESS, and this process.
        call(libc::SYS_setpriority, [0, 0, signed(nice.into()), 0, 0])?;
    }
    if !cpus.is_empty() {
        plan.control.enter(Step::Cpus);
        call(libc::SYS_sched_setaffinity, [0, size_of_val(cpus.as_slice()), cpus.as_ptr().addr(), 0, 0])?;
    }
    Ok(())
}

/// A mount namespace of its own, in which everything is read-only. Mounts that are made or removed later still arrive
/// there (slave): a namespace that kept a disk mounted would keep it from being unmounted. The kernel has them arrive
/// with the attributes that they have on the machine, and PID 1 has them made read-only; where it could not find the
/// namespace, none arrives.
fn read_only_root(later_mounts: bool) -> Result<(), i32> {
    let root = c"/".as_ptr().addr();
    call(libc::SYS_unshare, [signed(libc::CLONE_NEWNS), 0, 0, 0, 0])?;
    let kind = if later_mounts { libc::MS_SLAVE } else { libc::MS_PRIVATE };
    let propagation = usize::try_from(libc::MS_REC | kind).map_err(|_| libc::EINVAL)?;
    call(libc::SYS_mount, [0, root, 0, propagation, 0])?;
    // struct mount_attr: attr_set, attr_clr, propagation, userns_fd.
    let attributes: [u64; 4] = [libc::MOUNT_ATTR_RDONLY, 0, 0, 0];
    let recursive = signed(libc::AT_RECURSIVE);
    let at = signed(libc::AT_FDCWD);
    call(libc::SYS_mount_setattr, [at, root, recursive, address(&attributes), size_of_val(&attributes)])?;
    Ok(())
}

fn seccomp(plan: &Plan) -> Result<(), i32> {
    // The default profile allows to install one more.
    for program in [&plan.seccomp, &plan.own_filter].into_iter().flatten() {
        plan.control.enter(Step::Seccomp);
        call(libc::SYS_seccomp, [wide(libc::SECCOMP_SET_MODE_FILTER), 0, address(program), 0, 0])?;
    }
    Ok(())
}

fn signals(plan: &Plan) -> Result<(), i32> {
    for signal in 1..=64u32 {
        let ignored = plan.ignored & 1u64.wrapping_shl(signal.wrapping_sub(1)) != 0;
        if (ignored || plan.reset_all_signals) && !matches!(signal, 9 | 19) {
            call(libc::SYS_rt_sigaction, [wide(signal), address(&DEFAULT_ACTION), 0, SIGSET_SIZE, 0])?;
        }
    }
    Ok(())
}

fn execute(plan: &Plan) -> Result<Infallible, i32> {
    let (argv, envp) = (plan.argv.as_ptr().addr(), plan.envp.as_ptr().addr());
    if plan.exec_fd >= 0 {
        let (path, flags) = (c"".as_ptr().addr(), signed(libc::AT_EMPTY_PATH));
        let args = [signed(plan.exec_fd), path, argv, envp, flags];
        return Err(call(libc::SYS_execveat, args).err().unwrap_or(libc::EIO));
    }
    let mut error = libc::ENOENT;
    for candidate in &plan.candidates {
        let path: *const c_char = *candidate;
        match call(libc::SYS_execve, [path.addr(), argv, envp, 0, 0]) {
            Err(libc::EACCES) => error = libc::EACCES,
            // Not there: look on, as execvp does.
            Err(libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT)
                if plan.candidates.len() > 1 => {}
            Err(errno) => return Err(errno),
            Ok(_) => return Err(libc::EIO),
        }
    }
    Err(error)
}
