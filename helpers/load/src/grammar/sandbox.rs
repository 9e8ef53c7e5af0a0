//! The kernel's bounds of a process, below `security`.

use kelson_spec::service::{
    CallAnswer, Protection, Restriction, Sandbox, Security, Selection, ServiceSpec, SystemCalls,
};
use nix::errno::Errno;

use super::at::At;
use super::codec::Codec;
use super::mapping::{Mapping, keys};
use super::seen::Seen;
use super::values::{choice, word};
use crate::decode::{Decoder, quoted};
use crate::{calls, filter};

/// The kernel takes no longer program.
const MOST_INSTRUCTIONS: usize = 4096;
/// The kernel's own bound on numbers of errors.
const MOST_ERRORS: i32 = 133;

/// A field of the sandbox.
macro_rules! of_sandbox {
    ($field:ident) => {
        At::new(
            |security: &Security| Some(security.sandbox.$field.clone()),
            |security: &mut Security, value| security.sandbox.$field = value,
        )
    };
}

/// Adds the keys of the sandbox to those of `security`.
pub fn with_sandbox(security: Mapping<Security>) -> Mapping<Security> {
    keys! {
        security;
        key "protect" (of_sandbox!(protect)) if Units =
            each_once(choice(Protection::WORDS), "a list of parts of the machine"),
            "parts of the machine that the process can [neither change nor see](#protect)";
        key "restrict" (of_sandbox!(restrict)) if Units =
            each_once(choice(Restriction::WORDS), "a list of things that it cannot do"),
            "[things that the process cannot do](#restrict)";
        means "namespaces" (of_sandbox!(namespaces)) if Units =
            selection("namespaces", || choice(Selection::NAMESPACE_WORDS)),
            "all of them", "the kinds of namespaces that it can make and enter";
        means "addressFamilies" (of_sandbox!(address_families)) if Units = {
            let bit = |(name, number)| (name, 1_u64.wrapping_shl(number));
            selection("addressFamilies", move || choice(Selection::FAMILY_WORDS.map(bit)))
        }, "all of them", "the families of sockets that it can make";
        key "systemCalls" (of_sandbox!(system_calls)) if Units = Mapping::codec(system_calls),
            "the [system calls](#systemcalls) that it can make";
    }
}

fn each_once<T: Clone + PartialEq + 'static>(one: Codec<T>, what: &'static str) -> Codec<Vec<T>> {
    one.list(what).parsed(
        |list| {
            let mut once: Vec<T> = Vec::new();
            list.iter().for_each(|one| {
                if !once.contains(one) {
                    once.push(one.clone());
                }
            });
            Ok::<_, &str>(once)
        },
        Clone::clone,
    )
}

/// `{allow: […]}` or `{deny: […]}`, of bits that have names.
fn selection(name: &'static str, one: impl Fn() -> Codec<u64> + Clone + 'static) -> Codec<Selection> {
    Mapping::codec(move || {
        let list = || {
            one().list("a list of names").parsed(
                |list| Ok::<_, &str>(list.iter().fold(0, |mask, bit| mask | bit)),
                |mask| {
                    let bits = (0..u64::BITS).map(|bit| 1_u64.wrapping_shl(bit));
                    bits.filter(|bit| mask & bit != 0).collect()
                },
            )
        };
        let allow = At::new(
            |selection: &Selection| if let Selection::Allow(mask) = selection { Some(*mask) } else { None },
            |selection: &mut Selection, mask| *selection = Selection::Allow(mask),
        );
        let deny = At::new(
            |selection: &Selection| if let Selection::Deny(mask) = selection { Some(*mask) } else { None },
            |selection: &mut Selection, mask| *selection = Selection::Deny(mask),
        );
        keys! {
            Mapping::new(name, Selection::default);
            means "allow" (allow) = list(), "–", "these and no others; an empty list allows none";
            means "deny" (deny) = list(), "–", "all but these";
        }
        .check(|d, seen, _| {
            if seen.has("allow") && seen.has("deny") {
                d.wrong(seen.node.at, "write either allow: […] or deny: […]");
            }
        })
    })
}

fn system_calls() -> Mapping<SystemCalls> {
    keys! {
        Mapping::new("systemCalls", SystemCalls::default);
        key "allow" allow = call_names(), "names of calls, and groups such as `@system-service`: these and no others";
        key "deny" deny = call_names(), "without these; alone, it allows all others";
        key "answer" answer = call_answer(), "the error of a call that is not allowed, such as `EPERM` or `ENOSYS`. \
             `kill`: it ends the process with SIGSYS";
    }
}

fn call_names() -> Codec<Vec<String>> {
    let one = word("system call or @group", "^@?[a-z0-9_-]+$", "@system-service").but(|name: &String| {
        if calls::is_known(name) {
            return None;
        }
        let hint = calls::near(name).map(|name| format!("; did you mean {name}?")).unwrap_or_default();
        let what = if name.starts_with('@') { "group of system calls" } else { "system call" };
        Some(format!("{} is not a {what}{hint}", quoted(name)))
    });
    one.list("a list of system calls")
}

fn error_name(number: i32) -> String {
    format!("{:?}", Errno::from_raw(number))
}

/// The number of an error by its name.
pub fn error_number(name: &str) -> Option<u16> {
    let number = (1..=MOST_ERRORS).find(|number| error_name(*number) == name)?;
    u16::try_from(number).ok()
}

fn call_answer() -> Codec<CallAnswer> {
    word("error, or kill", "^(kill|E[A-Z0-9]+)$", "EPERM").parsed(
        |text| {
            if text == "kill" {
                return Ok(CallAnswer::Kill);
            }
            error_number(text).map(CallAnswer::Error).ok_or_else(|| {
                format!("{} is not the name of an error, such as EPERM, nor kill", quoted(text))
            })
        },
        |answer| match answer {
            CallAnswer::Kill => "kill".to_owned(),
            CallAnswer::Error(number) => error_name(i32::from(*number)),
        },
    )
}

/// What holds between these keys and others, and the program that they make.
pub fn compiled(d: &mut Decoder<'_>, seen: &Seen<'_, '_>, spec: &mut ServiceSpec) {
    let Security { sandbox, no_new_privileges, .. } = &mut spec.security;
    if *sandbox == Sandbox::default() {
        return;
    }
    if seen.has("container") {
        let text = "a container has bounds of its own; protect, restrict, namespaces, addressFamilies and systemCalls are \
                    for a process";
        seen.wrong_value(d, "security", text);
        return;
    }
    if spec.delegate && sandbox.protect.contains(&Protection::ControlGroups) {
        let text = "protect: [controlGroups] keeps it from the cgroups that delegate gives it; leave one of the two out";
        seen.wrong_key(d, "delegate", text);
    }
    if !*no_new_privileges && sandbox.system_calls != SystemCalls::default() {
        let text = "systemCalls needs noNewPrivileges: true, so that it can be set up last of all";
        seen.wrong_value(d, "security", text);
    }
    sandbox.filter = filter::program(sandbox);
    if sandbox.filter.len() > MOST_INSTRUCTIONS {
        seen.wrong_value(
            d,
            "security",
            "its filter is longer than the kernel takes; name fewer system calls",
        );
    }
}
