//! `/proc/PID/mountinfo` (proc_pid_mountinfo(5)): what is mounted, and in which order it comes off.
//!
//! The kernel prints this table from memory, whatever state the file systems are in.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The number of a file system's device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    pub major: u32,
    pub minor: u32,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// One mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub id: u32,
    pub parent: u32,
    pub device: Device,
    /// The part of the file system that is mounted.
    pub root: PathBuf,
    pub target: PathBuf,
    /// Of this mount, such as `ro` and `nosuid`.
    pub options: Vec<String>,
    pub fs_type: String,
    pub source: String,
    /// Of the file system, such as `rw` and `errors=continue`.
    pub super_options: Vec<String>,
}

impl Mount {
    /// Whether the file system itself may be written.
    pub fn writable(&self) -> bool {
        self.super_options.first().is_some_and(|word| word == "rw")
    }

    /// Whether the file system may be written at this place.
    pub fn writable_here(&self) -> bool {
        self.options.first().is_some_and(|word| word == "rw")
    }

    /// Whether it lies on a block device, and so has something to lose.
    pub fn on_disk(&self) -> bool {
        self.device.major != 0 || matches!(self.fs_type.as_str(), "btrfs" | "bcachefs" | "zfs")
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

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`: number, parent, device, root,
/// target, options, optional fields, a dash, type, source, options.
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut words = line.split(|byte| *byte == b' ');
    let mut next = || words.next();
    let (id, parent) = (number(next()?)?, number(next()?)?);
    let mut device = next()?.splitn(2, |byte| *byte == b':');
    let device = Device { major: number(device.next()?)?, minor: number(device.next()?)? };
    let (root, target) = (path(next()?), path(next()?));
    let options = list(next()?);
    while next()? != b"-" {}
    let (fs_type, source) = (text(next()?), text(next()?));
    let super_options = list(next().unwrap_or_default());
    Some(Mount { id, parent, device, root, target, options, fs_type, source, super_options })
}

fn number(word: &[u8]) -> Option<u32> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

fn path(word: &[u8]) -> PathBuf {
    OsString::from_vec(unescape(word)).into()
}

fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(&unescape(word)).into_owned()
}

/// An option may hold a comma, which is written as an escape.
fn list(word: &[u8]) -> Vec<String> {
    word.split(|byte| *byte == b',').map(text).collect()
}

/// Space, tab, newline, backslash and others are written as a backslash and three octal digits.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [first, after @ ..] = rest {
        let code = if *first == b'\\' { after.first_chunk::<3>().and_then(octal) } else { None };
        out.push(code.unwrap_or(*first));
        let used = if code.is_some() { 4 } else { 1 };
        rest = rest.get(used..).unwrap_or_default();
    }
    out
}

fn octal(digits: &[u8; 3]) -> Option<u8> {
    let text = std::str::from_utf8(digits).ok()?;
    if !text.bytes().all(|digit| (b'0'..=b'7').contains(&digit)) {
        return None;
    }
    u8::from_str_radix(text, 8).ok()
}

/// All mounts in an order in which they can come off: whatever lies in or over another before that one, and of
/// those side by side the newest first.
pub fn unmount_order(mounts: &[Mount]) -> Vec<&Mount> {
    let mut children: HashMap<u32, Vec<&Mount>> = HashMap::new();
    for mount in mounts {
        children.entry(mount.parent).or_default().push(mount);
    }
    let known: HashSet<u32> = mounts.iter().map(|mount| mount.id).collect();
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
    fn escapes() {
        assert_eq!(unescape(b"a\\040b\\011\\134\\04"), b"a b\t\\\\04");
        assert_eq!(unescape(b"\\999\\777"), b"\\999\\777");
        let mounts =
            parse(b"1 0 0:41 / /a rw - overlay o\\040o rw,lowerdir=/x\\054y,index=off\n2 1 0:9 / /\n");
        assert_eq!(mounts.len(), 1);
        assert_eq!((mounts[0].source.as_str(), mounts[0].device.to_string().as_str()), ("o o", "0:41"));
        assert_eq!(mounts[0].super_options, ["rw", "lowerdir=/x,y", "index=off"]);
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
        let order: Vec<u32> = unmount_order(&mounts).iter().map(|mount| mount.id).collect();
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
        let order: Vec<u32> = unmount_order(&mounts).iter().map(|mount| mount.id).collect();
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
