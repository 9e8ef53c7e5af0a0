//! The cgroups of a host that is PID 1 of a container: none of them stays behind, and none is taken over.
//!
//! Where controllers are passed on, PID 1 itself sits in a leaf below the services' root (`runner::cgroup`). It goes back
//! to where it was started, which only a cgroup takes that passes on no controllers.

use std::fs;
use std::io;
use std::path::Path;

/// How deep the services' own cgroups are looked into.
const DEPTH: u32 = 32;

/// Removes the cgroups below this one that hold no process, the deepest first.
pub fn remove_empty(folder: &Path) {
    remove_below(folder, DEPTH);
}

fn remove_below(folder: &Path, depth: u32) {
    let Some(depth) = depth.checked_sub(1) else { return };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_below(&entry.path(), depth);
            // The kernel keeps what holds a process.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Removes the root of the services' cgroups and all below it. All of its processes but this one have ended.
pub fn leave(root: &Path) {
    remove_empty(root);
    let left = fs::remove_dir(root).or_else(|_| step_out(root)).and_then(|()| match root.exists() {
        true => {
            remove_empty(root);
            fs::remove_dir(root)
        }
        false => Ok(()),
    });
    if let Err(error) = left {
        tracing::warn!("shutdown: the cgroup {} is left: {error}", root.display());
    }
}

/// Moves this process out of the root, to the cgroup above it.
fn step_out(root: &Path) -> io::Result<()> {
    let above = root.parent().unwrap_or(root);
    for folder in [root, above] {
        let passed_on = fs::read_to_string(folder.join("cgroup.subtree_control"))?;
        for controller in passed_on.split_ascii_whitespace() {
            fs::write(folder.join("cgroup.subtree_control"), format!("-{controller}"))?;
        }
    }
    fs::write(above.join("cgroup.procs"), "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_go_from_the_leaves_up() {
        let root = std::env::temp_dir().join(format!("kelson-leave-{}/kelson", std::process::id()));
        fs::create_dir_all(root.join("web/main/deep")).unwrap();
        fs::create_dir_all(root.join("_probe-3")).unwrap();
        remove_empty(&root);
        assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
        fs::create_dir_all(root.join("db")).unwrap();
        leave(&root);
        assert!(!root.exists() && root.parent().unwrap().exists());
        fs::remove_dir(root.parent().unwrap()).unwrap();
    }
}
