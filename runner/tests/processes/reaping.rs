//! Reaping as PID 1: no status lost or mixed up, no zombie, orphans too.
use crate::pid_one::{all_processes, as_pid_one, eventually, pipe, processes, test_name};
use kelson_runner::{Command, Exit, Stdio};

/// Children that all block on one pipe end together when it is closed.
#[test]
fn p1_five_hundred_exits_at_once() {
    as_pid_one(|| async {
        let processes = processes();
        let (read, write) = pipe();
        let mut children = Vec::new();
        for number in 0..500 {
            let script = format!("read -r line; exit {}", number % 251);
            let command = Command::new("/bin/sh")
                .args(["-c", script.as_str()])
                .stdin(Stdio::Descriptor(read.try_clone().unwrap()));
            children.push((number % 251, processes.spawn(command).await.unwrap()));
        }
        drop(read);
        drop(write);
        for (status, child) in children {
            assert_eq!(child.exit.await, Exit::Status(status));
        }
        eventually("no zombie is left", || all_processes().is_empty()).await;
    });
}

/// The race that must not exist: children that end before their spawner reported them.
#[test]
fn p1_children_that_end_at_once_keep_their_status() {
    as_pid_one(|| async {
        let processes = processes();
        let mut starts = tokio::task::JoinSet::new();
        for number in 0..1000 {
            let processes = processes.clone();
            starts.spawn(async move {
                let program = if number % 2 == 0 { "/bin/true" } else { "/bin/false" };
                let child = processes.spawn(Command::new(program)).await.unwrap();
                assert_eq!(child.exit.await, Exit::Status(number % 2));
            });
        }
        while let Some(result) = starts.join_next().await {
            result.unwrap();
        }
        eventually("no zombie is left", || all_processes().is_empty()).await;
    });
}

#[test]
fn p1_signals_are_told_from_statuses() {
    as_pid_one(|| async {
        let processes = processes();
        let child = processes.spawn(Command::new("/bin/sleep").arg("1000")).await.unwrap();
        assert!(child.start_time > 0);
        child.signal(libc::SIGTERM);
        assert_eq!(child.exit.clone().await, Exit::Signal { signal: libc::SIGTERM, core: false });
        // A pidfd of an ended process reaches nobody.
        child.signal(libc::SIGKILL);
    });
}

#[test]
fn p2_orphans_are_reaped_and_counted() {
    as_pid_one(|| async {
        let processes = kelson_runner::Processes::new(kelson_runner::Options::default()).unwrap();
        // The shell ends at once; its two children are left to PID 1 and end later.
        let (read, write) = pipe();
        let command = Command::new("/bin/sh")
            .args(["-c", "(read -r a; exit 4) <&3 & (read -r a; exit 5) <&3 & exit 7"])
            .descriptor(read, 3);
        let child = processes.spawn(command).await.unwrap();
        let mut orphans = 0;
        let mut seen = Vec::new();
        let mut write = Some(write);
        eventually("all three are reaped", || {
            let report = processes.reap_recording(&mut |_, exit| seen.push(exit));
            orphans += report.orphans;
            if child.exit.exited().is_some() {
                write = None;
            }
            orphans == 2
        })
        .await;
        assert_eq!(child.exit.await, Exit::Status(7));
        assert_eq!(seen.len(), 3, "{seen:?}");
        assert!(all_processes().is_empty());
    });
}

#[test]
fn p1_a_batch_is_bounded() {
    as_pid_one(|| async {
        let processes = kelson_runner::Processes::new(kelson_runner::Options::default()).unwrap();
        let mut children = Vec::new();
        for _ in 0..300 {
            children.push(processes.spawn(Command::new("/bin/true")).await.unwrap());
        }
        let zombies = || {
            let state = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            all_processes().iter().filter(|pid| state(pid).contains(") Z ")).count()
        };
        eventually("all have ended", || zombies() == 300).await;
        let first = processes.reap();
        assert!(first.more && first.reaped < 300, "{first:?}");
        let second = processes.reap();
        assert_eq!((first.reaped + second.reaped, second.more), (300, false));
        assert_eq!(processes.reap(), kelson_runner::ReapReport::default());
    });
}

/// Container runtimes answer `clone3` with ENOSYS, as our own default profile does: this test puts itself under it.
#[test]
fn without_clone3_children_are_made_and_reaped_all_the_same() {
    const NESTED: &str = "KELSON_TEST_NESTED";
    as_pid_one(|| async {
        if std::env::var_os(NESTED).is_none() {
            // The inner process reads SIGCHLD from a signalfd as well.
            let blocked = 1 << (libc::SIGCHLD - 1);
            let options = kelson_runner::Options { signal_mask: blocked, ..Default::default() };
            let processes = kelson_runner::Processes::new(options).unwrap();
            crate::pid_one::reap_on_sigchld(&processes);
            let (read, write) = pipe();
            let exe = std::env::current_exe().unwrap();
            let command = Command::new(exe.to_str().unwrap())
                .args(["--exact", &test_name(), "--nocapture", "--test-threads=1"])
                .env("KELSON_TEST_INSIDE", test_name())
                .env(NESTED, "1")
                .stdout(Stdio::Descriptor(write.try_clone().unwrap()))
                .stderr(Stdio::Descriptor(write))
                .no_new_privileges(true)
                .seccomp(Some(processes.default_filter(0)));
            let child = processes.spawn(command).await.unwrap();
            let text = crate::pid_one::read_all(read).await;
            assert_eq!(child.exit.await, Exit::Status(0), "{text}");
            return;
        }
        let processes = processes();
        let cgroup = kelson_runner::Cgroup::create(processes.cgroups().unwrap(), "web").unwrap();
        let mut starts = tokio::task::JoinSet::new();
        for number in 0..200 {
            let (processes, folder) = (processes.clone(), cgroup.folder().unwrap());
            starts.spawn(async move {
                let program = if number % 2 == 0 { "/bin/true" } else { "/bin/false" };
                let child = processes.spawn(Command::new(program).cgroup(folder, "web")).await.unwrap();
                assert_eq!(child.exit.await, Exit::Status(number % 2));
            });
        }
        while let Some(result) = starts.join_next().await {
            result.unwrap();
        }
        let sleep = Command::new("/bin/sleep").arg("1000").cgroup(cgroup.folder().unwrap(), "web");
        let child = processes.spawn(sleep).await.unwrap();
        assert_eq!(cgroup.processes(10), [child.pid]);
        child.signal(libc::SIGKILL);
        assert_eq!(child.exit.await, Exit::Signal { signal: libc::SIGKILL, core: false });
        let error = processes.spawn(Command::new("/usr/bin/nope")).await.unwrap_err();
        assert_eq!(error.text, "/usr/bin/nope: no such file or directory");
    });
}
