//! The cost of a start and of a stop, beside the same in a bare loop.
//!
//! `cargo run --release -p kelson-runner --example start_stop [COUNT [DESCRIPTORS [MEGABYTES]]]`, as root. PROGRAM names
//! the program to start (a small static one shows most), DESCRIPTORS the number of files that this process has open
//! besides, as PID 1 has with many services, MEGABYTES its memory.
#![allow(
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    clippy::cast_precision_loss,
    reason = "a tool for developers"
)]

use std::ffi::CString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kelson_runner::seccomp::Filter;
use kelson_runner::{
    Cgroup, CgroupRoot, Command, Options, ProcessRunner, Processes, RunContext, Runner, StopPlan,
};
use kelson_spec::ServiceSpec;
use kelson_sys::descriptor::Watched;
use nix::sys::signalfd::{SfdFlags, SignalFd};
use tokio::runtime::Runtime;

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<usize>().unwrap());
    let count = args.next().unwrap_or(1000);
    let descriptors = args.next().unwrap_or(0);
    let megabytes = args.next().unwrap_or(0);
    let ballast = vec![1u8; megabytes << 20];
    let limit = libc::rlimit { rlim_cur: 65_536, rlim_max: 65_536 };
    // SAFETY: a struct of the right size.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Before the descriptors, as in PID 1.
    let cgroups = Some(CgroupRoot::discover().unwrap());
    let processes = Processes::new(Options { cgroups, ..Options::default() }).unwrap();
    let open: Vec<_> = (0..descriptors).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
    for _ in 0..3 {
        starts(&runtime, &processes, count);
        stops(&runtime, &processes, count);
    }
    drop((ballast, open));
}

fn starts(runtime: &Runtime, processes: &Processes, count: usize) {
    let program = std::env::var("PROGRAM").unwrap_or_else(|_| String::from("/bin/true"));
    let path = CString::new(program.clone()).unwrap();
    let base = timed(|| (0..count).for_each(|_| vfork_exec_wait(&path)));
    base.report("vfork, exec, wait", count, base);
    timed(|| (0..count).for_each(|_| posix_spawn_wait(&path))).report("posix_spawn, wait", count, base);
    let root = processes.cgroups();
    let filter = Some(processes.default_filter(u64::MAX));
    for (what, root, one_by_one, filter) in [
        ("Processes, one by one", None, true, None),
        ("Processes, all at once", None, false, None),
        ("Processes, the default seccomp", None, false, filter),
        ("Processes, a fresh cgroup each", root, false, None),
    ] {
        let time = runtime.block_on(through_processes(processes, &program, count, root, one_by_one, filter));
        time.report(what, count, base);
    }
}

fn stops(runtime: &Runtime, processes: &Processes, count: usize) {
    let base = signal_and_wait(count);
    base.report("signal, wait", count, base);
    runtime.block_on(stop_and_close(processes, count)).report("stop, close", count, base);
}

fn timed(work: impl FnOnce()) -> Spent {
    let begun = Stopwatch::start();
    work();
    begun.read()
}

/// As a C program would: the child touches nothing before its exec.
#[allow(deprecated, reason = "vfork is what is measured")]
fn vfork_exec_wait(path: &CString) {
    let argv = [path.as_ptr(), std::ptr::null()];
    // SAFETY: between vfork and exec the child makes that one call.
    unsafe {
        let pid = libc::vfork();
        if pid == 0 {
            libc::execve(path.as_ptr(), argv.as_ptr(), [std::ptr::null()].as_ptr());
            libc::_exit(127);
        }
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}

fn posix_spawn_wait(path: &CString) {
    let argv = [path.as_ptr().cast_mut(), std::ptr::null_mut()];
    let envp = [std::ptr::null_mut()];
    let mut pid = 0;
    // SAFETY: null attributes and actions are allowed; the arrays end with null.
    unsafe {
        libc::posix_spawn(
            &raw mut pid,
            path.as_ptr(),
            std::ptr::null(),
            std::ptr::null(),
            argv.as_ptr(),
            envp.as_ptr(),
        );
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}

async fn through_processes(
    processes: &Processes,
    program: &str,
    starts: usize,
    root: Option<&CgroupRoot>,
    one_by_one: bool,
    filter: Option<Arc<Filter>>,
) -> Spent {
    let reaping = reap(processes);
    let begun = Stopwatch::start();
    let mut cgroups = Vec::new();
    let mut running = tokio::task::JoinSet::new();
    for number in 0..starts {
        let mut command = Command::new(program).no_new_privileges(true).seccomp(filter.clone());
        if let Some(root) = root {
            let name = format!("bench-{number}");
            let cgroup = Cgroup::create(root, &name).unwrap();
            command = command.cgroup(cgroup.folder().unwrap(), name);
            cgroups.push(cgroup);
        }
        let processes = processes.clone();
        let run = async move { processes.spawn(command).await.unwrap().exit.await };
        if one_by_one {
            run.await;
        } else {
            running.spawn(run);
            tokio::task::yield_now().await;
        }
    }
    while running.join_next().await.is_some() {}
    let time = begun.read();
    reaping.abort();
    for cgroup in cgroups {
        cgroup.remove().unwrap();
    }
    time
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

async fn stop_and_close(processes: &Processes, count: usize) -> Spent {
    let reaping = reap(processes);
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

/// On a busy machine the CPU time, of this process and its children, says more than the clock.
#[derive(Clone, Copy)]
struct Spent {
    wall: Duration,
    cpu: Duration,
}

impl Spent {
    fn report(self, what: &str, count: usize, base: Spent) {
        let each = |time: Duration| time.as_secs_f64() * 1e6 / count as f64;
        let times = |time: Duration, base: Duration| time.as_secs_f64() / base.as_secs_f64();
        let (wall, cpu) = (times(self.wall, base.wall), times(self.cpu, base.cpu));
        let (each_wall, each_cpu) = (each(self.wall), each(self.cpu));
        println!("{what:<34} {each_wall:>8.1} µs each {wall:>5.2}  CPU {each_cpu:>8.1} µs {cpu:>5.2}");
    }
}

struct Stopwatch(Instant, Duration);

impl Stopwatch {
    fn start() -> Stopwatch {
        Stopwatch(Instant::now(), cpu())
    }

    fn read(&self) -> Spent {
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
fn reap(processes: &Processes) -> tokio::task::JoinHandle<()> {
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
