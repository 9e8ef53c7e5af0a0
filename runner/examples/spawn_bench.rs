//! What a start costs: bare vfork, exec and wait in a loop; posix_spawn; `Processes` without and with a fresh cgroup each.
//!
//! `cargo run --release -p kelson-runner --example spawn_bench [STARTS [DESCRIPTORS [MEGABYTES]]]`, as root. PROGRAM names
//! what is started (a small static program says most), DESCRIPTORS how many more this process has open, as PID 1 has
//! with many services.
#![allow(
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    clippy::cast_precision_loss,
    reason = "a tool for developers"
)]

use std::ffi::CString;
use std::sync::Arc;

use kelson_runner::seccomp::Filter;
use kelson_runner::{Cgroup, CgroupRoot, Command, Options, Processes};

mod measure;
use measure::{Spent, Stopwatch, reap};

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<usize>().unwrap());
    let starts = args.next().unwrap_or(1000);
    let descriptors = args.next().unwrap_or(0);
    let megabytes = args.next().unwrap_or(0);
    let program = std::env::var("PROGRAM").unwrap_or_else(|_| String::from("/bin/true"));
    let ballast = vec![1u8; megabytes << 20];
    let limit = libc::rlimit { rlim_cur: 65_536, rlim_max: 65_536 };
    // SAFETY: a struct of the right size.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Before the descriptors, as in PID 1.
    let processes = Processes::new(Options::default()).unwrap();
    let open: Vec<_> = (0..descriptors).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();

    let path = CString::new(program.clone()).unwrap();
    let report = |what: &str, time: Spent, base: Spent| time.report(what, starts, base);
    for _ in 0..3 {
        let base = timed(|| (0..starts).for_each(|_| vfork_exec_wait(&path)));
        report("vfork, exec, wait", base, base);
        report("posix_spawn, wait", timed(|| (0..starts).for_each(|_| posix_spawn_wait(&path))), base);
        for one_by_one in [true, false] {
            let time =
                runtime.block_on(through_processes(&processes, &program, starts, None, one_by_one, None));
            report(if one_by_one { "Processes, one by one" } else { "Processes, all at once" }, time, base);
        }
        let filter = Some(processes.default_filter(u64::MAX));
        let time = runtime.block_on(through_processes(&processes, &program, starts, None, false, filter));
        report("Processes, the default seccomp", time, base);
        let root = CgroupRoot::discover().unwrap();
        let time =
            runtime.block_on(through_processes(&processes, &program, starts, Some(&root), false, None));
        report("Processes, a fresh cgroup each", time, base);
    }
    drop((ballast, open));
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
