//! Commands around a run: the key `hooks`.

use super::codec::{Codec, either};
use super::command::command;
use super::confinement::signal;
use super::mapping::{Mapping, keys};
use super::requirement::others;
use super::values::{SHORTEST, boolean, duration_from};
use crate::tree::Value;
use kelson_spec::service::{Hook, Hooks, Reload, Resumed};

/// The most commands at one place: each of them can keep a stop waiting.
const MOST: usize = 32;

/// `is_container`: a hook of a container runs within it.
pub fn hooks(is_container: bool) -> Mapping<Hooks> {
    let not_as_root =
        is_container.then_some("a hook of a container runs as the user of the container; leave it out");
    let harmless = Some("a failure of this hook changes nothing anyway; leave it out");
    keys! {
        Mapping::new("hooks", Hooks::default);
        key "pre" pre = list(not_as_root, None),
            "before the main process, in each run; if one fails, the start has failed";
        key "postStart" post_start = list(not_as_root, harmless), "beside the main process, once it is ready";
        key "preStop" pre_stop = list(not_as_root, harmless), "beside the main process, before it is stopped";
        key "post" post = list(not_as_root, harmless),
            "after the main process has ended for any reason, and after a `pre` hook that failed";
        key "undo" undo if Units = list(not_as_root, harmless),
            "of a one-shot that has finished: when it is stopped or restarted";
    }
}

/// What makes a running service read its configuration again.
pub fn reload() -> Mapping<Reload> {
    keys! {
        Mapping::new("reload", Reload::default);
        key "hooks" hooks = list_of(Mapping::codec(|| command_hook("beside"))), "beside the main process";
        means "signal" signal = signal().optional(), "none", "to the main process, after the hooks";
        key "with" with = others("reload.with"), "services whose reload is one of this service too";
    }
}

/// What the service needs after a resume from a snapshot.
pub fn resumed() -> Mapping<Resumed> {
    let mapping = keys! {
        Mapping::new("resumed", Resumed::default);
        means "signal" signal = signal().optional(), "none", "to the main process";
        key "hooks" hooks = list_of(Mapping::codec(|| command_hook("beside"))), "beside the main process, after the signal";
        key "restart" restart = boolean(), "`true`: Kelson restarts the service, instead of a signal and hooks";
    };
    mapping.check(|d, seen, resumed| {
        if resumed.restart && (seen.has("signal") || seen.has("hooks")) {
            seen.wrong_key(
                d,
                "restart",
                "a process that is restarted needs no signal and no hooks; leave one out",
            );
        }
    })
}

/// A list of commands, or one alone. `not_as_root`, `must_fail`: why `asRoot` and `mayFail` cannot be here.
fn list(not_as_root: Option<&'static str>, must_fail: Option<&'static str>) -> Codec<Vec<Hook>> {
    list_of(Mapping::codec(move || hook(not_as_root, must_fail)))
}

fn list_of(one: Codec<Hook>) -> Codec<Vec<Hook>> {
    let one = one.around(|d, node, inner| match node.is_mapping() {
        true => inner(d, node),
        false => d.expected(node, "such as {command: [PROGRAM, ARGUMENT]}"),
    });
    let list = one.clone().list_of(0..=MOST, "");
    let kind = either(&list, &one);
    list.of_kind(kind).around(move |d, node, list| match node.value {
        Value::Sequence(_) => {
            d.at_most(node, MOST, |count| {
                format!("these are {count} commands; at most {MOST} can stand here")
            })?;
            list(d, node)
        }
        _ => one.decode(d, node).map(|hook| vec![hook]),
    })
}

fn hook(not_as_root: Option<&'static str>, must_fail: Option<&'static str>) -> Mapping<Hook> {
    let no_condition = must_fail.map(|_| "only a pre hook decides about a start; leave it out");
    keys! {
        command_hook("hook");
        key "asRoot" as_root = boolean().but(move |as_root| not_as_root.filter(|_| *as_root)),
            "`true`: runs as root, without the limits of [security](#security). Only of a process";
        key "mayFail" may_fail if Units = boolean().but(move |may_fail| must_fail.filter(|_| *may_fail)),
            "`true`: a failure is reported, and the start continues. Only for `pre`";
        key "condition" condition if Units = boolean().but(move |condition| no_condition.filter(|_| *condition)),
            "`true`: with an exit status from 1 to 254 the service is not started, and `skipped`. Only for `pre`";
    }
}

fn command_hook(name: &'static str) -> Mapping<Hook> {
    keys! {
        Mapping::new(name, || Hook::new([""; 0], Hook::TIMEOUT));
        needed "command" command = command(), "command: [PROGRAM, ARGUMENT]", "as in [process](#process)";
        key "timeout" timeout = duration_from(SHORTEST), "after this time Kelson kills it, and it has \
             failed";
    }
}
