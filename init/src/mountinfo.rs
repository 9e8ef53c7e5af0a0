//! `/proc/self/mountinfo`: what is mounted, and in which order it comes off.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub id: u64,
    pub parent: u64,
    /// `major:minor`
    pub device: String,
    /// What of the file system is mounted.
    pub root: PathBuf,
    pub target: PathBuf,
    /// Options of this mount, such as `ro,nosuid`.
    pub options: String,
    pub fs_type: String,
    pub source: String,
    /// Options of the file system, such as `rw,errors=continue`.
    pub super_options: String,
}

impl Mount {
    /// Whether the file system itself may be written.
    pub fn writable(&self) -> bool {
        self.super_options.split(',').next() == Some("rw")
    }

    /// Whether the file system may be written at this place.
    pub fn writable_here(&self) -> bool {
        self.options.split(',').next() == Some("rw")
    }

    /// Whether it lies on a block device, and so has something to lose.
    pub fn on_disk(&self) -> bool {
        !self.device.starts_with("0:") || matches!(self.fs_type.as_str(), "btrfs" | "bcachefs" | "zfs")
    }
}

/// The mounts of this process, in the kernel's order.
///
/// # Errors
/// When `/proc` is not there.
pub fn read() -> std::io::Result<Vec<Mount>> {
    Ok(parse(&std::fs::read("/proc/self/mountinfo")?))
}

/// The mount at the root of the tree that is seen at `target`: of several over each other, the topmost.
pub fn topmost<'a>(mounts: &'a [Mount], target: &Path) -> Option<&'a Mount> {
    mounts.iter().rev().find(|mount| mount.target == target)
}

/// Parses mountinfo; lines that are not understood are left out.
pub fn parse(bytes: &[u8]) -> Vec<Mount> {
    bytes.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|byte| *byte == b' ');
    let mut text = || words.next().map(|word| String::from_utf8_lossy(&unescape(word)).into_owned());
    let id = text()?.parse().ok()?;
    let parent = text()?.parse().ok()?;
    let device = text()?;
    let mut path = || Some(PathBuf::from(OsString::from_vec(unescape(words.next()?))));
    let (root, target) = (path()?, path()?);
    let mut text = || words.next().map(|word| String::from_utf8_lossy(&unescape(word)).into_owned());
    let options = text()?;
    // Optional fields (shared:1 and such) end at a dash.
    while text()? != "-" {}
    Some(Mount {
        id,
        parent,
        device,
        root,
        target,
        options,
        fs_type: text()?,
        source: text()?,
        super_options: text().unwrap_or_default(),
    })
}

/// The kernel writes space, tab, line end and backslash as three octal digits.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((first, tail)) = rest.split_first() {
        let octal = (*first == b'\\')
            .then(|| tail.get(..3))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(byte) => {
                out.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

/// All mounts in an order in which they can come off: whatever lies in or over another before that one, and of
/// those side by side the newest first.
pub fn unmount_order(mounts: &[Mount]) -> Vec<&Mount> {
    let mut children: BTreeMap<u64, Vec<&Mount>> = BTreeMap::new();
    for mount in mounts {
        children.entry(mount.parent).or_default().push(mount);
    }
    let known: BTreeSet<u64> = mounts.iter().map(|mount| mount.id).collect();
    let roots = mounts.iter().filter(|mount| mount.parent == mount.id || !known.contains(&mount.parent));
    let mut pending: Vec<&Mount> = roots.collect();
    let mut order = Vec::with_capacity(mounts.len());
    // From the roots down, then all of it turned round: parents come out after everything in them.
    while let Some(mount) = pending.pop() {
        order.push(mount);
        if let Some(inside) = children.remove(&mount.id) {
            pending.extend(inside.iter().rev().filter(|child| child.id != mount.id));
        }
    }
    order.reverse();
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "\
28 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro
22 28 0:21 / /proc rw,nosuid shared:12 - proc proc rw
30 28 254:2 / /var rw,noatime shared:2 master:3 - ext4 /dev/vda2 rw
40 30 0:40 / /var/my\\040dir ro - tmpfs tmpfs rw,size=1k
41 30 254:3 / /var/b rw - xfs /dev/vda3 ro
42 40 254:4 / /var/my\\040dir/deep rw - ext4 /dev/vda4 rw
50 28 254:5 / /var rw - ext4 /dev/vda5 rw
not a line
";

    #[test]
    fn lines_are_understood() {
        let mounts = parse(EXAMPLE.as_bytes());
        assert_eq!(mounts.len(), 7);
        assert_eq!(mounts[3].target, PathBuf::from("/var/my dir"));
        assert_eq!(mounts[2].fs_type, "ext4");
        assert_eq!(mounts[2].source, "/dev/vda2");
        assert!(mounts[2].on_disk() && mounts[2].writable());
        assert!(!mounts[3].on_disk());
        assert!(!mounts[4].writable());
        assert_eq!(topmost(&mounts, Path::new("/var")).unwrap().id, 50);
    }

    #[test]
    fn this_machines_own_mounts_are_understood() {
        let mounts = read().unwrap();
        assert_eq!(mounts.len(), std::fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count());
        assert!(topmost(&mounts, Path::new("/proc")).is_some_and(|mount| mount.fs_type == "proc"));
    }

    #[test]
    fn what_lies_inside_comes_off_first() {
        let mounts = parse(EXAMPLE.as_bytes());
        let order: Vec<u64> = unmount_order(&mounts).iter().map(|mount| mount.id).collect();
        assert_eq!(order, [50, 41, 42, 40, 30, 22, 28]);
    }

    #[test]
    fn a_moved_mount_comes_off_before_its_new_place() {
        // An image that was mounted first and moved under /run later: its number is lower than its parent's.
        let text = "\
9 7 7:0 / /run/kelson/root/image ro - squashfs /dev/loop0 ro
7 5 0:7 / /run rw - tmpfs tmpfs rw
5 1 0:5 / / rw - overlay overlay rw
";
        let mounts = parse(text.as_bytes());
        let order: Vec<u64> = unmount_order(&mounts).iter().map(|mount| mount.id).collect();
        assert_eq!(order, [9, 7, 5]);
    }

    #[test]
    fn a_mount_that_names_itself_as_parent_ends() {
        let mounts = parse(b"1 1 0:1 / / rw - rootfs rootfs rw\n2 1 0:2 / /a rw - tmpfs t rw\n");
        assert_eq!(unmount_order(&mounts).iter().map(|mount| mount.id).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn as_many_as_the_kernel_allows_are_ordered_soon() {
        // Over each other: the parent of each is the one before it.
        let text: String =
            (1..100_000).map(|id| format!("{id} {} 0:1 / /a rw - tmpfs t rw\n", id - 1)).collect();
        let began = std::time::Instant::now();
        let mounts = parse(text.as_bytes());
        let order = unmount_order(&mounts);
        assert!(order.iter().map(|mount| mount.id).eq((1..100_000).rev()));
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
    }
}
