//! Which calls the default profile allows, and which capability opens which more. The list is that of the container
//! runtimes, so that what runs in a container there runs here.

use std::ffi::c_long;

use super::Rule;

/// The C library's constants, and those that it lacks.
mod numbers {
    #![expect(non_upper_case_globals, reason = "they stand beside libc's")]

    pub(super) use libc::*;

    pub(super) const SYS_open_tree_attr: c_long = 467;
    #[cfg(target_arch = "x86_64")]
    pub(super) const SYS_io_pgetevents: c_long = 333;
    #[cfg(not(target_arch = "x86_64"))]
    pub(super) const SYS_io_pgetevents: c_long = 292;
}

/// The number of a call, all of which are small.
const fn small(number: c_long) -> u16 {
    let [low, high, ..] = number.to_le_bytes();
    u16::from_le_bytes([low, high])
}

/// The numbers of calls by the constants of the C library.
macro_rules! calls {
    ($($call:ident),* $(,)?) => { &[$(small(numbers::$call)),*] };
}

/// A list of calls by their numbers, and one by their names. A build that runs no containers needs no names, so no other
/// list leads to them.
macro_rules! named {
    ($numbers:ident $names:ident: $($call:ident),* $(,)?) => {
        const $numbers: &[u16] = calls![$($call),*];
        const $names: &str = concat!($(stringify!($call), " "),*);
    };
}

/// The newest call that the profile knows (`open_tree_attr`); later ones are answered as if the kernel did not have
/// them.
pub(super) const NEWEST: u32 = 467;

// Allowed on every architecture.
#[rustfmt::skip]
named![COMMON COMMON_NAMES:
    SYS_accept, SYS_accept4, SYS_adjtimex, SYS_bind, SYS_brk, SYS_capget, SYS_capset, SYS_chdir,
    SYS_clock_adjtime, SYS_clock_getres, SYS_clock_gettime, SYS_clock_nanosleep, SYS_close,
    SYS_close_range, SYS_connect, SYS_copy_file_range, SYS_dup, SYS_dup3, SYS_epoll_create1,
    SYS_epoll_ctl, SYS_epoll_pwait, SYS_epoll_pwait2, SYS_eventfd2, SYS_execve, SYS_execveat,
    SYS_exit, SYS_exit_group, SYS_faccessat, SYS_faccessat2, SYS_fadvise64, SYS_fallocate,
    SYS_fanotify_mark, SYS_fchdir, SYS_fchmod, SYS_fchmodat, SYS_fchown, SYS_fchownat, SYS_fcntl,
    SYS_fdatasync, SYS_fgetxattr, SYS_flistxattr, SYS_flock, SYS_fremovexattr, SYS_fsetxattr,
    SYS_fstat, SYS_fstatfs, SYS_fsync, SYS_ftruncate, SYS_futex, SYS_futex_waitv, SYS_getcpu,
    SYS_getcwd, SYS_getdents64, SYS_getegid, SYS_geteuid, SYS_getgid, SYS_getgroups, SYS_getitimer,
    SYS_getpeername, SYS_getpgid, SYS_getpid, SYS_getppid, SYS_getpriority, SYS_getrandom,
    SYS_getresgid, SYS_getresuid, SYS_getrlimit, SYS_get_robust_list, SYS_getrusage, SYS_getsid,
    SYS_getsockname, SYS_getsockopt, SYS_gettid, SYS_gettimeofday, SYS_getuid, SYS_getxattr,
    SYS_inotify_add_watch, SYS_inotify_init1, SYS_inotify_rm_watch, SYS_io_cancel, SYS_ioctl,
    SYS_io_destroy, SYS_io_getevents, SYS_io_pgetevents, SYS_ioprio_get, SYS_ioprio_set,
    SYS_io_setup, SYS_io_submit, SYS_kill, SYS_landlock_add_rule, SYS_landlock_create_ruleset,
    SYS_landlock_restrict_self, SYS_lgetxattr, SYS_linkat, SYS_listen, SYS_listxattr,
    SYS_llistxattr, SYS_lremovexattr, SYS_lseek, SYS_lsetxattr, SYS_madvise, SYS_membarrier,
    SYS_memfd_create, SYS_memfd_secret, SYS_mincore, SYS_mkdirat, SYS_mknodat, SYS_mlock,
    SYS_mlock2, SYS_mlockall, SYS_mmap, SYS_mprotect, SYS_mq_getsetattr, SYS_mq_notify, SYS_mq_open,
    SYS_mq_timedreceive, SYS_mq_timedsend, SYS_mq_unlink, SYS_mremap, SYS_msgctl, SYS_msgget,
    SYS_msgrcv, SYS_msgsnd, SYS_msync, SYS_munlock, SYS_munlockall, SYS_munmap,
    SYS_name_to_handle_at, SYS_nanosleep, SYS_newfstatat, SYS_openat, SYS_openat2, SYS_pidfd_open,
    SYS_pidfd_send_signal, SYS_pipe2, SYS_pkey_alloc, SYS_pkey_free, SYS_pkey_mprotect, SYS_ppoll,
    SYS_prctl, SYS_pread64, SYS_preadv, SYS_preadv2, SYS_prlimit64, SYS_process_mrelease,
    SYS_process_vm_readv, SYS_process_vm_writev, SYS_pselect6, SYS_ptrace, SYS_pwrite64,
    SYS_pwritev, SYS_pwritev2, SYS_read, SYS_readahead, SYS_readlinkat, SYS_readv, SYS_recvfrom,
    SYS_recvmmsg, SYS_recvmsg, SYS_remap_file_pages, SYS_removexattr, SYS_renameat, SYS_renameat2,
    SYS_restart_syscall, SYS_rseq, SYS_rt_sigaction, SYS_rt_sigpending, SYS_rt_sigprocmask,
    SYS_rt_sigqueueinfo, SYS_rt_sigreturn, SYS_rt_sigsuspend, SYS_rt_sigtimedwait,
    SYS_rt_tgsigqueueinfo, SYS_sched_getaffinity, SYS_sched_getattr, SYS_sched_getparam,
    SYS_sched_get_priority_max, SYS_sched_get_priority_min, SYS_sched_getscheduler,
    SYS_sched_rr_get_interval, SYS_sched_setaffinity, SYS_sched_setattr, SYS_sched_setparam,
    SYS_sched_setscheduler, SYS_sched_yield, SYS_seccomp, SYS_semctl, SYS_semget, SYS_semop,
    SYS_semtimedop, SYS_sendfile, SYS_sendmmsg, SYS_sendmsg, SYS_sendto, SYS_setfsgid, SYS_setfsuid,
    SYS_setgid, SYS_setgroups, SYS_setitimer, SYS_setpgid, SYS_setpriority, SYS_setregid,
    SYS_setresgid, SYS_setresuid, SYS_setreuid, SYS_setrlimit, SYS_set_robust_list, SYS_setsid,
    SYS_setsockopt, SYS_set_tid_address, SYS_setuid, SYS_setxattr, SYS_shmat, SYS_shmctl, SYS_shmdt,
    SYS_shmget, SYS_shutdown, SYS_sigaltstack, SYS_signalfd4, SYS_socketpair, SYS_splice,
    SYS_statfs, SYS_statx, SYS_symlinkat, SYS_sync, SYS_sync_file_range, SYS_syncfs, SYS_sysinfo,
    SYS_tee, SYS_tgkill, SYS_timer_create, SYS_timer_delete, SYS_timer_getoverrun,
    SYS_timer_gettime, SYS_timer_settime, SYS_timerfd_create, SYS_timerfd_gettime,
    SYS_timerfd_settime, SYS_times, SYS_tkill, SYS_truncate, SYS_umask, SYS_uname, SYS_unlinkat,
    SYS_utimensat, SYS_vmsplice, SYS_wait4, SYS_waitid, SYS_write, SYS_writev,
];

// Calls of which newer ones took the place; only old architectures have them.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
named![LEGACY LEGACY_NAMES:
    SYS_access, SYS_alarm, SYS_arch_prctl, SYS_chmod, SYS_chown, SYS_creat, SYS_dup2,
    SYS_epoll_create, SYS_epoll_ctl_old, SYS_epoll_wait, SYS_epoll_wait_old, SYS_eventfd, SYS_fork,
    SYS_futimesat, SYS_getdents, SYS_getpgrp, SYS_get_thread_area, SYS_inotify_init, SYS_lchown,
    SYS_link, SYS_lstat, SYS_mkdir, SYS_mknod, SYS_modify_ldt, SYS_open, SYS_pause, SYS_pipe,
    SYS_poll, SYS_readlink, SYS_rename, SYS_rmdir, SYS_select, SYS_set_thread_area, SYS_signalfd,
    SYS_stat, SYS_symlink, SYS_time, SYS_unlink, SYS_utime, SYS_utimes, SYS_vfork,
];
#[cfg(not(target_arch = "x86_64"))]
named![LEGACY LEGACY_NAMES:];

/// All that `kelson-logd` needs, its start included: files, pipes, Unix sockets, threads.
#[rustfmt::skip]
const LOGD: &[u16] = calls![
    SYS_accept4, SYS_bind, SYS_brk, SYS_capset, SYS_clock_getres, SYS_clock_gettime,
    SYS_clock_nanosleep, SYS_close, SYS_copy_file_range, SYS_dup, SYS_dup3, SYS_epoll_create1,
    SYS_epoll_ctl, SYS_epoll_pwait, SYS_epoll_pwait2, SYS_eventfd2, SYS_execve, SYS_execveat,
    SYS_exit, SYS_exit_group, SYS_faccessat, SYS_faccessat2, SYS_fallocate, SYS_fchmod,
    SYS_fchmodat, SYS_fchownat, SYS_fcntl, SYS_fdatasync, SYS_fstat, SYS_fstatfs, SYS_fsync,
    SYS_ftruncate, SYS_futex, SYS_getcwd, SYS_getdents64, SYS_getegid, SYS_geteuid, SYS_getgid,
    SYS_getpid, SYS_getpriority, SYS_getrandom, SYS_getsockname, SYS_getsockopt, SYS_gettid,
    SYS_gettimeofday, SYS_getuid, SYS_ioctl, SYS_listen, SYS_lseek, SYS_madvise, SYS_mkdirat,
    SYS_mmap, SYS_mprotect, SYS_mremap, SYS_munmap, SYS_nanosleep, SYS_newfstatat, SYS_openat,
    SYS_pipe2, SYS_ppoll, SYS_prctl, SYS_pread64, SYS_prlimit64, SYS_pwrite64, SYS_read,
    SYS_readlinkat, SYS_readv, SYS_recvfrom, SYS_recvmsg, SYS_renameat, SYS_renameat2,
    SYS_restart_syscall, SYS_rseq, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn,
    SYS_sched_getaffinity, SYS_sched_yield, SYS_sendfile, SYS_sendmsg, SYS_sendto,
    SYS_set_robust_list, SYS_set_tid_address, SYS_setpriority, SYS_setsockopt, SYS_shutdown,
    SYS_sigaltstack, SYS_signalfd4, SYS_socketpair, SYS_statfs, SYS_statx, SYS_sysinfo, SYS_tgkill,
    SYS_timerfd_create, SYS_timerfd_gettime, SYS_timerfd_settime, SYS_uname, SYS_unlinkat,
    SYS_write, SYS_writev,
];

/// The older calls that the C library of this architecture may use in their place.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const LOGD_LEGACY: &[u16] = calls![
    SYS_access, SYS_arch_prctl, SYS_chmod, SYS_chown, SYS_dup2, SYS_epoll_wait, SYS_getrlimit,
    SYS_lchown, SYS_lstat, SYS_mkdir, SYS_open, SYS_poll, SYS_readlink, SYS_rename, SYS_setrlimit,
    SYS_stat, SYS_time, SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const LOGD_LEGACY: &[u16] = &[];

/// The calls of a process that asks at Unix sockets and opens no file.
#[rustfmt::skip]
const SOCKET_CLIENT: &[u16] = calls![
    SYS_brk, SYS_clock_gettime, SYS_clock_nanosleep, SYS_close, SYS_connect, SYS_dup, SYS_dup3,
    SYS_epoll_create1, SYS_epoll_ctl, SYS_epoll_pwait, SYS_eventfd2, SYS_execveat, SYS_exit,
    SYS_exit_group, SYS_fcntl, SYS_fstat, SYS_futex, SYS_getpid, SYS_getrandom, SYS_getsockname,
    SYS_getsockopt, SYS_gettid, SYS_ioctl, SYS_madvise, SYS_mmap, SYS_mprotect, SYS_mremap,
    SYS_munmap, SYS_nanosleep, SYS_ppoll, SYS_prctl, SYS_prlimit64, SYS_read, SYS_readv,
    SYS_recvfrom, SYS_recvmsg, SYS_restart_syscall, SYS_rseq, SYS_rt_sigaction,
    SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sched_getaffinity, SYS_sched_yield, SYS_sendmsg,
    SYS_sendto, SYS_set_robust_list, SYS_set_tid_address, SYS_setsockopt, SYS_shutdown,
    SYS_sigaltstack, SYS_socketpair, SYS_tgkill, SYS_write, SYS_writev,
];

/// The older calls that the C library of this architecture may use in their place.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const SOCKET_CLIENT_LEGACY: &[u16] = calls![
    SYS_arch_prctl, SYS_dup2, SYS_epoll_wait, SYS_getrlimit, SYS_poll, SYS_setrlimit, SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const SOCKET_CLIENT_LEGACY: &[u16] = &[];

/// Newer than 450: the same numbers on every architecture.
#[rustfmt::skip]
const RECENT: &[u16] = &[451, 452, 453, 454, 455, 456, 457, 458, 459, 460, 461, 462, 463, 464, 465, 466];
const RECENT_NAMES: &str = "SYS_cachestat SYS_fchmodat2 SYS_map_shadow_stack SYS_futex_wake SYS_futex_wait SYS_futex_requeue SYS_statmount SYS_listmount SYS_lsm_get_self_attr SYS_lsm_set_self_attr SYS_lsm_list_modules SYS_mseal SYS_setxattrat SYS_getxattrat SYS_listxattrat SYS_removexattrat";

// The calls that need a look at their arguments, or another answer than the rest.
named![SPECIAL SPECIAL_NAMES: SYS_clone, SYS_clone3, SYS_personality, SYS_socket];

/// Makes the list of calls that each capability permits, and that of their names.
macro_rules! by_capability {
    ($($(#[$only:meta])* $capability:ident: $($call:ident),*;)*) => {
        const BY_CAPABILITY: &[(u32, &[u16])] = &[$($(#[$only])* ($capability, calls![$($call),*])),*];
        const BY_CAPABILITY_NAMES: &[&str] = &[$($(#[$only])* concat!($(stringify!($call), " "),*)),*];
    };
}

#[rustfmt::skip]
by_capability! {
    DAC_READ_SEARCH: SYS_open_by_handle_at;
    SYS_MODULE: SYS_delete_module, SYS_init_module, SYS_finit_module;
    #[cfg(target_arch = "x86_64")]
    SYS_RAWIO: SYS_iopl, SYS_ioperm;
    SYS_CHROOT: SYS_chroot;
    SYS_PTRACE: SYS_kcmp, SYS_pidfd_getfd, SYS_process_madvise;
    SYS_PACCT: SYS_acct;
    SYS_ADMIN:
        SYS_bpf, SYS_clone, SYS_clone3, SYS_fanotify_init, SYS_fsconfig, SYS_fsmount, SYS_fsopen,
        SYS_fspick, SYS_lookup_dcookie, SYS_mount, SYS_mount_setattr, SYS_move_mount,
        SYS_open_tree, SYS_open_tree_attr, SYS_perf_event_open, SYS_quotactl, SYS_quotactl_fd,
        SYS_setdomainname, SYS_sethostname, SYS_setns, SYS_syslog, SYS_umount2, SYS_unshare;
    SYS_BOOT: SYS_reboot;
    SYS_NICE: SYS_get_mempolicy, SYS_mbind, SYS_set_mempolicy, SYS_set_mempolicy_home_node;
    SYS_TIME: SYS_settimeofday, SYS_clock_settime;
    SYS_TTY_CONFIG: SYS_vhangup;
    SYSLOG: SYS_syslog;
    PERFMON: SYS_perf_event_open;
    BPF: SYS_bpf;
}

/// Numbers of `<linux/capability.h>`.
const DAC_READ_SEARCH: u32 = 2;
const SYS_MODULE: u32 = 16;
#[cfg(target_arch = "x86_64")]
const SYS_RAWIO: u32 = 17;
const SYS_CHROOT: u32 = 18;
const SYS_PTRACE: u32 = 19;
const SYS_PACCT: u32 = 20;
const SYS_ADMIN: u32 = 21;
const SYS_BOOT: u32 = 22;
const SYS_NICE: u32 = 23;
const SYS_TIME: u32 = 25;
const SYS_TTY_CONFIG: u32 = 26;
const SYSLOG: u32 = 34;
const PERFMON: u32 = 38;
const BPF: u32 = 39;

/// The capabilities that make a difference to the profile.
pub(super) const RELEVANT: u64 = bit(DAC_READ_SEARCH)
    | bit(SYS_MODULE)
    | bit(17)
    | bit(SYS_CHROOT)
    | bit(SYS_PTRACE)
    | bit(SYS_PACCT)
    | bit(SYS_ADMIN)
    | bit(SYS_BOOT)
    | bit(SYS_NICE)
    | bit(SYS_TIME)
    | bit(SYS_TTY_CONFIG)
    | bit(SYSLOG)
    | bit(PERFMON)
    | bit(BPF);

const fn bit(capability: u32) -> u64 {
    1u64.wrapping_shl(capability)
}

/// Each call that is not simply refused, for a service that can hold the capabilities `held`; a later one for the same
/// number wins. `plain`: the lists before [`SPECIAL`], as numbers or names; `special`: that one; `opened`: those of
/// [`BY_CAPABILITY`].
fn each<T, L: IntoIterator<Item = T>>(
    held: u64,
    plain: [L; 3],
    special: L,
    opened: impl Iterator<Item = L>,
) -> Vec<(T, Rule)> {
    let allow = |call| (call, Rule::Allow);
    let mut calls: Vec<(T, Rule)> = plain.into_iter().flatten().map(allow).collect();
    let rules = [Rule::Clone, Rule::Unknown, Rule::Personality, Rule::Socket];
    calls.extend(special.into_iter().zip(rules));
    for ((capability, _), opened) in BY_CAPABILITY.iter().zip(opened) {
        if held & bit(*capability) != 0 {
            calls.extend(opened.into_iter().map(allow));
        }
    }
    calls
}

fn numbers_of(list: &'static [u16]) -> impl Iterator<Item = u32> {
    list.iter().map(|number| u32::from(*number))
}

/// The rules of the default profile by the numbers of calls.
pub(super) fn rules(held: u64) -> Vec<(u32, Rule)> {
    let opened = BY_CAPABILITY.iter().map(|(_, calls)| numbers_of(calls));
    each(held, [COMMON, LEGACY, RECENT].map(numbers_of), numbers_of(SPECIAL), opened)
}

/// As the runtimes know calls: `openat`.
fn names_of(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.split_ascii_whitespace().map(|name| name.strip_prefix("SYS_").unwrap_or(name))
}

/// [`rules`] by the names of calls, in the same order.
pub(super) fn named_rules(held: u64) -> Vec<(&'static str, Rule)> {
    let opened = BY_CAPABILITY_NAMES.iter().map(|names| names_of(names));
    each(held, [COMMON_NAMES, LEGACY_NAMES, RECENT_NAMES].map(names_of), names_of(SPECIAL_NAMES), opened)
}

/// The rules for the calls of `kelson-logd`. Of the families of sockets it needs that of Unix alone.
pub(super) fn rules_of_logd() -> Vec<(u32, Rule)> {
    const LOGD_SPECIAL: &[u16] = calls![SYS_socket, SYS_clone, SYS_clone3];
    let special = numbers_of(LOGD_SPECIAL).zip([Rule::UnixSocket, Rule::Clone, Rule::Unknown]);
    let plain = [LOGD, LOGD_LEGACY].into_iter().flat_map(numbers_of);
    plain.map(|call| (call, Rule::Allow)).chain(special).collect()
}

/// The rules for the calls of a process that asks at Unix sockets.
pub(super) fn rules_of_socket_client() -> Vec<(u32, Rule)> {
    const SPECIAL: &[u16] = calls![SYS_socket];
    let plain = [SOCKET_CLIENT, SOCKET_CLIENT_LEGACY].into_iter().flat_map(numbers_of);
    plain.map(|call| (call, Rule::Allow)).chain(numbers_of(SPECIAL).zip([Rule::UnixSocket])).collect()
}
