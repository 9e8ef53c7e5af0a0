//! The kernel's table of mounts, as each part of Kelson reads it. Anybody who may mount writes paths and options into it.

use std::collections::HashSet;
use std::path::{Component, Path};

use kelson_runner::cgroup::own_folder;
use kelson_sys::mountinfo;

#[path = "../../../conditions/src/sources/path/mounts.rs"]
#[allow(dead_code, reason = "what else is in it is for the conditions")]
mod of_conditions;

/// A table; what stands after a line `===` is another, of a moment later, and names of paths.
pub fn mountinfo(data: &[u8]) {
    let mounts = mountinfo::parse(data);
    let order = mountinfo::unmount_order(&mounts);
    // A circle of mounts that leads to no root comes off by no order at all; nothing comes off twice.
    assert!(order.len() <= mounts.len());
    let distinct: HashSet<*const mountinfo::Mount> =
        order.iter().map(|mount| std::ptr::from_ref(*mount)).collect();
    assert_eq!(distinct.len(), order.len());
    for mount in &mounts {
        let _ = (mount.writable(), mount.on_disk());
    }
    let _ = mountinfo::topmost(&mounts, Path::new("/"));

    let text = String::from_utf8_lossy(data);
    let (now, later) = text.split_once("\n===\n").unwrap_or((&text, ""));
    let (one, other) =
        (of_conditions::Mounts::parse(now.as_bytes()), of_conditions::Mounts::parse(later.as_bytes()));
    let places = one.differences(&other);
    for place in places.iter().take(16) {
        let place = of_conditions::tidy(place);
        let mount = one.of(&place);
        let _ = (mount.is_memory(), mount.notifies(), one.contains(mount.key), one.by_id(mount.key.id));
    }
    if let Some(folder) = own_folder(&mountinfo::parse(now.as_bytes()), later) {
        assert!(
            folder.components().all(|part| part != Component::ParentDir) || now.contains(".."),
            "{folder:?}"
        );
    }
}
