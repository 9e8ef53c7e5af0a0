//! Files of the host: `ls`, `read`, `cp`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use kelson_proto::v1::File;
use kelson_proto::v1::copy_response::Response;
use prost_types::Timestamp;
use serde_json::json;
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
    let fake = Fake::start(seen(Seen { files: files(), ..Seen::default() }));
    let plain = fake.run("ls /var");
    assert_eq!(
        plain,
        Done { status: 0, out: "notes\\x1b[2J\nsub\nsub/link\ndisk\n".into(), err: String::new() }
    );
    assert_eq!(
        fake.run("ls -lR /var").out,
        "\
MODE        USER  GROUP  SIZE  MODIFIED                  NAME
-rw-r-----    33      4  1234  2026-11-21T09:48:05.000Z  notes\\x1b[2J
drwxr-sr-x    33      4  1234  2026-11-21T09:48:05.000Z  sub
lrwxrwxrwx    33      4  1234  2026-11-21T09:48:05.000Z  sub/link -> /etc/x
brw-rw----    33      4  8, 1  2026-11-21T09:48:05.000Z  disk
"
    );
    assert_eq!(fake.asked(), ["files /var recursive=false", "files /var recursive=true"]);
    let told = fake.json("ls /var");
    assert_eq!(
        told[2],
        json!({"name": "sub/link", "type": "link", "mode": "0777", "uid": 33, "gid": 4, "size": 1234,
            "modified": "2026-11-21T09:48:05.000Z", "link": "/etc/x", "major": null, "minor": null, "trouble": null})
    );
    assert_eq!(
        (&told[3]["type"], &told[3]["major"], &told[1]["mode"]),
        (&json!("block"), &json!(8), &json!("2755"))
    );
}

#[test]
fn what_cannot_be_looked_at_is_told_beside_the_rest() {
    let shut = File { trouble: "permission denied".to_owned(), name: b"shut".to_vec(), ..File::default() };
    let fake = Fake::start(seen(Seen { files: vec![file("", 0o100_644), shut], ..Seen::default() }));
    let err = "kelsonctl: shut: permission denied\n".to_owned();
    assert_eq!(fake.run("ls /x"), Done { status: 1, out: "/x\nshut\n".into(), err });
    assert!(
        fake.run("ls -l /x").out.ends_with("?              ?      ?     ?  ?                         shut\n")
    );
}

#[test]
fn a_path_that_is_none_is_told() {
    let fake =
        Fake::start(seen(Seen { broken: Some(Status::not_found("there is no /nope")), ..Seen::default() }));
    let dest = Folder::new();
    for words in ["ls /nope".to_owned(), "read /nope".to_owned(), format!("cp /nope {}", dest.display())] {
        let err = "kelsonctl: there is no /nope\n".to_owned();
        assert_eq!(fake.run(&words), Done { status: 1, out: String::new(), err }, "{words}");
    }
    for words in ["ls etc", "read etc", "cp :etc ."] {
        let wrong = fake.run(words);
        assert_eq!(wrong.status, 2, "{words}");
        assert!(wrong.err.contains("a path of the host begins with /"), "{wrong:?}");
    }
}

#[test]
fn folders_of_several_hosts() {
    let host = |name: &str| seen(Seen { files: vec![file(name, 0o100_644)], ..Seen::default() });
    let fleet = Fleet::new(vec![("a", host("one")), ("b", host("two"))]);
    assert_eq!(fleet.run("-n a,b ls /").out, "a  one\nb  two\n");
    let refused = fleet.run("-n a,b read /x");
    assert_eq!((refused.status, refused.err.contains("has one host at a time")), (2, true), "{refused:?}");
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
    let dest = Folder::new();
    let words = format!("cp /var/log {}", dest.display());
    let copied = fake.run(&words);
    let out = format!("copied 2 files (6.8 KiB) to {}/log\n", dest.display());
    assert_eq!(copied, Done { status: 0, out, err: String::new() });
    assert_eq!(fs::read_to_string(dest.join("log/web.log")).unwrap(), "a line\n".repeat(1000));
    let mode = |name| fs::metadata(dest.join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("log/web.log") & 0o7000, mode("log/db.log")), (0, 0o600));
    let here = "it is here already (--force overwrites it)";
    let again = fake.run(&words);
    let err = format!("kelsonctl: log/web.log: {here}\nkelsonctl: log/db.log: {here}\n");
    assert_eq!((again.status, again.err), (1, err));
    let told = fake.json(&format!("{words}/other"));
    assert_eq!(told, json!({"files": 2, "bytes": 7006, "troubles": []}));
    assert!(dest.join("other/db.log").is_file(), "what is not there is its new name");
    assert_eq!(fake.run(&format!("{words} --force")).status, 0);
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

/// What is in a folder, at any depth.
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

#[test]
fn a_place_that_will_not_do_is_told_before_the_host_is_asked() {
    let fake = Fake::start(seen(Seen { copy: pieces(&archive()), ..Seen::default() }));
    let dest = Folder::new();
    fs::write(dest.join("here"), "mine").unwrap();
    let said = |words: String, status| {
        let done = fake.run(&words);
        assert_eq!((done.status, done.out.as_str()), (status, ""), "{words}: {done:?}");
        done.err
    };
    let here = dest.join("here");
    let refused = said(format!("cp /var/log {}", here.display()), 1);
    let already = "is there already and is not overwritten (--force replaces it)\n";
    assert_eq!(refused, format!("kelsonctl: {} {already}", here.display()));
    assert!(said(format!("cp /var/log {}/no/where", dest.display()), 1).contains("cannot write into"));
    assert!(said(format!("cp /var/log {}/no/", dest.display()), 1).contains("there is no folder"));
    for source in ["/", "/var/.."] {
        assert!(
            said(format!("cp {source} {}", dest.display()), 2)
                .contains("has no name that it could have here")
        );
    }
    assert_eq!((fake.asked(), fs::read_to_string(&here).unwrap()), (Vec::<String>::new(), "mine".to_owned()));
}

#[test]
fn a_file_goes_to_the_host() {
    use std::os::unix::fs::PermissionsExt as _;
    let fake = Fake::start(seen(Seen::default()));
    let here = Folder::new();
    let file = here.join("app.conf");
    fs::write(&file, vec![b'x'; 200_000]).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4640)).unwrap();
    let done = fake.run(&format!("cp --force {} :/etc/", file.display()));
    assert_eq!(
        (done.status, done.out.as_str(), done.err.as_str()),
        (0, "copied 1 file (195.3 KiB) to /etc/app.conf\n", "")
    );
    assert_eq!(fake.asked(), ["write /etc/ app.conf 200000 640 true: 200000"]);
    fs::write(&file, "").unwrap();
    let json = fake.json(&format!("cp {} :/etc/x", file.display()));
    assert_eq!(json, serde_json::json!({"files": 1, "bytes": 0, "troubles": []}));
    for (words, said) in [
        (format!("cp {} :/etc/", here.display()), "is not a file"),
        ("cp here there".to_owned(), "neither of the two is on the host"),
        ("cp :/a :/b".to_owned(), "one of the two must be here"),
    ] {
        let refused = fake.run(&words);
        assert!(refused.status == 2 && refused.err.contains(said), "{words}: {refused:?}");
    }
    assert_eq!(fake.run("cp /no/such/file :/etc/").status, 1);
}
