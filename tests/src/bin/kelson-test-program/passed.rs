//! Sockets that were passed to this process, as sd_listen_fds(3) finds them.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};

use super::{die, or_die, put};

/// The number of the first.
const FIRST: i32 = 3;

/// How many were passed to this very process.
fn count() -> i32 {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    if number("LISTEN_PID") == std::process::id().cast_signed() { number("LISTEN_FDS") } else { 0 }
}

/// `passed`, and their names.
pub fn names() -> String {
    let names =
        if count() > 0 { std::env::var("LISTEN_FDNAMES").unwrap_or_default() } else { "nothing".into() };
    format!("passed {names}\n")
}

/// Takes what comes in, this many times (0: for ever): a connection is told the PID, and what it sends is read to its end;
/// of anything else a line tells. SIGTERM, which is blocked, ends this process between two of them.
pub fn greet(times: u64) {
    let count = count();
    if count == 0 {
        die("no socket was passed");
    }
    // SAFETY: the set is plain data that the calls fill, and the descriptor is a new one.
    let signals = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        File::from_raw_fd(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC))
    };
    let mut taken = 0;
    while times == 0 || taken < times {
        let all = std::iter::once(signals.as_raw_fd()).chain(FIRST..FIRST + count);
        let mut asked: Vec<libc::pollfd> =
            all.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
        // SAFETY: the pointer and the length are of a live vector.
        unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as u64, -1) };
        if asked[0].revents != 0 {
            std::process::exit(0);
        }
        for ready in asked.iter().filter(|asked| asked.revents != 0) {
            take(ready.fd);
            taken += 1;
        }
    }
}

fn take(socket: i32) {
    // SAFETY: a number, and no address is asked for.
    let connection =
        unsafe { libc::accept4(socket, std::ptr::null_mut(), std::ptr::null_mut(), libc::SOCK_CLOEXEC) };
    if connection < 0 {
        let mut buffer = [0_u8; 1500];
        // SAFETY: the pointer and the length are of a live buffer.
        let length = unsafe { libc::read(socket, buffer.as_mut_ptr().cast(), buffer.len()) };
        let text = buffer.get(..usize::try_from(length).unwrap_or(0)).unwrap_or_default();
        put(1, &format!("took {}\n", String::from_utf8_lossy(text).trim()));
        return;
    }
    // SAFETY: the kernel has just made it for us.
    let mut connection = unsafe { File::from_raw_fd(connection) };
    // The client may be gone.
    let _ = writeln!(connection, "{}", std::process::id());
    let _ = connection.read_to_end(&mut Vec::new());
}

/// A connection to a Unix socket, and the first line of its answer.
pub fn ask(path: &str) -> String {
    let mut stream = or_die(path, std::os::unix::net::UnixStream::connect(path));
    or_die(path, stream.shutdown(std::net::Shutdown::Write));
    let mut answer = String::new();
    or_die(path, stream.read_to_string(&mut answer));
    answer
}
