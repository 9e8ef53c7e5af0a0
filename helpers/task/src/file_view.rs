//! The mount namespace of a process that does not see the files of the host as they are.
//!
//! No file holds it: Linux lets a file hold a mount namespace only if that is younger than the one in which the file is, and
//! 6.18 tells their ages wrong. PID 1 gets it as a descriptor, and later opens that of the process. It is a copy of this namespace: mounts and unmounts of the host still arrive there, and nothing of it arrives here.

mod devices;
mod protection;
mod volumes;

use std::fs::{DirBuilder, File, OpenOptions, read_link};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use kelson_container::mount_call::{Change, NewFileSystem, change, copy_of, put};
use kelson_container::tree::{Tree, is_folder, text};
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::ViewRule;
use kelson_sys::ordered;
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::failure::at;
use volumes::OwnVolume;

/// Of what is made where something is bound to.
const FOLDER: u32 = 0o755;
const FILE: u32 = 0o444;

/// Makes the namespace. `None`: no rule asks for it.
pub fn make(rules: &[String]) -> Result<Option<File>, String> {
    let unknown = "one of its rules is not known";
    let volumes =
        if const { OWN.has(Feature::Volumes) } { volumes::read(rules).ok_or(unknown)? } else { Vec::new() };
    let rules = read(rules, &volumes).ok_or(unknown)?;
    if rules.is_empty() { Ok(None) } else { arrange(&rules).map(Some) }
}

/// What is done at one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Act {
    ReadOnly,
    Writable,
    NoExec,
    Exec,
    Hidden,
    Temporary,
    Devices,
    /// What is at another path.
    Bind,
    BindReadOnly,
    Volume,
    /// The processes of this PID namespace: without those of others, and without other files.
    Processes {
        is_own: bool,
        is_bare: bool,
    },
}

/// One place that is to look different.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule<'a> {
    act: Act,
    /// Of two rules for one path the higher comes later.
    rank: u8,
    path: &'a Path,
    /// Of a bind.
    source: &'a Path,
    /// Nothing has to be there.
    may_be_missing: bool,
    volume: Option<&'a OwnVolume>,
}

/// All rules. `None`: there is a word that is none.
fn read<'a>(words: &'a [String], volumes: &'a [OwnVolume]) -> Option<Vec<Rule<'a>>> {
    let (mut rules, mut protections) = (Vec::new(), Vec::new());
    for word in words {
        let (rule, path) = ViewRule::of_word(word)?;
        let (act, rank) = match rule {
            ViewRule::Temporary => (Act::Temporary, 1),
            ViewRule::Devices => (Act::Devices, 1),
            ViewRule::ReadOnly => (Act::ReadOnly, 2),
            ViewRule::NoExec => (Act::NoExec, 2),
            ViewRule::Writable => (Act::Writable, 3),
            ViewRule::Exec => (Act::Exec, 3),
            ViewRule::Hidden => (Act::Hidden, 5),
            ViewRule::Protect => {
                protections.push(path);
                continue;
            }
            ViewRule::Bind => (Act::Bind, 4),
            ViewRule::BindReadOnly => (Act::BindReadOnly, 4),
            ViewRule::Network
            | ViewRule::Users
            | ViewRule::DeviceProgram
            | ViewRule::Device
            | ViewRule::Volume => continue,
        };
        let (may_be_missing, path) = match path.strip_prefix('-') {
            Some(path) => (true, path),
            None => (false, path),
        };
        let (source, path) = match act {
            Act::Bind | Act::BindReadOnly => path.split_once(':')?,
            _ => ("", path),
        };
        rules.push(Rule {
            act,
            rank,
            path: Path::new(path),
            source: Path::new(source),
            may_be_missing,
            volume: None,
        });
    }
    rules.extend(protection::rules(&protections)?);
    rules.extend(volumes.iter().map(|volume| Rule {
        act: Act::Volume,
        rank: 4,
        path: &volume.volume.target,
        source: Path::new(""),
        may_be_missing: false,
        volume: Some(volume),
    }));
    Some(rules)
}

/// A rule that has something to act on.
struct Place<'a> {
    rule: &'a Rule<'a>,
    /// Where its path leads.
    path: PathBuf,
}

/// The rules that have a place, each after those for what is above it.
fn places<'a>(tree: &Tree, rules: &'a [Rule<'a>]) -> Result<Vec<Place<'a>>, String> {
    let mut places = Vec::new();
    for rule in rules {
        if let Some(volume) = rule.volume {
            // In a new file system above it, it is made once that is there.
            let is_covered = |other: &Rule<'_>| {
                matches!(other.act, Act::Volume | Act::Temporary) && rule.path.starts_with(other.path)
            };
            if !rules.iter().any(|other| other != rule && is_covered(other)) {
                volume.make_target(tree)?;
            }
            places.push(Place { rule, path: rule.path.to_owned() });
            continue;
        }
        if matches!(rule.act, Act::Bind | Act::BindReadOnly) && !make_target(tree, rule)? {
            continue;
        }
        let found = match tree.find(rule.path) {
            Ok(found) => found,
            Err(Errno::ENOENT | Errno::ENOTDIR) if rule.may_be_missing => continue,
            Err(errno) => return Err(at(rule.path, errno.desc())),
        };
        let path = read_link(format!("/proc/self/fd/{}", found.as_raw_fd()));
        places.push(Place { rule, path: path.map_err(|error| at(rule.path, error))? });
    }
    ordered::sort_by_key(&mut places, |place| (place.path.clone(), place.rule.rank));
    Ok(places)
}

/// Makes what is missing at the target of a bind. `false`: there is no source, and none has to be there.
fn make_target(tree: &Tree, rule: &Rule<'_>) -> Result<bool, String> {
    let source = match tree.find(rule.source) {
        Ok(source) => source,
        Err(Errno::ENOENT | Errno::ENOTDIR) if rule.may_be_missing => return Ok(false),
        Err(errno) => return Err(at(rule.source, errno.desc())),
    };
    if !matches!(tree.find(rule.path), Err(Errno::ENOENT)) {
        return Ok(true);
    }
    let mut folders = DirBuilder::new();
    folders.recursive(true).mode(FOLDER);
    let made = match is_folder(&source).map_err(|errno| at(rule.source, errno.desc()))? {
        true => folders.create(rule.path),
        false => folders
            .create(rule.path.parent().unwrap_or(rule.path))
            .and_then(|()| OpenOptions::new().write(true).create_new(true).mode(FILE).open(rule.path))
            .map(drop),
    };
    made.map(|()| true).map_err(|error| at(rule.path, error))
}

/// Whether the innermost of both acts that a path is under is `act`.
fn is_under(places: &[Place<'_>], path: &Path, act: Act, opposite: Act) -> bool {
    let mut above = places.iter().filter(|place| path.starts_with(&place.path)).map(|place| place.rule.act);
    above.rfind(|found| *found == act || *found == opposite) == Some(act)
}

/// Enters a new namespace, and arranges it. Returns the namespace.
fn arrange(rules: &[Rule<'_>]) -> Result<File, String> {
    let none: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS)
        .and_then(|()| mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none))
        .map_err(|errno| format!("cannot make its mount namespace: {}", errno.desc()))?;
    let tree = Tree::at(Path::new("/")).map_err(|errno| at(Path::new("/"), errno.desc()))?;
    let places = places(&tree, rules)?;
    let is_read_only = |path: &Path| is_under(&places, path, Act::ReadOnly, Act::Writable);
    let no_exec = |path: &Path| match is_under(&places, path, Act::NoExec, Act::Exec) {
        true => libc::MOUNT_ATTR_NOEXEC,
        false => 0,
    };
    // As it is before anything is taken away.
    let mut nodes = Vec::new();
    if let Some(place) = places.iter().find(|place| place.rule.act == Act::Devices) {
        nodes = devices::copies(&tree, &place.path)?;
        // Those are all that it can open, wherever others are.
        limit_root(&tree, libc::MOUNT_ATTR_NODEV)?;
    }
    let mut copies = Vec::new();
    for Place { rule, path } in &places {
        let set = match rule.act {
            Act::Writable => no_exec(path),
            Act::Exec if is_read_only(path) => libc::MOUNT_ATTR_RDONLY,
            Act::Exec => 0,
            Act::Bind => {
                copies.push(copy(&tree, rule.source)?);
                continue;
            }
            Act::BindReadOnly => {
                copies.push(limited(&tree, rule.source, libc::MOUNT_ATTR_RDONLY, 0)?);
                continue;
            }
            Act::Volume => {
                copies.extend(rule.volume.map(|volume| volume.mount(&tree, no_exec(path) != 0)).transpose()?);
                continue;
            }
            _ => continue,
        };
        copies.push(limited(&tree, path, set, 0)?);
    }
    let mut copies = copies.into_iter();
    for Place { rule, path } in &places {
        let made = match rule.act {
            Act::ReadOnly | Act::NoExec => {
                let set = match rule.act {
                    Act::ReadOnly => libc::MOUNT_ATTR_RDONLY,
                    _ => libc::MOUNT_ATTR_NOEXEC,
                };
                if path == Path::new("/") {
                    limit_root(&tree, set)?;
                    continue;
                }
                match limited(&tree, path, set, libc::MS_PRIVATE) {
                    // It is below one that is hidden.
                    Err(_) if tree.find(path).is_err() && rule.may_be_missing => continue,
                    made => made?,
                }
            }
            Act::Writable | Act::Exec => {
                let Some(copy) = copies.next() else { continue };
                // A new file system is neither read-only nor the host's.
                let is_new = |other: &Place<'_>| other.path == *path && other.rule.rank == 1;
                if places.iter().any(is_new) {
                    continue;
                }
                copy
            }
            Act::Bind | Act::BindReadOnly => {
                let Some(copy) = copies.next() else { continue };
                copy
            }
            Act::Volume => {
                if let Some((volume, copy)) = rule.volume.zip(copies.next()) {
                    volume.put(&tree, &copy)?;
                }
                continue;
            }
            Act::Hidden => match tree.find(path) {
                Err(_) if rule.may_be_missing => continue,
                found => empty(&tree, &found.map_err(|errno| at(path, errno.desc()))?)
                    .map_err(|errno| at(path, errno.desc()))?,
            },
            Act::Temporary => temporary(c"1777", no_exec(path)).map_err(|errno| at(path, errno.desc()))?,
            Act::Devices => {
                devices::make(&tree, path, std::mem::take(&mut nodes), is_read_only(path))?;
                continue;
            }
            Act::Processes { is_own, is_bare } => {
                processes(is_own, is_bare).map_err(|errno| at(path, errno.desc()))?
            }
        };
        match tree.find(path) {
            Err(_) if rule.may_be_missing => {}
            target => {
                let target = target.map_err(|errno| at(path, errno.desc()))?;
                put(made.as_fd(), target.as_fd()).map_err(|errno| at(path, errno.desc()))?;
            }
        }
    }
    File::open("/proc/self/ns/mnt").map_err(|error| format!("its mount namespace: {error}"))
}

/// Sets attributes of every mount.
fn limit_root(tree: &Tree, set: u64) -> Result<(), String> {
    change(tree.root(), Change { set, ..Change::default() }, true)
        .map_err(|errno| format!("cannot limit its root: {}", errno.desc()))
}

/// A copy of what is at a path, with attributes and a propagation that are set.
fn limited(tree: &Tree, path: &Path, set: u64, propagation: u64) -> Result<OwnedFd, String> {
    let copied = copy(tree, path)?;
    if (set, propagation) != (0, 0) {
        change(copied.as_fd(), Change { set, propagation, ..Change::default() }, true)
            .map_err(|errno| at(path, errno.desc()))?;
    }
    Ok(copied)
}

/// What stands in place of something hidden: a folder without entries, or a file without content.
fn empty(tree: &Tree, found: &OwnedFd) -> nix::Result<OwnedFd> {
    if is_folder(found)? {
        return NewFileSystem::new(c"tmpfs")?.mount(libc::MOUNT_ATTR_RDONLY);
    }
    let null = tree.find(Path::new("/dev/null"))?;
    let copied = copy_of(&text(format!("/proc/self/fd/{}", null.as_raw_fd()))?, false)?;
    change(copied.as_fd(), Change { clear: libc::MOUNT_ATTR_NODEV, ..Change::default() }, false)?;
    Ok(copied)
}

/// A `/proc` of its own.
fn processes(is_own: bool, is_bare: bool) -> nix::Result<OwnedFd> {
    let new = NewFileSystem::new(c"proc")?;
    if is_own {
        new.option(c"hidepid", Some(c"2"))?;
    }
    if is_bare {
        new.option(c"subset", Some(c"pid"))?;
    }
    new.mount(libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | libc::MOUNT_ATTR_NOEXEC)
}

/// What is at a path, with all that is mounted below.
fn copy(tree: &Tree, path: &Path) -> Result<OwnedFd, String> {
    let copied = tree.find(path).and_then(|found| {
        let source = text(format!("/proc/self/fd/{}", found.as_raw_fd()))?;
        copy_of(&source, true)
    });
    copied.map_err(|errno| at(path, errno.desc()))
}

fn temporary(mode: &std::ffi::CStr, more: u64) -> nix::Result<OwnedFd> {
    let new = NewFileSystem::new(c"tmpfs")?;
    new.option(c"mode", Some(mode))?;
    new.mount(libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | more)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place<'a>(rule: &'a Rule<'a>) -> Place<'a> {
        Place { rule, path: rule.path.to_owned() }
    }

    #[test]
    fn the_innermost_rule_decides() {
        let words = ["no-exec:/", "exec:/usr", "writable:-/srv", "read-only:/"].map(str::to_owned);
        let rules = read(&words, &[]).unwrap();
        let mut places: Vec<Place<'_>> = rules.iter().map(place).collect();
        ordered::sort_by_key(&mut places, |place| (place.path.clone(), place.rule.rank));
        let no_exec = |path: &str| is_under(&places, Path::new(path), Act::NoExec, Act::Exec);
        let read_only = |path: &str| is_under(&places, Path::new(path), Act::ReadOnly, Act::Writable);
        assert_eq!((no_exec("/srv/x"), no_exec("/usr/bin"), no_exec("/usrlocal")), (true, false, true));
        assert_eq!((read_only("/usr"), read_only("/srv"), read_only("/srv/x")), (true, false, false));
        assert!(rules[2].may_be_missing);
        assert_eq!(read(&["protect:all".to_owned()], &[]), None);
        assert_eq!(read(&["nothing:/".to_owned()], &[]), None);
    }

    #[test]
    fn what_is_protected_stays_so_although_a_path_above_is_writable() {
        let words = ["protect:kernelTunables", "writable:/sys", "read-only:/"].map(str::to_owned);
        let rules = read(&words, &[]).unwrap();
        let mut places: Vec<Place<'_>> = rules.iter().map(place).collect();
        ordered::sort_by_key(&mut places, |place| (place.path.clone(), place.rule.rank));
        let read_only = |path: &str| is_under(&places, Path::new(path), Act::ReadOnly, Act::Writable);
        assert!(read_only("/sys") && read_only("/sys/kernel") && read_only("/proc/sys"));
        assert!(!read_only("/sys/fs/cgroup"));
    }
}
