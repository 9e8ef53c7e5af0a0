//! The file system of the logs is full, can no longer be written, or is unmounted under logd's hands.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use kelson_tests::{Host, PATIENCE, eventually, until};

use super::Fault;
use super::siege::{WRITERS, board, inside, logs_go_on, told_since, writer};

pub const FULL: Fault = Fault { name: "log-disk-full", host: |builder| builder, inject: fill_it };
pub const READ_ONLY: Fault =
    Fault { name: "log-disk-read-only", host: |builder| builder, inject: close_it_for_writing };
pub const GONE: Fault = Fault { name: "log-disk-gone", host: |builder| builder, inject: take_it_away };

/// A folder of the test's own that was not there before.
fn new_folder(host: &Host, name: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("{name}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    fs::create_dir(host.path(&name)).expect("the test's folder is writable");
    name
}

fn log_folder(host: &Host) -> String {
    host.path("log").display().to_string()
}

fn fill_it(host: &Host) {
    let newest = host.newest_event();
    inside(host, &["mount", "-t", "tmpfs", "-o", "size=64k", "none", &log_folder(host)]);
    host.wait_event(newest, "of logd's trouble", |event| {
        event.service == "logd" && event.message.ends_with("No space left on device")
    });
    // Lines without room wait in memory.
    for name in (0..WRITERS).map(writer) {
        let (from, _) = board(host, &name);
        eventually("it to write on", || board(host, &name).0 > from + 50);
    }
    // The test looks at the small file system once nobody can write to it any more.
    let seen = PathBuf::from(format!("/proc/{}/root{}", host.init_pid(), log_folder(host)));
    let files: Vec<(String, File)> = fs::read_dir(seen)
        .expect("as the host sees it")
        .map(|entry| entry.expect("a readable folder"))
        .map(|entry| {
            (entry.file_name().to_string_lossy().into_owned(), File::open(entry.path()).expect("a log"))
        })
        .collect();
    inside(host, &["umount", "-l", &log_folder(host)]);
    logs_go_on(host, "log");
    let kept = new_folder(host, "full");
    for (name, mut file) in files {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).expect("it is still there");
        fs::write(host.path(&kept).join(name), bytes).expect("the test's folder is writable");
    }
    host.wait_event(newest, "that all is well again", |event| {
        event.service == "logd" && event.message.ends_with("log files are written again")
    });
    assert_eq!(told_since(host, newest, "dropped"), 0, "nothing had to be lost: {:#?}", host.events());
}

fn close_it_for_writing(host: &Host) {
    let newest = host.newest_event();
    inside(host, &["mount", "-t", "tmpfs", "-o", "ro", "none", &log_folder(host)]);
    let told = host.wait_event(newest, "of logd's trouble", |event| {
        event.service == "logd" && event.message.contains("Read-only file system; logs stay in ")
    });
    assert!(told.message.ends_with("/run/log"), "{told:?}");
    // As DESIGN.md says: below the runtime folder, meanwhile, and there they can be read.
    logs_go_on(host, "run/log");
    let shown = host.ctl(&["logs", "--tail", "3", "n-0"]).ok().stdout;
    assert_eq!(shown.matches("beat ").count(), 3, "{shown}");
    assert_eq!(told_since(host, newest, "logs stay in"), 1, "said once");
    inside(host, &["umount", "-l", &log_folder(host)]);
    logs_go_on(host, "log");
    host.wait_event(newest, "that all is well again", |event| {
        event.service == "logd" && event.message.ends_with("/log: log files are written again")
    });
    until("what was elsewhere to be moved", PATIENCE, || {
        let mut left = fs::read_dir(host.path("run/log")).ok()?.flatten();
        left.all(|entry| !entry.path().is_file()).then_some(())
    });
    let dropped = told_since(host, newest, "dropped");
    assert_eq!(dropped, 0, "nothing had to be lost: {:#?}", host.events());
}

fn take_it_away(host: &Host) {
    let newest = host.newest_event();
    let disk = new_folder(host, "disk");
    inside(host, &["mount", "--bind", &host.path(&disk).display().to_string(), &log_folder(host)]);
    logs_go_on(host, &disk);
    inside(host, &["umount", "-l", &log_folder(host)]);
    logs_go_on(host, "log");
    assert_eq!(told_since(host, newest, "dropped"), 0, "nothing had to be lost: {:#?}", host.events());
}

#[test]
fn hostile_a_log_folder_that_was_never_writable_is_told_once_and_used_when_it_can_be() {
    let disk = std::env::temp_dir().join(format!("kelson-read-only-{}", std::process::id()));
    fs::create_dir_all(&disk).expect("a folder for temporary files");
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "ro", "none"]).arg(&disk).status();
    assert!(mounted.is_ok_and(|status| status.success()));
    let mut host = Host::builder()
        .argument("--log-dir")
        .argument(disk.to_str().expect("a path in UTF-8"))
        .runs_with("n-0", "'beat=5ms:60:$DIR/n-0'", "logs: {maxSize: 1Gi}")
        .start();
    let below = |folder: &std::path::Path| fs::read_to_string(folder.join("n-0.log")).unwrap_or_default();
    eventually("its log below the runtime folder", || below(&host.path("run/log")).lines().count() > 500);
    assert_eq!(told_since(&host, 0, "logs stay in"), 1, "{:#?}", host.events());
    inside(&host, &["mount", "-o", "remount,rw", disk.to_str().expect("a path in UTF-8")]);
    eventually("its log where it should be", || below(&disk).lines().count() > 600);
    host.poweroff();
    let log = below(&disk);
    let numbers: Vec<u64> =
        log.lines().filter_map(|line| line.split_once(" beat ")?.1.split(' ').next()?.parse().ok()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "a line is missing or double");
    let _ = Command::new("umount").arg("-l").arg(&disk).status();
    let _ = fs::remove_dir(&disk);
}
