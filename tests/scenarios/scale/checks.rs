//! The cost of a thousand checks a second, beside a bare loop that makes the same connections in the same
//! minutes.
//!
//! CPU time is that of the processes, and memory what is not shared: both mean the same however busy the computer is.

use std::fs;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kelson_tests::{Host, until};

const COUNT: usize = 1000;
const LONG: Duration = Duration::from_secs(180);
/// Ten results of each check, which is what is kept, and the heap's first growth.
const SETTLING: Duration = Duration::from_secs(60);
const MEASURED: Duration = Duration::from_secs(60 * MINUTES as u64);
const LOOK: Duration = Duration::from_secs(5);
const MINUTES: usize = 10;
/// A heap moves by a few pages, in KiB.
const PAGES: u64 = 16;
/// The memory may exceed all before in this number of the minutes: when the computer is busy with something
/// else, answers wait for their turn, and the room for them stays. A leak grows in each.
const GROWING: usize = 3;

/// A port that takes connections, and how many it has taken.
fn port() -> (u16, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port of the loopback");
    let port = listener.local_addr().expect("it is bound").port();
    let taken = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&taken);
    std::thread::spawn(move || {
        listener.incoming().for_each(|connection| {
            drop(connection);
            count.fetch_add(1, Ordering::Relaxed);
        });
    });
    (port, taken)
}

#[test]
fn long_a_thousand_checks_a_second_cost_no_more_than_twice_their_connections() {
    // One each: a queue that is full would hold the other up.
    let ((port, checked), (bare, knocked)) = (self::port(), self::port());
    let check = format!("{{name: port, tcp: {{port: {port}}}, interval: 1s, timeout: 1s}}");
    let mut builder = Host::builder().runs("bare", &format!("'knock={COUNT}:{bare}'"));
    for n in 0..COUNT {
        builder = builder.runs_with(&format!("n-{n:04}"), "serve", &format!("health: [{check}]"));
    }
    let mut host = builder.start();
    until("all to be healthy", LONG, || {
        let services = host.services();
        services.iter().filter(|service| service.healthy == Some(true)).count().eq(&COUNT).then_some(())
    });
    std::thread::sleep(SETTLING);
    let probe = host.outer_pid(host.pid_of("probe"));
    let (init, loop_) = (host.init_pid(), host.outer_pid(host.pid_of("bare")));
    let cost = || (cpu(probe), cpu(init), cpu(loop_));
    let before = cost();
    let taken = || (checked.load(Ordering::Relaxed), knocked.load(Ordering::Relaxed));
    let connections = taken();
    // The most of each minute: kelson-probe, PID 1.
    let mut most = [[0; MINUTES]; 2];
    let begun = Instant::now();
    while begun.elapsed() < MEASURED {
        std::thread::sleep(LOOK);
        let minute = usize::try_from(begun.elapsed().as_secs() / 60).expect("few").min(MINUTES - 1);
        for (process, most) in [probe, init].into_iter().zip(&mut most) {
            most[minute] = most[minute].max(unshared(process));
        }
    }
    let (after, made) = (cost(), taken());
    let made = (made.0 - connections.0, made.1 - connections.1);
    let each = |cost: Duration, count: u64| cost.as_secs_f64() * 1e6 / count as f64;
    let (asking, loop_) = (each(after.0 - before.0, made.0), each(after.2 - before.2, made.1));
    let first = each(after.1 - before.1, made.0);
    println!(
        "{} checks and {} bare connections in {MEASURED:?}, in CPU time each: kelson-probe {asking:.1} µs, {:.2} of the \
         bare loop's {loop_:.1} µs; PID 1 {first:.2} µs, {:.3}; KiB of memory in each minute: kelson-probe {:?}, PID 1 {:?}",
        made.0,
        made.1,
        asking / loop_,
        first / loop_,
        most[0],
        most[1]
    );
    // An interval is up to a tenth longer than a second; a bare loop that is held up makes fewer, at the same cost.
    let least = MEASURED.as_secs() * COUNT as u64 * 9 / 10;
    assert!(made.0 >= least && made.1 >= least / 10, "too few to compare: {made:?}");
    assert!(asking <= 2.0 * loop_, "a check costs {asking:.1} µs, a bare connection {loop_:.1} µs");
    assert!(first <= 0.1 * loop_, "a check costs PID 1 {first:.2} µs, a bare connection {loop_:.1} µs");
    for minutes in most {
        let before = |minute: usize| minutes[..minute].iter().max().expect("one at least");
        let growing = (1..MINUTES).filter(|minute| minutes[*minute] > before(*minute) + PAGES).count();
        assert!(growing <= GROWING, "memory grows: {minutes:?} KiB");
    }
    let services = host.services();
    let healthy = services.iter().filter(|service| service.healthy == Some(true) && service.restarts == 0);
    assert_eq!(healthy.count(), COUNT, "nothing of it has changed");
    host.poweroff();
}

/// CPU time that a process has used.
#[track_caller]
fn cpu(pid: i32) -> Duration {
    cpu_of(pid).unwrap_or_else(|| panic!("the clock of {pid}: {}", std::io::Error::last_os_error()))
}

/// CPU time that a process has used, to the nanosecond: the clock of clock_getcpuclockid(3), asked by its number. `None`:
/// there is no such process.
pub fn cpu_of(pid: i32) -> Option<Duration> {
    const SCHEDULER: i32 = 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is writable; a clock of nobody is refused.
    let result = unsafe { libc::clock_gettime((!pid << 3) | SCHEDULER, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).expect("no negative time");
    let nanos = u32::try_from(time.tv_nsec).expect("below a second");
    (result == 0).then(|| Duration::new(seconds, nanos))
}

/// KiB of memory that a process shares with nobody.
#[track_caller]
fn unshared(pid: i32) -> u64 {
    let file = format!("/proc/{pid}/smaps_rollup");
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let parts = text.lines().filter(|line| line.starts_with("Private_"));
    parts.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
}
