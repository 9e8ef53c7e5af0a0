//! The files of a cgroup, and what `/proc` says of a process. A process chooses its own name, which stands in there.

use std::cell::OnceCell;
use std::fs::File;

use kelson_runner::CgroupRoot;
use kelson_sys::process::Stat;

use crate::input;
use crate::place::{self, Place};

thread_local! {
    static FOLDER: OnceCell<Place> = const { OnceCell::new() };
}

const NAMES: [&str; 8] = [
    "cgroup.events",
    "cgroup.freeze",
    "cgroup.procs",
    "cpu.stat",
    "memory.current",
    "memory.events",
    "pids.current",
    "stat",
];

/// Several files, each after a line `=== NAME`.
pub fn files(data: &[u8]) {
    let found = input::files(data, "memory.events");
    place::with(&FOLDER, |place| {
        for name in NAMES {
            let bytes = found.iter().find(|(known, _)| *known == name).map_or(&b""[..], |(_, bytes)| bytes);
            place.write(&format!("web/{name}"), bytes);
        }
        let folder = File::open(place.path()).expect("the folder is there");
        let root = CgroupRoot::again(place.path().join("kelson"), File::open("/").expect("a folder").into());
        drop(root);
        let root = CgroupRoot::again(place.path().to_owned(), folder.into());
        let cgroup = root.cgroup("web");
        // Nothing here is to be signalled, thawed or removed: the numbers are anybody's.
        let _ = (cgroup.usage(), cgroup.is_populated(), cgroup.is_frozen(), cgroup.memory_kills());
        assert!(cgroup.processes(8).into_iter().all(|pid| pid > 0));
        assert!(cgroup.processes(8).len() <= 8);
    });
    for (name, bytes) in found {
        if name == "stat" {
            let _ = Stat::parse(bytes).and_then(|stat| stat.start_time());
        }
    }
}
