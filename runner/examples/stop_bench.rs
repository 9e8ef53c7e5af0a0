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
use std::time::Duration;

use kelson_runner::{CgroupRoot, Options, ProcessRunner, Processes, RunContext, Runner, StopPlan};
use kelson_spec::ServiceSpec;

mod measure;
use measure::{Spent, Stopwatch, reap};

fn main() {
    let services = std::env::args().nth(1).map_or(1000, |arg| arg.parse::<usize>().unwrap());
    let report = |what: &str, time: Spent, base: Spent| time.report(what, services, base);
    for _ in 0..3 {
        let base = signal_and_wait(services);
        report("signal, wait", base, base);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        report("stop, close", runtime.block_on(stop_and_close(services)), base);
    }
}

fn signal_and_wait(count: usize) -> Spent {
    let mut children: Vec<_> =
        (0..count).map(|_| std::process::Command::new("/bin/sleep").arg("1000").spawn().unwrap()).collect();
    std::thread::sleep(Duration::from_millis(500));
    let begun = Stopwatch::start();
    for child in &children {
        // SAFETY: a child of this process that nobody has reaped.
        unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
    }
    for child in &mut children {
        child.wait().unwrap();
    }
    begun.read()
}

async fn stop_and_close(count: usize) -> Spent {
    let cgroups = Some(CgroupRoot::discover().unwrap());
    let processes = Processes::new(Options { cgroups, ..Options::default() }).unwrap();
    let reaping = reap(&processes);
    let mut runners = Vec::new();
    for number in 0..count {
        let spec = ServiceSpec::process(&format!("bench-{number}"), ["/bin/sleep", "1000"]);
        let mut runner = ProcessRunner::new(processes.clone(), Arc::new(spec));
        let null = || std::fs::File::options().write(true).open("/dev/null").unwrap().into();
        let context = RunContext::new(1, null(), null());
        runner.open().await.unwrap();
        drop(runner.run(context).await.unwrap());
        runners.push(runner);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let begun = Stopwatch::start();
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
    let spent = begun.read();
    reaping.abort();
    spent
}
