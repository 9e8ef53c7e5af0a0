//! What a stop costs: signal and wait in a loop, as a C program would; `stop` and `close` of as many services.
//!
//! `cargo run --release -p kelson-runner --example stop_bench [SERVICES]`, as root.
#![allow(
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    clippy::cast_precision_loss,
    reason = "a tool for developers"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use kelson_runner::{CgroupRoot, Options, ProcessRunner, Processes, RunContext, Runner, StopPlan};
use kelson_spec::ServiceSpec;
use kelson_sys::descriptor::Watched;
use nix::sys::signalfd::{SfdFlags, SignalFd};

fn main() {
    let services = std::env::args().nth(1).map_or(1000, |arg| arg.parse::<usize>().unwrap());
    let report = |what: &str, (wall, cpu): (Duration, Duration), base: (Duration, Duration)| {
        let each = |time: Duration| time.as_secs_f64() * 1e6 / services as f64;
        let times = |time: Duration, base: Duration| time.as_secs_f64() / base.as_secs_f64();
        let (wall_times, cpu_times) = (times(wall, base.0), times(cpu, base.1));
        println!(
            "{what:<24} {:>7.1} µs each {wall_times:>5.2}  CPU {:>7.1} µs {cpu_times:>5.2}",
            each(wall),
            each(cpu)
        );
    };
    for _ in 0..3 {
        let base = signal_and_wait(services);
        report("signal, wait", base, base);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        report("stop, close", runtime.block_on(stop_and_close(services)), base);
    }
}

/// Of this process and its children.
fn cpu() -> Duration {
    use nix::sys::resource::{UsageWho, getrusage};
    let times = [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN].map(|who| getrusage(who).unwrap());
    let sum = times.iter().flat_map(|usage| [usage.user_time(), usage.system_time()]);
    sum.map(|time| {
        Duration::new(time.tv_sec().cast_unsigned(), 1000 * u32::try_from(time.tv_usec()).unwrap())
    })
    .sum()
}

fn signal_and_wait(count: usize) -> (Duration, Duration) {
    let mut children: Vec<_> =
        (0..count).map(|_| std::process::Command::new("/bin/sleep").arg("1000").spawn().unwrap()).collect();
    std::thread::sleep(Duration::from_millis(500));
    let (begun, before) = (Instant::now(), cpu());
    for child in &children {
        // SAFETY: a child of this process that nobody has reaped.
        unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
    }
    for child in &mut children {
        child.wait().unwrap();
    }
    (begun.elapsed(), cpu() - before)
}

async fn stop_and_close(count: usize) -> (Duration, Duration) {
    let cgroups = Some(CgroupRoot::discover().unwrap());
    let processes = Processes::new(Options { cgroups, ..Options::default() }).unwrap();
    let mut set = nix::sys::signal::SigSet::empty();
    set.add(nix::sys::signal::Signal::SIGCHLD);
    set.thread_block().unwrap();
    let signals = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).unwrap();
    let signals = Watched::reading(signals).unwrap();
    let reaper = processes.clone();
    let reaping = tokio::spawn(async move {
        loop {
            let mut ready = signals.readable().await.unwrap();
            while let Ok(Some(_)) = ready.get_inner().read_signal() {}
            ready.clear_ready();
            while reaper.reap().more {
                tokio::task::yield_now().await;
            }
        }
    });
    let mut runners = Vec::new();
    for number in 0..count {
        let spec = ServiceSpec::process(&format!("bench-{number}"), ["/bin/sleep", "1000"]);
        let mut runner = ProcessRunner::new(processes.clone(), Arc::new(spec));
        let null = || std::fs::File::options().write(true).open("/dev/null").unwrap().into();
        let context = RunContext {
            run: 1,
            command: None,
            as_root: false,
            stdout: null(),
            stderr: null(),
            environment: vec![],
            descriptors: vec![],
        };
        runner.open().await.unwrap();
        drop(runner.run(context).await.unwrap());
        runners.push(runner);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (begun, before) = (Instant::now(), cpu());
    let mut stops = tokio::task::JoinSet::new();
    for mut runner in runners {
        stops.spawn(async move {
            let plan = StopPlan { signal: libc::SIGTERM, timeout: Duration::from_secs(20) };
            runner.stop(plan).await.unwrap();
            runner.close().await.unwrap();
        });
    }
    while let Some(result) = stops.join_next().await {
        result.unwrap();
    }
    let spent = (begun.elapsed(), cpu() - before);
    reaping.abort();
    spent
}
