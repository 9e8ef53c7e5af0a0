//! P5: a log reader that stops reading, a slow, dead or full disk, a log directory that vanishes: the service is never
//! blocked or killed by it; what was dropped is counted and said.

use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use kelson_tests::{Host, PATIENCE, host, until};

use super::{beats, beats_on, board, logd};

/// PID 1's bound for noticing that logd does not read, as DESIGN.md fixes it.
const BOUND: Duration = Duration::from_secs(2);
/// A pipe of it is full in a few hundredths of a second.
const CHATTY: &str = "process: {command: [$PROGRAM, 'beat=1ms:4000:$DIR/chatty']}\n";

#[track_caller]
fn never_blocked(host: &Host, pid: i32) {
    let (number, longest) = board(host, "chatty");
    assert!(longest < BOUND, "a write took {longest:?} (of {number})");
    let chatty = host.service("chatty");
    assert_eq!((chatty.pid, chatty.restarts, chatty.up), (Some(pid), 0, true), "{chatty:?}");
}

#[test]
fn p5_a_reader_that_stops_reading_blocks_nobody_and_is_told_what_it_missed() {
    let mut host = Host::builder().service("chatty", CHATTY).start();
    host.wait_up("chatty");
    let pid = host.pid_of("chatty");
    let mut idle = host
        .client()
        .command(&["logs", "-f", "chatty"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kelsonctl");
    let mut begin = [0; 16];
    idle.stdout.as_mut().expect("it is piped").read_exact(&mut begin).expect("its first line");
    // 8 MB: far more than all buffers on the way, and than the two rotated files hold.
    beats_on(&host, "chatty", 2000);
    never_blocked(&host, pid);
    // Another reader is not held up by it.
    let (number, _) = board(&host, "chatty");
    host.follow(&["logs", "-f", "chatty"]).find(&format!("beat {} ", number + 100), PATIENCE);
    never_blocked(&host, pid);
    host.poweroff();
    let (mut lines, mut said) = (String::from_utf8_lossy(&begin).into_owned(), String::new());
    let mut errors = idle.stderr.take().expect("it is piped");
    let saying = std::thread::spawn(move || {
        let mut said = String::new();
        let _ = errors.read_to_string(&mut said);
        said
    });
    let _ = idle.stdout.take().expect("it is piped").read_to_string(&mut lines);
    said.push_str(&saying.join().expect("its stderr"));
    idle.wait().expect("it is our child");
    let numbers = beats(&lines);
    assert!(numbers.is_sorted_by(|a, b| a < b), "doubles or disorder in {numbers:?}");
    let gaps = numbers.windows(2).any(|pair| pair[1] != pair[0] + 1);
    assert!(
        !gaps || said.contains("lines") || said.contains("missed"),
        "nobody said that lines are missing: {said}"
    );
}

#[test]
fn p5_a_log_directory_that_vanishes_is_made_again_or_its_loss_is_said() {
    let mut host = Host::builder().service("chatty", CHATTY).start();
    host.wait_up("chatty");
    host.wait_log("chatty", "beat 50 ");
    let pid = host.pid_of("chatty");
    fs::remove_dir_all(host.path("log"))
        .or_else(|_| fs::remove_dir_all(host.path("log")))
        .expect("the folder");
    // More than a file holds, so that logd has to make the next one.
    beats_on(&host, "chatty", 800);
    never_blocked(&host, pid);
    let (number, _) = board(&host, "chatty");
    host.follow(&["logs", "-f", "chatty"]).find(&format!("beat {} ", number + 20), PATIENCE);
    until("files again, or a word about them", PATIENCE, || {
        let files = host.log_text("chatty").contains("beat ");
        let said = host.events_of("logd").iter().any(|event| event.message.contains("/log"));
        (files || said).then_some(())
    });
    never_blocked(&host, pid);
    host.poweroff();
}

/// A file system of 256 KiB.
struct Tiny(PathBuf);

impl Tiny {
    #[track_caller]
    fn new() -> Tiny {
        let path = std::env::temp_dir().join(format!("kelson-tiny-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for temporary files");
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256k", "none"])
            .arg(&path)
            .status()
            .expect("mount(8)");
        assert!(mounted.success());
        Tiny(path)
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn p5_a_full_disk_blocks_nobody_and_the_loss_is_counted_and_said() {
    let tiny = Tiny::new();
    let mut host = Host::builder()
        .service("chatty", CHATTY)
        .argument("--log-dir")
        .argument(tiny.0.to_str().expect("a path in UTF-8"))
        .start();
    host.wait_up("chatty");
    let pid = host.pid_of("chatty");
    let dropped = host.wait_event(0, "that tells of the loss", |event| {
        event.service == "chatty" && event.message.contains("were dropped")
    });
    assert!(dropped.message.contains("No space left on device"), "{dropped:?}");
    let counted: u64 = dropped.message.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0);
    assert!(counted > 0, "{dropped:?}");
    beats_on(&host, "chatty", 500);
    never_blocked(&host, pid);
    // Once there is room, files are written again, and where lines are missing the log says so.
    let log = tiny.0.join("chatty.log");
    for entry in fs::read_dir(&tiny.0).expect("the folder").flatten() {
        fs::OpenOptions::new().write(true).truncate(true).open(entry.path()).expect("a log file");
    }
    let text = until("the log to go on and to tell of the gap", PATIENCE, || {
        let text = String::from_utf8_lossy(&fs::read(&log).ok()?).into_owned();
        (text.contains("were lost here") && text.contains("beat ")).then_some(text)
    });
    assert!(text.contains("No space left on device"), "{text}");
    never_blocked(&host, pid);
    host.poweroff();
}

#[test]
fn p5_a_stopped_logd_is_replaced_before_anybody_waits_long() {
    let mut host = Host::builder().service("chatty", CHATTY).start();
    host.wait_up("chatty");
    host.wait_log("chatty", "beat 50 ");
    let (pid, old) = (host.pid_of("chatty"), logd(&host));
    host::send(host.outer_pid(old), libc::SIGSTOP);
    let next = host.wait_for("logd", "to be replaced", |service| service.up && service.pid != Some(old));
    assert_eq!(next.restarts, 1, "{next:?}");
    beats_on(&host, "chatty", 200);
    never_blocked(&host, pid);
    let (number, _) = board(&host, "chatty");
    host.wait_log("chatty", &format!("beat {number} "));
    host.poweroff();
}
