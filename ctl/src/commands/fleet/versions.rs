//! The versions of Kelson in a fleet.

use std::collections::BTreeMap;

use kelson_proto::v1::FleetHost;

use super::chosen::first_of;
use crate::output::{Table, or_dash, some, views};

/// The hosts of one version, by name.
pub struct Version<'a> {
    version: &'a str,
    hosts: Vec<&'a str>,
}

views! {
    // `version`: null where it is not known.
    Version<'_>: one { version: some(one.version), count: one.hosts.len(), hosts }
}

/// That of most hosts first.
pub fn of(hosts: &[FleetHost]) -> Vec<Version<'_>> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    hosts.iter().for_each(|host| versions.entry(&host.version).or_default().push(&host.name));
    let mut versions: Vec<Version<'_>> =
        versions.into_iter().map(|(version, hosts)| Version { version, hosts }).collect();
    versions.sort_by_key(|one| std::cmp::Reverse(one.hosts.len()));
    versions
}

pub fn table(versions: &[Version<'_>]) -> Table {
    Table::of(versions)
        .left("VERSION", |one| or_dash(some(one.version)))
        .right("HOSTS", |one| one.hosts.len().to_string())
        .cut("NAMES", |one| first_of(&one.hosts))
        .into()
}
