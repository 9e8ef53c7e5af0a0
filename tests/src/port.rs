//! Ports that no other test has.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::fd::AsRawFd as _;
use std::sync::Mutex;

/// Below the range from which the kernel takes ports for connections (net.ipv4.ip_local_port_range).
const FIRST: u16 = 10_000;
const COUNT: u32 = 20_000;

/// The ports that this process has taken, until it ends.
static TAKEN: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// A port of the loopback that nobody listens on. No other call gets it while this process lives, in whatever test: a port
/// of the kernel's choice is free again at once, and the next call may get the same.
///
/// # Panics
/// When no port is free.
#[track_caller]
pub fn free_port() -> u16 {
    let folder = std::env::temp_dir().join("kelson-test-ports");
    fs::create_dir_all(&folder).expect("a folder for locks");
    let start = std::process::id().wrapping_mul(97);
    for number in 0..COUNT {
        let port = FIRST + u16::try_from(start.wrapping_add(number) % COUNT).expect("less than 65536");
        let lock = File::create(folder.join(port.to_string())).expect("a file to lock");
        // SAFETY: the descriptor is open; the lock goes with it.
        let taken = unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0;
        if taken && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            TAKEN.lock().expect("no test panics here").push(lock);
            return port;
        }
    }
    panic!("none of {COUNT} ports is free");
}
