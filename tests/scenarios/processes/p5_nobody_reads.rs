//! P5: a log reader that stops reading, a slow, dead or full disk, a log directory that vanishes: the service is never
//! blocked or killed by it; what was dropped is counted and said.

use std::ffi::CString;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use kelson_tests::{Event, Host, PATIENCE, eventually, host, until};

use super::{beats, beats_on, board, logd};

/// PID 1's bound for noticing that logd does not read, as DESIGN.md fixes it.
const BOUND: Duration = Duration::from_secs(2);
/// A pipe of it is full in a few hundredths of a second.
const CHATTY: &str = "process: {command: [$PROGRAM, 'beat=1ms:4000:$DIR/chatty']}\n";

/// So large a log that none of it is rotated away in a test.
const KEPT: &str = "process: {command: [$PROGRAM, 'beat=1ms:4000:$DIR/chatty']}\nlogs: {maxSize: 1Gi}\n";

#[track_caller]
fn never_blocked(host: &Host, pid: i32) {
    let (number, longest) = board(host, "chatty");
    assert!(longest < BOUND, "a write took {longest:?} (of {number})");
    let chatty = host.service("chatty");
    assert_eq!((chatty.pid, chatty.restarts, chatty.up), (Some(pid), 0, true), "{chatty:?}");
}

/// Returns once a client that follows the log is at this beat: there, or past it where it got the report of a
/// gap.
#[track_caller]
fn follows(host: &Host, number: u64) {
    let mut lines = host.follow(&["logs", "-f", "chatty"]);
    let there = |line: String| beats(&line).first().is_some_and(|beat| *beat >= number);
    while !there(lines.next(PATIENCE).expect("the log goes on")) {}
}

#[test]
fn p5_a_reader_that_stops_reading_blocks_nobody_and_is_told_what_it_missed() {
    let mut host = Host::builder().service("chatty", CHATTY).up(&["chatty"]);
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
    follows(&host, number + 100);
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
fn p5_a_log_directory_that_vanishes_is_made_again_and_no_line_is_lost() {
    let mut host = Host::builder().service("chatty", KEPT).up(&["chatty"]);
    host.wait_log("chatty", "beat 50 ");
    let pid = host.pid_of("chatty");
    // Whole and in one moment; where it is now tells what was written before.
    fs::rename(host.path("log"), host.path("gone")).expect("the folder");
    beats_on(&host, "chatty", 300);
    never_blocked(&host, pid);
    let (number, _) = board(&host, "chatty");
    host.wait_log("chatty", &format!("beat {number} "));
    never_blocked(&host, pid);
    let said: Vec<_> = host.events().into_iter().filter(|event| event.message.contains("dropped")).collect();
    assert!(said.is_empty(), "{said:#?}");
    host.poweroff();
    let before = beats(&fs::read_to_string(host.path("gone/chatty.log")).expect("the old file"));
    let after = beats(&host.log_text("chatty"));
    assert!(before.len() >= 50 && after.len() >= 200, "{} lines and {}", before.len(), after.len());
    let all: Vec<u64> = before.into_iter().chain(after).collect();
    assert_eq!(all, (1..=all.len() as u64).collect::<Vec<_>>(), "a line is missing, double or elsewhere");
}

/// Both paths lead to what the other one led to, and at no moment to nothing.
#[track_caller]
fn exchange(one: &Path, other: &Path) {
    let [from, to] =
        [one, other].map(|path| CString::new(path.as_os_str().as_bytes()).expect("no zero byte"));
    // SAFETY: both paths are C strings that live over the call.
    let result = unsafe {
        libc::renameat2(libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), libc::RENAME_EXCHANGE)
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// How many lines are missing among the beats of a log; each gap is reported in its place, with its number.
#[track_caller]
fn counted_gaps(log: &str) -> u64 {
    let (mut last, mut told, mut missing) = (0, 0, 0);
    for line in log.lines() {
        if let Some(number) = beats(line).first() {
            assert_eq!(
                number - last - 1,
                told,
                "beats {last} to {number}, where {told} were said to be lost"
            );
            (last, missing, told) = (*number, missing + told, 0);
        } else if let Some((words, reason)) = line.split_once(" were lost here: ") {
            let (_, words) = words.split_once(" note F ").expect("a line of logd's own");
            let count: u64 = words.split(' ').next().and_then(|n| n.parse().ok()).expect("a number of lines");
            assert!(reason.ends_with("/log: Not a directory"), "{line}");
            told += count;
        }
    }
    missing
}

#[test]
fn p5_a_log_directory_that_cannot_be_made_again_costs_lines_that_are_counted_and_said() {
    let mut host = Host::builder().service("chatty", KEPT).up(&["chatty"]);
    host.wait_log("chatty", "beat 50 ");
    let pid = host.pid_of("chatty");
    // Now there is a file where the folder was.
    host.touch("other");
    exchange(&host.path("log"), &host.path("other"));
    let is_dropped =
        |event: &Event| event.service == "chatty" && event.message.contains("of its log were dropped: ");
    let dropped = host.wait_event(0, "that tells of the loss", is_dropped);
    assert!(dropped.message.ends_with("/log: Not a directory"), "{dropped:?}");
    let trouble = host.wait_event(0, "of logd's trouble", |event| {
        event.service == "logd" && event.message.ends_with("/log: Not a directory")
    });
    assert!(trouble.message.starts_with('/'), "{trouble:?}");
    // Some 130 of them wait for the disk.
    beats_on(&host, "chatty", 450);
    never_blocked(&host, pid);
    // A follower of the log gets the lines that the file does not.
    let (number, _) = board(&host, "chatty");
    follows(&host, number + 20);
    // The folder is back: so is the log, and it tells of its gap.
    exchange(&host.path("log"), &host.path("other"));
    host.wait_event(trouble.seq, "that all is well again", |event| {
        event.service == "logd" && event.message.ends_with("/log: log files are written again")
    });
    let (number, _) = board(&host, "chatty");
    let log = host.wait_log("chatty", &format!("beat {number} "));
    let missing = counted_gaps(&log);
    assert!(missing >= 300, "{missing} of the lines that were written meanwhile");
    until("the events to count what is missing", PATIENCE, || {
        let count = |event: &Event| event.message.split(' ').next()?.parse::<u64>().ok();
        let told = host.events().into_iter().filter(is_dropped).filter_map(|event| count(&event));
        (told.sum::<u64>() == missing).then_some(())
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
        .up(&["chatty"]);
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
    let mut host = Host::builder().service("chatty", KEPT).up(&["chatty"]);
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

/// The numbers of the beats in a log, and how many the notes say are lost: each in the place where beats are missing.
#[track_caller]
fn accounted(log: &str, of: u64) -> (Vec<u64>, u64) {
    let (mut numbers, mut last, mut told, mut all) = (Vec::new(), 0, 0, 0);
    for line in log.lines() {
        if let Some((head, _)) = line.split_once(" were lost here: ") {
            let (_, words) = head.split_once(" note F ").expect("a line of logd's own");
            let count: u64 = words.split(' ').next().and_then(|n| n.parse().ok()).expect("a number of lines");
            (told, all) = (told + count, all + count);
        } else if let Some(number) = beats(line).first() {
            assert_eq!(number - last - 1, told, "beats {last} to {number}, where {told} are noted as lost");
            (last, told) = (*number, 0);
            numbers.push(*number);
        }
    }
    assert_eq!(last + told, of, "all lines are in the log, or noted as lost");
    (numbers, all)
}

#[test]
fn p5_the_end_of_a_burst_is_in_the_log_and_what_is_lost_of_it_is_noted_although_nothing_follows() {
    const SERVICES: usize = 6;
    const LINES: u64 = 20_000;
    let mut builder = Host::builder();
    for n in 0..SERVICES {
        // 20 MB, and then silence.
        let process =
            format!("process: {{command: [$PROGRAM, 'burst={LINES}:1000', 'touch=$DIR/done-{n}', hang]}}");
        builder = builder.service(&format!("n-{n}"), &format!("{process}\nlogs: {{maxSize: 1Gi}}"));
    }
    let mut host = builder.start();
    let mut lost = 0;
    for n in 0..SERVICES {
        eventually("the end of the burst", || host.path(&format!("done-{n}")).exists());
        let log = host.wait_log(&format!("n-{n}"), &format!(" beat {LINES} "));
        let (numbers, noted) = accounted(&log, LINES);
        assert_eq!(numbers.last(), Some(&LINES), "the newest lines survive");
        lost += noted;
    }
    until("the events to count what is lost", PATIENCE, || {
        let dropped =
            host.events().into_iter().filter(|event| event.message.contains("of its log were dropped: "));
        let counts = dropped.filter_map(|event| event.message.split(' ').next()?.parse::<u64>().ok());
        (counts.sum::<u64>() == lost).then_some(())
    });
    host.poweroff();
}

/// A line, then 2 MB at once, more than logd keeps in memory, and then silence.
const BURST: &str = "process: {command: [$PROGRAM, 'print=first', 'wait-path=$DIR/go', 'burst=20000:100', \
    'touch=$DIR/done', hang]}";

/// A host with such a service, whose logs are in their folder. logd writes elsewhere before PID 1 has named the folder.
#[track_caller]
fn up(builder: host::HostBuilder) -> Host {
    let host = builder.up(&["web"]);
    eventually("the log in its folder", || host.path("log/web.log").exists());
    host
}

/// Has the service write its burst, and returns once some of that is lost.
#[track_caller]
fn burst(host: &Host) {
    host.touch("go");
    host.wait_event(0, "that tells of the loss", |event| {
        event.service == "web" && event.message.contains("of its log were dropped: ")
    });
    eventually("the end of the burst", || host.path("done").exists());
}

/// The end of the burst is in the log, behind a note that counts what is not.
#[track_caller]
fn the_newest_lines_survived(host: &Host) {
    let log = host.wait_log("web", " beat 20000 ");
    let (numbers, lost) = accounted(&log, 20_000);
    assert_eq!(numbers.last(), Some(&20_000));
    assert!(numbers.len() > 3000 && lost > 0, "{} lines, {lost} lost", numbers.len());
}

#[test]
fn p5_the_newest_lines_survive_a_disk_that_fails_although_the_service_is_silent() {
    let mut host = up(Host::builder().service("web", BURST));
    // There is a file where the folder was, while the service writes.
    host.touch("other");
    exchange(&host.path("log"), &host.path("other"));
    burst(&host);
    exchange(&host.path("log"), &host.path("other"));
    the_newest_lines_survived(&host);
    host.poweroff();
}

#[test]
fn p5_the_newest_lines_survive_a_disk_that_hangs_and_then_fails() {
    let builder = Host::builder()
        .service("web", BURST)
        .runs_with("disk", "'dead-mount=$DIR/log', hang", "start: manual")
        .runs_with("change", "'uncover=$DIR/log'", "type: oneshot\nstart: manual");
    let mut host = up(builder);
    host.ctl(&["start", "disk", "--wait"]).ok();
    burst(&host);
    // The hung calls are answered with an error, and so is each further one until another disk is there.
    host.ctl(&["stop", "disk", "--wait"]).ok();
    host.wait_event(0, "of logd's trouble", |event| {
        event.service == "logd" && event.message.ends_with("/log: Transport endpoint is not connected")
    });
    host.ctl(&["start", "change", "--wait"]).ok();
    the_newest_lines_survived(&host);
    host.poweroff();
}

#[test]
fn p5_a_writer_waits_at_most_50_ms_in_a_second_while_the_disk_hangs() {
    // Its pipe is full some 20 ms after it is left alone.
    let beat = "process: {command: [$PROGRAM, 'beat=1ms:4000:$DIR/chatty']}";
    let mut host = Host::builder()
        .service("chatty", &format!("{beat}\nlogs: {{maxSize: 1Gi}}\nstart: manual"))
        .runs_with("disk", "'dead-mount=$DIR/log', hang", "start: manual")
        .start();
    host.ctl(&["start", "disk", "--wait"]).ok();
    host.ctl(&["start", "chatty", "--wait"]).ok();
    let waited = || -> Option<u64> {
        fs::read_to_string(host.path("chatty")).ok()?.split_whitespace().nth(2)?.parse().ok()
    };
    host.wait_event(0, "that tells of the loss", |event| {
        event.service == "chatty" && event.message.contains("of its log were dropped: ")
    });
    // A second in which this machine had no processor for it says nothing.
    until("a second with little wait", PATIENCE, || waited().filter(|ms| (1..=50).contains(ms)));
    host.poweroff();
}
