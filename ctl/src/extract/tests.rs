use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use tar::{Builder, Header};

use super::*;
use crate::samples::Folder;

/// A folder `dest` in one of its own, and a file beside it that nobody may change.
struct Place(Folder);

impl Place {
    fn new() -> Place {
        let folder = Folder::with([("outside", "mine")]);
        fs::create_dir(folder.join("dest")).unwrap();
        Place(folder)
    }

    fn dest(&self, name: &str) -> PathBuf {
        self.0.join("dest").join(name)
    }

    fn extract(&self, archive: &[u8], force: bool) -> Result<Extracted, Broken> {
        let target = Target::new(&self.0.join("dest"), "top".as_ref(), force).unwrap();
        let done = extract(archive, "top".as_ref(), &target);
        assert_eq!(fs::read_to_string(self.0.join("outside")).unwrap(), "mine");
        assert_eq!(fs::read_dir(&self.0).unwrap().count(), 2, "nothing beside the target");
        done
    }

    fn troubles(&self, archive: &[u8]) -> Vec<String> {
        self.extract(archive, false).unwrap().troubles
    }

    /// All that is there, drafts too.
    fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut folders = vec![self.0.join("dest")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                names.push(path.strip_prefix(self.0.join("dest")).unwrap().display().to_string());
                if path.symlink_metadata().unwrap().is_dir() {
                    folders.push(path);
                }
            }
        }
        names.sort_unstable();
        names
    }
}

/// An archive whose names are taken as they are, the bad ones too.
#[derive(Default)]
struct Tar(Vec<u8>);

impl Tar {
    fn add(mut self, kind: EntryType, name: &str, link: &str, mode: u32, content: &[u8]) -> Tar {
        let mut header = Header::new_ustar();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(1000);
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.0.extend(header.as_bytes());
        self.0.extend(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn folder(self, name: &str) -> Tar {
        self.add(EntryType::Directory, name, "", 0o755, b"")
    }

    fn file(self, name: &str, content: &str) -> Tar {
        self.add(EntryType::Regular, name, "", 0o644, content.as_bytes())
    }

    fn symlink(self, name: &str, link: &str) -> Tar {
        self.add(EntryType::Symlink, name, link, 0o777, b"")
    }

    fn link(self, name: &str, link: &str) -> Tar {
        self.add(EntryType::Link, name, link, 0o644, b"")
    }

    fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

#[test]
fn a_folder_with_all_that_is_in_it() {
    let place = Place::new();
    let archive = Tar::default()
        .folder("top/")
        .add(EntryType::Directory, "top/shut", "", 0o500, b"")
        .file("top/shut/a", "hello")
        .add(EntryType::Regular, "top/run", "", 0o4755, b"#!")
        .symlink("top/here", "shut/a")
        .link("top/again", "top/shut/a")
        .file("./top/empty", "");
    let done = place.extract(&archive.end(), false).unwrap();
    assert_eq!(done, Extracted { files: 3, bytes: 7, troubles: vec![] });
    assert_eq!(
        place.names(),
        ["top", "top/again", "top/empty", "top/here", "top/run", "top/shut", "top/shut/a"]
    );
    assert_eq!(fs::read_to_string(place.dest("top/here")).unwrap(), "hello");
    let again = fs::metadata(place.dest("top/again")).unwrap();
    assert_eq!((again.nlink(), again.mtime()), (2, 1000));
    let mode = |name| fs::metadata(place.dest(name)).unwrap().permissions().mode() & 0o7000;
    assert_eq!(mode("top/run"), 0, "set-user-id is dropped");
}

/// Each case of hostile.txt has the entries of an archive, then its troubles behind `! `, then all that is there behind `= `. `here`
/// is a file that is there before.
#[test]
fn what_a_host_may_not_do_is_refused() {
    for case in include_str!("hostile.txt").split("\n\n") {
        let place = Place::new();
        let (mut archive, mut troubles, mut names) = (Tar::default(), Vec::new(), Vec::new());
        for line in case.lines() {
            let (kind, rest) = line.split_once(' ').unwrap();
            let (name, link) = rest.split_once(" -> ").unwrap_or((rest, ""));
            archive = match kind {
                "!" => {
                    troubles.push(rest);
                    archive
                }
                "=" => {
                    names.extend(rest.split(' '));
                    archive
                }
                "##" => archive,
                "here" => {
                    fs::create_dir_all(place.dest(name).parent().unwrap()).unwrap();
                    fs::write(place.dest(name), "mine").unwrap();
                    archive
                }
                "empty" => archive.file("", "evil"),
                "folder" => archive.folder(name),
                "file" => archive.file(name, "evil"),
                "symlink" => archive.symlink(name, link),
                "link" => archive.link(name, link),
                "char" => archive.add(EntryType::Char, name, "", 0o666, b""),
                "block" => archive.add(EntryType::Block, name, "", 0o666, b""),
                "fifo" => archive.add(EntryType::Fifo, name, "", 0o666, b""),
                _ => archive.add(EntryType::new(b'Z'), name, "", 0o666, b"what"),
            };
        }
        assert_eq!(place.extract(&archive.end(), true).unwrap().troubles, troubles, "{case}");
        assert_eq!(place.names(), names, "{case}");
    }
}

#[test]
fn a_link_that_is_here_already_is_not_followed_either() {
    let place = Place::new();
    symlink("..", place.dest("top")).unwrap();
    let archive = Tar::default().folder("top").file("top/outside", "evil").end();
    let troubles = place.extract(&archive, true).unwrap().troubles;
    assert_eq!(troubles, ["top: it is here already, and is no folder", "top/outside: top is no folder here"]);
}

#[test]
fn what_is_here_gives_way_to_force_alone() {
    let place = Place::new();
    fs::create_dir_all(place.dest("top/folder")).unwrap();
    fs::write(place.dest("top/a"), "old").unwrap();
    let archive = Tar::default()
        .folder("top")
        .file("top/a", "new")
        .symlink("top/a", "x")
        .file("top/folder", "new")
        .folder("top/a")
        .file("top/b", "new")
        .link("top/a", "top/b")
        .end();
    let here = "top/a: it is here already (--force overwrites it)";
    let folder = "top/folder: it is a folder here already";
    let no_folder = "top/a: it is here already, and is no folder";
    assert_eq!(place.troubles(&archive), [here, here, folder, no_folder, here]);
    assert_eq!(fs::read_to_string(place.dest("top/a")).unwrap(), "old");
    let troubles = place.extract(&archive, true).unwrap().troubles;
    assert_eq!(troubles, [folder, no_folder]);
    assert_eq!(fs::metadata(place.dest("top/a")).unwrap().nlink(), 2);
    assert_eq!(place.names(), ["top", "top/a", "top/b", "top/folder"]);
}

#[test]
fn half_a_file_does_not_stay() {
    let place = Place::new();
    let archive = Tar::default().folder("top").file("top/a", "whole").file("top/b", &"x".repeat(5000)).end();
    let cut = archive.len() - 3000;
    let broken = place.extract(&archive[..cut], false).unwrap_err();
    assert!(matches!(broken, Broken::Archive(_)), "{broken}");
    assert_eq!(place.names(), ["top", "top/a"]);
}

#[test]
fn a_head_without_an_end_is_not_read_for_ever() {
    let place = Place::new();
    // A long name of 8 GiB, of which all comes that is asked for.
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::GNULongName);
    header.set_size(8 << 30);
    header.set_cksum();
    let endless = header.as_bytes().chain(io::repeat(b'a'));
    let target = Target::new(&place.dest(""), "top".as_ref(), false).unwrap();
    let broken = extract(endless, "top".as_ref(), &target).unwrap_err();
    assert!(broken.to_string().ends_with("the head of an entry has no end"), "{broken}");
}

#[test]
fn what_a_usual_archive_has_is_understood() {
    let place = Place::new();
    let mut tar = Builder::new(Vec::new());
    let long = format!("top/{}", "n".repeat(180));
    let mut header = Header::new_gnu();
    header.set_mode(0o640);
    header.set_size(3);
    tar.append_data(&mut header, Path::new(&long), &b"abc"[..]).unwrap();
    let mut folder = Header::new_gnu();
    folder.set_entry_type(EntryType::Directory);
    folder.set_mode(0o700);
    folder.set_size(0);
    let mut whole = Builder::new(Vec::new());
    whole.append_data(&mut folder, "top", io::empty()).unwrap();
    let mut archive = whole.into_inner().unwrap();
    archive.truncate(512);
    archive.extend(tar.into_inner().unwrap());
    assert_eq!(place.extract(&archive, false).unwrap(), Extracted { files: 1, bytes: 3, troubles: vec![] });
    assert_eq!(fs::read_to_string(place.dest(&long)).unwrap(), "abc");
    assert!(
        extract(
            &b"no archive at all, but as long as one block would be"[..],
            "top".as_ref(),
            &Target::new(&place.dest(""), "top".as_ref(), false).unwrap()
        )
        .is_err()
    );
}
