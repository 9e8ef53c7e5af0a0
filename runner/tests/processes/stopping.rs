//! Stopping services: by signal, by force, with all that they made; and the runner's futures dropped anywhere.
use std::sync::Arc;
use std::time::Duration;

use crate::pid_one::{all_processes, as_pid_one, eventually, pipe, processes, read_all, reap_on_sigchld};
use kelson_runner::{
    Cgroup, CgroupRoot, Deaf, Exit, Options, ProcessRunner, Processes, RunContext, Runner, Running, StopPlan,
    StopReport,
};
use kelson_spec::ServiceSpec;
use kelson_spec::service::Credentials;
use kelson_tests::skip;

const PATIENT: StopPlan = StopPlan { signal: libc::SIGTERM, timeout: Duration::from_secs(20) };
const IMPATIENT: StopPlan = StopPlan { signal: libc::SIGTERM, timeout: Duration::from_millis(200) };

fn spec(script: &str) -> Arc<ServiceSpec> {
    let mut spec = ServiceSpec::process("web", ["/bin/sh", "-c", script]);
    spec.environment.push(("LANG".into(), "C".into()));
    spec.resources.memory_max = Some(64 << 20);
    Arc::new(spec)
}

/// A run; the second value reads its standard output to the end.
async fn run(runner: &mut ProcessRunner, number: u64) -> (Running, impl Future<Output = String> + use<>) {
    let (read, write) = pipe();
    let context = RunContext {
        environment: vec![("NOTIFY_SOCKET".into(), "/run/kelson/notify".into())],
        ..RunContext::new(number, write.try_clone().unwrap(), write)
    };
    let running = runner.run(context).await.unwrap();
    (running, read_all(read))
}

/// A run of a script that closes descriptor 3 once it is ready.
async fn run_until_ready(
    runner: &mut ProcessRunner,
    number: u64,
) -> (Running, impl Future<Output = String> + use<>) {
    let ((ready, closed), (read, write)) = (pipe(), pipe());
    let context = RunContext {
        environment: vec![("NOTIFY_SOCKET".into(), "/run/kelson/notify".into())],
        descriptors: vec![(closed, 3)],
        ..RunContext::new(number, write.try_clone().unwrap(), write)
    };
    let running = runner.run(context).await.unwrap();
    read_all(ready).await;
    (running, read_all(read))
}

fn only(pids: &[i32]) -> bool {
    all_processes() == pids
}

#[test]
fn open_run_stop_run_stop_close() {
    as_pid_one(|| async {
        let processes = processes();
        let mut runner = ProcessRunner::new(processes.clone(), spec("env; exec 3>&-; exec sleep 1000"));
        let path = processes.cgroups().unwrap().path().join("web");
        runner.open().await.unwrap();
        for number in 1..=2 {
            let (running, text) = run_until_ready(&mut runner, number).await;
            let members = std::fs::read_to_string(path.join("cgroup.procs")).unwrap();
            assert!(members.lines().any(|pid| pid == running.pid.to_string()), "{members}");
            let usage = processes.usage("web");
            assert!(usage.processes.is_some_and(|count| count >= 1) && usage.cpu.is_some(), "{usage:?}");
            let report = runner.stop(PATIENT).await.unwrap();
            assert_eq!(report, StopReport::default());
            assert!(!path.exists(), "the cgroup of a run that has left nothing is removed at once");
            assert_eq!(running.exit.await, Exit::Signal { signal: libc::SIGTERM, core: false });
            let text = text.await;
            let mut lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("PWD=")).collect();
            lines.sort_unstable();
            let mark = format!("KELSON_RUN={}:web:{number}", processes.incarnation());
            let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
            assert_eq!(
                lines,
                [mark.as_str(), "KELSON_SERVICE=web", "LANG=C", "NOTIFY_SOCKET=/run/kelson/notify", path]
            );
        }
        // Stopped twice is stopped.
        assert_eq!(runner.stop(PATIENT).await.unwrap(), StopReport::default());
        runner.close().await.unwrap();
        assert!(!path.exists());
        runner.close().await.unwrap();
        assert!(only(&[]));
    });
}

#[test]
fn a_missing_controller_is_said_and_is_no_failure() {
    as_pid_one(|| async {
        let processes = processes();
        let mut runner = ProcessRunner::new(processes.clone(), spec("exit 0"));
        runner.open().await.unwrap();
        let has_memory = processes.cgroups().unwrap().controllers().contains(&"memory");
        assert_eq!(runner.warnings().is_empty(), has_memory, "{:?}", runner.warnings());
        if !has_memory {
            let text = "memoryMax is not enforced: the cgroup controller memory is missing";
            assert_eq!(runner.warnings(), [text]);
        }
        runner.close().await.unwrap();
    });
}

#[test]
fn s2_who_ignores_the_signal_is_killed_with_all_its_children() {
    as_pid_one(|| async {
        let processes = processes();
        let script = "trap '' TERM; setsid sleep 1000 & sleep 1000 & echo ready; wait; sleep 1000";
        let mut runner = ProcessRunner::new(processes.clone(), spec(script));
        runner.open().await.unwrap();
        let (running, text) = run(&mut runner, 1).await;
        eventually("three processes run", || all_processes().len() == 3).await;
        let begun = std::time::Instant::now();
        let report = runner.stop(IMPATIENT).await.unwrap();
        assert!(begun.elapsed() >= IMPATIENT.timeout, "not before its timeout");
        let deaf = Some(Deaf::Ignores);
        assert_eq!(report, StopReport { killed: true, deaf, ..StopReport::default() });
        assert_eq!(running.exit.await, Exit::Signal { signal: libc::SIGKILL, core: false });
        text.await;
        eventually("all are gone", || only(&[])).await;
        runner.close().await.unwrap();
    });
}

#[test]
fn p2_a_double_fork_leaves_nothing_after_its_exit() {
    as_pid_one(|| async {
        let processes = processes();
        let mut runner =
            ProcessRunner::new(processes, spec("setsid sh -c 'sleep 1000 & sleep 1001 &'; exit 5"));
        runner.open().await.unwrap();
        let (running, _) = run(&mut runner, 1).await;
        assert_eq!(running.exit.await, Exit::Status(5));
        let report = runner.stop(PATIENT).await.unwrap();
        assert_eq!(report, StopReport { outlived: 2, ..StopReport::default() });
        eventually("the strays are gone", || only(&[])).await;
        runner.close().await.unwrap();
    });
}

#[test]
fn p2_without_cgroups_strays_are_found_by_their_mark() {
    as_pid_one(|| async {
        let processes = Processes::new(Options::default()).unwrap();
        reap_on_sigchld(&processes);
        let other = processes
            .spawn(kelson_runner::Command::new("/bin/sleep").arg("999").env("KELSON_RUN", "another:web:1"))
            .await
            .unwrap();
        let script = "(setsid sh -c 'sleep 1000 & sleep 1001 &'); exec sleep 1002";
        let mut runner = ProcessRunner::new(processes, spec(script));
        runner.open().await.unwrap();
        let (running, _) = run(&mut runner, 1).await;
        eventually("the strays run", || all_processes().len() == 4).await;
        let report = runner.stop(PATIENT).await.unwrap();
        assert_eq!(report, StopReport::default());
        assert_eq!(running.exit.await, Exit::Signal { signal: libc::SIGTERM, core: false });
        eventually("only the other is left", || only(&[other.pid])).await;
        other.signal(libc::SIGKILL);
        runner.close().await.unwrap();
    });
}

#[test]
fn s3_a_stopped_process_and_a_frozen_cgroup_still_end() {
    as_pid_one(|| async {
        let processes = processes();
        let mut runner = ProcessRunner::new(
            processes.clone(),
            spec("trap 'exit 9' TERM; exec 3>&-; while :; do sleep 0.01; done"),
        );
        runner.open().await.unwrap();
        let (running, _) = run_until_ready(&mut runner, 1).await;
        // SAFETY: a child of this test.
        unsafe { libc::kill(running.pid, libc::SIGSTOP) };
        let stat = format!("/proc/{}/stat", running.pid);
        eventually("it is stopped", || std::fs::read_to_string(&stat).unwrap().contains(") T ")).await;
        let report = runner.stop(PATIENT).await.unwrap();
        assert!(!report.killed, "it was continued and ended by its signal");
        assert!(running.exit.await != Exit::Signal { signal: libc::SIGKILL, core: false });

        let (running, _) = run_until_ready(&mut runner, 2).await;
        let cgroup = processes.cgroups().unwrap().cgroup("web");
        cgroup.freeze().unwrap();
        eventually("it is frozen", || cgroup.is_frozen()).await;
        let report = runner.stop(PATIENT).await.unwrap();
        assert!(!report.killed, "it was thawed and ended by its signal");
        assert!(running.exit.await != Exit::Signal { signal: libc::SIGKILL, core: false });

        // Frozen, and deaf to its signal.
        let mut deaf = ProcessRunner::new(
            processes.clone(),
            spec("trap '' TERM; exec 3>&-; while :; do sleep 0.01; done"),
        );
        runner.close().await.unwrap();
        deaf.open().await.unwrap();
        let (running, _) = run_until_ready(&mut deaf, 1).await;
        processes.cgroups().unwrap().cgroup("web").freeze().unwrap();
        let report = deaf.stop(IMPATIENT).await.unwrap();
        let why = Some(Deaf::Ignores);
        assert_eq!(report, StopReport { killed: true, deaf: why, ..StopReport::default() });
        assert_eq!(running.exit.await, Exit::Signal { signal: libc::SIGKILL, core: false });
        deaf.close().await.unwrap();
    });
}

#[test]
fn a_stop_that_was_dropped_is_finished_by_the_next() {
    as_pid_one(|| async {
        let processes = processes();
        let mut runner = ProcessRunner::new(
            processes,
            spec("trap '' TERM; exec 3>&-; sleep 1000 & while :; do sleep 0.01; done"),
        );
        runner.open().await.unwrap();
        let (running, _) = run_until_ready(&mut runner, 1).await;
        let _ = tokio::time::timeout(Duration::from_millis(50), runner.stop(PATIENT)).await.unwrap_err();
        runner.close().await.unwrap();
        assert_eq!(running.exit.await, Exit::Signal { signal: libc::SIGKILL, core: false });
        eventually("all are gone", || only(&[])).await;
    });
}

#[test]
fn c1_what_an_earlier_life_left_is_gone_after_open() {
    as_pid_one(|| async {
        let processes = processes();
        let root = processes.cgroups().unwrap().clone();
        let old = Cgroup::create(&root, "web").unwrap();
        std::fs::create_dir_all(old.path().join("a/b")).unwrap();
        let below = root.cgroup("web/a/b");
        let command =
            kelson_runner::Command::new("/bin/sleep").arg("1000").cgroup(below.folder().unwrap(), "old");
        let child = processes.spawn(command).await.unwrap();
        assert!(old.is_populated());
        assert_eq!(old.processes(10), [child.pid]);
        let mut runner = ProcessRunner::new(processes.clone(), spec("exit 0"));
        runner.open().await.unwrap();
        assert_eq!(child.exit.await, Exit::Signal { signal: libc::SIGKILL, core: false });
        assert!(!old.path().join("a").exists());
        let (running, _) = run(&mut runner, 1).await;
        assert_eq!(running.exit.await, Exit::Status(0));
        runner.close().await.unwrap();
    });
}

#[test]
fn two_hosts_in_one_cgroup_do_not_take_each_others_services_for_left_over() {
    as_pid_one(|| async {
        let first = CgroupRoot::discover().unwrap();
        let second = CgroupRoot::discover().unwrap();
        assert!(first.path().ends_with("kelson") && first.warnings().is_empty());
        assert!(second.path().ends_with("kelson-2"), "{}", second.path().display());
        assert!(second.warnings()[0].contains("another host"), "{:?}", second.warnings());
        drop(first);
        assert!(CgroupRoot::discover().unwrap().path().ends_with("kelson"), "free again");
        std::fs::remove_dir(second.path()).unwrap();
    });
}

#[test]
fn a_run_after_one_whose_left_overs_were_killed_lives() {
    as_pid_one(|| async {
        let mut runner = ProcessRunner::new(processes(), spec("sleep 1000 & exit 7"));
        runner.open().await.unwrap();
        for number in 1..=3 {
            let (running, _) = run(&mut runner, number).await;
            assert_eq!(running.exit.await, Exit::Status(7), "run {number}");
            runner.stop(IMPATIENT).await.unwrap();
            eventually("what it left is gone", || only(&[])).await;
        }
        runner.close().await.unwrap();
    });
}

#[test]
fn a_service_of_another_user_may_open_its_output_anew() {
    as_pid_one(|| async {
        let script = "id -u; echo out >/proc/self/fd/1; echo err >/proc/self/fd/2; cat /proc/self/fd/0";
        let mut spec = ServiceSpec::process("web", ["/bin/sh", "-c", script]);
        spec.user = Some(Credentials { uid: 33, gid: 33, groups: vec![], name: "www".into(), home: None });
        let mut runner = ProcessRunner::new(processes(), Arc::new(spec));
        runner.open().await.unwrap();
        let (running, text) = run(&mut runner, 1).await;
        assert_eq!(text.await, "33\nout\nerr\n");
        assert_eq!(running.exit.await, Exit::Status(0));
        // /dev/null is nobody's.
        let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/dev/null").unwrap());
        assert_eq!(owner, 0);
        runner.stop(PATIENT).await.unwrap();
        runner.close().await.unwrap();
    });
}

#[test]
fn a_run_that_is_killed_for_memory_is_told_from_others() {
    as_pid_one(|| async {
        let processes = processes();
        if !processes.cgroups().unwrap().controllers().contains(&"memory") {
            return skip("cgroup2 has no memory controller here");
        }
        let eats = "dd if=/dev/zero of=/dev/null bs=200M count=1";
        let killed = Exit::Signal { signal: libc::SIGKILL, core: false };
        for (script, exit, out_of_memory) in [
            (format!("exec {eats}"), killed, true),
            ("kill -9 $$".to_owned(), killed, false),
            // Not the main process, and not the last run's count.
            (format!("{eats}; exit 3"), Exit::Status(3), true),
            ("exit 3".to_owned(), Exit::Status(3), false),
        ] {
            let mut spec = ServiceSpec::process("web", ["/bin/sh", "-c", script.as_str()]);
            spec.resources.memory_max = Some(32 << 20);
            let mut runner = ProcessRunner::new(processes.clone(), Arc::new(spec));
            runner.open().await.unwrap();
            for number in 1..=2 {
                let (running, _text) = run(&mut runner, number).await;
                assert_eq!(running.exit.await, exit, "{script}");
                let report = runner.stop(PATIENT).await.unwrap();
                assert_eq!(report, StopReport { out_of_memory, ..StopReport::default() }, "{script}");
            }
            // A hook after one that was killed has its own count.
            let (read, write) = pipe();
            let context = RunContext {
                command: Some(vec!["/bin/true".into()]),
                ..RunContext::new(2, write.try_clone().unwrap(), write)
            };
            let running = runner.run(context).await.unwrap();
            assert_eq!(running.exit.await, Exit::Status(0));
            drop(read);
            assert_eq!(runner.stop(PATIENT).await.unwrap(), StopReport::default(), "{script}");
            runner.close().await.unwrap();
        }
    });
}

/// A running service costs no descriptor in this process.
#[test]
fn a_running_service_keeps_no_descriptor() {
    as_pid_one(|| async {
        let processes = processes();
        let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let mut runners = Vec::new();
        let mut before = 0;
        for number in 0..20 {
            let spec = ServiceSpec::process(&format!("web-{number}"), ["/bin/sleep", "1000"]);
            let mut runner = ProcessRunner::new(processes.clone(), Arc::new(spec));
            runner.open().await.unwrap();
            let null = || std::fs::File::options().write(true).open("/dev/null").unwrap().into();
            let context = RunContext::new(1, null(), null());
            let running = runner.run(context).await.unwrap();
            if number == 0 {
                before = count();
            }
            runners.push((runner, running));
        }
        eventually("no descriptor is kept", || count() == before).await;
        for (runner, running) in &mut runners {
            assert_eq!(runner.stop(PATIENT).await.unwrap(), StopReport::default());
            assert_eq!((&mut running.exit).await, Exit::Signal { signal: libc::SIGTERM, core: false });
            runner.close().await.unwrap();
        }
        assert_eq!(count(), before);
    });
}
