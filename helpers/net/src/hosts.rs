//! The file of hosts with the name that a server gives to this host.

use std::path::Path;

use kelson_helper::log::line;
use kelson_spec::names::hosts_file;

use crate::record;

/// In the folder of the leases; `/run/kelson/hosts` leads to it.
pub const FILE: &str = "hosts";

/// Writes the file of hosts for a host of this name.
pub fn write(folder: &Path, name: &str) {
    let (path, content) = (folder.join(FILE), hosts_file(name));
    if std::fs::read_to_string(&path).is_ok_and(|before| before == content) {
        return;
    }
    if let Err(error) = record::replace(&path, content.as_bytes()) {
        line(format_args!("{}: {error}", path.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_follows_the_name() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["edge-1", "edge-2"] {
            write(folder.path(), name);
            assert_eq!(std::fs::read_to_string(folder.path().join(FILE)).unwrap(), hosts_file(name));
        }
    }
}
