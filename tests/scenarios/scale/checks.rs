//! What a thousand checks a second cost, beside a bare loop that makes the same connections in the same minutes.
//!
//! CPU time is that of the processes, and memory what is not shared: both mean the same however busy the computer is.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use kelson_tests::{Host, until};

const COUNT: usize = 1000;
const LONG: Duration = Duration::from_secs(180);
/// Ten results of each check, which is what is kept, and the heap's first growth.
const SETTLING: Duration = Duration::from_secs(60);
const MEASURED: Duration = Duration::from_secs(600);
/// What may be added in that time, in KiB: the heap of a process moves by a few pages.
const GROWTH: u64 = 128;

#[test]
fn long_a_thousand_checks_a_second_cost_no_more_than_twice_their_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port of the loopback");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let check = format!("{{name: port, tcp: {{port: {port}}}, interval: 1s, timeout: 1s}}");
    let mut builder =
        Host::builder().service("bare", &format!("process: {{command: [$PROGRAM, 'knock={COUNT}:{port}']}}"));
    for n in 0..COUNT {
        builder = builder.service(
            &format!("n-{n:04}"),
            &format!("process: {{command: [$PROGRAM, serve]}}\nhealth: [{check}]"),
        );
    }
    let mut host = builder.start();
    until("all to be healthy", LONG, || {
        let services = host.services();
        services.iter().filter(|service| service.healthy == Some(true)).count().eq(&COUNT).then_some(())
    });
    std::thread::sleep(SETTLING);
    let probe = host.outer_pid(host.pid_of("probe"));
    let (init, bare) = (host.init_pid(), host.outer_pid(host.pid_of("bare")));
    let cost = || (cpu(probe), cpu(init), cpu(bare));
    let before = cost();
    let memory = (unshared(probe), unshared(init));
    std::thread::sleep(MEASURED);
    let after = cost();
    let grown = (unshared(probe).saturating_sub(memory.0), unshared(init).saturating_sub(memory.1));
    let (asking, first, bare) = (after.0 - before.0, after.1 - before.1, after.2 - before.2);
    let share = |part: Duration| part.as_secs_f64() / bare.as_secs_f64();
    println!(
        "in {MEASURED:?}: kelson-probe {asking:?} ({:.2} of the bare loop's {bare:?}), PID 1 {first:?} ({:.3}); \
         grown: kelson-probe {} KiB, PID 1 {} KiB of {} and {} KiB",
        share(asking),
        share(first),
        grown.0,
        grown.1,
        memory.0,
        memory.1
    );
    assert!(share(asking) <= 2.0, "kelson-probe: {asking:?}, the bare loop: {bare:?}");
    assert!(share(first) <= 0.1, "PID 1: {first:?}, the bare loop: {bare:?}");
    assert!(grown.0 <= GROWTH && grown.1 <= GROWTH, "grown by {grown:?} KiB from {memory:?}");
    let services = host.services();
    let healthy = services.iter().filter(|service| service.healthy == Some(true) && service.restarts == 0);
    assert_eq!(healthy.count(), COUNT, "nothing of it has changed");
    host.poweroff();
}

/// CPU time that a process has used, to the nanosecond: the clock of clock_getcpuclockid(3), asked by its number.
#[track_caller]
fn cpu(pid: i32) -> Duration {
    const SCHEDULER: i32 = 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is writable; a clock of nobody is refused.
    let result = unsafe { libc::clock_gettime((!pid << 3) | SCHEDULER, &raw mut time) };
    assert_eq!(result, 0, "the clock of {pid}: {}", std::io::Error::last_os_error());
    Duration::new(
        u64::try_from(time.tv_sec).expect("no negative time"),
        u32::try_from(time.tv_nsec).expect("below a second"),
    )
}

/// KiB of memory that a process shares with nobody.
#[track_caller]
fn unshared(pid: i32) -> u64 {
    let file = format!("/proc/{pid}/smaps_rollup");
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let parts = text.lines().filter(|line| line.starts_with("Private_"));
    parts.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
}
