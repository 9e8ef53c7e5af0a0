use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use super::*;
use crate::archive::testing::{HOST, Layout, demo, gzip, tar_of};

struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["images", "more"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).unwrap();
    }

    fn scan(&self) -> Scan {
        let folders = [self.path("images"), self.path("more"), self.path("images"), self.path("nowhere")];
        Catalog::open(&self.path("state")).scan(&folders, &HOST())
    }

    fn names(&self) -> Vec<String> {
        self.scan().images.iter().flat_map(|image| &image.references).map(Reference::to_string).collect()
    }

    fn catalog(&self) -> PathBuf {
        self.path("state/catalog.json")
    }
}

/// An archive that holds this image of one layer.
fn archive(name: &str, content: &str) -> Vec<u8> {
    let mut layout = Layout::default();
    let image = layout.image("amd64", &[tar_of(&[("x", content.as_bytes())])], gzip);
    layout.list(image, Some(name));
    layout.tar()
}

fn reference(text: &str) -> Reference {
    Reference::parse(text).unwrap()
}

#[test]
fn all_archives_are_found_in_order() {
    let machine = Machine::new();
    machine.put("images/b.tar", &archive("b:1", "b"));
    machine.put("images/a.tar.gz", &gzip(&archive("7", "a")));
    machine.put("images/.hidden", b"x");
    fs::create_dir(machine.path("images/empty")).unwrap();
    fs::create_dir_all(machine.path("more/layout/blobs/sha256")).unwrap();
    for (name, bytes) in demo().all_files() {
        machine.put(&format!("more/layout/{name}"), &bytes);
    }
    let scan = machine.scan();
    assert_eq!(scan.notes, Vec::<String>::new());
    assert_eq!(machine.names(), ["a:7", "b:1", "demo/app:1"]);
    assert_eq!(scan.find(&reference("docker.io/library/b:1")).unwrap().archive, machine.path("images/b.tar"));
    let by_digest = format!("a@{}", scan.images[0].manifest);
    assert_eq!(scan.find(&reference(&by_digest)), Some(&scan.images[0]));
    assert_eq!(scan.find(&reference("c:1")), None);
}

#[test]
fn an_archive_is_not_opened_again_until_it_changes() {
    let machine = Machine::new();
    machine.put("images/a.tar", &archive("a:1", "a"));
    let first = machine.scan();
    // Other bytes of the same length under the same stamp: who looks inside would see that nothing is there.
    let path = machine.path("images/a.tar");
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let length = fs::metadata(&path).unwrap().len() as usize;
    machine.put("images/a.tar", &vec![0; length]);
    let touch = |time: SystemTime| fs::File::open(&path).unwrap().set_modified(time).unwrap();
    touch(modified);
    assert_eq!(machine.scan(), first);
    touch(modified + Duration::from_nanos(1));
    let changed = machine.scan();
    assert_eq!(changed.images, []);
    assert!(changed.notes[0].contains("a.tar") && changed.notes.len() == 1, "{:?}", changed.notes);
    assert_eq!(machine.scan(), changed, "what is wrong is remembered too");
    fs::remove_file(&path).unwrap();
    let empty = machine.scan();
    assert!(empty.images.is_empty() && empty.notes.is_empty() && empty.whole);
    assert!(!fs::read_to_string(machine.catalog()).unwrap().contains("a.tar"));
}

#[test]
fn a_broken_archive_hides_nothing() {
    let machine = Machine::new();
    machine.put("images/a.tar", &archive("a:1", "a")[..1000]);
    machine.put("images/b.tar", b"no archive");
    machine.put("images/c.tar", &archive("c:1", "c"));
    symlink("gone", machine.path("images/d.tar")).unwrap();
    nix::unistd::mkfifo(&machine.path("images/e.tar"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let scan = machine.scan();
    assert_eq!(machine.names(), ["c:1"]);
    for name in ["a.tar", "b.tar", "d.tar", "e.tar"] {
        assert_eq!(scan.notes.iter().filter(|note| note.contains(name)).count(), 1, "{:?}", scan.notes);
    }
}

#[test]
fn the_first_archive_keeps_a_name_that_two_have() {
    let machine = Machine::new();
    machine.put("images/a.tar", &archive("x:1", "first"));
    machine.put("images/b.tar", &archive("docker.io/library/x:1", "second"));
    machine.put("more/c.tar", &archive("x:1", "first"));
    let scan = machine.scan();
    assert_eq!(scan.find(&reference("x:1")).unwrap().archive, machine.path("images/a.tar"));
    assert_eq!(scan.notes.len(), 1, "{:?}", scan.notes);
    assert!(scan.notes[0].contains("image x:1") && scan.notes[0].contains("b.tar"), "{}", scan.notes[0]);
    let second = &scan.images[1];
    assert_eq!(scan.find(&reference(&format!("x@{}", second.manifest))), Some(second));
}

#[test]
fn an_image_for_another_platform_says_so_and_gives_way() {
    let machine = Machine::new();
    let mut layout = Layout::default();
    let image = layout.image("arm64", &[tar_of(&[])], gzip);
    layout.list(image, Some("x:1"));
    machine.put("images/a.tar", &layout.tar());
    let scan = machine.scan();
    let found = scan.find(&reference("x:1")).unwrap();
    assert_eq!(found.platform, Platform::new("linux", "arm64", ""));
    assert_eq!(found.trouble.as_deref(), Some("image x:1 is for linux/arm64 only, this host is linux/amd64"));
    machine.put("images/b.tar", &archive("x:1", "b"));
    let scan = machine.scan();
    assert_eq!(scan.find(&reference("x:1")).unwrap().archive, machine.path("images/b.tar"));
}

#[test]
fn a_catalog_that_cannot_be_trusted_is_forgotten() {
    let machine = Machine::new();
    machine.put("images/a.tar", &archive("a:1", "a"));
    let first = machine.scan();
    let good = fs::read_to_string(machine.catalog()).unwrap();
    let deep = "[".repeat(100_000);
    for bad in [
        "",
        "{",
        &good[..good.len() / 2],
        &good.replace("\"version\":1", "\"version\":2"),
        &good.replace("amd64", "arm64"),
        &good.replace("sha256:", "sha256:x"),
        &deep,
    ] {
        fs::write(machine.catalog(), bad).unwrap();
        assert_eq!(machine.scan(), first);
        assert_eq!(fs::read_to_string(machine.catalog()).unwrap(), good, "it is written anew");
    }
    // In the way: a link to a file of somebody else, and a folder.
    machine.put("victim", b"precious");
    for name in ["state/catalog.json", "state/catalog.json.next"] {
        let _ = fs::remove_file(machine.path(name));
        symlink(machine.path("victim"), machine.path(name)).unwrap();
        assert_eq!(machine.scan(), first);
        assert_eq!(fs::read(machine.path("victim")).unwrap(), b"precious");
        let _ = fs::remove_file(machine.path(name));
    }
    let _ = fs::remove_file(machine.catalog());
    fs::create_dir_all(machine.catalog().join("x")).unwrap();
    let scan = machine.scan();
    assert_eq!(scan.images, first.images);
    assert!(scan.notes[0].contains("cannot be written"), "{:?}", scan.notes);
}

#[test]
fn processes_that_write_the_catalog_at_the_same_time_do_not_disturb_each_other() {
    let machine = Machine::new();
    machine.put("images/a.tar", &archive("a:1", "a"));
    machine.put("more/b.tar", &archive("b:1", "b"));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                // Each scan finds what another has remembered, so each writes.
                for folder in ["images", "more"].repeat(20) {
                    let folders = [machine.path(folder)];
                    let scan = Catalog::open(&machine.path("state")).scan(&folders, &HOST());
                    assert_eq!((scan.images.len(), scan.notes), (1, Vec::new()));
                }
            });
        }
    });
    let left = fs::read_dir(machine.path("state")).unwrap().flatten().map(|entry| entry.file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["catalog.json"]);
}

#[test]
fn the_memory_of_an_archive_is_written_only_when_it_changes() {
    let machine = Machine::new();
    machine.put("images/a.tar", &archive("a:1", "a"));
    machine.scan();
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    let written = fs::metadata(machine.catalog()).unwrap().modified().unwrap();
    let before = inode(&machine.catalog());
    machine.scan();
    assert_eq!(
        (inode(&machine.catalog()), fs::metadata(machine.catalog()).unwrap().modified().unwrap()),
        (before, written)
    );
}

#[test]
fn a_directory_that_is_still_being_copied_is_looked_at_again() {
    let machine = Machine::new();
    fs::create_dir_all(machine.path("images/layout/blobs/sha256")).unwrap();
    let (blobs, rest): (Vec<_>, Vec<_>) =
        demo().all_files().into_iter().partition(|(name, _)| name.starts_with("blobs/"));
    for (name, bytes) in &rest {
        machine.put(&format!("images/layout/{name}"), bytes);
    }
    assert!(machine.scan().find(&reference("demo/app:1")).is_none());
    for (name, bytes) in &blobs {
        machine.put(&format!("images/layout/{name}"), bytes);
    }
    let scan = machine.scan();
    assert_eq!(scan.notes, Vec::<String>::new());
    assert!(scan.find(&reference("demo/app:1")).is_some_and(|image| image.trouble.is_none()));
}

#[test]
fn a_compressed_archive_that_was_opened_comes_along() {
    let machine = Machine::new();
    machine.put("images/a.tar.gz", &gzip(&archive("a:1", "a")));
    machine.put("images/b.tar", &archive("b:1", "b"));
    machine.put("images/c.tar.gz", &gzip(&archive("c:1", "c")));
    let opened = |wanted: Option<&str>| {
        let wanted = wanted.map(reference);
        let _ = fs::remove_file(machine.catalog());
        let catalog = Catalog::open(&machine.path("state"));
        let first = catalog.scan_for(&[machine.path("images")], &HOST(), wanted.as_ref()).1;
        let second = catalog.scan_for(&[machine.path("images")], &HOST(), wanted.as_ref()).1;
        assert!(second.is_none(), "a known archive is not opened");
        first.map(|archive| archive.path().to_owned())
    };
    assert_eq!(opened(Some("a:1")), Some(machine.path("images/a.tar.gz")));
    assert_eq!(opened(Some("c:1")), Some(machine.path("images/c.tar.gz")));
    // To open what is not compressed costs nothing.
    assert_eq!(opened(Some("b:1")), None);
    assert_eq!(opened(Some("d:1")), None);
    assert_eq!(opened(None), None);
}

#[test]
fn a_number_stands_for_the_archives_as_they_are() {
    let machine = Machine::new();
    let number = || super::archives(&[machine.path("images"), machine.path("more")]);
    let mut seen = vec![number()];
    let mut changed = |what: &str| {
        let now = number();
        assert!(!seen.contains(&now), "{what}");
        assert_eq!(now, machine.scan().archives, "{what}");
        assert_eq!(now, number(), "{what}");
        seen.push(now);
    };
    machine.put("images/a.tar", &archive("a:1", "a"));
    changed("it came");
    machine.put("images/a.tar", b"shorter");
    changed("it changed");
    fs::create_dir_all(machine.path("images/layout/blobs/sha256")).unwrap();
    changed("a folder came");
    machine.put("images/layout/blobs/sha256/12", b"1");
    changed("a blob of it came");
    machine.put("images/layout/blobs/sha256/12", b"12");
    changed("it grew");
    machine.put("images/layout/oci-layout", b"{}");
    machine.put("images/layout/index.json", b"{}");
    changed("its index came");
    fs::remove_file(machine.path("images/a.tar")).unwrap();
    changed("one is gone");
}
