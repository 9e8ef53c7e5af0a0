//! The file of a group.

use super::health::CheckOf;
use super::{Decoder, Place};
use crate::tree::Node;
use kelson_spec::group::GroupSpec;
use kelson_spec::service::{RestartScope, RestartSpec, ServiceKind};

pub const KEYS: [&str; 5] = ["name", "minimum", "deadline", "restart", "health"];

/// Decodes the tree of the file of the group `stem`; `None` where it has a mistake.
pub fn group(d: &mut Decoder<'_>, stem: &str, root: &Node) -> Option<GroupSpec> {
    let before = d.diagnostics.len();
    let place = Place::Root;
    let fields = d.fields(&place, root, &KEYS)?;
    let mut group = GroupSpec { name: stem.to_owned(), ..GroupSpec::default() };
    d.read(&fields, "name", |d, p, n| d.file_name(stem, p, n));
    (group.minimum, group.deadline) = d.health_times(&fields, "the group");
    d.set(&fields, "restart", &mut group.restart, |d, p, n| d.group_restart(p, n).map(Some));
    d.set(&fields, "health", &mut group.health, |d, p, n| d.health(CheckOf::Group, p, n));
    (d.diagnostics.len() == before).then_some(group)
}

impl Decoder<'_> {
    fn group_restart(&mut self, place: &Place<'_>, node: &Node) -> Option<RestartSpec> {
        let keys = ["delay", "maxDelay", "attempts", "interval", "exhausted"];
        let why = "a group is restarted when a member with restart: {scope: group} asks for it, whose own file has this key";
        let fields = self.fields_where(place, node, &keys, &["policy", "scope"], why)?;
        let mut restart =
            RestartSpec { scope: RestartScope::Group, ..RestartSpec::for_kind(ServiceKind::Service) };
        self.restart_times(&fields, &mut restart);
        Some(restart)
    }
}
