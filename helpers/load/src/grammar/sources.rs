//! `sources` of the machine file.

use super::mapping::{Mapping, keys};
use super::values::{choice, duration};
use kelson_spec::sources::{SourceKind, SourcesSpec};

/// Where configuration comes from besides the configuration folder.
pub fn sources() -> Mapping<SourcesSpec> {
    let kind = choice(SourceKind::ALL.map(|kind| (kind.name(), kind)));
    let empty = "this list is empty; name a source, or remove sources";
    keys! {
        Mapping::new("sources", SourcesSpec::default);
        needed "from" from = kind.some("a list of sources", empty), "from: [disk, commandLine]",
            "the sources that are used. Each [overrides](howto/sources.md#order) those before it in this order: \
             `disk`, `credentials`, `commandLine`";
        key "wait" wait = duration(), "how long the boot waits for a disk that is a source";
    }
    .strict()
}
