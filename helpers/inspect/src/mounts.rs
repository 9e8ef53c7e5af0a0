//! The mounts, and how full each file system is.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use kelson_proto::v1::Mount;
use kelson_spec::quote::error_text;
use kelson_sys::mountinfo::{self, Mount as Line};
use kelson_sys::room::Room;

use crate::answer::Unanswered;
use crate::system::{System, bytes};

/// A file system that has not said by then how full it is does not answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// A thread of its own asks each; this many run at the same time.
const ASKED: usize = 64;
/// Bytes of such a thread's stack.
const STACK: usize = 64 << 10;

/// Those of the mount, and those of the file system where the mount does not say otherwise.
fn options(line: &Line) -> Vec<String> {
    let mut options = line.options.clone();
    for option in &line.super_options {
        if !options.contains(option) && !matches!(option.as_str(), "" | "rw" | "ro") {
            options.push(option.clone());
        }
    }
    options
}

/// In the order of the mounts.
///
/// # Errors
/// When proc does not say it.
pub fn lines(system: &System) -> Result<Vec<Line>, Unanswered> {
    let table = bytes(&system.proc.join("self/mountinfo"))
        .map_err(|error| Unanswered::reading("/proc/self/mountinfo", &error))?;
    Ok(mountinfo::parse(&table))
}

/// # Errors
/// When proc does not say it.
pub fn read(system: &System) -> Result<Vec<Mount>, Unanswered> {
    let lines = lines(system)?;
    // To look at it would have it mounted.
    let asked: Vec<&Line> = lines.iter().filter(|line| line.fs_type != "autofs").collect();
    let mut answers = HashMap::new();
    for some in asked.chunks(ASKED) {
        answers.extend(ask(some, TIMEOUT, Room::at));
    }
    Ok(lines.iter().map(|line| mount(line, answers.remove(&line.target))).collect())
}

/// Asks each mount, and returns the answers that came in time. One that hangs keeps its thread, which ends
/// with this process.
fn ask(
    lines: &[&Line],
    patience: Duration,
    room: fn(&Path) -> io::Result<Room>,
) -> HashMap<PathBuf, io::Result<Room>> {
    let (sender, receiver) = mpsc::channel();
    let mut open = 0_usize;
    for line in lines {
        let (sender, target) = (sender.clone(), line.target.clone());
        let asking = move || {
            let said = room(&target);
            let _ = sender.send((target, said));
        };
        open = open
            .saturating_add(usize::from(std::thread::Builder::new().stack_size(STACK).spawn(asking).is_ok()));
    }
    let until = Instant::now().checked_add(patience).unwrap_or_else(Instant::now);
    let next = || receiver.recv_timeout(until.saturating_duration_since(Instant::now())).ok();
    let mut answers: HashMap<_, _> = std::iter::from_fn(next).take(open).collect();
    for line in lines {
        answers
            .entry(line.target.clone())
            .or_insert_with(|| Err(io::Error::new(io::ErrorKind::TimedOut, "does not answer")));
    }
    answers
}

fn mount(line: &Line, said: Option<io::Result<Room>>) -> Mount {
    let mut mount = Mount {
        source: line.source.clone(),
        target: line.target.to_string_lossy().into_owned(),
        r#type: line.fs_type.clone(),
        options: options(line),
        root: line.root.to_string_lossy().into_owned(),
        ..Mount::default()
    };
    match said {
        Some(Ok(room)) if room.size > 0 => {
            mount.size = Some(room.size);
            mount.available = Some(room.available);
            mount.used = Some(room.used);
            mount.inodes = Some(room.inodes).filter(|inodes| *inodes > 0);
            mount.inodes_used = mount.inodes.map(|_| room.inodes_used);
        }
        Some(Err(error)) => mount.trouble = error_text(&error),
        Some(Ok(_)) | None => {}
    }
    mount
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::Played;

    const INFO: &str = "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro\n\
        23 22 0:21 / /with\\040space\\134 ro,nosuid - tmpfs tmp\\011fs rw,size=64k\nbroken\n24 22 0:5 /\n";

    #[test]
    fn lines_of_mountinfo() {
        let played = Played::new(&[("proc/self/mountinfo", INFO)]);
        let lines = lines(&played.system).unwrap();
        assert_eq!(lines.len(), 2);
        let mounts: Vec<Mount> = lines.iter().map(|line| mount(line, None)).collect();
        assert_eq!(mounts[0].options, ["rw", "relatime", "errors=remount-ro"]);
        assert_eq!((mounts[1].target.as_str(), mounts[1].source.as_str()), ("/with space\\", "tmp\tfs"));
        assert_eq!(mounts[1].options, ["ro", "nosuid", "size=64k"]);
        assert_eq!((lines[0].device.to_string().as_str(), mounts[0].root.as_str()), ("254:1", "/"));
    }

    #[test]
    fn one_that_hangs_holds_up_nobody() {
        let played = Played::new(&[("proc/self/mountinfo", INFO)]);
        let lines = lines(&played.system).unwrap();
        let asked: Vec<&Line> = lines.iter().collect();
        let said = ask(&asked, Duration::from_millis(200), |target| match target.to_str() {
            Some("/") => Ok(Room { size: 4096, ..Room::default() }),
            _ => loop {
                std::thread::park();
            },
        });
        let mounts: Vec<Mount> = {
            let mut said = said;
            lines.iter().map(|line| mount(line, said.remove(&line.target))).collect()
        };
        assert_eq!((mounts[0].size, mounts[0].trouble.as_str()), (Some(4096), ""));
        assert_eq!((mounts[1].size, mounts[1].trouble.as_str()), (None, "does not answer"));
    }

    #[test]
    fn this_machine_has_a_root() {
        let mounts = read(&System::real()).unwrap();
        let root = mounts.iter().rfind(|mount| mount.target == "/").unwrap();
        assert!(root.size.unwrap() > 0 && root.trouble.is_empty());
        let proc = mounts.iter().find(|mount| mount.r#type == "proc").unwrap();
        assert_eq!(proc.size, None);
    }
}
