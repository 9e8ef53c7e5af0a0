//! A file that comes from elsewhere: written beside its place under a name of its own, and renamed once it is whole.
//!
//! No symbolic link is followed, not even in the middle of the path: what a process of a service puts there can lead
//! nobody astray. The folder is opened once, and everything else happens in it.

use std::fs::{File, Permissions};
use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use kelson_proto::v1::{WriteFileBegin, WriteFileResponse};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, OpenHow, RenameFlags, ResolveFlag, openat, openat2, renameat2};
use nix::sys::stat::{Mode, SFlag, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::answer::{Answer, Unanswered};
use crate::files::absolute;
use crate::read::PIECE;

/// After this many bytes they are brought to the disk: at the end, too, that takes less than PID 1 waits.
const SYNC: u64 = 8 << 20;
/// The permissions that a file may have: nothing that lends it another user's rights.
const MODE: u32 = 0o777;

/// # Errors
/// When it cannot be there as it was sent. Then nothing of it is.
pub fn write(begin: &WriteFileBegin, input: impl Read, answer: &mut Answer<'_>) -> Result<(), Unanswered> {
    let path = begin.path.as_str();
    let (folder, name, place) = place(path, &begin.name)?;
    let failed = |error: io::Error| Unanswered::path(path, &error);
    if begin.mode & !MODE != 0 {
        return Err(Unanswered::Unfit(format!("a file cannot be written with the mode {:o}", begin.mode)));
    }
    look(&folder, &name, &place, begin.overwrite)?;
    let half = Half::new(&folder, &name).map_err(failed)?;
    half.fill(input, begin.size)?;
    half.file.set_permissions(Permissions::from_mode(begin.mode)).map_err(failed)?;
    half.file.sync_all().map_err(failed)?;
    half.put(&name, begin.overwrite).map_err(|errno| match errno {
        Errno::EEXIST => there(&place),
        errno => failed(errno.into()),
    })?;
    // The name, too, is to be there after a power cut.
    let _ = File::from(folder.try_clone()?).sync_all();
    answer.message(&WriteFileResponse { path: place.to_string_lossy().into_owned() })?;
    Ok(())
}

/// The folder, the name in it, and the path of both. `file` is the name where the path is a folder.
fn place(path: &str, file: &str) -> Result<(OwnedFd, PathBuf, PathBuf), Unanswered> {
    let whole = absolute(path)?;
    match open(whole) {
        Ok(folder) => match Path::new(file).file_name().filter(|name| *name == file) {
            Some(name) => Ok((folder, PathBuf::from(name), whole.join(name))),
            None => Err(Unanswered::Unfit(format!("{path:?} is a folder"))),
        },
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => {
            let (Some(above), Some(name)) = (whole.parent(), whole.file_name()) else {
                return Err(Unanswered::Unfit(format!("{path:?} is not the path of a file")));
            };
            let folder = open(above).map_err(|errno| match errno {
                Errno::ELOOP => Unanswered::Unfit(format!(
                    "{above:?} leads through a symbolic link, which nothing is written through; name the folder itself"
                )),
                errno => Unanswered::path(&above.to_string_lossy(), &errno.into()),
            })?;
            Ok((folder, PathBuf::from(name), whole.to_owned()))
        }
        Err(errno) => Err(Unanswered::path(path, &errno.into())),
    }
}

fn open(folder: &Path) -> Result<OwnedFd, Errno> {
    let how = OpenHow::new()
        .flags(OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    openat2(AT_FDCWD, folder, how)
}

/// Only a regular file is ever replaced.
fn look(folder: &impl AsFd, name: &Path, place: &Path, overwrite: bool) -> Result<(), Unanswered> {
    match fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(Unanswered::path(&place.to_string_lossy(), &errno.into())),
        Ok(found) if SFlag::from_bits_truncate(found.st_mode & SFlag::S_IFMT.bits()) != SFlag::S_IFREG => {
            Err(Unanswered::Unfit(format!("{place:?} is no regular file; ls shows what it is")))
        }
        Ok(_) if !overwrite => Err(there(place)),
        Ok(_) => Ok(()),
    }
}

fn there(place: &Path) -> Unanswered {
    Unanswered::Unfit(format!("{place:?} is there already and is not overwritten (--force replaces it)"))
}

/// A file that is not whole yet. Dropped before it is put in its place, it is removed.
struct Half<'a> {
    folder: &'a OwnedFd,
    name: Option<PathBuf>,
    file: File,
}

impl<'a> Half<'a> {
    fn new(folder: &'a OwnedFd, beside: &Path) -> io::Result<Half<'a>> {
        // Short enough also where the name itself is as long as one may be.
        let start: String = beside.to_string_lossy().chars().take(32).collect();
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        for number in 0_u32..1000 {
            let name = PathBuf::from(format!(".{start}.kelson-{}-{number}", std::process::id()));
            match openat(folder, &name, flags, Mode::S_IRUSR | Mode::S_IWUSR) {
                Ok(file) => return Ok(Half { folder, name: Some(name), file: File::from(file) }),
                // Left by one that was killed.
                Err(Errno::EEXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(Errno::EEXIST.into())
    }

    fn fill(&self, mut input: impl Read, size: u64) -> Result<(), Unanswered> {
        let (mut piece, mut written, mut synced) = (vec![0; PIECE], 0_u64, 0_u64);
        while written < size {
            let left = usize::try_from(size.saturating_sub(written)).unwrap_or(usize::MAX);
            let room = piece.get_mut(..left.min(PIECE)).unwrap_or_default();
            let length = match input.read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(0) | Err(_) => {
                    return Err(Unanswered::Failed(format!("only {written} of {size} bytes came")));
                }
                Ok(length) => length,
            };
            let failed = |error: io::Error| {
                Unanswered::Failed(format!(
                    "it cannot be written: {}",
                    kelson_spec::quote::error_text(&error)
                ))
            };
            (&self.file).write_all(room.get(..length).unwrap_or_default()).map_err(failed)?;
            written = written.saturating_add(u64::try_from(length).unwrap_or(0));
            if written.saturating_sub(synced) >= SYNC {
                self.file.sync_data().map_err(failed)?;
                synced = written;
            }
        }
        Ok(())
    }

    fn put(mut self, name: &Path, overwrite: bool) -> Result<(), Errno> {
        let flags = if overwrite { RenameFlags::empty() } else { RenameFlags::RENAME_NOREPLACE };
        if let Some(half) = &self.name {
            renameat2(self.folder, half, self.folder, name, flags)?;
        }
        self.name = None;
        Ok(())
    }
}

impl Drop for Half<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = unlinkat(self.folder, name, UnlinkatFlags::NoRemoveDir);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::answer::testing::messages;
    use crate::system::testing::Played;

    fn begin(path: &Path, size: u64) -> WriteFileBegin {
        let path = path.to_str().unwrap().to_owned();
        WriteFileBegin { path, name: "sent".into(), size, mode: 0o640, overwrite: false }
    }

    fn written(begin: &WriteFileBegin, bytes: &[u8]) -> Result<String, Unanswered> {
        let mut answers: Vec<WriteFileResponse> = messages(|answer| write(begin, bytes, answer))?;
        Ok(answers.pop().unwrap().path)
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let played = Played::new(&[("f/old", "old")]);
        let bytes: Vec<u8> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
        let whole = begin(&played.path("f/new"), 300_000);
        assert_eq!(written(&whole, &bytes).unwrap(), whole.path);
        assert_eq!(fs::read(played.path("f/new")).unwrap(), bytes);
        assert_eq!(fs::metadata(played.path("f/new")).unwrap().permissions().mode() & 0o7777, 0o640);
        let said = written(&begin(&played.path("f/half"), 300_000), &bytes[..200_000]).unwrap_err();
        assert_eq!(said.to_string(), "only 200000 of 300000 bytes came");
        assert_eq!(names(&played.path("f")), ["new", "old"], "nothing of it stays");
        // Into a folder, under its own name.
        let into = begin(&played.path("f"), 1);
        assert!(written(&into, b"x").unwrap().ends_with("/f/sent"));
        assert!(matches!(
            written(&WriteFileBegin { name: "a/b".into(), ..into }, b"x"),
            Err(Unanswered::Unfit(_))
        ));
    }

    #[test]
    fn what_is_there_is_overwritten_on_demand_and_only_a_file() {
        let played = Played::new(&[("f/old", "old"), ("g/x", "")]);
        let old = played.path("f/old");
        let kept = begin(&old, 3);
        assert!(written(&kept, b"new").unwrap_err().to_string().contains("--force"));
        assert_eq!(fs::read(&old).unwrap(), b"old");
        let force = |path: &Path| written(&WriteFileBegin { overwrite: true, ..begin(path, 3) }, b"new");
        force(&old).unwrap();
        assert_eq!(fs::read(&old).unwrap(), b"new");
        // A link is not followed: neither the last part of the path, nor one before it.
        symlink("old", played.path("f/link")).unwrap();
        symlink("g", played.path("way")).unwrap();
        assert!(matches!(force(&played.path("f/link")), Err(Unanswered::Unfit(_))));
        let said = force(&played.path("way/y")).unwrap_err().to_string();
        assert!(said.contains("symbolic link"), "{said}");
        assert_eq!(
            (fs::read(&old).unwrap(), names(&played.path("g"))),
            (b"new".to_vec(), vec!["x".to_owned()])
        );
        assert!(matches!(force(&played.path("none/y")), Err(Unanswered::Missing(_))));
        assert!(matches!(force(Path::new("relative")), Err(Unanswered::Unfit(_))));
        let set_id = WriteFileBegin { mode: 0o4755, ..begin(&played.path("f/set"), 3) };
        assert!(matches!(written(&set_id, b"new"), Err(Unanswered::Unfit(_))));
        assert_eq!(names(&played.path("f")), ["link", "old"]);
    }
}
