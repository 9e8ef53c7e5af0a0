//! `console` of the machine file.

use super::codec::{Codec, either};
use super::mapping::{Mapping, keys};
use super::values::{choice, word};
use crate::decode::quoted;
use kelson_spec::machine::{ConsoleShow, ConsoleSpec};

/// A program on a terminal of the machine: its name alone, or a mapping that names the terminal too.
pub fn console() -> Codec<ConsoleSpec> {
    let mapping = Mapping::codec(mapping);
    let (kind, shown) = (either(&show(), &mapping), show());
    mapping.of_kind(kind).around(move |d, node, mapping| match node.is_mapping() {
        true => mapping(d, node),
        false => shown.decode(d, node).map(|show| ConsoleSpec { show, tty: None }),
    })
}

fn show() -> Codec<ConsoleShow> {
    choice(ConsoleShow::ALL.map(|show| (show.name(), show)))
}

fn mapping() -> Mapping<ConsoleSpec> {
    let tty = word("name of a terminal", "^[A-Za-z0-9_-]+$", "tty1").but(|text| {
        let sound = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        (!sound).then(|| format!("{} is not the name of a terminal in /dev, such as tty1", quoted(text)))
    });
    keys! {
        Mapping::new("console", || ConsoleSpec { show: ConsoleShow::Dashboard, tty: None });
        needed "show" show = show(), "show: dashboard",
            "`dashboard`: `kelsonctl dashboard`, which can change nothing; `shell`: a shell of root, without a password";
        means "tty" tty = tty.optional(), "that of `/dev/console`", "the name of the terminal in `/dev`";
    }
    .strict()
}
