//! What network checks cost: a thousand tcp checks, each asked every second, beside a bare loop that makes as many
//! connections; then ten thousand. `cargo run --release -p kelson-probe --example cost [SECONDS]`
//!
//! CPU time is the scheduler's own, for the whole process. A connection on one host costs the peer's part too, and the
//! kernel charges most of it to whoever connects: the same for both.

#![allow(
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    reason = "measures, and may fail"
)]

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kelson_helper::{BoxFuture, CONTROL, Launched, Launcher, Start};
use kelson_services::prober::{CheckAnswer, Place, Prober, Schedule, Sink, Verdict};
use kelson_spec::service::{Asks, NetworkProbe};

const SECOND: Duration = Duration::from_secs(1);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["probe"] => std::process::exit(kelson_probe::main(std::iter::empty())),
        ["serve", count] => serve(count.parse().unwrap()),
        ["bare", at_once, ports @ ..] => {
            let ports: Vec<u16> = ports.iter().map(|port| port.parse().unwrap()).collect();
            bare(at_once.parse().unwrap(), &ports);
        }
        [] => compare(20),
        [seconds] => compare(seconds.parse().unwrap()),
        _ => println!("usage: cost [SECONDS]"),
    }
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

/// Services that take connections and read them to their end; says their ports in a line.
fn serve(count: usize) {
    raise_limit();
    let listeners: Vec<TcpListener> = (0..count)
        .map(|_| {
            let listener = TcpListener::bind(loopback(0)).unwrap();
            listener.set_nonblocking(true).unwrap();
            listener
        })
        .collect();
    let ports: Vec<String> =
        listeners.iter().map(|listener| listener.local_addr().unwrap().port().to_string()).collect();
    println!("{}", ports.join(" "));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    runtime.block_on(async {
        for listener in listeners {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            tokio::spawn(async move {
                loop {
                    drop(listener.accept().await);
                }
            });
        }
        std::future::pending::<()>().await;
    });
}

/// A thousand connections a second to the ports in turn, so many at a time; says how many it made, each second.
fn bare(at_once: usize, ports: &[u16]) {
    let pause = SECOND * u32::try_from(at_once).unwrap() / u32::try_from(ports.len()).unwrap();
    let (mut made, mut next) = (0_u64, Instant::now());
    for chunk in ports.chunks(at_once).cycle() {
        for port in chunk {
            drop(TcpStream::connect(loopback(*port)).unwrap());
            made += 1;
        }
        if made.is_multiple_of(ports.len() as u64) {
            println!("{made}");
            io::stdout().flush().unwrap();
        }
        next += pause;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

fn raise_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls get a pointer to a whole rlimit.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
}

/// CPU time of a process, all its threads.
fn cpu(pid: u32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let times = tasks.map(|task| {
        let text = std::fs::read_to_string(task.unwrap().path().join("schedstat")).unwrap();
        Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
    });
    times.sum()
}

/// Resident and private memory of a process, in kB.
fn memory(pid: u32) -> (u64, u64) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let field = |name: &str| -> u64 {
        let lines = text.lines().filter(|line| line.starts_with(name));
        lines.map(|line| line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()).sum()
    };
    (field("Rss:"), field("Private_Dirty:"))
}

fn wakes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find(|line| line.starts_with("voluntary_ctxt_switches")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn this(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(words);
    command
}

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn compare(seconds: u32) {
    raise_limit();
    let mut server = Ended(this(&["serve", "1000"]).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ports: Vec<u16> = line.split_whitespace().map(|port| port.parse().unwrap()).collect();
    println!("{seconds} s each; CPU per connection or check, and of one CPU at 1,000 a second");
    for at_once in [1, 10, 1000] {
        let each = measure_bare(at_once, &ports, seconds);
        println!("bare loop, {at_once:>4} at a time: {}", share(each));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for count in [1_000, 10_000] {
        runtime.block_on(measure_checks(&ports, count, seconds));
    }
    let waiting = std::fs::read_to_string("/proc/net/tcp").unwrap();
    println!("connections in TIME_WAIT: {}", waiting.lines().filter(|line| line.contains(" 06 ")).count());
}

fn share(each: Duration) -> String {
    format!("{:>5.1} µs  {:>5.2} %", each.as_secs_f64() * 1e6, each.as_secs_f64() * 1e5)
}

fn measure_bare(at_once: usize, ports: &[u16], seconds: u32) -> Duration {
    let mut words = vec!["bare".to_owned(), at_once.to_string()];
    words.extend(ports.iter().map(u16::to_string));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut child = Ended(this(&words).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let mut made = || lines.next().unwrap().unwrap().parse::<u64>().unwrap();
    let before = (made(), cpu(child.0.id()));
    let mut after = before;
    for _ in 0..seconds {
        after = (made(), cpu(child.0.id()));
    }
    (after.1 - before.1) / u32::try_from(after.0 - before.0).unwrap()
}

struct Count(Arc<AtomicU64>);

impl Sink for Count {
    fn take(&self, answer: CheckAnswer) {
        assert_eq!(answer.verdict, Verdict::Passes, "{}", answer.text);
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Starts this very program as kelson-probe.
struct Starter;

impl Launcher for Starter {
    fn launch(&self, mut start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        let control = start.take(CONTROL).unwrap();
        let mut command = this(&["probe"]);
        let raw = control.as_raw_fd();
        // SAFETY: between fork and exec only a system call is made.
        unsafe {
            command.pre_exec(
                move || if libc::dup2(raw, 3) == 3 { Ok(()) } else { Err(io::Error::last_os_error()) },
            )
        };
        let child = command.spawn().map(Ended);
        drop(control);
        Box::pin(async move {
            let child = child?;
            let pid = i32::try_from(child.0.id()).unwrap();
            let exit = Box::pin(async move {
                // It ends with the example.
                let _child = child;
                std::future::pending().await
            });
            Ok(Launched { pid, start_time: 0, exit, kill: Box::new(|| {}) })
        })
    }
}

async fn measure_checks(ports: &[u16], count: usize, seconds: u32) {
    let (prober, driver, _reports) = Prober::new(Arc::new(Starter));
    let driver = tokio::spawn(driver);
    let answers = Arc::new(AtomicU64::new(0));
    let watches: Vec<_> = (0..count)
        .map(|number| {
            let probe = NetworkProbe {
                address: IpAddr::V4(Ipv4Addr::LOCALHOST),
                port: ports[number % ports.len()],
                asks: Asks::Tcp,
            };
            let interval = SECOND;
            let schedule = Schedule {
                probe,
                initial_delay: interval,
                interval,
                timeout: interval,
                grace: Duration::ZERO,
                success_threshold: 1,
            };
            prober.watch(Place::Host, schedule, Arc::new(Count(answers.clone())))
        })
        .collect();
    let mut status = prober.status();
    let pid = status.wait_for(|status| status.helper.up).await.unwrap().helper.pid.unwrap();
    let (pid, own) = (u32::try_from(pid).unwrap(), std::process::id());
    tokio::time::sleep(SECOND * 5).await;
    let look = || {
        (
            answers.load(Ordering::Relaxed),
            cpu(pid),
            cpu(own),
            memory(pid),
            memory(own),
            wakes(pid),
            wakes(own),
        )
    };
    let before = look();
    tokio::time::sleep(SECOND * seconds).await;
    let after = look();
    let made = u32::try_from(after.0 - before.0).unwrap();
    println!("{count} checks, {} a second:", made / seconds);
    println!(
        "  kelson-probe:          {}  {} wake-ups a second",
        share((after.1 - before.1) / made),
        (after.5 - before.5) / u64::from(seconds)
    );
    println!(
        "  PID 1:                 {}  {} wake-ups a second",
        share((after.2 - before.2) / made),
        (after.6 - before.6) / u64::from(seconds)
    );
    println!(
        "  memory of the probe, resident and own: {} and {} kB, before {} and {}",
        after.3.0, after.3.1, before.3.0, before.3.1
    );
    println!(
        "  memory of PID 1, own: {} kB, before {}; late: {}",
        after.4.1,
        before.4.1,
        prober.status().borrow().restarts
    );
    drop(watches);
    driver.abort();
    let _ = driver.await;
}
