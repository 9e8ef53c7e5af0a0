//! Tests of faults that must not cost a service anything: P5 (disks) and P6 (the end of logd).

#![allow(clippy::unwrap_used, clippy::arithmetic_side_effects, reason = "a test may fail")]

mod host;

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use host::{Before, Host, OPTIONS, ask, contents, eventually, texts};
use kelson_services::collector::{Copying, LogOptions, Report};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, CpuSet, sched_getaffinity, sched_setaffinity, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const SOON: Duration = Duration::from_secs(15);
/// No write may take longer, whatever happens to logd.
const BOUND: Duration = Duration::from_secs(2);

#[test]
#[ignore = "not a test: the process kelson-logd of the tests"]
fn personality_logd() {
    host::personality();
}

/// A thread that writes numbered lines until the test ends it.
struct Writing {
    end: Arc<AtomicBool>,
    thread: JoinHandle<(usize, Duration)>,
}

/// Writes lines of `size` bytes with `pause` between; then `last`.
fn writing(pipe: OwnedFd, size: usize, pause: Duration) -> Writing {
    let end = Arc::new(AtomicBool::new(false));
    let told = end.clone();
    let thread = std::thread::spawn(move || {
        let mut pipe = File::from(pipe);
        let mut longest = Duration::ZERO;
        let mut number = 0;
        let mut put = |text: String| {
            let start = Instant::now();
            // SIGPIPE is ignored here, so that it would be an error.
            pipe.write_all(text.as_bytes()).unwrap();
            longest = longest.max(start.elapsed());
        };
        while !told.load(Ordering::Relaxed) {
            put(format!("{number:0size$}.\n"));
            number += 1;
            std::thread::sleep(pause);
        }
        put("last\n".into());
        (number, longest)
    });
    Writing { end, thread }
}

impl Writing {
    /// How many lines it wrote, and its longest write.
    fn finish(self) -> (usize, Duration) {
        self.end.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn drain(host: &mut Host) -> Vec<Report> {
    let mut reports = Vec::new();
    while let Ok(report) = host.reports.try_recv() {
        reports.push(report);
    }
    reports
}

/// The number in the text of a line of a file, if it is a whole one of [`writing`]: a logd that is killed in the middle
/// of a write leaves half a line.
fn number(line: &str) -> Option<usize> {
    line.split_once(" stdout F ")?.1.strip_suffix('.')?.parse().ok()
}

/// All files of a service, oldest first.
fn all(host: &Host, service: &str) -> String {
    let log = host.log(service);
    let path = |number: usize| match number {
        0 => log.clone(),
        _ => PathBuf::from(format!("{}.{number}", log.display())),
    };
    (0..100).rev().map(|number| contents(&path(number))).collect()
}

#[tokio::test]
async fn p6_a_hundred_services_write_while_logd_is_killed_and_frozen() {
    let mut host = Host::new("p6");
    let options = LogOptions {
        max_size: 8 << 20,
        max_files: 10,
        rate_limit: None,
        console: false,
        copy: Copying::Nothing,
    };
    let mut writers = Vec::new();
    let mut keep = Vec::new();
    for service in 0..100 {
        let (stdout, stderr) = host.collector.pipes(&format!("s{service}"), 0, options).unwrap();
        // Some fill their pipe while nobody reads.
        let (size, pause) = if service % 10 == 0 { (900, 2) } else { (20, 20) };
        writers.push(writing(stdout, size, Duration::from_millis(pause)));
        keep.push(stderr);
    }
    let mut logd = host.up().await;
    for round in 0..6 {
        let signal = if round % 3 == 2 { Signal::SIGSTOP } else { Signal::SIGKILL };
        tokio::time::sleep(Duration::from_millis(300)).await;
        let start = Instant::now();
        kill(logd, signal).unwrap();
        logd = host.replaced(logd).await;
        assert!(start.elapsed() < BOUND, "{signal}: replaced after {:?}", start.elapsed());
    }
    let finished: Vec<_> =
        tokio::task::spawn_blocking(|| writers.into_iter().map(Writing::finish).collect()).await.unwrap();
    for (service, (written, longest)) in finished.into_iter().enumerate() {
        let name = format!("s{service}");
        eventually(SOON, "the last line", || all(&host, &name).ends_with(" stdout F last\n")).await;
        assert!(longest < BOUND, "a write of {name} took {longest:?}");
        let log = all(&host, &name);
        let numbers: Vec<usize> = log.lines().filter_map(number).collect();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{name}: doubled or out of order");
        let lost = written - numbers.len();
        // Six logds, each with less than a pipe's fill unread and a few milliseconds unwritten.
        assert!(lost < 600, "{name}: {lost} of {written} lost");
        if lost > 0 {
            assert!(log.contains(" note F kelson-logd was replaced"), "{name}: {lost} lost and not said");
        }
    }
    let restarted =
        drain(&mut host).into_iter().filter(|report| matches!(report, Report::Restarted { .. })).count();
    assert_eq!((restarted, host.restarts()), (6, 6));
    drop(keep);
}

#[tokio::test]
async fn p6_killed_while_it_is_handed_pipes() {
    let host = Host::new("p6-handing");
    let mut pipes = Vec::new();
    let mut logd = host.up().await;
    for round in 0..4 {
        for number in 0..50 {
            let service = format!("r{round}-{number}");
            let (stdout, stderr) = host.collector.pipes(&service, 0, OPTIONS).unwrap();
            let mut file = File::from(stdout);
            file.write_all(b"hello\n").unwrap();
            pipes.push((service, file, stderr));
            if number == 25 {
                kill(logd, Signal::SIGKILL).unwrap();
            }
        }
        logd = host.replaced(logd).await;
    }
    for (service, file, _) in &mut pipes {
        file.write_all(b"still here\n").unwrap();
        eventually(SOON, "the later line", || contents(&host.log(service)).contains("still here")).await;
    }
}

#[tokio::test]
async fn p6_a_frozen_logd_is_replaced_before_anybody_waits_two_seconds() {
    let mut host = Host::new("p6-frozen");
    let (stdout, _stderr) = host.collector.pipes("web", 0, OPTIONS).unwrap();
    let logd = host.up().await;
    // All is quiet, nobody looks.
    let look = Duration::from_millis(1000);
    tokio::time::sleep(look).await;
    kill(logd, Signal::SIGSTOP).unwrap();
    let writer = writing(stdout, 4000, Duration::from_micros(100));
    host.replaced(logd).await;
    let (_, longest) = tokio::task::spawn_blocking(|| writer.finish()).await.unwrap();
    assert!(longest < BOUND, "{longest:?}");
    assert!(longest > Duration::from_millis(300), "the pipe was never full: {longest:?}");
    eventually(SOON, "the last line", || all(&host, "web").ends_with(" stdout F last\n")).await;
    let told = drain(&mut host);
    let said = |report: &Report| matches!(report, Report::Restarted { reason } if reason.contains("ping"));
    assert!(told.iter().any(said), "{told:?}");
}

/// A process that takes all of a processor.
struct Loop(Child);

impl Loop {
    fn begin() -> Loop {
        Loop(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Keeps this thread, and what it begins from here on, on one processor.
fn stay_on(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor).unwrap();
    sched_setaffinity(Pid::from_raw(0), &set).unwrap();
}

#[tokio::test]
async fn p6_a_logd_that_only_gets_no_processor_is_not_replaced() {
    let ours = sched_getaffinity(Pid::from_raw(0)).unwrap();
    let mut ours = (0..CpuSet::count()).filter(|number| ours.is_set(*number) == Ok(true));
    let theirs = ours.next().unwrap();
    // logd and those who take all of its processor; PID 1 and the service have another one.
    stay_on(theirs);
    let mut host = Host::new("p6-starved");
    let (stdout, _stderr) = host.collector.pipes("web", 0, OPTIONS).unwrap();
    let logd = host.up().await;
    for thread in std::fs::read_dir(format!("/proc/{logd}/task")).unwrap() {
        let thread = thread.unwrap().file_name().into_string().unwrap().parse().unwrap();
        // SAFETY: the parameter is one, and all that is read.
        let given = unsafe {
            libc::sched_setscheduler(thread, libc::SCHED_IDLE, &libc::sched_param { sched_priority: 0 })
        };
        assert_eq!(given, 0);
    }
    let loops: Vec<Loop> = (0..8).map(|_| Loop::begin()).collect();
    stay_on(ours.next().unwrap_or(theirs));
    let writer = writing(stdout, 4000, Duration::from_micros(500));
    // It would be dead in less than two seconds.
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((host.up().await, host.restarts()), (logd, 0), "{:?}", drain(&mut host));
    drop(loops);
    let (written, _) = tokio::task::spawn_blocking(|| writer.finish()).await.unwrap();
    eventually(SOON, "the last line", || all(&host, "web").ends_with(" stdout F last\n")).await;
    assert!(written > 0);
    assert_eq!((host.restarts(), host.collector.status().borrow().dropped_lines), (0, 0));
}

#[tokio::test]
async fn without_any_logd_services_go_on_and_what_is_lost_is_said() {
    let mut host = Host::with("absent", None, 6);
    let (stdout, _stderr) = host.collector.pipes("web", 0, OPTIONS).unwrap();
    let (quiet, _quiet_err) = host.collector.pipes("quiet", 0, OPTIONS).unwrap();
    File::from(quiet).write_all(b"kept\n").unwrap();
    let (burst, _burst_err) = host.collector.pipes("burst", 0, OPTIONS).unwrap();
    let lines: String = (1..=400).map(|number| format!("{number:0100}.\n")).collect();
    File::from(burst).write_all(lines.as_bytes()).unwrap();
    let writer = writing(stdout, 1000, Duration::from_micros(200));
    host.up().await;
    let (_, longest) = tokio::task::spawn_blocking(|| writer.finish()).await.unwrap();
    assert!(longest < BOUND, "{longest:?}");
    eventually(SOON, "the last line", || all(&host, "web").ends_with(" stdout F last\n")).await;
    assert!(all(&host, "web").contains(" were lost here: no kelson-logd was there to read them"));
    eventually(SOON, "what a small pipe held", || all(&host, "quiet").contains(" F kept\n")).await;
    // Of the pipe that was full the newest lines are left, behind a note that counts the others.
    let last = format!(" F {:0100}.\n", 400);
    eventually(SOON, "the end of the burst", || all(&host, "burst").ends_with(&last)).await;
    let log = all(&host, "burst");
    let numbers: Vec<usize> = log.lines().filter_map(number).collect();
    let note = format!(" note F {} lines (", numbers[0] - 1);
    assert!(numbers[0] > 1 && numbers.len() == 401 - numbers[0], "{numbers:?}");
    assert!(log.lines().next().is_some_and(|line| line.contains(&note)), "{log}");
    assert!(numbers.len() > 60, "{numbers:?}");
    let told = drain(&mut host);
    let lost = |report: &Report| matches!(report, Report::Dropped { service, lines, .. } if **service == *"web" && *lines > 0);
    assert!(told.iter().any(lost), "{told:?}");
    assert!(host.collector.status().borrow().dropped_lines > 0);
}

/// In a mount namespace of its own, logd finds a file system of this kind at its log directory.
fn mounted(name: &str, kind: &'static str, options: String) -> Before {
    let target = host::folder(name).join("logs");
    Arc::new(move || {
        std::fs::create_dir_all(&target)?;
        unshare(CloneFlags::CLONE_NEWNS)?;
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;
        mount(Some("none"), &target, Some(kind), MsFlags::empty(), Some(options.as_str()))?;
        Ok(())
    })
}

#[tokio::test]
async fn p5_a_full_disk_blocks_nobody_and_the_gap_is_said() {
    let name = "p5-full";
    let mut host = Host::with(name, Some(mounted(name, "tmpfs", "size=256k".into())), 0);
    let (stdout, _stderr) = host.collector.pipes("web", 0, OPTIONS).unwrap();
    let logd = host.up().await;
    let inside = PathBuf::from(format!("/proc/{logd}/root{}", host.folder.join("logs").display()));
    std::fs::write(inside.join("filler"), vec![b'x'; 128 * 1024]).unwrap();
    let writer = writing(stdout, 1000, Duration::from_millis(1));
    let dropped = tokio::time::timeout(SOON, async {
        let (mut trouble, mut dropped) = (0, false);
        while !dropped || trouble == 0 {
            match host.reports.recv().await.unwrap() {
                Report::Trouble { text } => {
                    assert!(text.ends_with("No space left on device"), "{text}");
                    trouble += 1;
                }
                Report::Dropped { reason, .. } => dropped = reason.contains("No space left"),
                Report::Restarted { reason } => panic!("{reason}"),
            }
        }
        trouble
    });
    assert_eq!(dropped.await.unwrap(), 1);
    std::fs::remove_file(inside.join("filler")).unwrap();
    let log = || contents(&inside.join("web.log"));
    eventually(SOON, "the note", || log().contains(" note F ")).await;
    let (_, longest) = tokio::task::spawn_blocking(|| writer.finish()).await.unwrap();
    assert!(longest < Duration::from_millis(500), "{longest:?}");
    let log = log();
    assert!(log.lines().all(|line| line.contains(" F ")), "a torn line");
    let mut before = None;
    let mut noted = true;
    for line in log.lines() {
        match number(line) {
            Some(number) => {
                assert!(
                    noted || before.is_none_or(|before| before + 1 == number),
                    "{number}: a gap without a note"
                );
                before = Some(number);
                noted = false;
            }
            None => noted = true,
        }
    }
    assert_eq!(host.restarts(), 0);
}

/// A file system whose server never answers: a process that touches it waits.
fn dead_disk(name: &str) -> (OwnedFd, Before) {
    // SAFETY: the path is a C string; the descriptor that comes back is ours.
    let server = unsafe {
        let raw = libc::open(c"/dev/fuse".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        assert!(raw >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(raw)
    };
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", server.as_raw_fd());
    let before = mounted(name, "fuse", options);
    (server, before)
}

#[tokio::test]
async fn p5_a_dead_disk_blocks_nobody_and_logs_can_still_be_read() {
    let name = "p5-dead";
    let (server, before) = dead_disk(name);
    let mut host = Host::with(name, Some(before), 0);
    let (stdout, _stderr) = host.collector.pipes("web", 0, OPTIONS).unwrap();
    host.up().await;
    // More than the queue and the pipe hold.
    let writer = writing(stdout, 4000, Duration::from_micros(300));
    let dropped = tokio::time::timeout(SOON, async {
        loop {
            match host.reports.recv().await.unwrap() {
                Report::Dropped { service, lines, .. } if *service == *"web" && lines > 0 => break,
                Report::Dropped { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    });
    dropped.await.unwrap();
    let (written, longest) = tokio::task::spawn_blocking(|| writer.finish()).await.unwrap();
    assert!(longest < Duration::from_millis(500), "{longest:?}");
    let lines = host.read(ask(&["web"])).await;
    let texts = texts(&lines);
    assert!(texts[0].contains("cannot be read: the disk does not answer"), "{}", texts[0]);
    assert_eq!(texts.last().unwrap(), "last");
    // The end does not wait for the disk.
    let start = Instant::now();
    host.shutdown().await;
    assert!(start.elapsed() < Duration::from_secs(7));
    assert_eq!(host.restarts(), 0);
    // No line ever came to the disk, and each is counted.
    assert_eq!(host.collector.status().borrow().dropped_lines, written as u64 + 1);
    drop(server);
}

#[tokio::test]
async fn p5_a_log_directory_that_vanishes_is_made_again() {
    let host = Host::new("p5-vanish");
    let (stdout, _stderr) = host.collector.pipes("web", 0, OPTIONS).unwrap();
    let writer = writing(stdout, 20, Duration::from_millis(1));
    eventually(SOON, "the log", || !contents(&host.log("web")).is_empty()).await;
    let gone = host.folder.join("gone");
    std::fs::rename(host.folder.join("logs"), &gone).unwrap();
    std::fs::remove_dir_all(&gone).unwrap();
    eventually(SOON, "the log anew", || !contents(&host.log("web")).is_empty()).await;
    let (_, longest) = tokio::task::spawn_blocking(|| writer.finish()).await.unwrap();
    assert!(longest < Duration::from_millis(500), "{longest:?}");
    eventually(SOON, "the last line", || contents(&host.log("web")).ends_with(" stdout F last\n")).await;
}

#[tokio::test]
async fn at_idle_nothing_wakes_up() {
    let host = Host::new("idle");
    let (stdout, _stderr) = host.collector.pipes("web", 0, OPTIONS).unwrap();
    let logd = host.up().await;
    File::from(stdout.try_clone().unwrap()).write_all(b"line\n").unwrap();
    eventually(SOON, "the line", || contents(&host.log("web")).contains(" F line\n")).await;
    let switches = || -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{logd}/task")).unwrap();
        tasks
            .map(|task| contents(&task.unwrap().path().join("status")))
            .map(|status| {
                let line =
                    status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
                line.trim().parse::<u64>().unwrap()
            })
            .sum()
    };
    // The look after the byte, and the ping if there is one, have gone by after this.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let before = (switches(), host.wakes.load(Ordering::Relaxed));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!((switches(), host.wakes.load(Ordering::Relaxed)), before);
}

#[tokio::test]
async fn a_chatty_service_does_not_wake_pid_1_by_its_lines() {
    let host = Host::new("chatty");
    let (stdout, _stderr) = host.collector.pipes("web", 0, OPTIONS).unwrap();
    host.up().await;
    let before = host.wakes.load(Ordering::Relaxed);
    let writer = writing(stdout, 100, Duration::from_millis(1));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (written, _) = tokio::task::spawn_blocking(|| writer.finish()).await.unwrap();
    let wakes = host.wakes.load(Ordering::Relaxed) - before;
    assert!(written > 500, "{written}");
    assert!(wakes < 30, "{wakes} wake-ups for {written} lines");
}

#[tokio::test]
async fn v1_logd_goes_on_over_the_lives_of_pid_1_and_no_line_is_lost_or_doubled() {
    let mut host = Host::new("lives");
    let (mut web, mut web_err) = host.collector.pipes("web", 0, OPTIONS).unwrap();
    let logd = host.up().await;
    let mut number = 0;
    let write = |end: &OwnedFd, number: &mut u32| {
        *number += 1;
        // In two parts: the beginning of a line waits in logd for its end.
        for part in [format!("line {number}"), " is whole\n".to_owned()] {
            nix::unistd::write(end, part.as_bytes()).unwrap();
        }
    };
    for _ in 2..=6 {
        for _ in 0..50 {
            write(&web, &mut number);
        }
        nix::unistd::write(&web, b"half ").unwrap();
        host = host.another_life();
        nix::unistd::write(&web, b"a line\n").unwrap();
        // Pipes of the previous incarnation, and pipes of this one.
        write(&web_err, &mut number);
        assert_eq!((host.up().await, host.restarts()), (logd, 0));
        (web, web_err) = host.collector.pipes("web", 0, OPTIONS).unwrap();
    }
    eventually(SOON, "all lines", || contents(&host.log("web")).contains(&format!("line {number} "))).await;
    host.shutdown().await;
    let log = contents(&host.log("web"));
    for n in 1..=number {
        assert_eq!(log.matches(&format!("line {n} is whole")).count(), 1, "line {n}: {log}");
    }
    assert_eq!(log.matches("half a line").count(), 5, "{log}");
    assert!(!log.contains("lost") && !log.contains("replaced"), "{log}");
}

#[tokio::test]
async fn v1_a_logd_that_died_between_two_lives_is_replaced_and_that_is_said() {
    let host = Host::new("lives-dead");
    let (web, _err) = host.collector.pipes("web", 0, OPTIONS).unwrap();
    let logd = host.up().await;
    nix::unistd::write(&web, b"before\n").unwrap();
    eventually(SOON, "the first line", || contents(&host.log("web")).contains("before")).await;
    kill(logd, Signal::SIGKILL).unwrap();
    eventually(SOON, "its end", || kill(logd, None).is_err()).await;
    let host = host.another_life();
    assert_ne!(host.up().await, logd);
    nix::unistd::write(&web, b"after\n").unwrap();
    eventually(SOON, "the next line", || contents(&host.log("web")).contains("after")).await;
    eventually(SOON, "word of it", || contents(&host.log("web")).contains("was replaced")).await;
}
