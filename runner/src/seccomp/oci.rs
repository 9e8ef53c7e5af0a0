//! The default profile as a container runtime takes it: the same rules, by the calls' names.

use serde::Serialize;

use super::{AF_UNIX, AF_VSOCK, NAMESPACES, PERSONALITIES, Rule, profile};

#[cfg(target_arch = "x86_64")]
const NATIVE: &str = "SCMP_ARCH_X86_64";
#[cfg(target_arch = "aarch64")]
const NATIVE: &str = "SCMP_ARCH_AARCH64";

const ALLOW: &str = "SCMP_ACT_ALLOW";
const REFUSE: &str = "SCMP_ACT_ERRNO";

/// `linux.seccomp` of the runtime specification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Profile {
    default_action: &'static str,
    default_errno_ret: u32,
    architectures: [&'static str; 1],
    syscalls: Vec<Calls>,
}

/// Calls that share a fate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Calls {
    names: Vec<&'static str>,
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    errno_ret: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<[Argument; 1]>,
}

/// A condition on an argument of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Argument {
    index: u32,
    value: u64,
    value_two: u64,
    op: &'static str,
}

impl Profile {
    /// Kelson's default profile for a container that can hold the capabilities `held` (bit n: capability n).
    pub(crate) fn default_profile(held: u64) -> Profile {
        let calls = profile::named_rules(held);
        let mut allowed = Vec::with_capacity(calls.len());
        let mut syscalls = Vec::new();
        for (at, (name, rule)) in calls.iter().enumerate() {
            // Of several rules for one call the last counts.
            let later = calls.iter().skip(at.saturating_add(1));
            if later.clone().any(|(other, _)| other == name) {
                continue;
            }
            let mut with = |action, errno_ret, argument: Option<Argument>| {
                let args = argument.map(|argument| [argument]);
                syscalls.push(Calls { names: vec![*name], action, errno_ret, args });
            };
            match rule {
                Rule::Allow => allowed.push(*name),
                Rule::Refuse => {}
                Rule::Unknown => with(REFUSE, Some(libc::ENOSYS.cast_unsigned()), None),
                Rule::Clone => with(ALLOW, None, Some(first("SCMP_CMP_MASKED_EQ", NAMESPACES))),
                Rule::Socket => with(ALLOW, None, Some(first("SCMP_CMP_NE", AF_VSOCK))),
                Rule::UnixSocket => with(ALLOW, None, Some(first("SCMP_CMP_EQ", AF_UNIX))),
                Rule::Personality => {
                    for value in PERSONALITIES {
                        with(ALLOW, None, Some(first("SCMP_CMP_EQ", value)));
                    }
                }
            }
        }
        syscalls.insert(0, Calls { names: allowed, action: ALLOW, errno_ret: None, args: None });
        Profile {
            default_action: REFUSE,
            default_errno_ret: libc::EPERM.cast_unsigned(),
            architectures: [NATIVE],
            syscalls,
        }
    }
}

/// The first argument compared to a value, or (masked) none of the value's bits set in it.
fn first(op: &'static str, value: u32) -> Argument {
    Argument { index: 0, value: u64::from(value), value_two: 0, op }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_of_the_filter_stands_in_the_profile_with_the_same_fate() {
        for held in [0, 1 << 21, 1 << 22, u64::MAX] {
            let profile = Profile::default_profile(held);
            let (rules, names) = (profile::rules(held), profile::named_rules(held));
            assert_eq!(rules.len(), names.len());
            for ((number, rule), (name, named)) in rules.iter().zip(&names) {
                assert_eq!(rule, named, "{name}");
                let last = rules.iter().rev().find(|(other, _)| other == number).unwrap().1;
                if last != *rule {
                    continue;
                }
                let fates: Vec<&Calls> =
                    profile.syscalls.iter().filter(|calls| calls.names.contains(name)).collect();
                let expected = if *rule == Rule::Personality { PERSONALITIES.len() } else { 1 };
                assert_eq!(fates.len(), expected, "{name} with {held:x}");
                assert_eq!(fates[0].args.is_none(), matches!(rule, Rule::Allow | Rule::Unknown));
                assert_eq!(fates[0].errno_ret.is_some(), *rule == Rule::Unknown);
            }
        }
    }

    #[test]
    fn names_are_those_of_the_kernel() {
        let known = |held, name| {
            let profile = Profile::default_profile(held);
            profile.syscalls.iter().any(|calls| calls.names.contains(&name))
        };
        for name in ["read", "newfstatat", "io_pgetevents", "fchmodat2", "removexattrat", "clone3"] {
            assert!(known(0, name), "{name}");
        }
        assert!(!known(0, "mount"));
        assert!(known(1 << 21, "mount") && known(1 << 21, "open_tree_attr"));
        let all = Profile::default_profile(u64::MAX);
        let odd =
            |name: &&str| !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        assert_eq!(all.syscalls.iter().flat_map(|calls| &calls.names).find(|name| odd(name)), None);
    }

    #[test]
    fn arguments_are_looked_at_as_the_runtime_says_it() {
        let text = serde_json::to_string(&Profile::default_profile(0)).unwrap();
        for part in [
            r#""defaultAction":"SCMP_ACT_ERRNO","defaultErrnoRet":1"#,
            r#"{"names":["clone"],"action":"SCMP_ACT_ALLOW","args":[{"index":0,"value":2114060288,"valueTwo":0,"op":"SCMP_CMP_MASKED_EQ"}]}"#,
            r#"{"names":["clone3"],"action":"SCMP_ACT_ERRNO","errnoRet":38}"#,
            r#"{"names":["socket"],"action":"SCMP_ACT_ALLOW","args":[{"index":0,"value":40,"valueTwo":0,"op":"SCMP_CMP_NE"}]}"#,
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
