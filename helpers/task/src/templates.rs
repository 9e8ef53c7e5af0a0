//! The files that services get from templates. `kelson-fleet` has rendered the texts, and may not write elsewhere.
//!
//! The user of the service may change what is in a folder of its own at any moment, so no link is followed. What a service has
//! yet to be told of is in a file from before its first change: a crash of PID 1 between the change and the reload forgets none.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use kelson_helper::task::TemplateRequest;
use kelson_spec::templates::{OnChange, Template, rendered};
use kelson_sys::{removed, replace};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, unlinkat};

use crate::directories::{base, walk};
use crate::failure::at;

/// The longest file, in bytes. `kelson-fleet` writes no longer ones.
const LONGEST: u64 = 1 << 20;

/// Makes the call of a [`TemplateRequest`].
///
/// # Errors
/// A sentence that says what failed and why.
pub fn perform(words: &[OsString]) -> Result<String, String> {
    match TemplateRequest::from_arguments(words)? {
        TemplateRequest::Place { runtime, pending, uid, gid, templates } => {
            for template in &templates {
                let text = text(&runtime, template)?;
                place(template, &text, Some((uid, gid)), || Ok(()))?;
            }
            settle(&pending)?;
            Ok(String::new())
        }
        TemplateRequest::Renew { runtime, pending, templates } => renew(&runtime, &pending, &templates),
        TemplateRequest::Settle { pending } => settle(&pending).map(|()| String::new()),
    }
}

/// Answers with what the service has yet to be told of; empty: nothing.
fn renew(runtime: &Path, pending: &Path, templates: &[Template]) -> Result<String, String> {
    let mut known = fs::read_to_string(pending).ok().and_then(|word| OnChange::of_name(&word));
    for template in templates {
        let text = text(runtime, template)?;
        let wanted = known.map_or(template.on_change, |known| known.max(template.on_change));
        let note = || {
            if known == Some(wanted) { Ok(()) } else { note(pending, wanted) }
        };
        if place(template, &text, None, note)? {
            known = Some(wanted);
        }
    }
    Ok(known.map(OnChange::name).unwrap_or_default().to_owned())
}

fn note(pending: &Path, on_change: OnChange) -> Result<(), String> {
    let folder = pending.parent().unwrap_or(Path::new("/"));
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.and_then(|()| replace(pending, &pending.with_extension("new"), 0o600, on_change.name().as_bytes()))
        .map_err(|error| at(pending, error))
}

fn settle(pending: &Path) -> Result<(), String> {
    removed(fs::remove_file(pending)).map_err(|error| at(pending, error))
}

fn text(runtime: &Path, template: &Template) -> Result<Vec<u8>, String> {
    let path = rendered(runtime, &template.source);
    let open = || {
        let mut text = Vec::new();
        File::open(&path)?.take(LONGEST).read_to_end(&mut text)?;
        Ok(text)
    };
    open().map_err(|error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => at(&template.source, "it has not been rendered yet"),
        _ => at(&path, error),
    })
}

/// Gives the target this text, unless it has it. Returns whether it had another one. `owner`: `None`: it keeps the one that it
/// has; `note` comes before the change.
fn place(
    template: &Template,
    text: &[u8],
    owner: Option<(u32, u32)>,
    note: impl FnOnce() -> Result<(), String>,
) -> Result<bool, String> {
    let target = &template.target;
    let failed = |errno: Errno| {
        at(
            target,
            match errno {
                Errno::ELOOP => "there is a symbolic link in its path, and Kelson follows none there",
                Errno::ENOENT => {
                    "its folder does not exist; make it, such as with directories in the service file"
                }
                errno => errno.desc(),
            },
        )
    };
    let (folder, name) = folder(target).map_err(failed)?;
    let flags = OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let before = openat(&folder, name, OFlag::O_RDONLY | flags, Mode::empty()).ok().map(File::from);
    let known = before.as_ref().and_then(|file| file.metadata().ok()).filter(fs::Metadata::is_file);
    let owner = owner.or_else(|| known.as_ref().map(|known| (known.uid(), known.gid())));
    let owner = owner.unwrap_or((0, 0));
    if let (Some(known), Some(file)) = (known, before) {
        let mut old = Vec::new();
        let is_read = file.take(LONGEST.saturating_add(1)).read_to_end(&mut old).is_ok();
        let is_alike = (known.uid(), known.gid()) == owner && known.mode() & 0o7777 == template.mode;
        if is_read && old == text && is_alike {
            return Ok(false);
        }
    }
    note()?;
    let new = OsString::from_iter([OsStr::new("."), name, OsStr::new(".new")]);
    let written = write(&folder, &new, text, owner, template.mode)
        .and_then(|()| renameat(&folder, new.as_os_str(), &folder, name));
    if written.is_err() {
        let _ = unlinkat(&folder, new.as_os_str(), UnlinkatFlags::NoRemoveDir);
    }
    written.map(|()| true).map_err(failed)
}

/// The folder of a target, reached without a link, and its name there.
fn folder(target: &Path) -> nix::Result<(OwnedFd, &OsStr)> {
    let name = target.file_name().ok_or(Errno::EINVAL)?;
    let parent = target.parent().and_then(|parent| parent.strip_prefix("/").ok()).ok_or(Errno::EINVAL)?;
    Ok((walk(base(Path::new("/"))?, parent, false)?, name))
}

fn write(folder: &OwnedFd, name: &OsStr, text: &[u8], owner: (u32, u32), mode: u32) -> nix::Result<()> {
    match unlinkat(folder, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(errno) => return Err(errno),
    }
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut file = File::from(openat(folder, name, flags, Mode::from_bits_truncate(0o600))?);
    let errno = |error: std::io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
    file.write_all(text).map_err(errno)?;
    let found = file.metadata().map_err(errno)?;
    if (found.uid(), found.gid()) != owner {
        fchown(&file, Some(Uid::from_raw(owner.0)), Some(Gid::from_raw(owner.1)))?;
    }
    file.set_permissions(fs::Permissions::from_mode(mode)).map_err(errno)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Host {
        folder: tempfile::TempDir,
        template: Template,
    }

    impl Host {
        fn new() -> Host {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("web")).unwrap();
            let template = Template {
                source: "/etc/web.cfg".into(),
                target: folder.path().join("web/web.cfg"),
                mode: 0o640,
                on_change: OnChange::Reload,
            };
            Host { folder, template }
        }

        fn render(&self, text: &str) {
            let path = rendered(self.folder.path(), &self.template.source);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn ask(&self, place: bool) -> Result<String, String> {
            let (runtime, pending) =
                (self.folder.path().to_owned(), self.folder.path().join("templates/web"));
            let templates = vec![self.template.clone()];
            let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
            let request = match place {
                true => TemplateRequest::Place { runtime, pending, uid, gid, templates },
                false => TemplateRequest::Renew { runtime, pending, templates },
            };
            perform(&request.to_arguments())
        }

        fn settle(&self) {
            let pending = self.folder.path().join("templates/web");
            perform(&TemplateRequest::Settle { pending }.to_arguments()).unwrap();
        }
    }

    #[test]
    fn a_change_is_pending_until_the_service_was_told() {
        let host = Host::new();
        assert!(host.ask(true).unwrap_err().contains("it has not been rendered yet"));
        host.render("one");
        assert_eq!(host.ask(true).as_deref(), Ok(""));
        let found = || {
            (fs::read_to_string(&host.template.target).unwrap(), fs::metadata(&host.template.target).unwrap())
        };
        assert_eq!((found().0.as_str(), found().1.mode() & 0o7777), ("one", 0o640));
        let inode = found().1.ino();
        assert_eq!(host.ask(false).as_deref(), Ok(""));
        assert_eq!(found().1.ino(), inode, "the same text is not written again");
        host.render("two");
        for _ in 0..2 {
            assert_eq!(host.ask(false).as_deref(), Ok("reload"));
            assert_eq!(found().0, "two");
        }
        host.settle();
        host.settle();
        assert_eq!(host.ask(false).as_deref(), Ok(""));
        host.render("three");
        host.ask(false).unwrap();
        host.ask(true).unwrap();
        assert_eq!(host.ask(false).as_deref(), Ok(""), "a start has told it");
        let names: Vec<_> = fs::read_dir(host.folder.path().join("web")).unwrap().collect();
        assert_eq!(names.len(), 1, "nothing else stays there");
    }

    #[test]
    fn no_link_is_followed() {
        let mut host = Host::new();
        host.render("one");
        let other = host.folder.path().join("other");
        fs::write(&other, "other").unwrap();
        symlink(&other, &host.template.target).unwrap();
        host.ask(true).unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "other", "the link itself is replaced");
        assert_eq!(fs::read_to_string(&host.template.target).unwrap(), "one");
        symlink(host.folder.path().join("web"), host.folder.path().join("link")).unwrap();
        host.template.target = host.folder.path().join("link/web.cfg");
        assert!(host.ask(true).unwrap_err().contains("symbolic link in its path"));
        host.template.target = host.folder.path().join("none/web.cfg");
        assert!(host.ask(true).unwrap_err().contains("its folder does not exist"));
    }
}
