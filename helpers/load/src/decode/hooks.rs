//! Commands around a run: the key `hooks`.

use super::service::SHORTEST;
use super::{Decoder, Place, found};
use crate::tree::{Node, Value};
use kelson_spec::service::{Hook, Hooks};

/// The most commands at one place: each of them can keep a stop waiting.
const MOST: usize = 32;

/// Why `asRoot` cannot be here, where it cannot.
type MayBeRoot = Result<(), &'static str>;

impl Decoder<'_> {
    pub(super) fn hooks(&mut self, is_container: bool, place: &Place<'_>, node: &Node) -> Option<Hooks> {
        let instead_of_main = match is_container {
            true => Err("a hook of a container runs as the user of the container; leave it out"),
            false => Ok(()),
        };
        let beside_main = Err("only a pre or post hook can run as root; leave it out");
        let fields = self.fields(place, node, &["pre", "postStart", "preStop", "post"])?;
        let mut hooks = Hooks::default();
        self.set(&fields, "pre", &mut hooks.pre, |d, p, n| d.hook_list(instead_of_main, p, n));
        self.set(&fields, "postStart", &mut hooks.post_start, |d, p, n| d.hook_list(beside_main, p, n));
        self.set(&fields, "preStop", &mut hooks.pre_stop, |d, p, n| d.hook_list(beside_main, p, n));
        self.set(&fields, "post", &mut hooks.post, |d, p, n| d.hook_list(instead_of_main, p, n));
        Some(hooks)
    }

    /// A list of commands, or one alone.
    fn hook_list(&mut self, as_root: MayBeRoot, place: &Place<'_>, node: &Node) -> Option<Vec<Hook>> {
        match &node.value {
            Value::Mapping(_) => self.hook(as_root, place, node).map(|hook| vec![hook]),
            Value::Sequence(items) => {
                if let Some(first) = items.get(MOST) {
                    let text = format!("these are {} commands; at most {MOST} can stand here", items.len());
                    self.wrong(place, first.at, text);
                    return None;
                }
                self.list(place, node, "", |d, p, n| d.hook(as_root, p, n))
            }
            _ => {
                self.not_a_hook(place, node);
                None
            }
        }
    }

    fn hook(&mut self, may_be_root: MayBeRoot, place: &Place<'_>, node: &Node) -> Option<Hook> {
        if !matches!(node.value, Value::Mapping(_)) {
            self.not_a_hook(place, node);
            return None;
        }
        let fields = self.fields(place, node, &["command", "timeout", "asRoot"])?;
        let command =
            self.require(&fields, "command", "command: [PROGRAM, ARGUMENT]", |d, p, n| d.command(p, n));
        let mut timeout = Hook::TIMEOUT;
        self.set(&fields, "timeout", &mut timeout, |d, p, n| d.duration(p, n, SHORTEST));
        let mut as_root = false;
        self.set(&fields, "asRoot", &mut as_root, |d, p, n| {
            let as_root = d.boolean(p, n)?;
            if as_root && let Err(text) = may_be_root {
                d.wrong(p, n.at, text);
                return None;
            }
            Some(as_root)
        });
        Some(Hook { command: command?, timeout, as_root })
    }

    fn not_a_hook(&mut self, place: &Place<'_>, node: &Node) {
        let text = format!("found {} where such as {{command: [PROGRAM, ARGUMENT]}} belongs", found(node));
        self.wrong(place, node.at, text);
    }
}
