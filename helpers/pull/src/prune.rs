//! Images that no service names leave the store.

use std::collections::HashSet;

use kelson_image::{Pruned, Reference, Report};

use crate::Context;
use crate::error::PullError;

/// Removes the images that are not kept; `dry_run`: only tells them.
///
/// # Errors
/// Those of the disk.
pub fn run(context: &Context, keep: Option<&[String]>, dry_run: bool) -> Result<(), PullError> {
    let Some(keep) = keep else { return Ok(()) };
    let keep: HashSet<Reference> = keep.iter().filter_map(|name| Reference::parse(name).ok()).collect();
    let mut entries = context.store.entries()?;
    let (kept, removed): (Vec<_>, Vec<_>) =
        entries.manifests.into_iter().partition(|entry| keep.contains(&entry.annotations.name));
    let rows = removed.iter().map(|entry| Pruned {
        reference: entry.annotations.name.to_string(),
        size: context.store.size(entry.digest),
    });
    let rows: Vec<Pruned> = rows.collect();
    if !dry_run {
        entries = crate::store::Entries::of(kept);
        context.store.save(&entries)?;
        context.store.collect(&entries, &[], false)?;
    }
    for row in rows {
        context.reporter.send(&Report::Pruned(row));
    }
    Ok(())
}
