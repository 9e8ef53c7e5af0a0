//! The generations that are kept.

use std::fs;

use kelson_spec::applied::{About, Generation, Kept};
use kelson_sys::ordered;

use super::{ABOUT, MOST, REVERTED, Store};

impl Store {
    pub(super) fn history(&self) -> Vec<Kept> {
        let current = self.current();
        let kept = self.numbers().into_iter().rev().chain([0]);
        kept.map(|generation| {
            let folder = self.folder.join(generation.to_string());
            Kept {
                generation,
                current: generation == current,
                reverted: generation != 0 && folder.join(REVERTED).exists(),
                about: self.about(generation),
            }
        })
        .collect()
    }

    pub(super) fn about(&self, generation: Generation) -> Option<About> {
        let file = self.folder.join(generation.to_string()).join(ABOUT);
        serde_json::from_slice(&fs::read(file).ok()?).ok()
    }

    /// Those that are kept, the oldest first.
    pub(super) fn numbers(&self) -> Vec<Generation> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut numbers: Vec<Generation> =
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|n| *n > 0).collect();
        ordered::sort(&mut numbers);
        numbers
    }

    /// Removes the oldest. A failure costs some room, and the next write tries again.
    pub(super) fn prune(&self, used: &[Generation]) {
        let numbers = self.numbers();
        let old = numbers.len().saturating_sub(MOST);
        for number in numbers.iter().take(old).filter(|number| !used.contains(number)) {
            let gone = self.folder.join(format!(".old-{number}"));
            // Its name goes first: what has a number is whole.
            let _ = self.disk.rename(&self.folder.join(number.to_string()), &gone);
        }
    }

    /// Removes what a write has left that was broken off.
    pub(super) fn sweep(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                let _ = self.disk.remove_all(&entry.path());
            }
        }
    }
}
