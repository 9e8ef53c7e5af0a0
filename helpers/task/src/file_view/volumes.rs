//! The volumes of a process: mounted in its namespace alone, so that nothing of them has to be undone.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use kelson_container::mount_call::put;
use kelson_container::tree::{Tree, is_folder};
use kelson_runner::listed_mount;
use kelson_runner::oci::Mount;
use kelson_spec::service::{OverlaySource, ViewRule, Volume};
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::Mode;

use crate::directories::{base, walk};
use crate::volumes::of_volume;

/// What is made where a file is mounted.
const FILE: u32 = 0o444;

/// A volume, and the user and the group of what is new in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnVolume {
    pub volume: Volume,
    owner: (u32, u32),
}

/// Those that the rules name. `None`: there is a word that is none.
pub fn read(words: &[String]) -> Option<Vec<OwnVolume>> {
    let rules = words.iter().filter_map(|word| ViewRule::of_word(word));
    let mut volumes: Vec<OwnVolume> = Vec::new();
    for (_, word) in rules.filter(|(rule, _)| *rule == ViewRule::Volume) {
        let volume = one(word)?;
        // The same one again, with what was found in place of a name.
        match volumes.iter_mut().find(|other| other.volume.name == volume.volume.name) {
            Some(other) => *other = volume,
            None => volumes.push(volume),
        }
    }
    Some(volumes)
}

fn one(word: &str) -> Option<OwnVolume> {
    let (uid, rest) = word.split_once(':')?;
    let (gid, volume) = rest.split_once(':')?;
    Some(OwnVolume { volume: Volume::from_word(volume)?, owner: (uid.parse().ok()?, gid.parse().ok()?) })
}

impl OwnVolume {
    fn failed(&self, what: &str, errno: Errno) -> String {
        let why = match errno {
            Errno::ELOOP => "there is a symbolic link in its path; write the path that it leads to",
            errno => errno.desc(),
        };
        let target = self.volume.target.display();
        of_volume(&self.volume, format_args!("cannot {what} its target {target}: {why}"))
    }

    /// Whether it is a folder. A file system in memory is one.
    fn is_folder(&self, tree: &Tree) -> Result<bool, String> {
        let Some(path) = self.volume.source.place() else { return Ok(true) };
        let found = tree.find(path).and_then(|found| is_folder(&found));
        let path = path.display();
        found.map_err(|errno| of_volume(&self.volume, format_args!("{path}: {}", errno.desc())))
    }

    /// Makes its target on the host where it is missing.
    pub fn make_target(&self, tree: &Tree) -> Result<(), String> {
        self.target(tree, self.is_folder(tree)?).map(drop)
    }

    /// Its target, which no link leads to; made where it is missing.
    fn target(&self, tree: &Tree, is_folder: bool) -> Result<OwnedFd, String> {
        match find(tree, &self.volume.target) {
            Err(Errno::ENOENT) => {}
            found => return found.map_err(|errno| self.failed("find", errno)),
        }
        make(&self.volume.target, is_folder).map_err(|errno| self.failed("make", errno))?;
        find(tree, &self.volume.target).map_err(|errno| self.failed("find", errno))
    }

    /// Its mount, at no place yet. `no_exec`: no program in it can be executed, whatever its options say.
    pub fn mount(&self, tree: &Tree, no_exec: bool) -> Result<OwnedFd, String> {
        let mut mount: Mount = listed_mount(&self.volume.mount(self.owner), false);
        if no_exec {
            mount.options.push("noexec".to_owned());
        }
        let made = if mount.kind == OverlaySource::KIND {
            kelson_container::overlay(tree, &mount)
        } else {
            kelson_container::make(&mount).map(|(made, _)| made)
        };
        made.map_err(|error| of_volume(&self.volume, error))
    }

    /// Puts its mount at its target, in what is mounted there by now.
    pub fn put(&self, tree: &Tree, made: &OwnedFd) -> Result<(), String> {
        let kind = |fd: &OwnedFd| is_folder(fd).map_err(|errno| self.failed("look at", errno));
        let wants_folder = kind(made)?;
        let target = self.target(tree, wants_folder)?;
        if kind(&target)? != wants_folder {
            let (is, wants) = if wants_folder { ("a file", "a folder") } else { ("a folder", "a file") };
            let path = self.volume.target.display();
            return Err(of_volume(
                &self.volume,
                format_args!("its target {path} is {is}, and it is {wants}"),
            ));
        }
        put(made.as_fd(), target.as_fd()).map_err(|errno| self.failed("mount it at", errno))
    }
}

fn find(tree: &Tree, path: &Path) -> nix::Result<OwnedFd> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_SYMLINKS);
    openat2(tree.root(), path, how)
}

fn make(path: &Path, is_folder: bool) -> nix::Result<()> {
    let parts = path.strip_prefix("/").map_err(|_| Errno::EINVAL)?;
    let root = base(Path::new("/"))?;
    if is_folder {
        return walk(root, parts, true).map(drop);
    }
    let (above, name) = parts.parent().zip(parts.file_name()).ok_or(Errno::EINVAL)?;
    let above = walk(root, above, true)?;
    let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    openat(above, name, flags, Mode::from_bits_truncate(FILE)).map(drop)
}
