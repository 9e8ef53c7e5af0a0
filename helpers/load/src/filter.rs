//! The program for seccomp that the bounds of a process make.
//!
//! PID 1 gives it to the kernel as it is. It stands beside Kelson's default profile, and takes away what that allows.

use std::collections::BTreeMap;

use kelson_spec::service::{CallAnswer, Protection, Restriction, Sandbox, Selection};
use kelson_sys::seccomp::{
    ANY_BIT, ARGUMENT, EQUAL, FIRST_ARGUMENT, LOAD, RETURN, Rest, Verdict, compile, instruction,
};
use libc::sock_filter;

use crate::calls::{NEWEST, numbers};

/// Every program has the calls without which nothing can be executed.
const ALWAYS: &str = "@default";

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const EPERM: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
const ENOSYS: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
const EAFNOSUPPORT: u32 = libc::SECCOMP_RET_ERRNO | libc::EAFNOSUPPORT.cast_unsigned();

/// Set-user-id and set-group-id.
const SET_ID: u32 = 0o6000;
/// `O_CREAT`, and the bit of `O_TMPFILE` that no other flag has.
const CREATES: u32 = 0o20_000_100;
const SCHEDULES: &[u32] = &[0, 3, 5, 0x4000_0000, 0x4000_0003, 0x4000_0005];
/// Linux itself, and the question which one it is.
const PERSONALITIES: &[u32] = &[0, u32::MAX];
const WRITE: u32 = 2;
const EXECUTE: u32 = 4;
const SHM_EXEC: u32 = 0o100_000;

/// What a call meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The answer.
    Always(u32),
    /// Refused if the argument of this number has one of these bits.
    NoBit(u32, u32),
    /// Refused if it is zero or has one of these bits.
    SomeOther(u32, u32),
    /// Refused if it has both of two bits.
    NotBoth(u32, [u32; 2]),
    /// Refused unless it is one of these.
    OneOf(u32, &'static [u32]),
    /// Refused if the second argument has one of these bits where the first says that a file is made.
    Made(u32, u32, u32),
    /// The families of sockets.
    Family(Selection),
}

/// The lower half, as the kernel reads flags and numbers.
fn load(argument: u32) -> sock_filter {
    instruction(LOAD, FIRST_ARGUMENT.saturating_add(argument.saturating_mul(ARGUMENT)), 0, 0)
}

fn answer(k: u32) -> sock_filter {
    instruction(RETURN, k, 0, 0)
}

impl Verdict for Fate {
    fn code(self) -> Vec<sock_filter> {
        // One step on, or the step after that.
        let none_of = |bits| instruction(ANY_BIT, bits, 0, 1);
        match self {
            Fate::Always(k) => vec![answer(k)],
            Fate::NoBit(argument, bits) => vec![load(argument), none_of(bits), answer(EPERM), answer(ALLOW)],
            Fate::SomeOther(argument, bits) => {
                vec![load(argument), instruction(EQUAL, 0, 1, 0), none_of(bits), answer(EPERM), answer(ALLOW)]
            }
            Fate::NotBoth(argument, [one, other]) => vec![
                load(argument),
                instruction(ANY_BIT, one, 0, 2),
                none_of(other),
                answer(EPERM),
                answer(ALLOW),
            ],
            Fate::OneOf(argument, values) => one_of(argument, values.iter().copied(), [ALLOW, EPERM]),
            Fate::Made(flags, mode, bits) => vec![
                load(flags),
                instruction(ANY_BIT, CREATES, 0, 3),
                load(mode),
                none_of(bits),
                answer(EPERM),
                answer(ALLOW),
            ],
            Fate::Family(selection) => {
                let named =
                    |mask: u64| (0..u64::BITS).filter(move |bit| mask & 1_u64.wrapping_shl(*bit) != 0);
                match selection {
                    Selection::All => vec![answer(ALLOW)],
                    Selection::Allow(mask) => one_of(0, named(mask), [ALLOW, EAFNOSUPPORT]),
                    Selection::Deny(mask) => one_of(0, named(mask), [EAFNOSUPPORT, ALLOW]),
                }
            }
        }
    }
}

/// The answer if an argument is one of at most 64 values, and if it is not.
fn one_of(argument: u32, values: impl Iterator<Item = u32>, [yes, no]: [u32; 2]) -> Vec<sock_filter> {
    let values: Vec<u32> = values.collect();
    let count = u8::try_from(values.len()).unwrap_or(u8::MAX);
    let tests = values
        .into_iter()
        .zip(0..)
        .map(|(value, at): (u32, u8)| instruction(EQUAL, value, count.saturating_sub(at), 0));
    std::iter::once(load(argument)).chain(tests).chain([answer(no), answer(yes)]).collect()
}

/// The program of a sandbox, each instruction as it is in memory. Empty: there is nothing to filter.
pub fn program(sandbox: &Sandbox) -> Vec<u64> {
    let calls = &sandbox.system_calls;
    let refused = match calls.answer {
        CallAnswer::Error(errno) => Fate::Always(libc::SECCOMP_RET_ERRNO | u32::from(errno)),
        CallAnswer::Kill => Fate::Always(libc::SECCOMP_RET_KILL_PROCESS),
    };
    let allow = Fate::Always(ALLOW);
    let listed = |names: &[String]| -> Vec<u32> { numbers(names.iter().map(String::as_str)).collect() };
    let mut fates = BTreeMap::new();
    let unnamed = if calls.allow.is_empty() { allow } else { refused };
    let always: Vec<u32> = numbers([ALWAYS].into_iter()).collect();
    fates.extend(listed(&calls.allow).into_iter().map(|number| (number, allow)));
    fates.extend(listed(&calls.deny).into_iter().map(|number| (number, refused)));
    if !calls.allow.is_empty() {
        fates.extend(always.into_iter().map(|number| (number, allow)));
    }
    let mut is_needed = !fates.is_empty();
    for (names, fate) in limits(sandbox) {
        is_needed = true;
        for number in numbers(names.iter().copied()) {
            // What is refused stays so.
            let now = fates.entry(number).or_insert(unnamed);
            if *now == allow {
                *now = fate;
            }
        }
    }
    if !is_needed {
        return Vec::new();
    }
    let rules: Vec<(u32, Fate)> = fates.into_iter().collect();
    let program = compile(&rules, Rest { newest: NEWEST, unnamed, unknown: Fate::Always(ENOSYS) });
    program.iter().map(word).collect()
}

fn word(instruction: &sock_filter) -> u64 {
    let [c0, c1] = instruction.code.to_ne_bytes();
    let [k0, k1, k2, k3] = instruction.k.to_ne_bytes();
    u64::from_ne_bytes([c0, c1, instruction.jt, instruction.jf, k0, k1, k2, k3])
}

/// What is limited beside the list of calls.
fn limits(sandbox: &Sandbox) -> Vec<(&'static [&'static str], Fate)> {
    let mut limits: Vec<(&'static [&'static str], Fate)> = Vec::new();
    let never = Fate::Always(EPERM);
    let unknown = Fate::Always(ENOSYS);
    for protection in &sandbox.protect {
        let names: &[&str] = match protection {
            Protection::KernelTunables => &["_sysctl"],
            Protection::KernelModules => &["@module"],
            Protection::KernelLogs => &["syslog"],
            Protection::Clock => &["@clock"],
            Protection::Hostname => &["sethostname", "setdomainname"],
            Protection::ControlGroups | Protection::Processes | Protection::KernelFiles => continue,
        };
        limits.push((names, never));
    }
    for restriction in &sandbox.restrict {
        let some: &[(&'static [&'static str], Fate)] = match restriction {
            Restriction::Realtime => &[
                (&["sched_setscheduler"], Fate::OneOf(1, SCHEDULES)),
                (&["sched_setattr"], Fate::Always(EPERM)),
            ],
            Restriction::Personality => &[(&["personality"], Fate::OneOf(0, PERSONALITIES))],
            Restriction::SetUserId => &[
                (&["chmod", "fchmod", "mkdir", "mknod", "creat"], Fate::NoBit(1, SET_ID)),
                (&["fchmodat", "fchmodat2", "mkdirat", "mknodat"], Fate::NoBit(2, SET_ID)),
                (&["open"], Fate::Made(1, 2, SET_ID)),
                (&["openat"], Fate::Made(2, 3, SET_ID)),
                // Its flags are in memory, where a filter does not look.
                (&["openat2"], Fate::Always(ENOSYS)),
            ],
            Restriction::WritableCode => &[
                (&["mmap"], Fate::NotBoth(2, [WRITE, EXECUTE])),
                (&["mprotect", "pkey_mprotect"], Fate::NoBit(2, EXECUTE)),
                (&["shmat"], Fate::NoBit(2, SHM_EXEC)),
            ],
            Restriction::RawIo => &[(&["@raw-io"], Fate::Always(EPERM))],
            // Each program refuses them.
            Restriction::OtherArchitectures => &[(&[], Fate::Always(ALLOW))],
        };
        limits.extend_from_slice(some);
    }
    if let Some(denied) = denied_namespaces(sandbox.namespaces) {
        limits.push((&["clone", "unshare"], Fate::NoBit(0, denied)));
        limits.push((&["setns"], Fate::SomeOther(1, denied)));
        limits.push((&["clone3"], unknown));
    }
    if sandbox.address_families != Selection::All {
        limits.push((&["socket"], Fate::Family(sandbox.address_families)));
    }
    limits
}

fn denied_namespaces(selection: Selection) -> Option<u32> {
    let denied = match selection {
        Selection::All => return None,
        Selection::Allow(mask) => Selection::NAMESPACES & !mask,
        Selection::Deny(mask) => mask,
    };
    u32::try_from(denied).ok().filter(|denied| *denied != 0)
}

#[cfg(test)]
mod tests {
    use kelson_spec::service::SystemCalls;
    use kelson_sys::seccomp::{ARCHITECTURE, AT_LEAST, JUMP, NATIVE, NUMBER};

    use super::*;

    /// Runs a program as the kernel does.
    fn run(sandbox: &Sandbox, call: libc::c_long, arguments: [u32; 4]) -> u32 {
        let program = program(sandbox);
        let (mut at, mut value) = (0_usize, 0_u32);
        loop {
            let [c0, c1, jt, jf, k0, k1, k2, k3] = program[at].to_ne_bytes();
            let k = u32::from_ne_bytes([k0, k1, k2, k3]);
            at += 1;
            let mut jump = |holds: bool| at += usize::from(if holds { jt } else { jf });
            match u32::from(u16::from_ne_bytes([c0, c1])) {
                LOAD if k == NUMBER => value = u32::try_from(call).unwrap(),
                LOAD if k == ARCHITECTURE => value = NATIVE,
                LOAD => value = arguments[usize::try_from((k - FIRST_ARGUMENT) / ARGUMENT).unwrap()],
                EQUAL => jump(value == k),
                AT_LEAST => jump(value >= k),
                ANY_BIT => jump(value & k != 0),
                JUMP => at += k as usize,
                RETURN => return k,
                other => panic!("code {other}"),
            }
        }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn nothing_makes_no_program_and_all_of_it_a_short_one() {
        assert_eq!(program(&Sandbox::default()), [0; 0]);
        let sandbox = Sandbox {
            protect: Protection::WORDS.map(|(_, one)| one).to_vec(),
            restrict: Restriction::WORDS.map(|(_, one)| one).to_vec(),
            namespaces: Selection::Allow(0),
            address_families: Selection::Allow(u64::MAX >> 20),
            system_calls: SystemCalls {
                allow: names(&["@system-service"]),
                deny: names(&["@privileged", "@resources"]),
                answer: CallAnswer::Kill,
            },
            filter: Vec::new(),
        };
        let length = program(&sandbox).len();
        assert!((100..600).contains(&length), "{length}");
        assert_eq!(run(&sandbox, libc::SYS_execve, [0; 4]), ALLOW);
        assert_eq!(run(&sandbox, libc::SYS_mount, [0; 4]), libc::SECCOMP_RET_KILL_PROCESS);
    }

    #[test]
    fn lists_of_calls_allow_and_deny() {
        let calls = |allow: &[&str], deny: &[&str]| Sandbox {
            system_calls: SystemCalls {
                allow: names(allow),
                deny: names(deny),
                answer: CallAnswer::Error(13),
            },
            ..Sandbox::default()
        };
        let refused = libc::SECCOMP_RET_ERRNO | 13;
        let allowing = calls(&["@basic-io"], &["pread64"]);
        assert_eq!(run(&allowing, libc::SYS_read, [0; 4]), ALLOW);
        assert_eq!(run(&allowing, libc::SYS_pread64, [0; 4]), refused);
        assert_eq!(run(&allowing, libc::SYS_socket, [0; 4]), refused);
        assert_eq!(run(&allowing, libc::SYS_execve, [0; 4]), ALLOW);
        assert_eq!(run(&allowing, 9999, [0; 4]), ENOSYS);
        let denying = calls(&[], &["@mount"]);
        assert_eq!(run(&denying, libc::SYS_mount, [0; 4]), refused);
        assert_eq!(run(&denying, libc::SYS_socket, [0; 4]), ALLOW);
    }

    #[test]
    fn arguments_are_looked_at() {
        let with = |restriction| Sandbox { restrict: vec![restriction], ..Sandbox::default() };
        let fates = |sandbox: &Sandbox, call, some: &[([u32; 4], u32)]| {
            for (arguments, fate) in some {
                assert_eq!(run(sandbox, call, *arguments), *fate, "{call} {arguments:?} of {sandbox:?}");
            }
        };
        let realtime = with(Restriction::Realtime);
        fates(&realtime, libc::SYS_sched_setscheduler, &[([0, 3, 0, 0], ALLOW), ([0, 1, 0, 0], EPERM)]);
        fates(&realtime, libc::SYS_sched_setattr, &[([0; 4], EPERM)]);
        let personality = with(Restriction::Personality);
        fates(&personality, libc::SYS_personality, &[([0; 4], ALLOW), ([8, 0, 0, 0], EPERM)]);
        let setid = with(Restriction::SetUserId);
        fates(&setid, libc::SYS_fchmod, &[([3, 0o755, 0, 0], ALLOW), ([3, 0o4755, 0, 0], EPERM)]);
        fates(&setid, libc::SYS_fchmodat, &[([3, 0, 0o2755, 0], EPERM), ([3, 0o6000, 0, 0], ALLOW)]);
        let made =
            [([3, 0, 0, 0o4000], ALLOW), ([3, 0, 0o100, 0o4755], EPERM), ([3, 0, 0o100, 0o755], ALLOW)];
        fates(&setid, libc::SYS_openat, &made);
        fates(&setid, libc::SYS_openat, &[([3, 0, 0o20_200_000, 0o4755], EPERM)]);
        let code = with(Restriction::WritableCode);
        fates(&code, libc::SYS_mmap, &[([0, 0, 3, 0], ALLOW), ([0, 0, 5, 0], ALLOW), ([0, 0, 7, 0], EPERM)]);
        fates(&code, libc::SYS_mprotect, &[([0, 0, 5, 0], EPERM), ([0, 0, 3, 0], ALLOW)]);
        let user = libc::CLONE_NEWUSER.cast_unsigned();
        let net = libc::CLONE_NEWNET.cast_unsigned();
        let namespaces = Sandbox { namespaces: Selection::Allow(user.into()), ..Sandbox::default() };
        fates(&namespaces, libc::SYS_unshare, &[([user, 0, 0, 0], ALLOW), ([user | net, 0, 0, 0], EPERM)]);
        fates(
            &namespaces,
            libc::SYS_setns,
            &[([3, user, 0, 0], ALLOW), ([3, 0, 0, 0], EPERM), ([3, net, 0, 0], EPERM)],
        );
        fates(&namespaces, libc::SYS_clone3, &[([0; 4], ENOSYS)]);
        let families = Sandbox { address_families: Selection::Allow(0b110), ..Sandbox::default() };
        let expected = [
            ([1, 0, 0, 0], ALLOW),
            ([2, 0, 0, 0], ALLOW),
            ([16, 0, 0, 0], EAFNOSUPPORT),
            ([70, 0, 0, 0], EAFNOSUPPORT),
        ];
        fates(&families, libc::SYS_socket, &expected);
        let families = Sandbox { address_families: Selection::Deny(1 << 16), ..Sandbox::default() };
        fates(&families, libc::SYS_socket, &[([1, 0, 0, 0], ALLOW), ([16, 0, 0, 0], EAFNOSUPPORT)]);
    }
}
