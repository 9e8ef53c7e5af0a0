//! Tests that the output of services is in their files and can be read over the socket: P4, rotation, history
//! and live lines, the end.

#![allow(clippy::unwrap_used, clippy::arithmetic_side_effects, reason = "a test may fail")]

mod host;

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::time::Duration;

use host::{Host, OPTIONS, ask, contents, eventually, texts};
use kelson_proto::v1;
use kelson_services::collector::{Copying, LogOptions};

const SOON: Duration = Duration::from_secs(10);

#[test]
#[ignore = "not a test: the process kelson-logd of the tests"]
fn personality_logd() {
    host::personality();
}

fn write(end: &OwnedFd, text: &[u8]) {
    let mut file = File::from(end.try_clone().unwrap());
    file.write_all(text).unwrap();
}

#[tokio::test]
async fn p4_the_last_output_is_in_the_log_also_without_a_newline() {
    let host = Host::new("p4");
    let (stdout, stderr) = host.collector.pipes("web", 0, OPTIONS).unwrap();
    let mut child = std::process::Command::new("/bin/sh")
        .args(["-c", "echo first; printf 'last words'; printf 'and errors' >&2"])
        .stdout(stdout)
        .stderr(stderr)
        .spawn()
        .unwrap();
    child.wait().unwrap();
    eventually(SOON, "all three lines", || contents(&host.log("web")).lines().count() == 3).await;
    let log = contents(&host.log("web"));
    assert!(log.contains(" stdout F first\n"), "{log}");
    assert!(log.contains(" stdout P last words\n"), "{log}");
    assert!(log.contains(" stderr P and errors\n"), "{log}");
}

#[tokio::test]
async fn p4_the_last_words_of_a_run_stand_before_the_next_one() {
    let host = Host::new("p4-runs");
    // All of them have ended before there is a logd.
    for run in 1..=20 {
        let (stdout, _stderr) = host.collector.pipes("web", 0, OPTIONS).unwrap();
        write(&stdout, format!("begin {run}\nend {run}").as_bytes());
    }
    eventually(SOON, "all lines", || contents(&host.log("web")).lines().count() == 40).await;
    let log = contents(&host.log("web"));
    let words: Vec<&str> = log.lines().filter_map(|line| Some(line.split_once(" stdout ")?.1)).collect();
    let wanted: Vec<String> = (1..=20).flat_map(|n| [format!("F begin {n}"), format!("P end {n}")]).collect();
    assert_eq!(words, wanted);
}

#[tokio::test]
async fn any_bytes_and_long_lines_come_back_as_they_were() {
    let host = Host::new("bytes");
    let (stdout, _stderr) = host.collector.pipes("web", 0, OPTIONS).unwrap();
    let mut text = vec![b'x'; 40_000];
    text.extend_from_slice(b"\0\xff\x1b[m\r");
    write(&stdout, &text);
    write(&stdout, b"\nnext\n");
    eventually(SOON, "the next line", || contents(&host.log("web")).contains(" F next\n")).await;
    let lines = host.read(ask(&["web"])).await;
    let joined: Vec<u8> = lines.iter().take(3).flat_map(|line| line.text.clone()).collect();
    assert_eq!(joined, text);
    assert_eq!(lines.iter().map(|line| line.partial).collect::<Vec<_>>(), [true, true, false, false]);
}

#[tokio::test]
async fn files_are_rotated_and_read_as_one() {
    let host = Host::new("rotate");
    let options =
        LogOptions { max_size: 8192, max_files: 3, rate_limit: None, console: false, copy: Copying::Nothing };
    let (stdout, _stderr) = host.collector.pipes("web", 0, options).unwrap();
    for number in 0..400 {
        write(&stdout, format!("number {number}\n").as_bytes());
    }
    eventually(SOON, "the last line", || contents(&host.log("web")).contains(" number 399\n")).await;
    let sizes: Vec<u64> = ["web.log", "web.log.1", "web.log.2"]
        .iter()
        .map(|name| std::fs::metadata(host.folder.join("logs").join(name)).unwrap().len())
        .collect();
    assert!(sizes.iter().all(|size| *size <= 8192), "{sizes:?}");
    assert!(!host.folder.join("logs/web.log.3").exists());
    let seen = texts(&host.read(ask(&["web"])).await);
    let first: usize = seen[0].strip_prefix("number ").unwrap().parse().unwrap();
    let expected: Vec<String> = (first..400).map(|number| format!("number {number}")).collect();
    assert_eq!(seen, expected);
    assert!(seen.len() > 250);
    let tail = v1::ReadRequest { tail: Some(200), ..ask(&["web"]) };
    assert_eq!(texts(&host.read(tail).await), expected[expected.len() - 200..]);
}

#[tokio::test]
async fn several_services_are_merged_by_time_and_cut_together() {
    let host = Host::new("merge");
    let (web, _web_err) = host.collector.pipes("web", 0, OPTIONS).unwrap();
    let (db, _db_err) = host.collector.pipes("db", 0, OPTIONS).unwrap();
    for number in 0..10 {
        let (end, service) = if number % 2 == 0 { (&web, "web") } else { (&db, "db") };
        write(end, format!("{number}\n").as_bytes());
        let line = format!(" F {number}\n");
        eventually(SOON, "the line", || contents(&host.log(service)).contains(&line)).await;
    }
    let all = host.read(ask(&["db", "web"])).await;
    assert_eq!(texts(&all), (0..10).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(all[3].service, "db");
    let tail = v1::ReadRequest { tail: Some(3), ..ask(&["db", "web"]) };
    assert_eq!(texts(&host.read(tail).await), ["7", "8", "9"]);
    let none = v1::ReadRequest { tail: Some(0), ..ask(&["db", "web"]) };
    assert!(host.read(none).await.is_empty());
}

#[tokio::test]
async fn only_lines_of_the_last_while() {
    let host = Host::new("last");
    std::fs::create_dir_all(host.folder.join("logs")).unwrap();
    std::fs::write(host.log("web"), "2020-01-01T00:00:00.000000000Z stdout F old\n").unwrap();
    let (stdout, _stderr) = host.collector.pipes("web", 0, OPTIONS).unwrap();
    write(&stdout, b"new\n");
    eventually(SOON, "the new line", || contents(&host.log("web")).contains("new")).await;
    assert_eq!(texts(&host.read(ask(&["web"])).await), ["old", "new"]);
    let last = Some(prost_types::Duration { seconds: 60, nanos: 0 });
    assert_eq!(texts(&host.read(v1::ReadRequest { last, ..ask(&["web"]) }).await), ["new"]);
}

#[tokio::test]
async fn each_line_knows_its_run_and_lines_are_chosen_by_run_time_and_text() {
    let host = Host::new("runs");
    // Lines of an older release, and of two runs of an earlier start of the host.
    let earlier = "2020-01-01T00:00:00.000000000Z stdout F before\n\
                   2020-01-01T00:00:01.000000000Z stdout F:2:0001 earlier\n\
                   2020-01-01T00:00:02.000000000Z stdout F:9:0001 last\n";
    std::fs::create_dir_all(host.folder.join("logs")).unwrap();
    std::fs::write(host.log("web"), earlier).unwrap();
    for run in 1..=3 {
        let (stdout, stderr) = host.collector.pipes("web", run, OPTIONS).unwrap();
        write(&stdout, format!("out {run}\nneedle {run}\n").as_bytes());
        write(&stderr, format!("end {run}").as_bytes());
        drop((stdout, stderr));
        let end = format!(" end {run}\n");
        eventually(SOON, "the end of the run", || contents(&host.log("web")).contains(&end)).await;
    }
    let of = |run: u64| v1::ReadRequest { run: Some(run), ..ask(&["web"]) };
    let all = host.read(ask(&["web"])).await;
    let runs: Vec<u64> = all.iter().map(|line| line.run).collect();
    assert_eq!(runs, [0, 2, 9, 1, 1, 1, 2, 2, 2, 3, 3, 3]);
    let boot = all[3].boot;
    assert!(boot > 1 && all[3..].iter().all(|line| line.boot == boot) && all[1].boot == 1, "{all:?}");
    // The number came again: the youngest run of it is meant.
    assert_eq!(texts(&host.read(of(2)).await), ["out 2", "needle 2", "end 2"]);
    assert_eq!(texts(&host.read(of(9)).await), ["last"]);
    assert!(host.read(of(4)).await.is_empty());
    let previous = v1::ReadRequest { previous: true, ..ask(&["web"]) };
    assert_eq!(texts(&host.read(previous.clone()).await), ["out 2", "needle 2", "end 2"]);
    let tail = v1::ReadRequest { tail: Some(1), ..of(1) };
    assert_eq!(texts(&host.read(tail).await), ["end 1"], "the last of that run");
    let text = v1::ReadRequest { text: b"eedle".to_vec(), tail: Some(2), ..ask(&["web"]) };
    assert_eq!(texts(&host.read(text).await), ["needle 2", "needle 3"]);
    let minute = Some(prost_types::Duration { seconds: 60, nanos: 0 });
    let until = v1::ReadRequest { until: minute, tail: Some(2), ..ask(&["web"]) };
    assert_eq!(texts(&host.read(until).await), ["earlier", "last"]);

    // A run that has written nothing yet is the current one; then it writes, and a follower looks for a text.
    let (stdout, _stderr) = host.collector.pipes("web", 4, OPTIONS).unwrap();
    let (other, _other_err) = host.collector.pipes("db", 1, OPTIONS).unwrap();
    write(&other, b"taken over\n");
    eventually(SOON, "the other's line", || contents(&host.log("db")).contains("taken over")).await;
    assert_eq!(texts(&host.read(previous).await), ["out 3", "needle 3", "end 3"]);
    let follow = v1::ReadRequest { follow: true, text: b"needle".to_vec(), tail: Some(0), ..ask(&["web"]) };
    let mut following = host.stream(follow).await;
    write(&stdout, b"hay\n");
    eventually(SOON, "a line that is not wanted", || contents(&host.log("web")).contains(" hay\n")).await;
    write(&stdout, b"needle 4\n");
    let part = following.message().await.unwrap().unwrap();
    assert_eq!((texts(&part.lines), part.lines[0].run), (vec!["needle 4".to_owned()], 4));
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused() {
    let host = Host::new("senseless");
    host.up().await;
    let address = format!("unix://{}", host.folder.join("log.sock").display());
    let channel = tonic::transport::Endpoint::try_from(address).unwrap().connect().await.unwrap();
    let mut client = v1::logs_client::LogsClient::new(channel);
    let minute = Some(prost_types::Duration { seconds: 60, nanos: 0 });
    for request in [
        v1::ReadRequest { run: Some(0), ..ask(&["web"]) },
        v1::ReadRequest { run: Some(1), previous: true, ..ask(&["web"]) },
        v1::ReadRequest { run: Some(1), follow: true, ..ask(&["web"]) },
        v1::ReadRequest { previous: true, follow: true, ..ask(&["web"]) },
        v1::ReadRequest { until: minute, follow: true, ..ask(&["web"]) },
        v1::ReadRequest { text: vec![b'x'; 1025], ..ask(&["web"]) },
        ask(&[]),
        ask(&["../etc/passwd"]),
        ask(&[""]),
        ask(&["UP"]),
    ] {
        let refused = client.read(request.clone()).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{request:?}");
    }
}

#[tokio::test]
async fn a_follower_sees_each_line_once_over_the_seam_and_the_last_before_the_end() {
    let host = Host::new("follow");
    let (stdout, stderr) = host.collector.pipes("web", 0, OPTIONS).unwrap();
    // All of them fit into memory: however slow a follower is, it misses none.
    const COUNT: usize = 4000;
    let writer = std::thread::spawn(move || {
        for number in 0..COUNT {
            write(&stdout, format!("{number}\n").as_bytes());
            if number % 40 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        drop(stderr);
    });
    host.up().await;
    let mut followers = Vec::new();
    for _ in 0..4 {
        let mut stream = host.stream(v1::ReadRequest { follow: true, ..ask(&["web"]) }).await;
        followers.push(tokio::spawn(async move {
            let mut seen = Vec::new();
            while let Some(part) = stream.message().await.unwrap() {
                seen.extend(texts(&part.lines));
            }
            seen
        }));
    }
    eventually(SOON * 3, "the writer to end", || writer.is_finished()).await;
    writer.join().unwrap();
    host.shutdown().await;
    for follower in followers {
        let seen = tokio::time::timeout(SOON, follower).await.unwrap().unwrap();
        let expected: Vec<String> = (0..COUNT).map(|number| number.to_string()).collect();
        assert!(seen == expected, "{} lines, the last is {:?}", seen.len(), seen.last());
    }
}

#[tokio::test]
async fn a_slow_follower_is_told_how_many_lines_it_missed() {
    let host = Host::new("slow");
    let (stdout, _stderr) = host.collector.pipes("web", 0, OPTIONS).unwrap();
    host.up().await;
    let mut stream = host.stream(v1::ReadRequest { follow: true, ..ask(&["web"]) }).await;
    write(&stdout, b"first\n");
    let first = stream.message().await.unwrap().unwrap();
    assert_eq!(texts(&first.lines), ["first"]);
    // More than memory and all buffers of a connection hold, while nobody reads.
    const COUNT: usize = 12_000;
    let text = "x".repeat(1000);
    tokio::task::spawn_blocking(move || {
        for number in 0..COUNT {
            write(&stdout, format!("{text} {number}\n").as_bytes());
        }
    })
    .await
    .unwrap();
    let (mut lines, mut missed) = (0, 0);
    while lines + missed < COUNT {
        let part = tokio::time::timeout(SOON, stream.message()).await.unwrap().unwrap().unwrap();
        for line in part.lines {
            if line.stream() == v1::line::Stream::Note {
                let note = String::from_utf8(line.text).unwrap();
                missed += note.split(' ').next().unwrap().parse::<usize>().unwrap();
            } else {
                lines += 1;
            }
        }
    }
    assert_eq!(lines + missed, COUNT);
    assert!(missed > 0);
}

#[tokio::test]
async fn logs_move_along_when_the_directory_changes() {
    let host = Host::new("move");
    let (stdout, _stderr) = host.collector.pipes("web", 0, OPTIONS).unwrap();
    write(&stdout, b"early\n");
    eventually(SOON, "the early line", || contents(&host.log("web")).contains("early")).await;
    let var = host.folder.join("var/log/kelson");
    host.collector.set_directory(var.clone());
    eventually(SOON, "the move", || contents(&var.join("web.log")).contains("early")).await;
    write(&stdout, b"late\n");
    eventually(SOON, "the late line", || contents(&var.join("web.log")).contains("late")).await;
    assert!(!host.log("web").exists());
    assert_eq!(texts(&host.read(ask(&["web"])).await), ["early", "late"]);
}

#[tokio::test]
async fn shutdown_writes_what_is_in_the_pipes() {
    let host = Host::new("shutdown");
    let pipes: Vec<_> =
        (0..50).map(|number| host.collector.pipes(&format!("s{number}"), 0, OPTIONS).unwrap()).collect();
    host.up().await;
    for (stdout, _) in &pipes {
        write(stdout, b"bye\nhalf");
    }
    host.shutdown().await;
    for number in 0..50 {
        let log = contents(&host.log(&format!("s{number}")));
        assert!(log.contains(" stdout F bye\n") && log.contains(" stdout P half\n"), "{log}");
    }
    assert_eq!(host.restarts(), 0);
    assert_eq!(host.collector.status().borrow().helper.pid, None);
}

#[tokio::test]
async fn an_operators_restart_loses_nothing_and_is_not_counted() {
    let host = Host::new("restart");
    let (stdout, _stderr) = host.collector.pipes("web", 0, OPTIONS).unwrap();
    let old = host.up().await;
    write(&stdout, b"before\nha");
    host.collector.restart();
    host.replaced(old).await;
    write(&stdout, b"lf\n");
    eventually(SOON, "the rest of the line", || contents(&host.log("web")).contains(" F lf\n")).await;
    let log = contents(&host.log("web"));
    assert!(log.contains(" F before\n") && log.contains(" P ha\n") && !log.contains(" note "), "{log}");
    assert_eq!(host.restarts(), 0);
}
