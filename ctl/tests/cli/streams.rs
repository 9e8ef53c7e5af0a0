//! Streams: events, logs, dmesg; what becomes of them when the connection breaks, or nobody reads on.

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::net::UnixListener;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use kelson_proto::v1::line::Stream;
use kelson_proto::v1::{KernelMessage, Line};
use serde_json::json;

use crate::fake::{Fake, State};
use crate::{at, done, event, samples, two};

fn events(numbers: impl IntoIterator<Item = u64>) -> Vec<kelson_proto::v1::Event> {
    numbers
        .into_iter()
        .map(|n| event(n, if n % 2 == 0 { "web" } else { "db" }, &format!("event {n}")))
        .collect()
}

pub fn line(name: &str, second: i64, text: &[u8]) -> Line {
    Line { time: samples::at(1_795_254_485 + second), ..samples::line(name, text) }
}

/// A child whose output is read line by line as it comes.
pub struct Following {
    pub child: Child,
    out: BufReader<ChildStdout>,
    pub err: ChildStderr,
}

impl Following {
    pub fn new(fake: &Fake, words: &str) -> Following {
        Following::of(at(&fake.socket(), words))
    }

    pub fn of(mut command: Command) -> Following {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Following { child, out: BufReader::new(out), err }
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Status, the rest of the output, all of the errors.
    pub fn end(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.err.read_to_string(&mut err).unwrap();
        (self.child.wait().unwrap().code(), out, err)
    }
}

#[test]
fn events_as_lines_and_as_json() {
    let mut events_of_all = events(1..=3);
    events_of_all.push(event(4, "", "the boot is done"));
    Fake::start(State { events: events_of_all, ..two() }).transcript("events");
    Fake::start(State { events: events(10..=11), ..two() }).transcript("events-gone");
}

#[test]
fn logs_are_asked_for_by_run_time_and_text() {
    let of = |run, second, text: &[u8]| Line { run, boot: 0x3fa9, ..line("web", second, text) };
    let mut note = line("web", 2, b"12 lines were dropped: the disk is slow");
    note.set_stream(Stream::Note);
    let lines = vec![of(1, 0, b"one"), line("db", 1, b"other"), of(2, 2, b"two"), note];
    let mut state = two();
    state.services.push(crate::service("mail", kelson_proto::v1::State::Running));
    Fake::start(State { lines, ..state }).transcript("logs");
}

#[test]
fn events_from_a_number_that_is_none_yet_are_said_to_be_none() {
    let mut fake = Fake::start(State { events: events(1..=3), ..two() });
    for words in ["events --since 3", "events --since 4", "events --since 0", "events"] {
        assert_eq!(fake.run(words).err, "", "{words}");
    }
    let done = fake.run("events --since 5").refused(0);
    assert_eq!(done.err, "kelsonctl: there is no event 5 yet: the newest is 3\n");
    // It goes on all the same.
    let mut following = Following::new(&fake, "-o json events -f --since 5 web");
    fake.until_asked("events since=5", 2);
    fake.change(|state| state.events.extend(events(4..=6)));
    assert!(following.line().contains("\"seq\":6"));
    fake.change(|state| state.ending = true);
    let (status, _, errors) = following.end();
    assert_eq!((status, errors.as_str()), (Some(0), "kelsonctl: there is no event 5 yet: the newest is 3\n"));
    fake.cut();
}

#[test]
fn events_go_on_from_the_next_number_after_a_break() {
    let mut fake = Fake::start(State { events: events(1..=3), ..two() });
    let mut following = Following::new(&fake, "-o json events -f");
    let seq = |line: String| serde_json::from_str::<serde_json::Value>(&line).unwrap()["seq"].clone();
    for expected in 1..=3 {
        assert_eq!(seq(following.line()), json!(expected));
    }
    fake.cut();
    // Happened while nobody listened.
    fake.change(|state| state.events.extend(events(4..=5)));
    fake.serve();
    for expected in 4..=5 {
        assert_eq!(seq(following.line()), json!(expected));
    }
    fake.change(|state| state.events.extend(events(6..=6)));
    assert_eq!(seq(following.line()), json!(6));
    fake.cut();
    // And so much that the ring could not keep all of it.
    fake.change(|state| state.events = events(20..=21));
    fake.serve();
    assert_eq!(seq(following.line()), json!(20));
    assert_eq!(seq(following.line()), json!(21));
    fake.change(|state| state.ending = true);
    let (status, rest, errors) = following.end();
    assert_eq!((status, rest.as_str()), (Some(0), ""), "{errors}");
    assert!(errors.contains("13 events before number 20 are no longer kept"), "{errors}");
    assert!(fake.asked().iter().any(|asked| asked == "events since=4 last=false"));
    assert!(fake.asked().iter().any(|asked| asked == "events since=7 last=false"));
}

#[test]
fn logs_to_a_file_are_what_was_written() {
    let raw = b"\x1b[31mred\xff\0";
    let lines = vec![line("web", 0, raw), line("db", 1, b"other"), line("web", 2, b"two")];
    let fake = Fake::start(State { lines, ..two() });
    let output = at(&fake.socket(), "logs web").output().unwrap();
    assert_eq!(output.stdout, b"\x1b[31mred\xff\0\ntwo\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn logs_go_on_after_a_break_without_doubles() {
    let lines = vec![line("web", 0, b"one"), line("web", 1, b"two"), line("web", 1, b"three")];
    let mut fake = Fake::start(State { lines, ..two() });
    let mut following = Following::new(&fake, "logs -f web");
    for expected in ["one", "two", "three"] {
        assert_eq!(following.line(), expected);
    }
    fake.cut();
    fake.change(|state| state.lines.extend([line("web", 1, b"four"), line("web", 2, b"five")]));
    fake.serve();
    assert_eq!(following.line(), "four");
    assert_eq!(following.line(), "five");
    following.child.kill().unwrap();
    let (_, rest, errors) = following.end();
    assert_eq!(rest, "");
    assert!(errors.contains("connecting again"), "{errors}");
}

#[test]
fn logs_end_with_the_host() {
    let mut fake = Fake::start(State { lines: vec![line("web", 0, b"one")], ..two() });
    let mut following = Following::new(&fake, "logs -f web");
    assert_eq!(following.line(), "one");
    fake.change(|state| {
        state.lines.push(line("web", 1, b"last"));
        state.ending = true;
    });
    assert_eq!(following.line(), "last");
    fake.until_asked("logs", 2);
    fake.cut();
    let (status, rest, errors) = following.end();
    assert_eq!((status, rest.as_str()), (Some(0), ""), "{errors}");
}

#[test]
fn the_kernel_log() {
    let message = |seq, text: &str| KernelMessage {
        seq,
        time: Some(prost_types::Duration { seconds: 1, nanos: 5_000 }),
        level: 6,
        text: text.to_owned(),
    };
    let fake = Fake::start(State { kernel: vec![message(1, "a\x1bb"), message(2, "c")], ..two() });
    fake.transcript("dmesg");
    let mut following = Following::new(&fake, "dmesg -f");
    assert!(following.line().ends_with("a\\x1bb") && following.line().ends_with(" c"));
    fake.change(|state| {
        state.kernel.push(message(3, "d"));
        state.ending = true;
    });
    assert_eq!(following.end(), (Some(0), "[    1.000005] d\n".to_owned(), String::new()));
}

#[test]
fn a_reader_that_goes_away_ends_the_stream_quietly() {
    let fake = Fake::start(State { events: events(1..=1), ..two() });
    let Following { child, mut out, err } = Following::new(&fake, "events -f");
    let mut first = String::new();
    out.read_line(&mut first).unwrap();
    drop(out);
    fake.change(|state| state.events.extend(events(2..=2)));
    let output = done(child.wait_with_output().unwrap());
    assert_eq!(output.status, 128 + 13, "ended by SIGPIPE, as other programs are");
    let mut said = String::new();
    BufReader::new(err).read_to_string(&mut said).unwrap();
    assert_eq!(said, "");
}

/// A database and a web server that needs it, from the start to the stop.
fn life() -> State {
    let edges = vec![samples::edge("web", "db", "up", false)];
    let graph = kelson_proto::v1::GraphResponse { nodes: Vec::new(), edges };
    State { events: samples::story(), graph, ..two() }
}

#[test]
fn a_timeline_of_the_events() {
    let fake = Fake::start(life());
    let done = fake.run("events --timeline").silent(0);
    for part in
        ["\ndb   sss", "\nweb  www", "▒▒▒", "0 is 2026-11-21T09:48:05.000Z\n", "\ndb     200 ms  for web\n"]
    {
        assert!(done.out.contains(part), "{part:?} is in {done:?}");
    }
    let late = fake.run("events --timeline --since 200ms db").out;
    assert!(!late.contains("\nweb") && !late.contains("sss") && late.contains("xxx"), "{late}");
    let numbered = fake.run("events --timeline --since 11").out;
    assert!(numbered.contains("\nweb  ──"), "it tells what was before: {numbered}");
    let svg = fake.run("events --timeline --format svg").out;
    assert!(svg.starts_with("<svg ") && svg.contains("waited 200 ms for web to be down"), "{svg}");
    let json = fake.json("events --timeline db");
    assert_eq!(json["services"][0]["states"][4]["toMs"], serde_json::Value::Null);
    assert_eq!(
        json["services"][0]["waited"],
        serde_json::json!([{"fromMs": 800.0, "toMs": 1000.0, "for": ["web"]}])
    );
    let unknown = fake.run("events --timeline wbe");
    assert_eq!(unknown.err, "kelsonctl: no service \"wbe\"; did you mean \"web\"?\n");
    assert_eq!(fake.run("events --format svg").status, 2);
}

#[test]
fn a_timeline_that_follows_is_drawn_at_the_end() {
    let mut state = life();
    let last = state.events.split_off(4);
    let fake = Fake::start(state);
    let following = Following::new(&fake, "events -f --timeline");
    fake.until_asked("events", 1);
    fake.change(|state| {
        state.events.extend(last);
        state.ending = true;
    });
    let (status, rest, errors) = following.end();
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    assert!(rest.ends_with("\ndb     200 ms  for web\n"), "{rest}");
}

#[test]
fn a_timeline_of_a_host_that_does_not_come_back_is_drawn_all_the_same() {
    let fake = Fake::start(life());
    let following = Following::new(&fake, "events -f --timeline");
    fake.until_asked("events", 1);
    drop(fake);
    let (status, rest, errors) = following.end();
    assert_eq!(status, Some(0), "{errors}");
    assert!(errors.contains("what came until then is drawn"), "{errors}");
    assert!(rest.ends_with("\ndb     200 ms  for web\n"), "{rest}");
}

/// Takes a connection and drops it unanswered.
fn lose(listener: &UnixListener) {
    listener.set_nonblocking(true).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while listener.accept().is_err() {
        assert!(Instant::now() < deadline, "nobody asks");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The connection is taken, and PID 1 re-executes itself before it has answered.
#[test]
fn a_follower_whose_first_request_is_lost_asks_again() {
    let first = "first line";
    for words in ["-o json events -f", "-o json logs -f --tail 1 web", "-o json dmesg -f"] {
        let kernel = vec![KernelMessage { seq: 1, text: first.to_owned(), ..KernelMessage::default() }];
        let lines = vec![line("web", 0, b"before"), line("web", 1, first.as_bytes())];
        let mut fake = Fake::start(State { events: vec![event(1, "web", first)], lines, kernel, ..two() });
        fake.cut();
        let listen = |name: &str| {
            let path = fake.folder().join(name);
            drop(std::fs::remove_file(&path));
            UnixListener::bind(path).unwrap()
        };
        let (init, log) = (listen("init.sock"), listen("log.sock"));
        let asked = if words.contains("logs") {
            // Whether the names are known is not asked for long.
            std::thread::spawn(move || lose(&init));
            log
        } else {
            init
        };
        let mut following = Following::new(&fake, words);
        lose(&asked);
        // Again, and more than once; then nobody listens for a moment.
        lose(&asked);
        drop(asked);
        fake.serve();
        let line = following.line();
        assert!(line.contains(first), "{words}: {line}");
        fake.change(|state| state.ending = true);
        if words.contains("logs") {
            assert_eq!(
                fake.asked().iter().find(|asked| asked.starts_with("logs")).unwrap(),
                "logs tail=Some(1) last=false"
            );
            // logd has ended, and is not there again.
            fake.until_asked("logs", 2);
            fake.cut();
        }
        let (status, rest, errors) = following.end();
        assert_eq!((status, rest.as_str()), (Some(0), ""), "{words}: {errors}");
        let is_expected =
            |line: &str| line.ends_with("; connecting again") || line.ends_with("connected again");
        assert!(errors.lines().all(is_expected), "{words}: {errors}");
    }
}

#[test]
fn what_does_not_follow_ends_when_its_request_is_lost() {
    let mut fake = Fake::start(two());
    fake.cut();
    drop(std::fs::remove_file(fake.socket()));
    let socket = UnixListener::bind(fake.socket()).unwrap();
    let following = Following::new(&fake, "events");
    lose(&socket);
    drop(socket);
    let (status, rest, errors) = following.end();
    assert_eq!((status, rest.as_str()), (Some(3), ""));
    assert_eq!(errors.lines().count(), 1, "{errors}");
}
