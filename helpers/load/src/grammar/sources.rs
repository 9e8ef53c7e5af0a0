//! `sources` of the machine file.

use std::net::SocketAddr;

use super::mapping::{Mapping, keys};
use super::values::{choice, duration, word};
use crate::decode::quoted;
use kelson_spec::sources::{SourceKind, SourcesSpec};

/// Where configuration comes from besides the configuration folder.
pub fn sources() -> Mapping<SourcesSpec> {
    let kind = choice(SourceKind::ALL.map(|kind| (kind.name(), kind)));
    let pattern = r"^(\[[0-9A-Fa-f:.%]+\]|[0-9.]+):[0-9]+$";
    let server = word("`ADDRESS:PORT`", pattern, "169.254.169.254:80").parsed(
        |text: &String| {
            let wrong = format!("{} is not ADDRESS:PORT; write such as 169.254.169.254:80", quoted(text));
            text.parse::<SocketAddr>().map_err(|_| wrong)
        },
        SocketAddr::to_string,
    );
    let empty = "this list is empty; name a source, or remove sources";
    keys! {
        Mapping::new("sources", SourcesSpec::default);
        needed "from" from = kind.some("a list of sources", empty), "from: [disk, commandLine]",
            "the sources that are used. Each [overrides](howto/sources.md#order) those before it in this order: \
             `disk`, `credentials`, `noCloud`, `metadata`, `commandLine`";
        key "wait" wait = duration(), "how long the boot waits for a disk that is a source";
        key "server" server = server, "the address of the server of `metadata`";
    }
    .strict()
}
