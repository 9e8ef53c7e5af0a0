//! The mounts of each path, from the kernel's table `mountinfo` in proc.
//!
//! The kernel prints this table from memory, whatever state the file systems are in: it is how a path is sorted to
//! those who may touch it before anybody touches it.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use kelson_sys::mountinfo::{self, Device};

/// Names one mount: the number of a mount is used again once it is gone, hardly ever for the same device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct MountKey {
    pub(super) id: u32,
    pub(super) major: u32,
    pub(super) minor: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) key: MountKey,
    parent: u32,
    pub(super) point: PathBuf,
    kind: String,
}

impl Mount {
    fn new(line: mountinfo::Mount) -> Option<Mount> {
        let mountinfo::Mount { id, parent, device: Device { major, minor }, target, fs_type, .. } = line;
        let key = MountKey { id, major, minor };
        target.is_absolute().then_some(Mount { key, parent, point: target, kind: fs_type })
    }

    /// Stands for every mount where the table cannot be read: trusted with nothing.
    fn unknown() -> Mount {
        Mount { key: MountKey::default(), parent: 0, point: PathBuf::from("/"), kind: String::new() }
    }

    /// Looking up a name in it waits for no device and no peer.
    pub(super) fn is_memory(&self) -> bool {
        #[rustfmt::skip]
        const MEMORY: [&str; 22] = [
            "tmpfs", "ramfs", "rootfs", "devtmpfs", "proc", "sysfs", "cgroup", "cgroup2", "devpts",
            "mqueue", "hugetlbfs", "debugfs", "tracefs", "securityfs", "configfs", "pstore", "bpf",
            "binfmt_misc", "nsfs", "fusectl", "selinuxfs", "smackfs",
        ];
        MEMORY.contains(&self.kind.as_str())
    }

    /// Whether inotify tells of all that comes and goes in it: not where the kernel itself or other hosts make and
    /// remove files.
    pub(super) fn notifies(&self) -> bool {
        #[rustfmt::skip]
        const NOTIFY: [&str; 26] = [
            "tmpfs", "ramfs", "rootfs", "devtmpfs", "devpts", "mqueue", "hugetlbfs", "ext2", "ext3",
            "ext4", "xfs", "btrfs", "bcachefs", "f2fs", "zfs", "jfs", "overlay", "squashfs",
            "erofs", "iso9660", "udf", "vfat", "exfat", "ntfs3", "minix", "msdos",
        ];
        NOTIFY.contains(&self.kind.as_str())
    }
}

/// The mounts of this process's namespace.
#[derive(Debug, Default)]
pub(super) struct Mounts {
    all: Vec<Mount>,
    /// Indices into `all`.
    children: HashMap<u32, Vec<usize>>,
    root: Option<usize>,
}

impl Mounts {
    /// Reads the table; lines that make no sense are left out.
    pub(super) fn parse(table: &[u8]) -> Mounts {
        let all: Vec<Mount> = mountinfo::parse(table).into_iter().filter_map(Mount::new).collect();
        let mut children: HashMap<u32, Vec<usize>> = HashMap::new();
        let mut root = None;
        let ids: HashSet<u32> = all.iter().map(|mount| mount.key.id).collect();
        for (index, mount) in all.iter().enumerate() {
            let has_parent = mount.parent != mount.key.id && ids.contains(&mount.parent);
            if has_parent {
                children.entry(mount.parent).or_default().push(index);
            } else if mount.point.as_os_str() == "/" {
                root = Some(index);
            }
        }
        Mounts { all, children, root }
    }

    /// The mount that an absolute path without symbolic links and `..` leads to, walked as the kernel would: a mount
    /// over a folder hides those that were below that folder before.
    pub(super) fn of(&self, path: &Path) -> Mount {
        let Some(mut current) = self.root.and_then(|root| self.all.get(root)) else {
            return Mount::unknown();
        };
        // A table that was read while it changed may hold a circle; each step needs a mount of its own.
        for _ in 0..self.all.len() {
            let below = self.children.get(&current.key.id).into_iter().flatten();
            let below = below.filter_map(|index| self.all.get(*index));
            match outermost(below.filter(|mount| path.starts_with(&mount.point))) {
                Some(next) => current = next,
                None => break,
            }
        }
        current.clone()
    }

    pub(super) fn contains(&self, key: MountKey) -> bool {
        self.all.iter().any(|mount| mount.key == key)
    }

    pub(super) fn by_id(&self, id: u32) -> Option<MountKey> {
        self.all.iter().find(|mount| mount.key.id == id).map(|mount| mount.key)
    }

    /// The places where the other table differs.
    pub(super) fn differences(&self, other: &Mounts) -> Vec<PathBuf> {
        let of_these: HashMap<MountKey, &Mount> = self.all.iter().map(|mount| (mount.key, mount)).collect();
        let of_those: HashMap<MountKey, &Mount> = other.all.iter().map(|mount| (mount.key, mount)).collect();
        let gone = self.all.iter().filter(|mount| of_those.get(&mount.key) != Some(mount));
        let new = other.all.iter().filter(|mount| of_these.get(&mount.key) != Some(mount));
        gone.chain(new).map(|mount| mount.point.clone()).collect()
    }
}

/// The mount that a walk from the root meets first; of several at one place, the last of the table.
fn outermost<'a>(mounts: impl Iterator<Item = &'a Mount>) -> Option<&'a Mount> {
    mounts.fold(None, |best: Option<&Mount>, mount| match best {
        Some(best) if best.point.as_os_str().len() < mount.point.as_os_str().len() => Some(best),
        _ => Some(mount),
    })
}

/// Makes any path absolute and takes out what means nothing; symbolic links and `..` stay.
pub(super) fn tidy(path: &Path) -> PathBuf {
    let rooted = Path::new("/").join(path);
    let tidied: PathBuf = rooted.components().collect();
    debug_assert!(tidied.as_os_str().as_bytes().starts_with(b"/"));
    tidied
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"1 0 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
        2 1 0:20 / /run rw shared:2 master:1 - tmpfs tmpfs rw\n\
        3 2 8:2 / /run/media\\040of\\134me rw - vfat /dev/sdb1 rw\n\
        4 1 0:30 / /mnt/deep rw - nfs4 host:/x rw\n\
        this is no line\n\
        5 1 0:31 / /mnt rw - tmpfs over rw\n\
        6 1 0:22 / /proc rw - proc proc rw\n\
        7 2 0:40 / /run/twice rw - ext4 a rw\n\
        8 7 0:41 / /run/twice rw - tmpfs b rw\n";

    fn kind(path: &str) -> String {
        Mounts::parse(TABLE).of(Path::new(path)).kind
    }

    #[test]
    fn the_longest_mount_that_is_not_hidden() {
        assert_eq!(kind("/"), "ext4");
        assert_eq!(kind("/running"), "ext4");
        assert_eq!(kind("/run"), "tmpfs");
        assert_eq!(kind("/run/media of\\me/x"), "vfat");
        assert_eq!(kind("/mnt/deep/x"), "tmpfs", "/mnt was mounted over it later");
        assert_eq!(kind("/run/twice/x"), "tmpfs", "the upper of two at one place");
    }

    #[test]
    fn who_may_be_touched() {
        let mounts = Mounts::parse(TABLE);
        let of = |path: &str| mounts.of(Path::new(path));
        assert!(of("/run/x").is_memory() && of("/run/x").notifies());
        assert!(of("/proc/1").is_memory() && !of("/proc/1").notifies());
        assert!(!of("/etc").is_memory() && of("/etc").notifies());
        let nothing = Mounts::parse(b"").of(Path::new("/run"));
        assert!(!nothing.is_memory() && !nothing.notifies(), "an unknown table allows nothing");
    }

    #[test]
    fn differences_name_the_places() {
        let before = Mounts::parse(TABLE);
        let after = Mounts::parse(
            b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:20 / /run rw - tmpfs tmpfs rw\n9 1 8:9 / /new rw - ext4 x rw\n",
        );
        let mut places = before.differences(&after);
        places.sort();
        let expected =
            ["/mnt", "/mnt/deep", "/new", "/proc", "/run/media of\\me", "/run/twice", "/run/twice"];
        assert_eq!(places, expected.map(PathBuf::from));
        assert!(before.differences(&Mounts::parse(TABLE)).is_empty());
    }

    #[test]
    fn a_circle_ends() {
        let mounts = Mounts::parse(
            b"1 0 8:1 / / rw - ext4 a rw\n2 1 8:2 / / rw - ext4 b rw\n1 2 8:3 / / rw - x c rw\n",
        );
        assert!(!mounts.of(Path::new("/a")).is_memory());
    }

    #[test]
    fn the_real_table() {
        let table = std::fs::read("/proc/self/mountinfo").expect("proc is mounted");
        let mounts = Mounts::parse(&table);
        assert_eq!(mounts.of(Path::new("/proc/self")).kind, "proc");
        assert_eq!(mounts.of(Path::new("/dev/shm/x")).kind, "tmpfs");
    }

    #[test]
    fn tidy_paths() {
        assert_eq!(tidy(Path::new("a//b/./c/")), Path::new("/a/b/c"));
        assert_eq!(tidy(Path::new("/a/../b")), Path::new("/a/../b"));
    }
}
