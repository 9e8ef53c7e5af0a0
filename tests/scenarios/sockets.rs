//! Sockets that PID 1 holds for a service: listening before it runs, across its runs and across incarnations of PID 1.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use kelson_tests::{Host, PATIENCE, eventually, free_port};

/// The PID, in the host, of the process that answers on this port.
#[track_caller]
fn greeted(port: u16) -> i32 {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("somebody listens");
    answer(stream)
}

#[track_caller]
fn answer(mut stream: TcpStream) -> i32 {
    stream.set_read_timeout(Some(PATIENCE)).expect("it is open");
    stream.shutdown(Shutdown::Write).expect("it is open");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text.trim().parse().unwrap_or_else(|_| panic!("{text:?} is no PID"))
}

#[test]
fn the_first_connection_starts_a_service_and_others_need_not_wait_for_it() {
    let port = free_port();
    let more = format!(
        "sockets: [{{name: http, listen: 127.0.0.1:{port}}}, {{name: ctl, listen: $DIR/ctl/x.sock, mode: '0640', user: '1234:1235'}}]\n\
         start: onDemand\nrestart: {{delay: 0s}}\nuser: '1234:1235'"
    );
    let mut host = Host::builder()
        .runs_with("web", "passed, greet=1", &more)
        .runs_with("client", "print=started, serve", "depends: [{service: web}]")
        .up(&["client"]);
    let waiting = host.service("web");
    assert_eq!((waiting.state.as_str(), waiting.up, waiting.pid), ("waiting", true, None));
    let wait = "waiting for a connection on socket \"http\" or \"ctl\"";
    assert_eq!(waiting.message, wait);
    let status = host.ctl(&["status", "web"]).ok().stdout;
    let listens = format!("http (127.0.0.1:{port}), ctl ({}/ctl/x.sock)", host.dir().display());
    assert!(status.contains(&listens), "{status}");
    let why = host.ctl(&["why", "web"]).ok().stdout;
    assert!(why.contains("a connection on socket \"http\" or \"ctl\""), "{why}");
    host.ctl(&["boot"]).ok();
    let file = fs::metadata(host.path("ctl/x.sock")).expect("the socket is there");
    assert_eq!((file.uid(), file.gid(), file.mode() & 0o777), (1234, 1235, 0o640));

    let first = greeted(port);
    host.wait_log("web", "passed http:ctl");
    host.wait_for("web", "to wait again", |now| now.state == "waiting" && now.message.starts_with(wait));
    assert_ne!(greeted(port), first, "each run has taken one");
    host.wait_for("web", "to wait again", |now| now.state == "waiting" && now.message.starts_with(wait));
    let mut unix = UnixStream::connect(host.path("ctl/x.sock")).expect("it listens");
    unix.shutdown(Shutdown::Write).expect("it is open");
    unix.read_to_string(&mut String::new()).expect("an answer");
    // Those that need it have not minded that it ended.
    assert_eq!(host.service("client").restarts, 0);

    host.ctl(&["stop", "client", "web", "--wait"]).ok();
    assert!(!host.path("ctl/x.sock").exists());
    TcpStream::connect(("127.0.0.1", port)).expect_err("nobody listens any more");
    host.ctl(&["start", "web"]).ok();
    host.wait_for("web", "to wait again", |now| now.state == "waiting" && now.message.starts_with(wait));
    greeted(port);
    host.poweroff();
}

/// What comes in while it is down starts it again; what nobody reads is no reason to spin.
#[test]
fn what_waits_is_a_level_and_a_failing_service_ends() {
    let port = free_port();
    let socket = |name: &str, listen: &str| {
        format!("sockets: [{{name: {name}, listen: '{listen}'}}]\nstart: onDemand\n")
    };
    let mut host = Host::builder()
        .runs_with(
            "udp",
            "greet=1",
            &(socket("a", &format!("udp:127.0.0.1:{port}")) + "restart: {delay: 0s}"),
        )
        .runs_with("fifo", "greet=1", &socket("a", "fifo:$DIR/fifo"))
        .runs_with(
            "fails",
            "exit=3",
            &(socket("a", "$DIR/f.sock") + "restart: {delay: 10ms, maxDelay: 10ms, attempts: 3}"),
        )
        .runs_with("idle", "exit=0", &socket("a", "@kelson-idle-$DIR"))
        .start();
    for name in ["udp", "fifo", "fails", "idle"] {
        host.wait_for(name, "to wait", |now| now.message.starts_with("waiting for a connection"));
    }
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for text in ["one", "two", "three"] {
        sender.send_to(text.as_bytes(), ("127.0.0.1", port)).expect("it is sent");
    }
    for text in ["took one", "took two", "took three"] {
        host.wait_log("udp", text);
    }
    host.wait_for("udp", "to wait", |now| now.message.starts_with("waiting for a connection"));
    fs::OpenOptions::new()
        .write(true)
        .open(host.path("fifo"))
        .expect("it is there")
        .write_all(b"hello\n")
        .expect("room");
    host.wait_log("fifo", "took hello");

    let _client = UnixStream::connect(host.path("f.sock")).expect("it listens");
    let message = host.wait_state("fails", "failed").message;
    assert!(message.contains("gave up after 4 failures"), "{message}");
    assert!(!host.path("f.sock").exists(), "nobody would answer");
    host.poweroff();
}

#[test]
fn an_address_that_is_taken_is_named_and_tried_again() {
    let port = free_port();
    let taken = TcpListener::bind(("127.0.0.1", port)).expect("it is free");
    let more = format!(
        "sockets: [{{name: ctl, listen: $DIR/x.sock}}, {{name: http, listen: 127.0.0.1:{port}}}]\nrestart: {{delay: 50ms, maxDelay: 50ms}}"
    );
    let mut host = Host::builder().runs_with("web", "passed, greet", &more).start();
    let expected = format!(
        "preparing failed: cannot listen on socket \"http\" (127.0.0.1:{port}): another program has this address"
    );
    host.wait_for("web", "to say why", |now| now.message.contains(&expected));
    drop(taken);
    host.wait_up("web");
    host.wait_log("web", "passed ctl:http");
    greeted(port);
    host.poweroff();
}

#[test]
fn a_changed_file_keeps_the_sockets_that_it_still_has() {
    let (stays, goes) = (free_port(), free_port());
    let text = |ports: &[u16], more: &str| {
        let sockets: Vec<String> =
            ports.iter().map(|port| format!("{{name: p{port}, listen: 127.0.0.1:{port}}}")).collect();
        kelson_tests::process("passed, greet", &format!("sockets: [{}]\n{more}", sockets.join(", ")))
    };
    let mut host = Host::builder().service("web", &text(&[stays, goes], "")).up(&["web"]);
    let inode = |port: u16| {
        let table = fs::read_to_string("/proc/net/tcp").expect("the kernel tells");
        let line = table.lines().find(|line| {
            line.split_whitespace().nth(1).is_some_and(|local| local.ends_with(&format!(":{port:04X}")))
                && line.split_whitespace().nth(3) == Some("0A")
        });
        line.and_then(|line| line.split_whitespace().nth(9)).map(str::to_owned)
    };
    let before = inode(stays).expect("it listens");
    host.write_service("web", &text(&[stays], "environment: {NEW: yes}"));
    host.read_again();
    host.ctl(&["restart", "web", "--wait"]).ok();
    host.wait_log("web", &format!("passed p{stays}\n"));
    assert_eq!(inode(stays), Some(before));
    assert_eq!(inode(goes), None);
    host.write_service("web", &kelson_tests::process("passed, serve", ""));
    host.read_again();
    host.ctl(&["restart", "web", "--wait"]).ok();
    host.wait_log("web", "passed nothing");
    assert_eq!(inode(stays), None);
    host.poweroff();
}

/// Connects as fast as the answers come, until it is told to end.
struct Load {
    ends: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    client: JoinHandle<()>,
}

impl Load {
    fn begin(port: u16) -> Load {
        let (ends, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ended, count) = (Arc::clone(&ends), Arc::clone(&answered));
        let client = std::thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                greeted(port);
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Load { ends, answered, client }
    }

    fn count(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Every connection was taken and answered.
    fn end(self) {
        self.ends.store(true, Ordering::Relaxed);
        self.client.join().expect("no connection was refused or lost");
    }
}

fn under_load(restarts: u32, reexecs: u32) {
    let port = free_port();
    let more =
        format!("sockets: [{{name: http, listen: 127.0.0.1:{port}}}, {{name: ctl, listen: $DIR/x.sock}}]");
    let mut host = Host::builder().runs_with("web", "greet", &more).up(&["web"]);
    let file = fs::metadata(host.path("x.sock")).expect("it is there").ino();
    let loads: Vec<Load> = (0..2).map(|_| Load::begin(port)).collect();
    let each = restarts / reexecs;
    for _ in 0..reexecs {
        for _ in 0..each {
            host.ctl(&["restart", "web", "--wait"]).ok();
        }
        host.ctl(&["reexec"]).ok();
    }
    host.crash(|| host.signal(libc::SIGSEGV));
    host.ctl(&["restart", "web", "--wait"]).ok();
    for load in loads {
        let before = load.count();
        eventually("another answer", || load.count() > before);
        load.end();
    }
    let path: PathBuf = host.path("x.sock");
    assert_eq!(fs::metadata(path).expect("it is there").ino(), file);
    let status: serde_json::Value = host.ctl(&["-o", "json", "status", "web"]).ok().json();
    assert_eq!(status["run"], each * reexecs + 2);
    host.poweroff();
}

#[test]
fn l1_no_connection_is_refused_over_restarts_and_incarnations() {
    under_load(15, 5);
}

#[test]
fn long_l1_no_connection_is_refused_over_a_thousand_restarts_and_a_hundred_incarnations() {
    under_load(1000, 100);
}

#[test]
fn a_socket_is_the_standard_input_and_has_options() {
    let port = free_port();
    let look = "grep -h ^flags /proc/self/fdinfo/3 /proc/self/fdinfo/4; \
                [ \"$(readlink /proc/self/fd/0)\" = \"$(readlink /proc/self/fd/4)\" ] && echo same; exec sleep 1000";
    let mut host = Host::builder().runs("plain", "serve").start();
    host.write_service(
        "web",
        &format!(
            "process: {{command: [/bin/sh, -c, '{look}']}}\nsockets: [{{name: a, listen: \"127.0.0.1:{port}\", keepAlive: true}}, \
             {{name: b, listen: $DIR/b, nonBlocking: true, stdin: true}}]"
        ),
    );
    host.ctl(&["reload"]).ok();
    host.wait_log("web", "same");
    let said = host.ctl(&["logs", "web"]).ok().stdout;
    let flags = |line: &str| {
        let number = line.strip_prefix("flags:").expect("flags of a descriptor").trim();
        i32::from_str_radix(number, 8).expect("in octal digits") & libc::O_NONBLOCK
    };
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!((flags(lines[0]), flags(lines[1])), (0, libc::O_NONBLOCK), "{said}");
    host.poweroff();
}

#[test]
fn one_that_its_condition_skips_waits_for_nothing_until_it_is_started() {
    let port = free_port();
    let more = format!(
        "sockets: [{{name: http, listen: '127.0.0.1:{port}'}}]\nstart: onDemand\nrestart: {{delay: 0s}}\n\
         hooks: {{pre: {{command: [test, -e, $DIR/may], condition: true}}}}\n"
    );
    let mut host = Host::builder().runs_with("web", "passed, greet=1", &more).up(&["web"]);
    let mut refused = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    host.wait_for("web", "to be skipped", |now| now.state == "skipped");
    assert!(!matches!(refused.read(&mut [0]), Ok(1..)), "nobody answers");
    TcpStream::connect(("127.0.0.1", port)).expect_err("nobody listens any more");
    fs::write(host.path("may"), "").expect("it can be written");
    host.ctl(&["start", "web"]).ok();
    host.wait_for("web", "to wait", |now| now.state == "waiting");
    greeted(port);
    host.poweroff();
}
