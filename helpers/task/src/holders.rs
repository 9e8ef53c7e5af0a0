//! What keeps a mount busy.

use std::fs;
use std::path::{Path, PathBuf};

use kelson_sys::{mountinfo, swaps};

/// Of each kind, as many as an operator can use.
const MOST: usize = 5;

/// What uses the mount at `target`, as far as it is seen from here: mounts within it, swap, loop devices, processes with
/// what they use of it. Nothing of this waits for the file system itself: only links are read, and the kernel has them in
/// its memory.
pub fn holders(target: &Path) -> Vec<String> {
    let within = |path: &Path| path.starts_with(target);
    let mut found = Vec::new();
    let mounts = mountinfo::read().unwrap_or_default();
    let inner =
        mounts.iter().map(|mount| &mount.target).filter(|inner| within(inner) && inner.as_path() != target);
    found.extend(inner.take(MOST).map(|inner| format!("the mount {}", inner.display())));
    found.extend(
        swaps::read()
            .iter()
            .filter(|file| within(file))
            .take(MOST)
            .map(|file| format!("swap on {}", file.display())),
    );
    found.extend(loops(Path::new("/sys/block"), &within).take(MOST));
    found.extend(processes(Path::new("/proc"), &within).take(MOST));
    found
}

fn loops<'a>(devices: &Path, within: &'a dyn Fn(&Path) -> bool) -> impl Iterator<Item = String> + 'a {
    fs::read_dir(devices).into_iter().flatten().flatten().filter_map(move |entry| {
        let file = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        let file = file.trim_end();
        within(Path::new(file)).then(|| format!("{} with the file {file}", entry.file_name().display()))
    })
}

/// One line for each process: its first use of the mount.
fn processes<'a>(proc: &Path, within: &'a dyn Fn(&Path) -> bool) -> impl Iterator<Item = String> + 'a {
    let own = std::process::id().to_string();
    fs::read_dir(proc).into_iter().flatten().flatten().filter_map(move |entry| {
        let pid = entry
            .file_name()
            .into_string()
            .ok()
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))?;
        let (what, path) = use_of(&entry.path(), within).filter(|_| pid != own)?;
        let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        Some(format!("process {pid} ({}): {what} {}", name.trim_end(), path.display()))
    })
}

/// The first use that a process makes of a path.
fn use_of(process: &Path, within: &dyn Fn(&Path) -> bool) -> Option<(&'static str, PathBuf)> {
    let link = |name: &str| fs::read_link(process.join(name)).ok().filter(|path| within(path));
    let any = |folder: &str| {
        let entries = fs::read_dir(process.join(folder)).ok()?;
        entries.flatten().find_map(|entry| fs::read_link(entry.path()).ok().filter(|path| within(path)))
    };
    let single = |what, name| link(name).map(|path| (what, path));
    single("working directory", "cwd")
        .or_else(|| single("root", "root"))
        .or_else(|| single("program", "exe"))
        .or_else(|| any("fd").map(|path| ("open file", path)))
        .or_else(|| any("map_files").map(|path| ("mapped file", path)))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_is_named_with_its_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = fs::canonicalize(folder.path()).unwrap();
        assert_eq!(holders(&path), [""; 0]);
        let file = path.join("file");
        let sleeping = |command: &mut Command| command.arg("60").spawn().unwrap();
        let mut opened = sleeping(Command::new("sleep").stdin(Stdio::from(File::create(&file).unwrap())));
        let mut within = sleeping(Command::new("sleep").current_dir(&path));
        let pids = [opened.id(), within.id()];
        let mut found = holders(&path);
        for child in [&mut opened, &mut within] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        found.sort();
        let mut expected = [
            format!("process {} (sleep): open file {}", pids[0], file.display()),
            format!("process {} (sleep): working directory {}", pids[1], path.display()),
        ];
        expected.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_loop_device_is_named_with_its_file() {
        let sys = tempfile::tempdir().unwrap();
        fs::create_dir_all(sys.path().join("loop0/loop")).unwrap();
        fs::write(sys.path().join("loop0/loop/backing_file"), "/srv/image\n").unwrap();
        fs::create_dir_all(sys.path().join("loop1")).unwrap();
        let within = |path: &Path| path.starts_with("/srv");
        assert_eq!(loops(sys.path(), &within).collect::<Vec<_>>(), ["loop0 with the file /srv/image"]);
        let elsewhere = |path: &Path| path.starts_with("/home");
        assert_eq!(loops(sys.path(), &elsewhere).count(), 0);
    }
}
