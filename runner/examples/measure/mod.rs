//! What the benchmarks share: a clock, and a reaper as PID 1 has it.

use std::time::{Duration, Instant};

use kelson_runner::Processes;
use kelson_sys::descriptor::Watched;
use nix::sys::signalfd::{SfdFlags, SignalFd};

/// On a busy machine the CPU time, of this process and its children, says more than the clock.
#[derive(Clone, Copy)]
pub struct Spent {
    pub wall: Duration,
    pub cpu: Duration,
}

impl Spent {
    pub fn report(self, what: &str, count: usize, base: Spent) {
        let each = |time: Duration| time.as_secs_f64() * 1e6 / count as f64;
        let times = |time: Duration, base: Duration| time.as_secs_f64() / base.as_secs_f64();
        let (wall, cpu) = (times(self.wall, base.wall), times(self.cpu, base.cpu));
        let (each_wall, each_cpu) = (each(self.wall), each(self.cpu));
        println!("{what:<34} {each_wall:>8.1} µs each {wall:>5.2}  CPU {each_cpu:>8.1} µs {cpu:>5.2}");
    }
}

pub struct Stopwatch(Instant, Duration);

impl Stopwatch {
    pub fn start() -> Stopwatch {
        Stopwatch(Instant::now(), cpu())
    }

    pub fn read(&self) -> Spent {
        Spent { wall: self.0.elapsed(), cpu: cpu() - self.1 }
    }
}

fn cpu() -> Duration {
    use nix::sys::resource::{UsageWho, getrusage};
    let times = [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN].map(|who| getrusage(who).unwrap());
    let sum = times.iter().flat_map(|usage| [usage.user_time(), usage.system_time()]);
    sum.map(|time| {
        Duration::new(time.tv_sec().cast_unsigned(), 1000 * u32::try_from(time.tv_usec()).unwrap())
    })
    .sum()
}

/// Reaps what ends, until it is aborted.
pub fn reap(processes: &Processes) -> tokio::task::JoinHandle<()> {
    let mut set = nix::sys::signal::SigSet::empty();
    set.add(nix::sys::signal::Signal::SIGCHLD);
    set.thread_block().unwrap();
    let signals = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).unwrap();
    let signals = Watched::reading(signals).unwrap();
    let reaper = processes.clone();
    tokio::spawn(async move {
        loop {
            let mut ready = signals.readable().await.unwrap();
            while let Ok(Some(_)) = ready.get_inner().read_signal() {}
            ready.clear_ready();
            while reaper.reap().more {
                tokio::task::yield_now().await;
            }
        }
    })
}
