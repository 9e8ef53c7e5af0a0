//! The file of a group.

use std::time::Duration;

use super::checks::{CheckOf, checks};
use super::mapping::{Mapping, keys};
use super::restart::group_restart;
use super::seen::Seen;
use super::values::{duration, duration_from, own_name};
use crate::decode::Decoder;
use crate::tree::Node;
use kelson_spec::group::GroupSpec;

/// The shortest deadline of a group or of the host.
pub const LEAST_DEADLINE: Duration = Duration::from_secs(1);

/// Decodes the tree of the file of the group `stem`; `None` where it has a mistake.
pub fn group(d: &mut Decoder<'_>, stem: &str, root: &Node) -> Option<GroupSpec> {
    let before = d.diagnostics.len();
    d.stem = stem.to_owned();
    let group = group_file().decode(d, root);
    group.filter(|_| d.diagnostics.len() == before)
}

/// The whole file.
pub fn group_file() -> Mapping<GroupSpec> {
    keys! {
        Mapping::new("group", GroupSpec::default);
        means "name" name = own_name(), "the file's name",
            "the name of the group: the name of the file without `.yaml`";
        means "minimum" minimum = duration().optional(),
            "`health.minimum` of the [machine file](machine-file.md#health)",
            "how long all its services must be up without a break. `0s`: at once. If `deadline` is \
             shorter than this default, `minimum` is as short";
        means "deadline" deadline = duration_from(LEAST_DEADLINE).optional(),
            "`health.deadline` of the [machine file](machine-file.md#health)",
            "the time after which a group that has not been healthy has failed. Not less than `minimum`. \
             If only `minimum` is given, at least twice `minimum`";
        means "restart" restart = Mapping::codec(group_restart).optional(), "that of the member that asks",
            "[restarts of the whole group](#restart)";
        means "health" health = checks(CheckOf::Group), "none",
            "[checks](#checks) that must all pass for the group to be healthy";
    }
    .check(|d, seen, group| {
        group.name.clone_from(&d.stem);
        within_deadline(d, seen, "the group", group.minimum, group.deadline);
    })
}

/// Whether what `minimum` and `deadline` say goes together.
pub fn within_deadline(
    d: &mut Decoder<'_>,
    seen: &Seen<'_, '_>,
    whose: &str,
    minimum: Option<Duration>,
    deadline: Option<Duration>,
) -> bool {
    let sound = minimum.zip(deadline).is_none_or(|(least, most)| most >= least);
    if !sound {
        let text = format!("deadline is less than minimum, so {whose} could never be healthy");
        seen.wrong_value(d, "deadline", text);
    }
    sound
}
