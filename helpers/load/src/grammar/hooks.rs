//! Commands around a run: the key `hooks`.

use super::codec::{Codec, SHORTEST, boolean, duration_from};
use super::command::command;
use super::mapping::{Mapping, keys};
use crate::decode::found;
use crate::schema::Kind;
use crate::tree::{Node, Value};
use kelson_spec::service::{Hook, Hooks};

/// The most commands at one place: each of them can keep a stop waiting.
const MOST: usize = 32;

/// `is_container`: a hook of a container runs within it.
pub fn hooks(is_container: bool) -> Mapping<Hooks> {
    let instead_of_main =
        is_container.then_some("a hook of a container runs as the user of the container; leave it out");
    let beside_main = Some("only a pre or post hook can run as root; leave it out");
    keys! {
        Mapping::new("hooks", Hooks::default);
        key "pre" pre = list(instead_of_main),
            "before the main process, in each run; where one fails the start has failed";
        key "postStart" post_start = list(beside_main), "beside the main process, once it is ready";
        key "preStop" pre_stop = list(beside_main), "beside the main process, before it is stopped";
        key "post" post = list(instead_of_main),
            "after the main process has ended, however it did, and after a `pre` that failed";
    }
}

/// A list of commands, or one alone. `not_as_root`: why `asRoot` cannot be here.
fn list(not_as_root: Option<&'static str>) -> Codec<Vec<Hook>> {
    let whole = Mapping::codec(move || hook(not_as_root));
    let inner = whole.clone();
    let one = whole.read_by(move |d, place, node| {
        if matches!(node.value, Value::Mapping(_)) {
            return inner.decode(d, place, node);
        }
        d.wrong(place, node.at, not_a_hook(node));
        None
    });
    let list = one.clone().list_of(0..=MOST, "");
    let (kind, one_kind, many) = (list.kind.clone(), one.kind.clone(), list.clone());
    list.of_kind(move || Kind::Either(vec![kind(), one_kind()])).read_by(move |d, place, node| {
        match &node.value {
            Value::Sequence(items) => match items.get(MOST) {
                None => return many.decode(d, place, node),
                Some(first) => {
                    let text = format!("these are {} commands; at most {MOST} can stand here", items.len());
                    d.wrong(place, first.at, text);
                }
            },
            _ => return one.decode(d, place, node).map(|hook| vec![hook]),
        }
        None
    })
}

fn not_a_hook(node: &Node) -> String {
    format!("found {} where such as {{command: [PROGRAM, ARGUMENT]}} belongs", found(node))
}

fn hook(not_as_root: Option<&'static str>) -> Mapping<Hook> {
    keys! {
        Mapping::new("hook", || Hook::new([""; 0], Hook::TIMEOUT));
        needed "command" command = command(), "command: [PROGRAM, ARGUMENT]", "as of [process](#process)";
        key "timeout" timeout = duration_from(SHORTEST), "then it is killed and has failed";
        key "asRoot" as_root = boolean().but(move |as_root| not_as_root.filter(|_| *as_root)),
            "`true`: runs as root, without the limits of [security](#security). Only for `pre` and `post` of a \
             process";
    }
}
