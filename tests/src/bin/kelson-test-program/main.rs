//! The program that services run in tests: each argument is a step, and the steps are done in order.
//!
//! One static file without a shell, so that a scenario says exactly which processes, signals and descriptors there
//! are. After the last step it exits with status 0. A step is a verb, or `verb=value`:
//!
//! | step | what it does |
//! |---|---|
//! | `print=TEXT`, `eprint=TEXT`, `write=TEXT` | a line on stdout, on stderr; text on stdout without a newline |
//! | `lines=N` | `line 1` to `line N` on stdout, as fast as it can |
//! | `burst=N:SIZE` | `beat 1` to `beat N` of SIZE bytes on stdout, as fast as it can |
//! | `beat=D:SIZE:PATH` | `beat 1`, `beat 2`, … of SIZE bytes on stdout, one every D, for ever; PATH holds the last one's number and how many milliseconds the longest write took, and all writes of the last full second |
//! | `ticker=D` | `tick 1`, `tick 2`, … on stdout, one every D, for ever |
//! | `sleep=D` | D as in service files: `50ms`, `2s` |
//! | `touch=PATH`, `append=PATH` | make the file; add a line with its PID to it |
//! | `wait-path=PATH` | until the file exists |
//! | `drain=FIFO` | read the FIFO to its end: many services end at one moment when the writer closes it |
//! | `exit=N`, `raise=SIGNAL` | end so |
//! | `end-if=PATH` | exit with status 0 if the file exists |
//! | `fail-until=N:PATH` | exit with status 1 unless this is at least the Nth time (PATH keeps count) |
//! | `ignore=SIGNAL` | from here on |
//! | `await=SIGNAL` | until it comes, then the next step |
//! | `serve`, `serve=N` | until SIGTERM, then exit with status 0 (N) |
//! | `hang` | for ever, with the default actions of signals |
//! | `--can-go-on-from` | the same: as a program for the next PID 1 it never answers; says no with the line `kelson VERSION` behind the file, where there is one |
//! | `stop-self` | SIGSTOP to itself |
//! | `notify=TEXT` | sends TEXT to `NOTIFY_SOCKET`; `\n` parts the lines |
//! | `newline-on=FD` | writes a newline on that descriptor and closes it |
//! | `spawn=STEP,STEP…` | a child does these steps, this process goes on |
//! | `orphan=STEP,STEP…` | the same, as a grandchild whose parent has ended |
//! | `setsid` | a session of its own |
//! | `storm=N` | N orphans end at the same moment |
//! | `close-output` | closes stdout and stderr |
//! | `report`, `report=PATH` | what it was given: IDs, environment, descriptors, signals, limits, cgroup, namespaces |
//! | `report-of=TEXT` | the lines of the report that begin so |
//! | `cat=PATH`, `list=PATH` | the file; the names in the folder, one a line |
//! | `owner=PATH` | `owner PATH UID:GID MODE` |
//! | `chown=PATH:ID` | gives a file to the user and the group of this number |
//! | `try=PATH` | `PATH: written`, or what keeps it from being written |
//! | `attempt=NAME` | `NAME: allowed`, or what keeps it from one of the things that a sandbox forbids (`bounds.rs`) |
//! | `device=MAJOR:MINOR` | `device MAJOR:MINOR: opened`, of a node that it makes, or what keeps it from that |
//! | `escape` | `escape ATTEMPT: done`, or what keeps it from leaving its container in that way |
//! | `overwrite-programs` | writes into the programs of all other processes that it can open so, for ever |
//! | `swap=A:B` | two files of a folder change their names, as often as it can, for ever |
//! | `put=PATH:TEXT`, `remove=PATH` | writes to a file that is there; removes it |
//! | `kill=SIGNAL:PID` | to another process |
//! | `hog=N` | N MiB of memory, all of it written |
//! | `knock=N:PORT` | connects to a port of the loopback and closes, N times a second, for ever |
//! | `tcp=PORT` | takes connections on the loopback and closes them, for ever |
//! | `mirror=PORT` | tells all who connect where they come from, and gives back what they send, for ever |
//! | `ask=ADDRESS:PORT` | a line: what is answered there first, or what is wrong |
//! | `mirror-udp=PORT`, `ask-udp=ADDRESS:PORT` | the same with datagrams: the answer to `ping` is `ADDRESS ping` |
//! | `passed` | the names of the sockets that it was passed |
//! | `greet`, `greet=N` | takes what comes in on those, N times: a connection is told the PID, a line tells of anything else; SIGTERM ends it |
//! | `ask-unix=PATH` | what a Unix socket answers |
//! | `http=PORT:PATH` | answers with `STATUS BODY`, which stands in PATH; `200 ok` where it is not there |
//! | `grpc=PORT:PATH` | `grpc.health.v1`: the status whose number stands in PATH; SERVING where it is not there |
//! | `csi=SOCKET:PATH` | a storage plugin: it is ready or not as `yes`, `no` or `CODE MESSAGE` in PATH says; without it, ready |
//! | `bomb` | forks without end, as each of the children does |
//! | `fill=PATH` | writes to the file until its file system is full |
//! | `clock=SECONDS` | sets the clock of the machine forward or, with a minus, back |
//! | `swapon=DEVICE` | the machine swaps to it |
//! | `cover=PATH`, `uncover=PATH` | mounts an empty file system that cannot be written over the folder; takes it off again |
//! | `mount=TYPE:DEVICE:PATH` | mounts a file system |
//! | `exclusive=PATH` | `PATH: free`, or what keeps a block device from being opened for this process alone |
//! | `dead-mount=PATH` | mounts a file system there that never answers, for as long as this process lives |
//! | `notify-flood` | `STATUS=1`, `STATUS=2`, … to `NOTIFY_SOCKET` as fast as it can, for ever |
//! | `newline-flood=FD` | newlines on that descriptor as fast as it can, until nobody takes them |
//! | `ledger=PATH:D` | a record every D, each synced before the program writes `kept N`; `ledger holds N` at first, and none of them is damaged |
//! | `scribble=PATH:D` | a line every D, synced, for ever |
//! | `expect=PATH:SUM` | the file has this checksum ([`checksum::of`]), or it exits with status 125 |
//! | `threads=PID` | the states of all threads of a process, in the letters of ps, one a line |
//! | `brood=N` | children that hang, until there are N or no more are to be had; prints how many, and ends them |

// Without Rust's own start: that ignores SIGPIPE and sets handlers, and then nobody could see what was handed down.
#![no_main]

mod bounds;
#[path = "../../checksum.rs"]
mod checksum;
mod escape;
mod harm;
mod ledger;
mod passed;
mod server;
mod sight;

use std::ffi::{c_char, c_int};
use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::exit;
use std::time::Duration;

// SAFETY: the one `main` of this program, with the signature that the C library calls.
#[unsafe(no_mangle)]
pub extern "C" fn main(_count: c_int, _arguments: *const *const c_char) -> c_int {
    let steps: Vec<String> = std::env::args().skip(1).collect();
    run(&steps.iter().map(String::as_str).collect::<Vec<_>>());
    0
}

fn run(steps: &[&str]) {
    // Before anything else, so that a signal that comes early is not lost.
    for step in steps {
        match step.split_once('=').unwrap_or((step, "")) {
            ("await", name) => block(signal(name)),
            ("serve" | "greet", _) => block(libc::SIGTERM),
            _ => {}
        }
    }
    for step in steps {
        let (verb, value) = step.split_once('=').unwrap_or((step, ""));
        match verb {
            "print" => put(1, &format!("{value}\n")),
            "eprint" => put(2, &format!("{value}\n")),
            "write" => put(1, value),
            "lines" => lines(number(value)),
            "ticker" => ticker(duration(value)),
            "burst" => burst(value),
            "beat" => beat(value),
            "sleep" => std::thread::sleep(duration(value)),
            "touch" => or_die(value, fs::write(value, "")),
            "append" => append(value, &format!("{}\n", std::process::id())),
            "wait-path" => wait_path(value),
            "drain" => drain(value),
            "exit" => exit(number(value)),
            "raise" => raise(signal(value)),
            "end-if" if Path::new(value).exists() => exit(0),
            "end-if" => {}
            "fail-until" => fail_until(value),
            "ignore" => ignore(signal(value)),
            "await" => wait_signal(signal(value)),
            "serve" => {
                wait_signal(libc::SIGTERM);
                exit(if value.is_empty() { 0 } else { number(value) });
            }
            "--can-go-on-from" => answer_pid_1(),
            "hang" => hang(),
            "stop-self" => raise(libc::SIGSTOP),
            "notify" => notify(value),
            "newline-on" => newline_on(number(value)),
            "spawn" => child(value),
            "orphan" => orphan(value),
            // SAFETY: setsid(2) has no preconditions.
            "setsid" => drop(unsafe { libc::setsid() }),
            "storm" => storm(number(value)),
            "close-output" => {
                // SAFETY: nothing of this program uses 1 and 2 by another way afterwards.
                unsafe {
                    libc::close(1);
                    libc::close(2);
                }
            }
            "report" => sight::report(value),
            "report-of" => put(1, &sight::report_of(value)),
            "cat" => put(1, &or_die(value, fs::read_to_string(value))),
            "list" => put(1, &sight::list(value)),
            "owner" => put(1, &sight::owner(value)),
            "chown" => {
                let (path, id) = pair(value);
                or_die(path, std::os::unix::fs::lchown(path, Some(number(id)), Some(number(id))));
            }
            "try" => put(1, &sight::try_to_write(value)),
            "attempt" => put(1, &bounds::attempt(value)),
            "device" => put(1, &sight::open_device(value)),
            "escape" => put(1, &escape::attempts()),
            "overwrite-programs" => escape::overwrite_programs(),
            "swap" => escape::swap(value),
            "put" => {
                // Names of devices hold colons.
                let (path, text) = value.rsplit_once(':').unwrap_or_else(|| die("put=PATH:TEXT"));
                or_die(
                    path,
                    OpenOptions::new().write(true).open(path).and_then(|mut f| f.write_all(text.as_bytes())),
                );
            }
            "remove" => or_die(value, fs::remove_file(value)),
            "kill" => {
                let (name, pid) = pair(value);
                // SAFETY: kill(2) has no preconditions.
                if unsafe { libc::kill(number(pid), signal(name)) } != 0 {
                    die(&format!("kill {value}: {}", std::io::Error::last_os_error()));
                }
            }
            "hog" => hog(number(value)),
            "knock" => knock(value),
            "tcp" => server::serve(value, server::tcp),
            "mirror" => server::mirror(value),
            "ask" => put(1, &server::ask(value)),
            "passed" => put(1, &passed::names()),
            "greet" => passed::greet(if value.is_empty() { 0 } else { number(value) }),
            "ask-unix" => put(1, &passed::ask(value)),
            "mirror-udp" => server::mirror_udp(value),
            "ask-udp" => put(1, &server::ask_udp(value)),
            "http" => server::serve(value, server::http),
            "grpc" => server::serve(value, server::grpc),
            "csi" => server::csi(value),
            "bomb" => loop {
                // SAFETY: this program has one thread, so the child may go on as it likes.
                unsafe { libc::fork() };
            },
            "ledger" => ledger::keep(value),
            "scribble" => ledger::scribble(value),
            "expect" => {
                let (path, sum) = pair(value);
                let found = format!("{:016x}", checksum::of(&or_die(path, fs::read(path))));
                if found != sum {
                    die(&format!("{path}: its checksum is {found}, not {sum}"));
                }
            }
            "threads" => put(1, &sight::threads(value)),
            "brood" => brood(number(value)),
            "fill" => harm::fill(value),
            "swapon" => harm::swap_on(value),
            "clock" => harm::set_clock(value),
            "time" => put(1, &format!("{value} {}\n", sight::seconds())),
            "copy" => {
                let (from, to) = pair(value);
                or_die(to, fs::copy(from, to));
            }
            "cover" => harm::cover(value),
            "mount" => harm::mount(value),
            "uncover" => harm::uncover(value),
            "exclusive" => put(1, &sight::open_exclusively(value)),
            "dead-mount" => harm::dead_mount(value),
            "notify-flood" => harm::flood_notify(),
            "newline-flood" => harm::flood_newlines(number(value)),
            _ => die(&format!("\"{step}\" is no step")),
        }
    }
}

fn die(text: &str) -> ! {
    put(2, &format!("kelson-test-program: {text}\n"));
    exit(125)
}

fn hang() -> ! {
    loop {
        // SAFETY: pause(2) has no preconditions.
        unsafe { libc::pause() };
    }
}

/// PID 1 asks whether this file can go on as PID 1. It says no with the line that a test has put behind the program, as
/// release 0.1.0 did; without one it never answers.
fn answer_pid_1() -> ! {
    const OWN: &str = "/proc/self/exe";
    let program = or_die(OWN, fs::read(OWN));
    let line = program.rsplit(|byte| *byte == 0).next().unwrap_or_default();
    if line.starts_with(b"kelson ") {
        put(2, &String::from_utf8_lossy(line));
        exit(1)
    }
    hang()
}

fn or_die<T>(what: &str, result: std::io::Result<T>) -> T {
    result.unwrap_or_else(|error| die(&format!("{what}: {error}")))
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().unwrap_or_else(|_| die(&format!("\"{text}\" is no number")))
}

fn pair(value: &str) -> (&str, &str) {
    value.split_once(':').unwrap_or_else(|| die(&format!("\"{value}\" are not two values")))
}

fn duration(text: &str) -> Duration {
    match text.strip_suffix("ms") {
        Some(millis) => Duration::from_millis(number(millis)),
        None => Duration::from_secs(number(text.strip_suffix('s').unwrap_or(text))),
    }
}

fn signal(name: &str) -> i32 {
    match name.strip_prefix("SIG").unwrap_or(name) {
        "HUP" => libc::SIGHUP,
        "INT" => libc::SIGINT,
        "QUIT" => libc::SIGQUIT,
        "ABRT" => libc::SIGABRT,
        "KILL" => libc::SIGKILL,
        "STOP" => libc::SIGSTOP,
        "USR1" => libc::SIGUSR1,
        "SEGV" => libc::SIGSEGV,
        "USR2" => libc::SIGUSR2,
        "TERM" => libc::SIGTERM,
        other => number(other),
    }
}

/// One write(2) as far as the kernel takes it, past Rust's buffers: what was printed is out.
fn put(fd: i32, text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        // SAFETY: the pointer and length are of a live slice.
        let written = unsafe { libc::write(fd, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(count) => rest = &rest[count..],
            Err(_) if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => exit(124),
        }
    }
}

fn lines(count: u64) {
    let mut text = String::new();
    for n in 1..=count {
        text.push_str(&format!("line {n}\n"));
        if text.len() > 32 * 1024 || n == count {
            put(1, &text);
            text.clear();
        }
    }
}

/// The least that a check of a port can cost.
fn knock(value: &str) -> ! {
    let (times, port) = pair(value);
    let (address, pause) =
        (std::net::SocketAddr::from(([127, 0, 0, 1], number(port))), Duration::from_secs(1) / number(times));
    let mut due = std::time::Instant::now();
    loop {
        drop(or_die(value, std::net::TcpStream::connect(address)));
        due += pause;
        std::thread::sleep(due.saturating_duration_since(std::time::Instant::now()));
    }
}

fn ticker(every: Duration) {
    for n in 1_u64.. {
        put(1, &format!("tick {n}\n"));
        std::thread::sleep(every);
    }
}

fn beat_line(number: u64, size: usize) -> String {
    let mut line = format!("beat {number} ");
    line.extend(std::iter::repeat_n('.', size.saturating_sub(line.len() + 1)));
    line.push('\n');
    line
}

fn burst(value: &str) {
    let (count, size) = pair(value);
    let size = number(size);
    (1..=number(count)).for_each(|n| put(1, &beat_line(n, size)));
}

fn beat(value: &str) {
    use std::os::unix::fs::FileExt as _;
    let mut parts = value.splitn(3, ':');
    let (Some(every), Some(size), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
        die("beat=D:SIZE:PATH")
    };
    let (every, size): (Duration, usize) = (duration(every), number(size));
    let board = or_die(path, fs::File::create(path));
    let (mut longest, mut second, mut last) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let mut began = std::time::Instant::now();
    for n in 1_u64.. {
        let line = beat_line(n, size);
        let before = std::time::Instant::now();
        put(1, &line);
        longest = longest.max(before.elapsed());
        second += before.elapsed();
        if began.elapsed() >= Duration::from_secs(1) {
            (last, second, began) = (second, Duration::ZERO, std::time::Instant::now());
        }
        // In one write of one length: who reads it meanwhile finds all of it.
        let text = format!("{n:10} {:10} {:10}\n", longest.as_millis(), last.as_millis());
        or_die(path, board.write_all_at(text.as_bytes(), 0));
        std::thread::sleep(every);
    }
}

fn append(path: &str, text: &str) {
    let mut file = or_die(path, OpenOptions::new().create(true).append(true).open(path));
    or_die(path, file.write_all(text.as_bytes()));
}

fn wait_path(path: &str) {
    while !Path::new(path).exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn drain(path: &str) {
    let mut file = or_die(path, fs::File::open(path));
    or_die(path, file.read_to_end(&mut Vec::new()));
}

fn fail_until(value: &str) {
    let Some((times, path)) = value.split_once(':') else { die("fail-until=N:PATH") };
    append(path, "x");
    if or_die(path, fs::metadata(path)).len() < number(times) {
        exit(1);
    }
}

fn raise(signal: i32) {
    // SAFETY: kill(2) and getpid(2) have no preconditions.
    unsafe { libc::kill(libc::getpid(), signal) };
}

fn ignore(signal: i32) {
    // SAFETY: SIG_IGN is a valid action.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// 0: the empty set.
fn set_of(signal: i32) -> libc::sigset_t {
    // SAFETY: sigemptyset fills the set before it is used; a number that is no signal is refused without harm.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        set
    }
}

fn block(signal: i32) {
    // SAFETY: the set is initialised; no old set is asked for.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &set_of(signal), std::ptr::null_mut()) };
}

fn wait_signal(signal: i32) {
    block(signal);
    let mut got = 0;
    // SAFETY: the set is initialised and `got` is a live integer.
    unsafe { libc::sigwait(&set_of(signal), &mut got) };
}

fn notify(text: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { die("NOTIFY_SOCKET is not set") };
    let socket = or_die("socket", UnixDatagram::unbound());
    let message = text.replace("\\n", "\n");
    match path.to_str().and_then(|path| path.strip_prefix('@')) {
        Some(name) => {
            use std::os::linux::net::SocketAddrExt as _;
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name);
            or_die("NOTIFY_SOCKET", socket.send_to_addr(message.as_bytes(), &or_die(name, address)));
        }
        None => drop(or_die("NOTIFY_SOCKET", socket.send_to(message.as_bytes(), &path))),
    }
}

fn newline_on(fd: i32) {
    put(fd, "\n");
    // SAFETY: nothing else uses this descriptor.
    unsafe { libc::close(fd) };
}

/// True in the child.
fn fork() -> bool {
    // SAFETY: this program has one thread, so the child may go on as it likes.
    match unsafe { libc::fork() } {
        -1 => die("cannot fork"),
        pid => pid == 0,
    }
}

fn child(steps: &str) {
    if fork() {
        // The signals that the parent waits for do not concern the child.
        // SAFETY: the set is initialised; no old set is asked for.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &set_of(0), std::ptr::null_mut()) };
        run(&steps.split(',').collect::<Vec<_>>());
        exit(0);
    }
}

fn orphan(steps: &str) {
    if fork() {
        child(steps);
        exit(0);
    }
    reap_one();
}

fn reap_one() {
    // SAFETY: a null status is allowed.
    unsafe { libc::wait(std::ptr::null_mut()) };
}

fn storm(count: u32) {
    let mut ends = [0; 2];
    // SAFETY: `ends` takes two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        die("cannot make a pipe");
    }
    if fork() {
        for _ in 0..count {
            if fork() {
                // SAFETY: the descriptors are this process's own; one byte fits the buffer.
                unsafe {
                    libc::close(ends[1]);
                    libc::read(ends[0], [0_u8; 1].as_mut_ptr().cast(), 1);
                }
                exit(0);
            }
        }
        exit(0);
    }
    reap_one();
    // SAFETY: the descriptors are this process's own.
    unsafe {
        libc::close(ends[0]);
        libc::close(ends[1]);
    }
}

fn hog(megabytes: usize) {
    let mut held = vec![0_u8; megabytes << 20];
    // A page that was never written takes no memory.
    held.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    // It is kept to the end.
    std::hint::black_box(held.leak());
}

fn brood(count: usize) {
    let mut children = Vec::new();
    while children.len() < count {
        // SAFETY: this program has one thread, so the child may go on as it likes.
        match unsafe { libc::fork() } {
            -1 => break,
            0 => run(&["hang"]),
            pid => children.push(pid),
        }
    }
    put(1, &format!("{} children\n", children.len()));
    for pid in children {
        // SAFETY: kill(2) has no preconditions; it is our child and not reaped yet.
        unsafe { libc::kill(pid, libc::SIGKILL) };
        reap_one();
    }
}
