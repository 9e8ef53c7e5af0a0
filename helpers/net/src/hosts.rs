//! The name that a server gives to this host: its check, and the file of hosts with it.

use std::path::Path;

use kelson_helper::log::line;
use kelson_spec::names::{hosts_file, is_hostname};

use crate::record;

/// In the folder of the leases; `/run/kelson/hosts` leads to it.
pub const FILE: &str = "hosts";

/// Whether the name tells this host from others, and is one that it can have.
pub fn is_right(name: &str) -> bool {
    is_hostname(name) && name != "localhost"
}

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
    fn only_a_name_of_a_host_is_taken() {
        for name in ["edge-1", "edge-1.example.com", "7"] {
            assert!(is_right(name), "{name}");
        }
        for name in ["", "localhost", "a_b", "-a", "a-", "a..b", "a b", "a\nb", &"a".repeat(65)] {
            assert!(!is_right(name), "{name:?}");
        }
    }

    #[test]
    fn the_file_follows_the_name() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["edge-1", "edge-2"] {
            write(folder.path(), name);
            assert_eq!(std::fs::read_to_string(folder.path().join(FILE)).unwrap(), hosts_file(name));
        }
    }
}
