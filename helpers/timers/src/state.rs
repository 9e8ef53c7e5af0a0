//! The file of the last starts, which outlives the host's boots.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use crate::agenda::Kept;

pub struct State {
    path: PathBuf,
    /// The boot of this host.
    boot: String,
    /// Of services without a schedule too: theirs may come back.
    pub kept: BTreeMap<String, Kept>,
}

/// Entries of services that are gone; further ones are not kept.
const MOST: usize = 20_000;

impl State {
    /// What cannot be read is taken for empty: then a time that passed is not made up for.
    pub fn read(folder: &Path, boot: String) -> State {
        let path = folder.join("timers");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let is_of_this = |line: &str| line.strip_prefix("boot: ") == Some(&boot);
        let of_this = text.lines().next().is_some_and(is_of_this);
        let entry = |line: &str| {
            let mut words = line.split(' ');
            let (name, base, last) = (words.next()?, words.next()?, words.next()?);
            let boot = words.next().filter(|_| of_this).and_then(|boot| boot.parse().ok());
            Some((name.to_owned(), Kept { base: base.parse().ok()?, last: last.parse().ok()?, boot }))
        };
        let kept = text.lines().take(MOST).filter_map(entry).collect();
        State { path, boot, kept }
    }

    /// Replaces the file whole.
    ///
    /// # Errors
    /// When the disk does not take it.
    pub fn write(&self) -> io::Result<()> {
        let mut text = format!("boot: {}\n", self.boot);
        for (name, Kept { base, last, boot }) in &self.kept {
            // Writing into a String does not fail.
            let _ = write!(text, "{name} {base} {last}");
            let _ = boot.map_or(Ok(()), |boot| write!(text, " {boot}"));
            text.push('\n');
        }
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let new = self.path.with_extension("new");
        kelson_sys::replace(&self.path, &new, 0o644, text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_in_a_boot_is_told_from_what_was_before() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("timers"), "old 5 4\n").unwrap();
        let mut state = State::read(folder.path(), "a 1".to_owned());
        assert_eq!(state.kept["old"], Kept { base: 5, last: 4, boot: None });
        state.kept.insert("new".to_owned(), Kept { base: 9, last: 8, boot: Some(7) });
        state.write().unwrap();
        assert_eq!(State::read(folder.path(), "a 1".to_owned()).kept, state.kept);
        let next = State::read(folder.path(), "b 1".to_owned()).kept;
        assert_eq!(next["new"], Kept { base: 9, last: 8, boot: None });
        assert_eq!(next.len(), 2);
    }
}
