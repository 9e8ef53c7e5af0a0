use std::collections::BTreeSet;

use super::*;
use crate::server::metrics::{fleet_families, volume_families};

fn all() -> impl Iterator<Item = &'static Family> {
    FAMILIES.iter().chain(volume_families::FAMILIES).chain(fleet_families::FAMILIES)
}

/// As docs/metrics.md has it: name, type, labels.
fn rows(page: &str) -> BTreeSet<(String, String, String)> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `kelson_"));
    rows.map(|row| {
        let mut cells = row.split(" |").map(|cell| cell.trim().replace('`', ""));
        let mut next = || cells.next().expect(row);
        (format!("kelson_{}", next()), next(), next())
    })
    .collect()
}

#[test]
fn the_page_tells_each_metric_as_it_is() {
    let families: BTreeSet<_> = all()
        .map(|family| {
            let (kind, suffix) = match family.kind {
                Type::Gauge => ("gauge", ""),
                Type::Counter => ("counter", "_total"),
                Type::Summary => ("summary", ""),
                Type::Unspecified => panic!("{} has no type", family.name),
            };
            (format!("{}{suffix}", family.name), kind.to_owned(), family.labels.join(", "))
        })
        .collect();
    assert_eq!(families.len(), all().count(), "a name is there twice");
    assert_eq!(rows(include_str!("../../../../../docs/metrics.md")), families);
}

#[test]
fn names_are_as_openmetrics_wants_them() {
    for family @ Family { name, kind, labels, .. } in all() {
        assert!(name.starts_with("kelson_") && !name.ends_with("_total"), "{name}");
        let unit = family.part(Samples::default()).unit;
        assert!(unit.is_empty() || name.ends_with(&format!("_{unit}")), "{name} is in {unit}");
        assert_ne!(*kind, Type::Unspecified, "{name}");
        let fit = |word: &str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        assert!(fit(name) && labels.iter().all(|label| fit(label)), "{name}");
    }
}
