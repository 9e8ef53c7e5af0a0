//! The disk of a machine whose power is cut, and what such a cut takes from it.
//!
//! QEMU that is killed leaves in its file all that the machine had given to the disk: the memory of this computer
//! outlives it. A real drive may have a cache of its own, which loses what was not flushed, in any order. So QEMU
//! writes down each write and each flush ([`Drive::log`]), and after a cut the disk is made again from what it was
//! before the boot: all that was written before the last flush, and of what came after it as much as chance wants,
//! single sectors of a write included.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::dice::Dice;
use crate::paths;

const SECTOR: u64 = 512;
/// `FLUSH` and `DISCARD` of the log's entries, as Linux's dm-log-writes has them.
const FLUSH: u64 = 1;
const DISCARD: u64 = 4;

/// How a drive behaves when its power goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// Data that was written is kept.
    None,
    /// Data that was not flushed may be lost.
    Volatile,
}

/// The effect of a cut on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// All writes of the boot, those after its last flush, and those of them that were lost or torn.
    pub writes: usize,
    pub unflushed: usize,
    pub lost: usize,
}

/// A disk with one file system, of this test alone; removed when the test has passed.
#[derive(Debug)]
pub struct Drive {
    file: PathBuf,
}

impl Drive {
    /// An empty ext4 file system.
    #[track_caller]
    pub fn new(name: &str, label: &str) -> Drive {
        let drive = Drive::blank(name);
        run(Command::new("mke2fs").args(["-q", "-t", "ext4", "-L", label]).arg(&drive.file));
        drive
    }

    /// Room for swap, and nothing else.
    #[track_caller]
    pub fn swap(name: &str) -> Drive {
        let drive = Drive::blank(name);
        run(Command::new("mkswap").arg(&drive.file));
        drive
    }

    #[track_caller]
    fn blank(name: &str) -> Drive {
        let file = paths::test_logs().join(format!("{name}.disk"));
        let drive = Drive { file };
        drive.remove();
        File::create(&drive.file).and_then(|file| file.set_len(1 << 30)).expect("a file for a disk");
        drive
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Where QEMU writes down what it does to the disk.
    pub fn log(&self) -> PathBuf {
        self.file.with_extension("log")
    }

    fn before(&self) -> PathBuf {
        self.file.with_extension("before")
    }

    /// Keeps what is on it now, for [`Drive::cut`]. To be called before each boot.
    #[track_caller]
    pub fn keep(&self) {
        run(Command::new("cp")
            .args(["--sparse=always", "--reflink=auto"])
            .arg(&self.file)
            .arg(self.before()));
    }

    /// Takes away what a cut of the power takes from a drive with such a cache. QEMU must have ended.
    #[track_caller]
    pub fn cut(&self, cache: Cache, dice: &mut Dice) -> Loss {
        let log = File::open(self.log()).expect("QEMU's log of writes");
        let writes = read_log(&log);
        let flushed = writes.iter().rposition(|write| write.flags & FLUSH != 0).map_or(0, |last| last + 1);
        let unflushed = writes[flushed..].iter().filter(|write| write.sectors > 0).count();
        let mut loss = Loss { writes: writes.len(), unflushed, lost: 0 };
        if cache == Cache::None || !ends_there(&log, &writes) {
            return loss;
        }
        let disk = File::options().write(true).open(self.before()).expect("the disk as it was");
        // Of some cuts nothing survives, of some nearly all.
        let share = dice.below(5);
        for (number, write) in writes.iter().enumerate() {
            let mut sectors = write.sectors;
            if number >= flushed && dice.below(4) < share {
                sectors = if dice.once_in(4) { dice.below(sectors) } else { 0 };
                loss.lost += 1;
            }
            write.repeat(&log, &disk, sectors);
        }
        fs::rename(self.before(), &self.file).expect("the disk can be replaced");
        loss
    }

    fn remove(&self) {
        for file in [self.file.clone(), self.log(), self.before()] {
            let _ = fs::remove_file(file);
        }
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.remove();
        }
    }
}

/// An entry of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Write {
    sector: u64,
    sectors: u64,
    flags: u64,
    /// Where its data stand in the log.
    data: u64,
}

impl Write {
    fn end(&self) -> u64 {
        self.data + self.sectors * SECTOR
    }

    /// Writes the first sectors of it again.
    fn repeat(&self, log: &File, disk: &File, sectors: u64) {
        let mut bytes = vec![0; usize::try_from(sectors * SECTOR).expect("a write fits into memory")];
        log.read_exact_at(&mut bytes, self.data).expect("the log has its data");
        disk.write_all_at(&bytes, self.sector * SECTOR).expect("the disk can be written");
    }
}

/// All entries, up to the first that is not there.
fn read_log(log: &File) -> Vec<Write> {
    let mut writes = Vec::new();
    // The first sector describes the log itself.
    let mut at = SECTOR;
    let mut head = [0; 32];
    while log.read_exact_at(&mut head, at).is_ok() && head != [0; 32] {
        let word = |place: usize| u64::from_le_bytes(head[place..place + 8].try_into().expect("eight bytes"));
        let flags = word(16);
        // A discard has no data; what it leaves on a disk is not defined, so it may leave all.
        let sectors = if flags & DISCARD == 0 { word(8) } else { 0 };
        let write = Write { sector: word(0), sectors, flags, data: at + SECTOR };
        at = write.end();
        writes.push(write);
    }
    writes
}

/// Whether nothing stands behind the last entry: entries are written side by side, and one that was cut off hides those
/// behind it. Then it is not known what was flushed.
fn ends_there(log: &File, writes: &[Write]) -> bool {
    let end = writes.last().map_or(SECTOR, Write::end).next_multiple_of(4096);
    let end = i64::try_from(end).expect("an offset");
    // SAFETY: a system call on numbers; the descriptor is open.
    let next = unsafe { libc::lseek(log.as_raw_fd(), end, libc::SEEK_DATA) };
    // ENXIO: there are no data any more.
    next < 0
}

#[track_caller]
fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(sector: u64, sectors: u64, flags: u64, byte: u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [sector, sectors, flags, sectors * SECTOR] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.resize(512, 0);
        bytes.extend(vec![byte; usize::try_from(sectors * SECTOR).unwrap()]);
        bytes
    }

    #[test]
    fn what_was_flushed_is_kept_and_of_the_rest_what_chance_wants() {
        let file = std::env::temp_dir().join(format!("kelson-drive-{}", std::process::id()));
        let drive = Drive { file };
        let log = [vec![1; 512], entry(0, 2, 0, 7), entry(0, 0, FLUSH, 0), entry(4, 4, 0, 9)].concat();
        let mut losses = std::collections::BTreeSet::new();
        for seed in 0..40 {
            fs::write(drive.log(), &log).unwrap();
            File::options().write(true).open(drive.log()).unwrap().set_len(1 << 20).unwrap();
            fs::write(drive.before(), vec![0; 8192]).unwrap();
            fs::write(&drive.file, vec![5; 8192]).unwrap();
            let loss = drive.cut(Cache::Volatile, &mut Dice::new(seed));
            assert_eq!((loss.writes, loss.unflushed), (3, 1));
            let disk = fs::read(&drive.file).unwrap();
            assert!(disk[..1024].iter().all(|byte| *byte == 7), "it was flushed");
            let kept = disk[2048..4096].iter().filter(|byte| **byte == 9).count();
            assert_eq!(kept == 2048, loss.lost == 0);
            losses.insert(kept);
        }
        assert!(losses.contains(&0) && losses.contains(&2048) && losses.len() > 2, "{losses:?}");
    }
}
