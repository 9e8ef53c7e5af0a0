use kelson_sys::seccomp::{ARCHITECTURE, AT_LEAST, JUMP, NATIVE, NUMBER};

use super::*;

/// Runs a filter as the kernel does.
fn run(filter: &Filter, architecture: u32, number: u32, argument: u32) -> u32 {
    let (mut at, mut value) = (0usize, 0u32);
    loop {
        let i = &filter.program[at];
        at += 1;
        match u32::from(i.code) {
            LOAD => {
                value = match i.k {
                    NUMBER => number,
                    ARCHITECTURE => architecture,
                    FIRST_ARGUMENT => argument,
                    other => unreachable!("offset {other}"),
                }
            }
            EQUAL => at += usize::from(if value == i.k { i.jt } else { i.jf }),
            AT_LEAST => at += usize::from(if value >= i.k { i.jt } else { i.jf }),
            ANY_BIT => at += usize::from(if value & i.k != 0 { i.jt } else { i.jf }),
            JUMP => at += i.k as usize,
            RETURN => return i.k,
            other => unreachable!("code {other}"),
        }
    }
}

fn number(call: libc::c_long) -> u32 {
    u32::try_from(call).unwrap()
}

#[test]
fn each_number_meets_the_fate_that_its_rule_says() {
    for held in [0, u64::MAX] {
        let filter = Filter::default_profile(held);
        let rules = profile::rules(held);
        for call in 0..2000 {
            let expected = match rules.iter().rev().find(|(named, _)| *named == call) {
                _ if call > profile::NEWEST => ENOSYS,
                None | Some((_, Rule::Refuse)) => EPERM,
                Some((_, Rule::Unknown)) => ENOSYS,
                Some(_) => ALLOW,
            };
            assert_eq!(run(&filter, NATIVE, call, 0), expected, "call {call} with {held:x}");
        }
        assert!(filter.program.len() < 130, "{filter:?}");
    }
}

/// No conditional jump reaches across such a program.
#[test]
fn a_long_program_finds_its_verdicts_too() {
    let fates = [Rule::Allow, Rule::Refuse, Rule::Unknown, Rule::Clone, Rule::UnixSocket];
    let rules: Vec<(u32, Rule)> = (0..2000).zip(fates.into_iter().cycle()).collect();
    let rest = Rest { newest: 1999, unnamed: Rule::Refuse, unknown: Rule::Unknown };
    let program = kelson_sys::seccomp::compile(&rules, rest);
    let filter = Filter { program, is_of_all: false };
    for (call, rule) in rules {
        let expected = match rule {
            Rule::Refuse => EPERM,
            Rule::Unknown => ENOSYS,
            _ => ALLOW,
        };
        assert_eq!(run(&filter, NATIVE, call, AF_UNIX), expected, "call {call}");
    }
    assert_eq!(run(&filter, NATIVE, 2000, 0), ENOSYS);
}

#[test]
fn arguments_are_looked_at() {
    let filter = Filter::default_profile(0);
    let ask = |call, argument| run(&filter, NATIVE, number(call), argument);
    assert_eq!(ask(libc::SYS_clone, 0x0001_0f00), ALLOW);
    assert_eq!(ask(libc::SYS_clone, libc::CLONE_NEWUSER.cast_unsigned()), EPERM);
    assert_eq!(ask(libc::SYS_clone3, 0), ENOSYS);
    assert_eq!(ask(libc::SYS_socket, 1), ALLOW);
    assert_eq!(ask(libc::SYS_socket, AF_VSOCK), EPERM);
    for value in PERSONALITIES {
        assert_eq!(ask(libc::SYS_personality, value), ALLOW);
    }
    assert_eq!(ask(libc::SYS_personality, 1), EPERM);
    assert_eq!(run(&filter, 0x4000_0003, 1, 0), libc::SECCOMP_RET_KILL_PROCESS);
}

#[test]
fn logd_has_files_and_unix_sockets_and_no_way_to_other_processes_or_the_network() {
    let ask = |call, argument| run(&Filter::logd(), NATIVE, number(call), argument);
    for call in [libc::SYS_openat, libc::SYS_write, libc::SYS_epoll_pwait, libc::SYS_timerfd_settime] {
        assert_eq!(ask(call, 0), ALLOW, "{call}");
    }
    assert_eq!((ask(libc::SYS_socket, 1), ask(libc::SYS_socket, 2)), (ALLOW, EPERM));
    assert_eq!(ask(libc::SYS_clone, 0x0001_0f00), ALLOW);
    assert_eq!(ask(libc::SYS_clone3, 0), ENOSYS);
    for call in [libc::SYS_ptrace, libc::SYS_kill, libc::SYS_mount, libc::SYS_connect, libc::SYS_mknodat] {
        assert_eq!(ask(call, 0), EPERM, "{call}");
    }
}

#[test]
fn who_asks_at_sockets_has_unix_sockets_and_no_files() {
    let ask = |call, argument| run(&Filter::socket_client(), NATIVE, number(call), argument);
    for call in [libc::SYS_connect, libc::SYS_write, libc::SYS_epoll_pwait, libc::SYS_execveat] {
        assert_eq!(ask(call, 0), ALLOW, "{call}");
    }
    assert_eq!((ask(libc::SYS_socket, 1), ask(libc::SYS_socket, 2)), (ALLOW, EPERM));
    for call in [
        libc::SYS_openat,
        libc::SYS_unlinkat,
        libc::SYS_renameat2,
        libc::SYS_fchmodat,
        libc::SYS_linkat,
        libc::SYS_bind,
        libc::SYS_execve,
        libc::SYS_clone,
        libc::SYS_kill,
        libc::SYS_ptrace,
    ] {
        assert_eq!(ask(call, 0), EPERM, "{call}");
    }
}

#[test]
fn capabilities_open_what_they_allow() {
    let ask = |held, call| run(&Filter::default_profile(held), NATIVE, number(call), 0x7e02_0000);
    assert_eq!(ask(0, libc::SYS_mount), EPERM);
    assert_eq!(ask(1 << 21, libc::SYS_mount), ALLOW);
    assert_eq!(ask(1 << 21, libc::SYS_clone), ALLOW);
    assert_eq!(ask(1 << 21, libc::SYS_clone3), ALLOW);
    assert_eq!(ask(1 << 22, libc::SYS_mount), EPERM);
    assert_eq!(ask(1 << 22, libc::SYS_reboot), ALLOW);
    assert_eq!(ask(1 << 10, libc::SYS_bind), ALLOW);
}

/// A spawner thread is under this filter, and so is a child from its first step on.
#[test]
fn who_can_hold_every_capability_may_make_every_call_of_a_start() {
    let filter = Filter::default_profile(u64::MAX);
    assert!(filter.is_of_all() && !Filter::default_profile(0).is_of_all() && !Filter::logd().is_of_all());
    for call in [
        libc::SYS_clone,
        libc::SYS_clone3,
        libc::SYS_close_range,
        libc::SYS_setsid,
        libc::SYS_umask,
        libc::SYS_dup3,
        libc::SYS_fcntl,
        libc::SYS_prlimit64,
        libc::SYS_chdir,
        libc::SYS_prctl,
        libc::SYS_seccomp,
        libc::SYS_mount,
        libc::SYS_mount_setattr,
        libc::SYS_umount2,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_openat,
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_close,
        libc::SYS_capget,
        libc::SYS_capset,
        libc::SYS_setgroups,
        libc::SYS_setresgid,
        libc::SYS_setresuid,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_exit_group,
        libc::SYS_kill,
        libc::SYS_tgkill,
        libc::SYS_futex,
        libc::SYS_mmap,
        libc::SYS_munmap,
        libc::SYS_mprotect,
        libc::SYS_brk,
        libc::SYS_madvise,
        libc::SYS_fchown,
        libc::SYS_pidfd_open,
        libc::SYS_reboot,
        libc::SYS_sync,
        libc::SYS_wait4,
        libc::SYS_nanosleep,
    ] {
        assert_eq!(run(&filter, NATIVE, number(call), 0), ALLOW, "call {call}");
    }
}

#[test]
fn services_that_ask_for_the_same_share_one_filter() {
    let mut filters = Filters::default();
    let (first, second) = (filters.default_profile(0), filters.default_profile(1 << 10));
    assert!(Arc::ptr_eq(&first, &second), "net_bind_service changes nothing in the profile");
    assert!(!Arc::ptr_eq(&first, &filters.default_profile(1 << 21)));
}
