//! The standard input of a service: a terminal that controls it, a file, a FIFO, a text; and what keeps it from having one.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use kelson_tests::{Host, Line, eventually};

/// A service that runs a script of the shell.
fn script(script: &str, process: &str, more: &str) -> String {
    format!("process:\n  command: [/bin/sh, -c, '{script}']\n  {process}\nstop: {{timeout: 1s}}\n{more}")
}

fn on(line: &Line, more: &str) -> String {
    format!("terminal: {{path: {}{more}}}", line.path.display())
}

/// Whether PID 1 has nothing of it open.
fn is_closed_in_init(host: &Host, what: &str) -> bool {
    let folder = format!("/proc/{}/fd", host.init_pid());
    let open = fs::read_dir(folder).expect("it runs").flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok())
        .all(|link| !link.to_string_lossy().contains(what))
}

/// Shows what it has, sleeps until it is interrupted, and then says what is typed.
const SESSION: &str = "trap \"echo interrupted\" INT; tty; stty size; echo $TERM $(ps -o tty= -p $$); \
    echo problem >&2; echo ready; sleep 77400; read line; echo got $line; exec sleep 77401";

#[test]
fn a_terminal_controls_the_session_of_its_service() {
    let line = Line::open();
    let path = line.path.display().to_string();
    let hook = "restart: {delay: 10ms}\nhooks: {pre: {command: [/bin/readlink, /proc/self/fd/0]}}";
    let file = script(SESSION, &on(&line, ", reset: true, rows: 25, columns: 80"), hook);
    let mut host = Host::builder().service("login", &file).up(&["login"]);
    for text in [path.clone(), "25 80".to_owned(), format!("vt220 {}", &path["/dev/".len()..])] {
        line.wait(&text);
    }
    line.wait("problem");
    line.wait("ready");
    // The main process is not what the interrupt ends.
    eventually("it sleeps", || !host.processes_with("77400").is_empty());
    line.put("\x03");
    line.wait("interrupted");
    line.put("hello\n");
    line.wait("got hello");
    let log = host.wait_log("login", "/dev/null");
    assert!(!log.contains("ready") && !log.contains("problem"), "{log}");
    eventually("it is closed in PID 1", || is_closed_in_init(&host, &path));
    assert!(host.ctl(&["cat", "login"]).ok().stdout.contains(&path));

    host.ctl(&["reexec"]).ok();
    assert_eq!(host.service("login").restarts, 0);
    // It ends what the shell has become.
    line.put("\x03");
    line.wait("ready");
    assert_eq!(host.service("login").restarts, 1);
    host.ctl(&["restart", "login", "--wait"]).ok();
    line.wait("ready");
    host.poweroff();
}

#[test]
fn a_terminal_is_its_users_and_taken_from_strangers() {
    let mut line = Line::open();
    let file = script(
        "tty; echo can >/dev/tty; exec sleep 77402",
        &on(&line, ", hangUp: true, clear: true"),
        "user: \"4321:4321\"",
    );
    let owner = |line: &Line| fs::metadata(&line.path).map(|found| (found.uid(), found.mode() & 0o777));
    let mut host = Host::builder().service("login", &file).start();
    line.wait("\x1b[3J");
    line.wait("can");
    assert_eq!(owner(&line).expect("it is there"), (4321, 0o620));
    assert!(line.theirs.write_all(b"x").is_err(), "a stranger has lost it");
    line.theirs = OpenOptions::new().write(true).open(&line.path).expect("it can be opened");
    line.theirs.write_all(b"x").expect("it can be written");
    host.ctl(&["restart", "login", "--wait"]).ok();
    line.wait("can");
    assert!(line.theirs.write_all(b"x").is_err(), "each start takes it");
    host.ctl(&["stop", "login", "--wait"]).ok();
    assert_eq!(owner(&line).expect("it is there").0, 0, "it is root's again");
    host.poweroff();
}

#[test]
fn a_terminal_of_another_program_is_taken_by_force_alone() {
    let line = Line::open();
    let path = line.path.display().to_string();
    // A session of its own, which the terminal controls.
    let mut other = Command::new("setsid");
    other.args(["--ctty", "sleep", "77403"]);
    let (input, output) =
        (line.theirs.try_clone().expect("a copy"), line.theirs.try_clone().expect("a copy"));
    let mut other = other.stdin(input).stdout(output).spawn().expect("it can be started");
    eventually("it is its terminal", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", other.id())).unwrap_or_default();
        let field = |number: usize| stat.rsplit(") ").next()?.split(' ').nth(number - 3).map(str::to_owned);
        field(7).is_some_and(|terminal| terminal != "0")
    });
    let run = "tty; exec sleep 77404";
    let mut host = Host::builder()
        .service("polite", &script(run, &on(&line, ", output: log"), "restart: {policy: once}"))
        .service("rude", &script(run, &on(&line, ", output: log, force: true"), "start: manual"))
        .start();
    let failed = host.wait_state("polite", "failed").message;
    assert!(
        failed.contains(&format!(
            "{path}: cannot take it: operation not permitted (it is the terminal of another program"
        )),
        "{failed}"
    );
    host.ctl(&["start", "rude", "--wait"]).ok();
    host.wait_log("rude", &path);
    assert_eq!(line.shown(), "", "its output stays in the log");
    let _ = other.kill();
    let _ = other.wait();
    host.poweroff();
}

#[test]
fn what_is_no_terminal_or_file_is_named() {
    let on = |path: &str| format!("terminal: {{path: {path}}}");
    let slow = "restart: {delay: 1m}";
    let mut host = Host::builder()
        .service("gone", &script("exit 0", &on("/dev/pts/99999"), slow))
        .service("device", &script("exit 0", &on("/dev/null"), slow))
        .service("folder", &script("exit 0", "stdin: {file: $DIR}", slow))
        .service(
            "file",
            &script(
                "cat; exec sleep 77405",
                "stdin: {file: $DIR/input}",
                "restart: {delay: 10ms, maxDelay: 10ms}",
            ),
        )
        .start();
    for (name, why) in [
        ("gone", "/dev/pts/99999: No such file or directory"),
        ("device", "/dev/null: it is no terminal"),
        ("folder", ": it is a folder, which cannot be read as input"),
    ] {
        let waits = host.wait_state(name, "backoff").message;
        assert!(waits.contains(why), "{name}: {waits}");
        let status = host.ctl(&["status", name]).ok().stdout;
        assert!(status.contains(why), "{status}");
    }
    // The next try has what this one lacks.
    host.wait_for("file", "to be tried again", |service| service.restarts > 0);
    fs::write(host.path("input"), "late\n").expect("it can be written");
    host.wait_log("file", "late");
    host.poweroff();
}

#[test]
fn a_service_reads_a_file_a_fifo_or_a_text() {
    let more = "type: oneshot\nhooks: {pre: {command: [/bin/readlink, /proc/self/fd/0]}}";
    let host = Host::builder()
        .service("text", &script("cat; cat; echo end", "stdin: {text: \"one\\ntwo\\n\"}", more))
        .service("file", &script("cat; exec sleep 77406", "stdin: {file: $DIR/input}", "start: manual"))
        .service(
            "fifo",
            &script(
                "read a; read b; echo $a.$b; exec sleep 77407",
                "stdin: {file: $DIR/fifo}",
                "start: manual\nuser: \"4321:4321\"",
            ),
        );
    let mut host = host.start();
    host.wait_finished("text");
    let log = host.wait_log("text", "end");
    let lines: Vec<&str> = log.lines().filter_map(|line| line.rsplit(' ').next()).collect();
    assert_eq!(lines, ["/dev/null", "one", "two", "end"]);

    fs::write(host.path("input"), "first\n").expect("it can be written");
    host.ctl(&["start", "file", "--wait"]).ok();
    host.wait_log("file", "first");
    fs::write(host.path("input"), "second\n").expect("it can be written");
    host.ctl(&["restart", "file", "--wait"]).ok();
    host.wait_log("file", "second");

    let fifo = host.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().is_ok_and(|status| status.success()));
    host.ctl(&["start", "fifo", "--wait"]).ok();
    for text in ["a\n", "b\n"] {
        put(&fifo, text);
    }
    host.wait_log("fifo", "a.b");
    assert_eq!(fs::metadata(&fifo).expect("it is there").uid(), 0, "it stays root's");
    for what in ["input", "fifo", "memfd:stdin"] {
        eventually("it is closed in PID 1", || is_closed_in_init(&host, what));
    }
    host.poweroff();
}

/// Opens it, and closes it.
fn put(fifo: &Path, text: &str) {
    let mut file = OpenOptions::new().write(true).open(fifo).expect("it has a reader");
    file.write_all(text.as_bytes()).expect("it is read");
}
