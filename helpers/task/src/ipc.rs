//! System V and POSIX IPC that a user has left.

use std::fs;
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::Path;

use kelson_sys::ipc::Kind;
use kelson_sys::process::{Status, numbers};
use nix::errno::Errno;

use crate::failure::at;

/// Where POSIX shared memory, semaphores and queues of messages are files.
const FOLDERS: [&str; 2] = ["/dev/shm", "/dev/mqueue"];

/// Removes all that is a user's, unless it still has a process: that may be of another service, which uses it.
pub fn remove(uid: u32) -> Result<String, String> {
    if uid == 0 || has_process(uid) {
        return Ok(String::new());
    }
    let mut failed = None;
    for kind in Kind::ALL {
        let Ok(table) = fs::read_to_string(kind.table()) else { continue };
        for id in of_user(&table, uid) {
            match kind.remove(id) {
                Ok(()) | Err(Errno::EINVAL | Errno::EIDRM) => {}
                Err(errno) => failed = Some(format!("{} {id}: {}", kind.table(), errno.desc())),
            }
        }
    }
    for folder in FOLDERS {
        if let Err(why) = remove_files(Path::new(folder), uid) {
            failed = Some(why);
        }
    }
    failed.map_or_else(|| Ok(String::new()), Err)
}

fn has_process(uid: u32) -> bool {
    let pids = numbers::<i32>("/proc").unwrap_or_default();
    pids.into_iter().any(|pid| {
        // Real, effective, saved, of files.
        let status = Status::read(pid).ok();
        let ids = status.as_ref().and_then(|status| status.field("Uid"));
        ids.is_some_and(|ids| ids.split_ascii_whitespace().any(|id| id.parse() == Ok(uid)))
    })
}

/// The numbers of a table that are a user's. Its first line names the columns.
fn of_user(table: &str, uid: u32) -> Vec<i32> {
    let mut lines = table.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let Some(names) = lines.next() else { return Vec::new() };
    let column = |wanted: &dyn Fn(&str) -> bool| names.iter().position(|name| wanted(name));
    let columns = (column(&|name| name.ends_with("id") && name.len() == 5), column(&|name| name == "uid"));
    let (Some(id), Some(owner)) = columns else { return Vec::new() };
    let of_line = |line: Vec<&str>| {
        let is_own = line.get(owner)?.parse() == Ok(uid);
        line.get(id)?.parse().ok().filter(|_| is_own)
    };
    lines.filter_map(of_line).collect()
}

/// Removes files of a user, and its folders that are empty then.
fn remove_files(folder: &Path, uid: u32) -> Result<(), String> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    let mut failed = Ok(());
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(file) = path.symlink_metadata() else { continue };
        // Not on another file system, and not replaced meanwhile.
        if file.ino() != entry.ino() {
            continue;
        }
        if file.is_dir() {
            remove_files(&path, uid)?;
        }
        if file.uid() != uid {
            continue;
        }
        let removed = if file.is_dir() { fs::remove_dir(&path) } else { fs::remove_file(&path) };
        match removed {
            Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => {}
            removed => failed = failed.and(kelson_sys::removed(removed).map_err(|error| at(&path, error))),
        }
    }
    failed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_tells_what_is_a_users() {
        let shm = "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid\n\
                   0          5  1600                  4096  1     2     0  1000  1000  1000  1000\n\
                   0          6  1600                  4096  1     2     0  1001  1000  1000  1000\n";
        assert_eq!(of_user(shm, 1000), [5]);
        let msg = "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid\n\
                   0 7 600 0 0 0 0 1001 0 0 0\n";
        assert_eq!((of_user(msg, 1001), of_user(msg, 1000)), (vec![7], vec![]));
        assert_eq!(of_user("", 0), [0; 0]);
    }

    #[test]
    fn a_user_with_a_process_keeps_all() {
        let own = fs::metadata("/proc/self").unwrap().uid();
        assert!(has_process(own) && !has_process(0x7fff_fff1));
    }

    #[test]
    fn files_of_one_user_go() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(folder.path().join("below/file"), "").unwrap();
        let own = folder.path().metadata().unwrap().uid();
        remove_files(folder.path(), own.wrapping_add(1)).unwrap();
        assert!(folder.path().join("below/file").exists());
        remove_files(folder.path(), own).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
