//! Files of the host: `ls`, `read`, `cp`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use kelson_proto::v1::File;
use kelson_proto::v1::copy_response::Response;
use prost_types::Timestamp;
use tar::{Builder, EntryType, Header};
use tonic::Status;

use crate::fake::{Fake, Seen};
use crate::looking::seen;
use crate::nodes::Fleet;
use crate::samples::Folder;
use crate::terminal::on_terminal;
use crate::{Done, at};

fn file(name: &str, mode: u32) -> File {
    File {
        name: name.as_bytes().to_vec(),
        mode,
        uid: 33,
        gid: 4,
        size: 1234,
        modified: Some(Timestamp { seconds: 1_795_254_485, nanos: 0 }),
        ..File::default()
    }
}

fn files() -> Vec<File> {
    vec![
        file("notes\x1b[2J", 0o100_640),
        file("sub", 0o042_755),
        File { link: b"/etc/x".to_vec(), ..file("sub/link", 0o120_777) },
        File { major: 8, minor: 1, size: 0, ..file("disk", 0o060_660) },
    ]
}

#[test]
fn a_folder_is_listed() {
    Fake::start(seen(Seen { files: files(), ..Seen::default() })).transcript("files");
    let shut = File { trouble: "permission denied".to_owned(), name: b"shut".to_vec(), ..File::default() };
    let files = vec![file("", 0o100_644), shut];
    Fake::start(seen(Seen { files, ..Seen::default() })).transcript("files-shut");
    let broken = Some(Status::not_found("there is no /nope"));
    Fake::start(seen(Seen { broken, ..Seen::default() })).transcript("files-none");
    let host = |name: &str| seen(Seen { files: vec![file(name, 0o100_644)], ..Seen::default() });
    Fleet::new(vec![("a", host("one")), ("b", host("two"))]).transcript("files-nodes");
}

#[test]
fn a_file_goes_as_it_is() {
    let content = vec![b"\x1b[2Jred\n\xc3".to_vec(), b"\xbc\xff\x00".to_vec()];
    let fake = Fake::start(seen(Seen { content: content.clone(), ..Seen::default() }));
    for words in ["read /x", "read /x -o json"] {
        let output = at(&fake.socket(), words).output().unwrap();
        assert_eq!((output.status.code(), output.stdout), (Some(0), content.concat()), "{words}");
    }
    assert_eq!(on_terminal(at(&fake.socket(), "read /x"), 80), "\\x1b[2Jred\nü\\xff\\x00\n");
}

#[test]
fn a_file_that_breaks_off_is_no_file() {
    let seen = seen(Seen {
        content: vec![b"half".to_vec()],
        broken: Some(Status::deadline_exceeded("the disk does not answer")),
        ..Seen::default()
    });
    let fake = Fake::start(seen);
    let err = "kelsonctl: the disk does not answer\n".to_owned();
    assert_eq!(fake.run("read /x"), Done { status: 5, out: "half".to_owned(), err });
}

/// A folder `log` with a file of set-user-id and a link, in pieces that end anywhere.
fn archive() -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    let mut add = |kind, name: &str, mode, content: &str| {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        tar.append_data(&mut header, name, content.as_bytes()).unwrap();
    };
    add(EntryType::Directory, "log", 0o755, "");
    add(EntryType::Regular, "log/web.log", 0o4755, &"a line\n".repeat(1000));
    add(EntryType::Regular, "log/db.log", 0o600, "quiet\n");
    tar.into_inner().unwrap()
}

fn pieces(archive: &[u8]) -> Vec<Response> {
    archive.chunks(700).map(|chunk| Response::Data(chunk.to_vec())).collect()
}

#[test]
fn a_folder_is_copied() {
    let fake = Fake::start(seen(Seen { copy: pieces(&archive()), ..Seen::default() }));
    let dest = fake.folder().join("dest");
    fs::create_dir(&dest).unwrap();
    fs::write(fake.folder().join("here"), "mine").unwrap();
    fake.transcript("copy");
    assert_eq!(fs::read_to_string(dest.join("log/web.log")).unwrap(), "a line\n".repeat(1000));
    let mode = |name| fs::metadata(dest.join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("log/web.log") & 0o7000, mode("log/db.log")), (0, 0o600));
    assert!(dest.join("other/db.log").is_file(), "what is not there is its new name");
    assert_eq!(fs::read_to_string(fake.folder().join("here")).unwrap(), "mine");
}

#[test]
fn a_file_goes_to_the_host() {
    let fake = Fake::start(seen(Seen::default()));
    let file = fake.folder().join("app.conf");
    fs::write(&file, vec![b'x'; 200_000]).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4640)).unwrap();
    fs::write(fake.folder().join("empty"), "").unwrap();
    fake.transcript("upload");
}

#[test]
fn an_archive_goes_as_it_is() {
    let mut copy = pieces(&archive());
    copy.insert(3, Response::Trouble("log/shut: permission denied".to_owned()));
    let fake = Fake::start(seen(Seen { copy, ..Seen::default() }));
    let output = at(&fake.socket(), "cp /var/log -").output().unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(1), archive()));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "kelsonctl: log/shut: permission denied\n");
}

#[test]
fn troubles_of_a_copy_are_told_and_the_rest_is_there() {
    let mut copy = pieces(&archive());
    copy.push(Response::Trouble("log/late: it\x1b is gone".to_owned()));
    let fake = Fake::start(seen(Seen { copy, ..Seen::default() }));
    let dest = Folder::new();
    let copied = fake.run(&format!("cp /var/log {}", dest.display()));
    assert_eq!((copied.status, copied.err.as_str()), (1, "kelsonctl: log/late: it\\x1b is gone\n"));
    assert!(dest.join("log/db.log").is_file());
}

/// The paths in a folder, at any depth.
fn all(path: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap().path();
        names.push(entry.display().to_string());
        if entry.is_dir() {
            names.extend(all(&entry));
        }
    }
    names.sort_unstable();
    names
}

#[test]
fn a_copy_that_breaks_off_leaves_no_half_of_a_file() {
    let half = &archive()[..3000];
    let broken = Some(Status::unavailable("PID 1 is ending"));
    let fake = Fake::start(seen(Seen { copy: pieces(half), broken, ..Seen::default() }));
    let dest = Folder::new();
    let words = format!("cp /var/log {}", dest.display());
    let err = "kelsonctl: PID 1 is ending\n".to_owned();
    assert_eq!(fake.run(&words), Done { status: 3, out: String::new(), err });
    assert_eq!(all(&dest), [dest.join("log").display().to_string()]);
    fake.change(|state| state.seen.broken = None);
    let short = fake.run(&words);
    assert_eq!(short.status, 1);
    assert!(short.err.starts_with("kelsonctl: the archive that the host sends is broken: "), "{short:?}");
    assert_eq!(all(&dest).len(), 1);
}

#[test]
fn a_host_writes_nothing_but_what_was_asked_for() {
    let outer = Folder::new();
    let dest = outer.join("dest");
    fs::create_dir(&dest).unwrap();
    let mut evil = Vec::new();
    for name in ["../evil", "/tmp/kelsonctl-evil", ".bashrc", "log/../../evil"] {
        let mut header = Header::new_ustar();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_mode(0o644);
        header.set_size(0);
        header.set_cksum();
        evil.extend(header.as_bytes());
    }
    evil.extend([0; 1024]);
    let fake = Fake::start(seen(Seen { copy: pieces(&evil), ..Seen::default() }));
    let done = fake.run(&format!("cp /var/log {}", dest.display()));
    assert_eq!((done.status, done.err.lines().count()), (1, 4), "{done:?}");
    assert!(done.err.contains("kelsonctl: .bashrc: it is not below log, which was asked for\n"), "{done:?}");
    assert_eq!(all(&outer), [dest.display().to_string()]);
    assert!(!Path::new("/tmp/kelsonctl-evil").exists());
}
