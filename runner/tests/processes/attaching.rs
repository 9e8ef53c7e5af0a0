//! A next incarnation of PID 1: this test re-executes itself, keeps its children, and takes them up.
use std::os::unix::process::CommandExt as _;
use std::sync::Arc;
use std::time::Duration;

use crate::pid_one::{all_processes, as_pid_one, eventually, pipe, read_all, reap_on_sigchld, test_name};
use kelson_runner::{
    Attachment, CgroupRoot, Command, Exit, Options, ProcessRunner, Processes, RunContext, Runner, Running,
    StopPlan, StopReport,
};
use kelson_spec::ServiceSpec;

/// The record that the first incarnation leaves for the second: a PID and a start time each.
const MEMORY: &str = "KELSON_TEST_MEMORY";
const PATIENT: StopPlan = StopPlan { signal: libc::SIGTERM, timeout: Duration::from_secs(20) };

/// Ends by itself at SIGTERM, with a stray of its own that does not.
const DEAF: &str = "trap 'exit 7' TERM; setsid sleep 1000 3>&- & exec 3>&-; while :; do sleep 0.01; done";

/// Processes that nobody reaps yet.
fn unreaped() -> Processes {
    let options = Options { cgroups: Some(CgroupRoot::discover().unwrap()), ..Options::default() };
    Processes::new(options).unwrap()
}

fn runner(processes: &Processes, name: &str, script: &str) -> ProcessRunner {
    let spec = ServiceSpec::process(name, ["/bin/sh", "-c", script]);
    ProcessRunner::new(processes.clone(), Arc::new(spec))
}

async fn run(runner: &mut ProcessRunner, descriptors: Vec<(std::os::fd::OwnedFd, i32)>) -> Running {
    let null = || std::fs::File::options().write(true).open("/dev/null").unwrap().into();
    let (stdout, stderr) = (null(), null());
    let context = RunContext { descriptors, ..RunContext::new(5, stdout, stderr) };
    runner.run(context).await.unwrap()
}

/// The record of the first incarnation, or `None` in the first.
fn memory() -> Option<Vec<Attachment>> {
    let text = std::env::var(MEMORY).ok()?;
    let attachment = |entry: &str| {
        let (pid, start_time) = entry.split_once(':').unwrap();
        let (pid, start_time) = (pid.parse().unwrap(), start_time.parse().unwrap());
        Attachment { run: 5, pid, start_time, opened: true }
    };
    Some(text.split_whitespace().map(attachment).collect())
}

/// Ends this incarnation: all threads, all descriptors, everything but the PID and the children.
fn next_incarnation(remembered: &[&Running]) -> ! {
    let entries: Vec<String> =
        remembered.iter().map(|running| format!("{}:{}", running.pid, running.start_time)).collect();
    let error = std::process::Command::new("/proc/self/exe")
        .args(["--exact", &test_name(), "--nocapture", "--test-threads=1"])
        .env(MEMORY, entries.join(" "))
        .exec();
    panic!("{error}");
}

fn is_zombie(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
}

#[test]
fn v1_a_run_goes_on_over_two_lives() {
    as_pid_one(|| async {
        let processes = unreaped();
        let mut web = runner(&processes, "web", DEAF);
        let Some(memory) = memory() else {
            reap_on_sigchld(&processes);
            web.open().await.unwrap();
            let (ready, closed) = pipe();
            let running = run(&mut web, vec![(closed, 3)]).await;
            read_all(ready).await;
            next_incarnation(&[&running]);
        };
        reap_on_sigchld(&processes);
        let kept = memory[0];
        let running = web.attach(kept).await.unwrap().unwrap();
        assert_eq!((running.pid, running.start_time), (kept.pid, kept.start_time));
        assert!(web.attach(kept).await.is_err(), "it runs already");
        let path = processes.cgroups().unwrap().path().join("web");
        let members = std::fs::read_to_string(path.join("cgroup.procs")).unwrap();
        assert!(members.lines().any(|pid| pid == kept.pid.to_string()), "{members}");
        // By its signal, and its stray by force.
        assert_eq!(web.stop(PATIENT).await.unwrap(), StopReport::default());
        assert_eq!(running.exit.await, Exit::Status(7));
        eventually("nothing is left", || all_processes().is_empty()).await;
        let (ready, closed) = pipe();
        let running = run(&mut web, vec![(closed, 3)]).await;
        read_all(ready).await;
        assert_eq!(web.stop(PATIENT).await.unwrap(), StopReport::default());
        assert_eq!(running.exit.await, Exit::Status(7));
        web.close().await.unwrap();
        assert!(!path.exists());
    });
}

#[test]
fn v5_one_that_ended_between_two_lives_is_told_of() {
    as_pid_one(|| async {
        let processes = unreaped();
        let names = ["first", "second", "third"];
        let script = |name: &str| format!("read x <&3; echo {name} >/dev/null; exit 1{}", name.len());
        let mut runners = names.map(|name| runner(&processes, name, &script(name)));
        let Some(memory) = memory() else {
            reap_on_sigchld(&processes);
            let mut running = Vec::new();
            // The end of this incarnation is the end of what they read.
            let (read, _write) = pipe();
            for runner in &mut runners {
                runner.open().await.unwrap();
                running.push(run(runner, vec![(read.try_clone().unwrap(), 3)]).await);
            }
            next_incarnation(&running.iter().collect::<Vec<_>>());
        };
        eventually("they have ended", || memory.iter().all(|kept| is_zombie(kept.pid))).await;
        let [first, second, third] = &mut runners;
        // Attached before the first reap, held over it, and neither.
        let early = first.attach(memory[0]).await.unwrap().unwrap();
        assert!(processes.hold(memory[1].pid, memory[1].start_time).unwrap());
        assert_eq!(processes.reap().reaped, 3);
        reap_on_sigchld(&processes);
        assert_eq!(early.exit.await, Exit::Status(15));
        let late = second.attach(memory[1]).await.unwrap().unwrap();
        assert_eq!((late.pid, late.start_time), (memory[1].pid, memory[1].start_time));
        assert_eq!(late.exit.await, Exit::Status(16));
        assert!(third.attach(memory[2]).await.unwrap().is_none());
        assert!(second.attach(memory[1]).await.unwrap().is_none(), "once");
        for mut runner in runners {
            assert_eq!(runner.stop(PATIENT).await.unwrap(), StopReport::default());
            runner.close().await.unwrap();
        }
    });
}

#[test]
fn v3_what_is_not_proven_ours_is_not_taken_up() {
    as_pid_one(|| async {
        let processes = unreaped();
        let Some(memory) = memory() else {
            reap_on_sigchld(&processes);
            let mut web = runner(&processes, "web", "sleep 1000 3>&- & exec 3>&-; wait");
            web.open().await.unwrap();
            let (ready, closed) = pipe();
            let running = run(&mut web, vec![(closed, 3)]).await;
            read_all(ready).await;
            next_incarnation(&[&running]);
        };
        reap_on_sigchld(&processes);
        let kept = memory[0];
        let grandchild = *all_processes().iter().find(|pid| **pid != kept.pid).unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap();
        let born = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap();
        let mut other = runner(&processes, "other", "exit 0");
        let strangers = [
            Attachment { start_time: kept.start_time + 1, ..kept },
            Attachment { start_time: 0, ..kept },
            Attachment { pid: grandchild, start_time: born, ..kept },
            Attachment { pid: 1, ..kept },
            Attachment { pid: -1, ..kept },
            Attachment { pid: 4_000_000, ..kept },
        ];
        for stranger in strangers {
            assert!(other.attach(stranger).await.unwrap().is_none(), "{stranger:?}");
            assert!(!processes.hold(stranger.pid, stranger.start_time).unwrap(), "{stranger:?}");
            // Nothing but what is in the service's own cgroup is its to end.
            assert_eq!(other.stop(PATIENT).await.unwrap(), StopReport::default());
        }
        assert_eq!(all_processes().len(), 2);
        other.close().await.unwrap();
        // One that was not opened is left as it is; one without a run has its cgroup again.
        let mut web = runner(&processes, "web", "exit 6");
        assert!(web.attach(Attachment { opened: false, ..kept }).await.unwrap().is_none());
        assert_eq!(web.stop(PATIENT).await.unwrap(), StopReport::default());
        assert_eq!(all_processes().len(), 2);
        assert!(web.attach(Attachment { pid: 0, ..kept }).await.unwrap().is_none());
        assert_eq!(all_processes().len(), 2);
        // Its processes are of a run that nobody took up: they go before the next.
        let running = run(&mut web, vec![]).await;
        assert_eq!(running.exit.await, Exit::Status(6));
        eventually("nothing is left", || all_processes().is_empty()).await;
        web.stop(PATIENT).await.unwrap();
        web.close().await.unwrap();
    });
}

#[test]
fn a_shortage_of_descriptors_is_no_answer() {
    as_pid_one(|| async {
        let first = unreaped();
        let child = first.spawn(Command::new("/bin/sleep").arg("1000")).await.unwrap();
        let next = Processes::new(Options::default()).unwrap();
        let limit = |soft| {
            let (_, hard) =
                nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap();
            nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, soft, hard).unwrap();
        };
        let mut taken = Vec::new();
        limit(128);
        while let Ok(file) = std::fs::File::open("/dev/null") {
            taken.push(file);
        }
        let error = next.adopt(child.pid, child.start_time).map(|_| ()).unwrap_err();
        assert_eq!(error.errno, Some(libc::EMFILE), "{error}");
        drop(taken);
        let adopted = next.adopt(child.pid, child.start_time).unwrap().unwrap();
        adopted.signal(libc::SIGKILL);
        next.reap();
    });
}
