//! On a terminal: colours, its width, and nothing that services say reaches it as a command.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::SystemTime;

use kelson_proto::v1::{Line, Process};
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, tcgetattr};
use nix::unistd::Pid;

use crate::fake::{Fake, State};
use crate::samples::line;
use crate::{at, event, two};

fn winsize(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// A terminal of this size: our end, and that of the program.
pub fn terminal(columns: u16, rows: u16) -> (File, OwnedFd) {
    let OpenptyResult { master, slave } = openpty(Some(&winsize(columns, rows)), None).unwrap();
    (master.into(), slave)
}

/// Makes the program's terminal as large as this, and tells the program.
pub fn resize(theirs: &OwnedFd, child: &Child, columns: u16, rows: u16) {
    let size = winsize(columns, rows);
    // SAFETY: it reads one winsize, which lives on this stack.
    assert_eq!(unsafe { libc::ioctl(theirs.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) }, 0);
    // It is not the terminal's own session here, so the kernel does not tell it.
    send(child, Signal::SIGWINCH);
}

pub fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
}

pub fn is_raw(theirs: &OwnedFd) -> bool {
    !tcgetattr(theirs.as_fd()).unwrap().local_flags.intersects(LocalFlags::ICANON | LocalFlags::ISIG)
}

/// Runs the command on a terminal of this width; what it printed there.
pub fn on_terminal(mut command: Command, columns: u16) -> String {
    let (mut master, slave) = terminal(columns, 24);
    command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
    let mut child = command.stdout(Stdio::from(slave)).stderr(Stdio::inherit()).spawn().unwrap();
    // The command holds its own copy of the terminal.
    drop(command);
    let mut printed = Vec::new();
    let mut chunk = [0; 4096];
    // The end of a terminal reads as an error.
    while let Ok(count @ 1..) = master.read(&mut chunk) {
        printed.extend_from_slice(&chunk[..count]);
    }
    assert!(child.wait().unwrap().success());
    String::from_utf8(printed).unwrap().replace("\r\n", "\n")
}

/// A command whose errors and progress go to a terminal.
struct Shown {
    child: Child,
    master: File,
    text: String,
}

impl Shown {
    fn new(fake: &Fake, words: &str) -> Shown {
        let (master, slave) = terminal(72, 24);
        let mut command = at(&fake.socket(), words);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::from(slave)).spawn().unwrap();
        Shown { child, master, text: String::new() }
    }

    /// Reads on; false at the end.
    fn more(&mut self) -> bool {
        let mut chunk = [0; 4096];
        match self.master.read(&mut chunk) {
            Ok(count @ 1..) => {
                self.text += std::str::from_utf8(&chunk[..count]).unwrap();
                true
            }
            _ => false,
        }
    }

    /// Reads until this is shown.
    fn until(&mut self, part: &str) {
        while !self.text.contains(part) {
            assert!(self.more(), "{part:?} is never in {:?}", self.text);
        }
    }

    /// Its status and its output, and all that was shown.
    fn end(mut self) -> (Option<i32>, String, String) {
        while self.more() {}
        let output = self.child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), self.text)
    }
}

/// The sequence that clears the line.
const AWAY: &str = "\r\x1b[K";

#[test]
fn who_waits_sees_what_for() {
    let fake = Fake::start(two());
    let mut shown = Shown::new(&fake, "wait db web --for up");
    shown.until("\r\x1b[Kweb: waiting for path \"/run/x\" to exist · 0 s");
    shown.until("\r\x1b[Kweb: waiting for path \"/run/x\" to exist · 1 s");
    fake.change(|state| {
        state.services[1].waiting_for.clear();
        state.services[1].set_state(kelson_proto::v1::State::Preparing);
        let mut news = event(1, "web", "unpacking demo/web:1: 12.3 of 40.1 MiB");
        news.set_state(kelson_proto::v1::State::Preparing);
        state.events.push(news);
    });
    shown.until("\r\x1b[Kweb: preparing, unpacking demo/web:1: 12.3 of 40.1 MiB · ");
    fake.change(|state| state.services[1].up = true);
    let (status, out, text) = shown.end();
    assert_eq!((status, out.as_str()), (Some(0), ""));
    assert!(text.ends_with(AWAY) && !text.contains('\n'), "one line, and it is gone: {text:?}");
}

#[test]
fn each_action_shows_what_it_waits_for() {
    for action in ["start", "restart", "stop"] {
        let mut state = State { silent: true, ..two() };
        state.services[1].set_state(kelson_proto::v1::State::Stopping);
        let fake = Fake::start(state);
        let mut shown = Shown::new(&fake, &format!("{action} --wait --timeout 1200ms db web"));
        shown.until(if action == "stop" {
            "\r\x1b[Kdb: waiting for web to be down (and 1 more) · 0 s"
        } else {
            "\r\x1b[Kweb: waiting for path \"/run/x\" to exist · 0 s"
        });
        let (status, out, text) = shown.end();
        assert_eq!((status, out.as_str()), (Some(5), ""), "{action}");
        let (_, said) = text.rsplit_once(AWAY).unwrap();
        assert!(said.starts_with("kelsonctl: db and web did not get there within"), "{action}: {text:?}");
    }
}

#[test]
fn a_pipe_hears_nothing_of_the_progress() {
    let fake = Fake::start(State { silent: true, ..two() });
    let done = fake.run("start --wait --timeout 50ms web").refused(5);
    assert_eq!((done.err.lines().count(), done.err.contains('\r')), (1, false), "{done:?}");
    assert!(done.err.contains("`kelsonctl why web`"), "{done:?}");
    assert!(
        !fake.asked().iter().any(|asked| asked.starts_with("list")),
        "nobody is asked for what nobody sees"
    );
}

#[test]
fn colours_are_for_terminals() {
    let fake = Fake::start(two());
    let text = on_terminal(at(&fake.socket(), "services"), 200);
    assert!(
        text.contains("\x1b[38;5;28mrunning\x1b[0m") && text.contains("\x1b[38;5;130mwaiting\x1b[0m"),
        "{text}"
    );
    let mut plain = at(&fake.socket(), "services");
    plain.env("NO_COLOR", "1");
    assert!(!on_terminal(plain, 200).contains('\x1b'));
}

#[test]
fn a_table_fits() {
    let mut state = two();
    state.services[1].waiting_for = vec!["service \"a-very-long-name-of-a-service\" to be up".to_owned(); 9];
    let fake = Fake::start(state);
    let mut command = at(&fake.socket(), "services");
    command.env("NO_COLOR", "1");
    let text = on_terminal(command, 80);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.lines().nth(2).unwrap().ends_with('…'), "{text}");
}

/// The output of the words on a terminal of 80 columns without colours.
fn in_eighty(fake: &Fake, words: &str) -> String {
    let mut command = at(&fake.socket(), words);
    command.env("NO_COLOR", "1");
    let text = on_terminal(command, 80);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    text
}

#[test]
fn eighty_columns_cut_reasons_and_no_names() {
    let mut state = two();
    let name = "a-name-that-is-longer-than-many";
    state.services[1].name = name.to_owned();
    state.services[1].waiting_for = vec!["service \"another-one\" to be up".to_owned(); 4];
    let reason = "exited with status 3 after 1.2 s, restarting in 2 s";
    state.events = vec![event(4_000_000_000, name, reason)];
    let mut news = event(4_000_000_001, "db", reason);
    news.time = Some(SystemTime::now().into());
    state.events.push(news);
    let process = |pid, command: &str| Process {
        pid,
        parent: 1,
        uid: 65_534,
        threads: 1000,
        resident: 1023 << 30,
        cpu: Some(prost_types::Duration { seconds: 90, nanos: 123_000_000 }),
        age: Some(prost_types::Duration { seconds: 90_000, nanos: 0 }),
        state: "S".to_owned(),
        service: "db".to_owned(),
        command: vec![command.as_bytes().to_vec()],
        ..Process::default()
    };
    state.seen.processes =
        vec![process(4_194_303, &"/usr/bin/database ".repeat(9)), process(4_194_304, "sh")];
    let fake = Fake::start(state);

    let text = in_eighty(&fake, "services");
    let row = text.lines().nth(2).unwrap();
    assert!(row.starts_with(&format!("{name}  waiting")) && row.ends_with('…'), "{text}");

    let text = in_eighty(&fake, "events");
    let rows: Vec<&str> = text.lines().collect();
    assert!(rows[0].starts_with(&format!("4000000000  11-21 09:48   {name}  running")), "{text}");
    assert!(rows[1].starts_with("4000000001  ") && rows[1].contains("  db      "), "{text}");
    assert!(!rows[1].contains("-") && rows[1].ends_with('…'), "of today the clock alone: {text}");
    let whole = fake.run("events").out;
    assert!(whole.contains("2026-11-21T09:48:05.000Z") && whole.contains(reason), "{whole}");

    for words in ["processes", "processes --sort pid"] {
        let text = in_eighty(&fake, words);
        assert!(
            text.contains("4194303") && text.contains("1023.0 GiB") && text.contains("90.123 s"),
            "{text}"
        );
        assert!(text.contains("  /usr/bin/datab") && text.contains('…') && text.contains("  sh\n"), "{text}");
        assert!(!text.contains("THREADS"), "{text}");
    }
}

#[test]
fn a_log_cannot_steer_the_terminal() {
    let lines = vec![line("web", b"\x1b]0;owned\x07\x1b[2J\xff")];
    let mut fake_state = two();
    fake_state.services[0].status_text = "\x1b[2J".to_owned();
    let fake = Fake::start(State { lines, ..fake_state });
    assert_eq!(on_terminal(at(&fake.socket(), "logs web"), 80), "\\x1b]0;owned\\x07\\x1b[2J\\xff\n");
    let mut command = at(&fake.socket(), "services");
    command.env("NO_COLOR", "1");
    assert!(!on_terminal(command, 80).contains('\x1b'));
}

#[test]
fn a_log_on_a_terminal_has_its_times_and_tells_its_runs_apart() {
    let of = |run, second, text: &[u8]| Line { run, boot: 9, ..crate::streams::line("web", second, text) };
    let lines = vec![of(6, 0, b"one"), of(6, 1, b"two"), of(7, 4, b"three"), of(7, 5, b"four")];
    let mut ended = event(1, "web", "exited with status 1, restarting in 2 s");
    (ended.run, ended.time.as_mut().unwrap().seconds) = (6, 1_795_254_485 + 2);
    ended.set_state(kelson_proto::v1::State::Backoff);
    let mut began = event(2, "web", "starting");
    (began.run, began.time.as_mut().unwrap().seconds) = (7, 1_795_254_485 + 3);
    let fake = Fake::start(State { lines, events: vec![ended, began], ..two() });
    let at_terminal = |words: &str| {
        let mut command = at(&fake.socket(), words);
        command.env("NO_COLOR", "1");
        on_terminal(command, 120)
    };
    let mark = "── run 7, started 09:48:08; run 6: exited with status 1, restarting in 2 s ──\n";
    let t = "2026-11-21T09:48:";
    assert_eq!(
        at_terminal("logs web"),
        format!("{t}05.000Z one\n{t}06.000Z two\n{mark}{t}09.000Z three\n{t}10.000Z four\n")
    );
    assert_eq!(at_terminal("logs --no-times web"), format!("one\ntwo\n{mark}three\nfour\n"));
    let all = at_terminal("logs --all --no-times");
    assert!(all.starts_with("web | one\n") && all.contains("\n── web: run 7, started"), "{all}");
    assert_eq!(fake.run("logs web").out, "one\ntwo\nthree\nfour\n", "elsewhere nothing is added");
    assert_eq!(fake.run("logs --all").out, "web | one\nweb | two\nweb | three\nweb | four\n");
    // Nothing is known of them any more.
    fake.change(|state| state.events.clear());
    assert!(at_terminal("logs web").contains("two\n── run 7 ──\n"));
}
