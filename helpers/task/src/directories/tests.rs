use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown, lchown, symlink};
use std::path::PathBuf;

use super::*;

const USER: (u32, u32) = (1234, 1235);

fn directory(kind: DirectoryKind, path: &str, mode: u32) -> Directory {
    Directory { kind, path: path.into(), mode }
}

fn state(path: &str) -> Directory {
    directory(DirectoryKind::State, path, 0o750)
}

/// A folder that stands for that of the kind.
struct Base(tempfile::TempDir);

impl Base {
    fn new() -> Base {
        Base(tempfile::tempdir().unwrap())
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    fn make(&self, directory: &Directory) -> nix::Result<()> {
        make(base(self.0.path()).unwrap(), directory, USER)
    }

    fn remove(&self, directory: &Directory) -> nix::Result<()> {
        remove(base(self.0.path()).unwrap(), directory)
    }

    fn owner(&self, below: &str) -> (u32, u32) {
        let found = fs::symlink_metadata(self.path(below)).unwrap();
        (found.uid(), found.gid())
    }

    fn mode(&self, below: &str) -> u32 {
        fs::metadata(self.path(below)).unwrap().mode() & PERMISSIONS
    }
}

#[test]
fn the_last_folder_of_a_path_is_the_users() {
    let base = Base::new();
    base.make(&state("shop/spool/in")).unwrap();
    assert_eq!((base.owner("shop"), base.mode("shop")), ((0, 0), 0o755));
    assert_eq!((base.owner("shop/spool/in"), base.mode("shop/spool/in")), (USER, 0o750));
    base.make(&directory(DirectoryKind::State, "shop", 0o2755)).unwrap();
    assert_eq!((base.owner("shop"), base.mode("shop")), (USER, 0o2755));
    // It was root's too, from the first time.
    assert_eq!(base.owner("shop/spool"), USER);
}

#[test]
fn a_folder_of_another_owner_is_given_with_what_was_that_owners() {
    let base = Base::new();
    for folder in ["shop/in", "shop/of-root"] {
        fs::create_dir_all(base.path(folder)).unwrap();
    }
    for file in ["shop/file", "shop/in/file", "shop/of-root/file", "shop/secret", "outside"] {
        fs::write(base.path(file), "").unwrap();
    }
    symlink(base.path("outside"), base.path("shop/link")).unwrap();
    for name in ["shop", "shop/in", "shop/file", "shop/in/file", "shop/of-root/file", "shop/link"] {
        lchown(base.path(name), Some(77), Some(78)).unwrap();
    }
    base.make(&state("shop")).unwrap();
    for name in ["shop", "shop/in", "shop/file", "shop/in/file", "shop/link"] {
        assert_eq!(base.owner(name), USER, "{name}");
    }
    for name in ["shop/secret", "shop/of-root", "outside"] {
        assert_eq!(base.owner(name), (0, 0), "{name}");
    }
    assert_eq!(base.owner("shop/of-root/file"), (77, 78));
    // Another time it is the user's, and nothing in it is looked at.
    chown(base.path("shop/file"), Some(77), Some(78)).unwrap();
    base.make(&state("shop")).unwrap();
    assert_eq!(base.owner("shop/file"), (77, 78));
}

#[test]
fn no_link_is_followed() {
    let base = Base::new();
    fs::create_dir_all(base.path("elsewhere/spool")).unwrap();
    fs::write(base.path("elsewhere/spool/file"), "").unwrap();
    base.make(&state("shop")).unwrap();
    symlink("../elsewhere", base.path("shop/led")).unwrap();
    symlink("../elsewhere/spool", base.path("shop/last")).unwrap();
    for path in ["shop/led/spool", "shop/led/new", "shop/last"] {
        assert_eq!(base.make(&state(path)), Err(Errno::ELOOP), "{path}");
    }
    assert_eq!(base.owner("elsewhere/spool"), (0, 0));
    assert!(!base.path("elsewhere/new").exists());
    assert_eq!(base.remove(&state("shop/led/spool")), Err(Errno::ELOOP));
    // The link goes, and not what it leads to.
    base.remove(&state("shop")).unwrap();
    assert!(!base.path("shop").exists() && base.path("elsewhere/spool/file").exists());
    base.remove(&state("shop")).unwrap();
    base.remove(&state("never/there")).unwrap();
    let text = failure(&state("shop"), "make", Errno::ELOOP);
    let expected =
        "/var/lib/shop: cannot make it: there is a symbolic link in its path, and Kelson follows none there";
    assert_eq!(text, expected);
}

#[test]
fn configuration_stays_whose_it_is() {
    let base = Base::new();
    let configuration = |mode| directory(DirectoryKind::Configuration, "shop", mode);
    base.make(&configuration(0o700)).unwrap();
    assert_eq!((base.owner("shop"), base.mode("shop")), ((0, 0), 0o700));
    chown(base.path("shop"), Some(77), Some(78)).unwrap();
    base.make(&configuration(0o755)).unwrap();
    assert_eq!((base.owner("shop"), base.mode("shop")), ((77, 78), 0o700));
}

#[test]
fn a_file_in_the_way_and_folders_without_end_are_refused() {
    let base = Base::new();
    fs::write(base.path("shop"), "").unwrap();
    assert_eq!(base.make(&state("shop")), Err(Errno::ENOTDIR));
    assert_eq!(base.make(&state("shop/in")), Err(Errno::ENOTDIR));
    let deep = (0..=DEPTH).fold(PathBuf::from("deep"), |path, _| path.join("d"));
    fs::create_dir_all(base.path(deep.to_str().unwrap())).unwrap();
    assert_eq!(base.make(&state("deep")), Err(Errno::ENAMETOOLONG));
    assert_eq!(base.remove(&state("deep")), Err(Errno::ENAMETOOLONG));
    assert_eq!(base.owner("deep"), (0, 0));
}
