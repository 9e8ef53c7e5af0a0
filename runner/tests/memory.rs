//! The cost of a running service in this process: bytes of heap that this crate keeps for it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "tests"
)]

mod pid_one;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Waker};
use std::time::Duration;

use kelson_runner::{Command, ProcessRunner, RunContext, Runner, Running, StopPlan, StopReport};
use kelson_spec::ServiceSpec;
use pid_one::{as_pid_one, eventually, processes};

/// Counts what is in use, as glibc's malloc takes it: 8 bytes more each, in steps of 16, at least 32.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

fn taken(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(taken(layout), SeqCst);
        // SAFETY: the caller's own promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(taken(layout), SeqCst);
        // SAFETY: the caller's own promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn context() -> RunContext {
    let null = || std::fs::File::options().write(true).open("/dev/null").unwrap().into();
    let environment = vec![("NOTIFY_SOCKET".into(), "/run/kelson/notify/web".into())];
    RunContext { environment, ..RunContext::new(1, null(), null()) }
}

#[test]
fn a_running_service_keeps_less_than_500_bytes() {
    const SERVICES: usize = 300;
    as_pid_one(|| async {
        let processes = processes();
        let specs: Vec<Arc<ServiceSpec>> = (0..SERVICES)
            .map(|number| Arc::new(ServiceSpec::process(&format!("web-{number}"), ["/bin/sleep", "1000"])))
            .collect();
        // The allocations that are made once: threads, the filter.
        processes.spawn(Command::new("/bin/true")).await.unwrap().exit.await;
        let mut services: Vec<(Box<dyn Runner>, Running)> = Vec::with_capacity(SERVICES);
        let before = IN_USE.load(SeqCst);
        for spec in specs {
            let mut runner: Box<dyn Runner> = Box::new(ProcessRunner::new(processes.clone(), spec));
            runner.open().await.unwrap();
            let mut running = runner.run(context()).await.unwrap();
            let mut waiting = Context::from_waker(Waker::noop());
            assert!(running.exit.as_mut().poll(&mut waiting).is_pending());
            services.push((runner, running));
        }
        let each = || IN_USE.load(SeqCst).saturating_sub(before) / SERVICES;
        // A spawner lets go of what it was given after it has said that the child is there.
        eventually("the spawners rest", || each() < 500).await;
        println!("{} bytes a running service", each());
        if let Some(path) = std::env::var_os("KELSON_TEST_REPORT") {
            std::fs::write(path, each().to_string()).unwrap();
        }
        let plan = StopPlan { signal: libc::SIGTERM, timeout: Duration::from_secs(20) };
        for (runner, _) in &mut services {
            assert_eq!(runner.stop(plan).await.unwrap(), StopReport::default());
            runner.close().await.unwrap();
        }
    });
}
