//! The children that an incarnation of PID 1 was making when it ended, as the next one finds them.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::Path;

use kelson_runner::{Options, Processes};

use crate::place::{self, Place};

thread_local! {
    static FOLDER: std::cell::OnceCell<Place> = const { std::cell::OnceCell::new() };
}

/// How many there can be.
const SLOTS: usize = 127;

fn map(path: &Path) -> Processes {
    let file = File::options().read(true).write(true).open(path).expect("it was written");
    let record = Some(OwnedFd::from(file));
    Processes::new(Options { spawners: Some(1), record, ..Options::default() }).expect("it can be mapped")
}

/// The file, of any length.
pub fn file(data: &[u8]) {
    place::with(&FOLDER, |place| {
        let path = place.path().join("spawns");
        // The header of the layout that this version reads, and what follows it.
        let header = [&b"KELSONS\x01"[..], &32_u32.to_le_bytes(), &127_u32.to_le_bytes(), &[0; 16]].concat();
        fs::write(&path, [&header, data].concat()).expect("there is room");
        let processes = map(&path);
        let leftovers = processes.leftovers().to_vec();
        assert!(leftovers.len() <= SLOTS && leftovers.iter().all(|leftover| leftover.pid != 0));
        for leftover in &leftovers {
            // No number is a child: this process has none.
            assert_eq!(processes.child_started(leftover.pid), None);
            assert!(processes.adopt(leftover.pid, leftover.run).is_ok_and(|child| child.is_none()));
            processes.forget(*leftover);
        }
        assert_eq!(map(&path).leftovers(), [], "each was forgotten");
    });
}
