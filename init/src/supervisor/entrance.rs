//! Whether other users can come to the sockets of the runtime folder.
//!
//! kelson-apid and services with a `user` run as other users. Below a folder that these cannot enter the one finds no
//! socket to forward calls to, and the notify messages of the others never arrive: both look sound and do nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use kelson_spec::Diagnostic;

/// To enter it.
const OTHERS: u32 = 0o001;

/// A warning where other users cannot enter the runtime folder, or one that it lies in.
pub(super) fn closed(runtime: &Path) -> Option<Diagnostic> {
    // Links lead through other folders than those of their names.
    let runtime = runtime.canonicalize().unwrap_or_else(|_| runtime.to_owned());
    let mode = |folder: &Path| fs::metadata(folder).ok().map(|found| found.permissions().mode() & 0o7777);
    let is_closed =
        |folder: &Path| mode(folder).filter(|mode| mode & OTHERS == 0).map(|mode| (folder.to_owned(), mode));
    // The outermost is what keeps them out.
    let (folder, mode) = runtime.ancestors().filter_map(is_closed).last()?;
    let message = format!(
        "other users cannot enter this folder (mode {mode:04o}), in which the runtime folder {} lies: notify messages of \
         services with a `user` do not arrive, and apid reaches no socket; `chmod o+x` it, or start init with another \
         --runtime-dir",
        runtime.display()
    );
    Some(Diagnostic { file: folder, line: 0, column: 0, service: None, message })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_folder_that_is_closed_is_named_with_its_mode() {
        let outer = std::env::temp_dir().join(format!("kelson-entrance-{}", std::process::id()));
        let runtime = outer.join("inner/run");
        fs::create_dir_all(&runtime).unwrap();
        let set =
            |folder: &Path, mode| fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        for folder in [&outer, &outer.join("inner"), &runtime] {
            set(folder, 0o755);
        }
        assert_eq!(closed(&runtime), None);
        set(&runtime, 0o750);
        assert_eq!(closed(&runtime).unwrap().file, runtime);
        set(&outer, 0o700);
        let link = outer.join("link");
        std::os::unix::fs::symlink(&runtime, &link).unwrap();
        for runtime in [&runtime, &link] {
            let warning = closed(runtime).unwrap();
            assert_eq!(warning.file, outer);
            assert!(
                warning.message.contains("(mode 0700)") && warning.message.contains("inner/run lies"),
                "{warning}"
            );
        }
        set(&outer, 0o711);
        set(&runtime, 0o711);
        assert_eq!(closed(&runtime), None);
        fs::remove_dir_all(&outer).unwrap();
    }
}
