//! Measures kelson-logd: lines a second, its CPU, what it drops, and its memory with a thousand silent services.
//!
//! `cargo run --release -p kelson-logs --example throughput [SERVICES [SECONDS [LINE]]]`

#![allow(clippy::unwrap_used, clippy::arithmetic_side_effects, reason = "a measurement may fail")]

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kelson_helper::{BoxFuture, CONTROL, Launched, Launcher, Start};
use kelson_services::collector::{Collector, LogOptions};

const OPTIONS: LogOptions = LogOptions { max_size: 64 << 20, max_files: 2, rate_limit: None, console: false };

struct Starter {
    folder: PathBuf,
    child: Arc<Mutex<Option<Child>>>,
}

impl Launcher for Starter {
    fn launch(&self, mut start: Start) -> BoxFuture<'static, std::io::Result<Launched>> {
        let control = start.take(CONTROL).unwrap();
        let mut command = Command::new("/proc/self/exe");
        command.arg0("kelson-logd").arg("--runtime-dir").arg(&self.folder);
        let raw = control.as_raw_fd();
        // SAFETY: between fork and exec only system calls are made.
        unsafe {
            command.pre_exec(move || {
                if raw == 3 {
                    libc::fcntl(3, libc::F_SETFD, 0)
                } else {
                    libc::dup2(raw, 3)
                };
                Ok(())
            });
        }
        let spawned = command.spawn();
        let kept = self.child.clone();
        Box::pin(async move {
            let _control = control;
            let child = spawned?;
            let pid = i32::try_from(child.id()).unwrap();
            *kept.lock().unwrap() = Some(child);
            Ok(Launched { pid, start_time: 0, exit: Box::pin(std::future::pending()), kill: Box::new(|| ()) })
        })
    }
}

fn main() {
    let mut args = std::env::args_os();
    if args.next().is_some_and(|name| name == "kelson-logd") {
        std::process::exit(kelson_logd::main(args));
    }
    let mut numbers = args.map(|word| word.to_str().unwrap().parse::<usize>().unwrap());
    let services = numbers.next().unwrap_or(10);
    let seconds = numbers.next().unwrap_or(5);
    let length = numbers.next().unwrap_or(100);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        busy(services, Duration::from_secs(seconds as u64), length).await;
        silent().await;
    });
}

struct Measured {
    folder: PathBuf,
    collector: Collector,
    child: Arc<Mutex<Option<Child>>>,
}

impl Measured {
    async fn start() -> (Measured, i32) {
        let folder = std::env::temp_dir().join(format!("kelson-throughput-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let child = Arc::new(Mutex::new(None));
        let start = Starter { folder: folder.clone(), child: child.clone() };
        let (collector, driver, _reports) = Collector::new(Arc::new(start), folder.join("logs")).unwrap();
        tokio::spawn(driver);
        let pid = collector.status().wait_for(|status| status.helper.up).await.unwrap().helper.pid.unwrap();
        (Measured { folder, collector, child }, pid)
    }

    async fn end(self) {
        self.collector.shutdown(tokio::time::Instant::now() + Duration::from_secs(5)).await;
        if let Some(mut child) = self.child.lock().unwrap().take() {
            child.wait().unwrap();
        }
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

async fn busy(services: usize, span: Duration, length: usize) {
    let (measured, pid) = Measured::start().await;
    let end = Arc::new(AtomicBool::new(false));
    let line = format!("{}\n", "x".repeat(length - 1));
    let start = (Instant::now(), cpu(pid));
    let writers: Vec<_> = (0..services)
        .map(|number| {
            let (stdout, _) = measured.collector.pipes(&format!("s{number}"), 1, OPTIONS).unwrap();
            let (mut file, end, line) = (File::from(stdout), end.clone(), line.clone());
            std::thread::spawn(move || {
                let mut written: u64 = 0;
                while !end.load(Ordering::Relaxed) {
                    file.write_all(line.as_bytes()).unwrap();
                    written += 1;
                }
                written
            })
        })
        .collect();
    tokio::time::sleep(span).await;
    end.store(true, Ordering::Relaxed);
    let written: u64 = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
    let (seconds, used) = (start.0.elapsed().as_secs_f64(), cpu(pid) - start.1);
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let status = measured.collector.status().borrow().clone();
    let per_line = used * 1e9 / written as f64;
    println!("{services} services, lines of {length} bytes, {seconds:.1} s:");
    println!(
        "  {:.0} lines/s, {:.0} MB/s",
        written as f64 / seconds,
        written as f64 * length as f64 / seconds / 1e6
    );
    println!(
        "  logd used {used:.2} s of CPU, {per_line:.0} ns a line; dropped {} lines",
        status.dropped_lines
    );
    println!("  logd replaced {} times; memory after it: {}", status.helper.restarts, memory(pid));
    measured.end().await;
}

async fn silent() {
    let (measured, pid) = Measured::start().await;
    println!("no service: {}", memory(pid));
    let pipes: Vec<_> = (0..1000)
        .map(|number| measured.collector.pipes(&format!("s{number}"), 1, OPTIONS).unwrap())
        .collect();
    for (stdout, _) in &pipes {
        let mut file = File::from(stdout.try_clone().unwrap());
        file.write_all(b"one line\n").unwrap();
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    println!("1000 silent services: {}", memory(pid));
    measured.end().await;
}

/// Seconds.
fn cpu(pid: i32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks = |index: usize| fields.get(index).unwrap().parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) / 100.0
}

fn memory(pid: i32) -> String {
    let text =
        std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("smaps_rollup")).unwrap();
    let wanted = ["Rss:", "Pss:", "Private_Dirty:"];
    let lines = text.lines().filter(|line| wanted.iter().any(|word| line.starts_with(word)));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join(", ")
}
