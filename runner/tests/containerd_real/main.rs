//! Containers against a real containerd and runc, each test with its own in namespaces of its own.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that panics has failed, as it should"
)]

mod host;
mod inside;
#[path = "../pid_one/mod.rs"]
mod pid_one;

use std::fs;
use std::time::{Duration, Instant};

use host::*;
use kelson_runner::{Attachment, Exit, ImageConfig, Runner, Running, StopReport};
use tokio::time::{sleep, timeout};

#[test]
fn c5_one_container_a_task_each_run() {
    on_containerd(async |host| {
        let script = "echo out $GREETING; echo err >&2; echo $KELSON_RUN; read x < /count; echo x$x; echo more >> /count; exit 3";
        let mut runner = host.runner("c5", &["/bin/sh", "-c", script]);
        runner.open().await.unwrap();
        let created = host.daemon.ctr(&["containers", "info", "c5"]);
        for (run, counted) in [(1, "x\n"), (2, "xmore\n")] {
            let (context, out, err) = context(run);
            let begun = Instant::now();
            let running = runner.run(context).await.unwrap();
            eprintln!("run took {:?}", begun.elapsed());
            assert!(running.pid > 0 && running.start_time > 0);
            assert_eq!(ended(running).await, Exit::Status(3));
            assert_eq!(text(err).await.lines().next(), Some("err"));
            let out = text(out).await;
            assert!(out.starts_with(&format!("out run {run}\n")), "{out}");
            assert!(out.contains(&format!(":c5:{run}\n")) && out.ends_with(counted), "{out}");
            let begun = Instant::now();
            let report = runner.stop(KILL).await.unwrap();
            eprintln!("clear took {:?}", begun.elapsed());
            assert!(!report.killed && report.left_behind == 0);
            assert_eq!(host.daemon.ctr(&["tasks", "ls", "-q"]), "");
        }
        let born = |info: &str| info.lines().find(|line| line.contains("CreatedAt")).map(str::to_owned);
        assert_eq!(born(&host.daemon.ctr(&["containers", "info", "c5"])), born(&created));
        assert!(born(&created).is_some());
        runner.close().await.unwrap();
        nothing_is_left(&host);
    });
}

#[test]
fn c5_a_hook_is_a_task_of_the_same_container() {
    on_containerd(async |host| {
        let script =
            "echo $0 $GREETING $KELSON_SERVICE; busybox id -u; pwd; echo $0 >> /done; busybox cat /done";
        let main: [&str; 4] = ["/bin/sh", "-c", script, "main"];
        let image = ImageConfig { uid: 0, working_directory: "/proc".into(), ..ImageConfig::default() };
        let mut runner = host.runner_of("c5-hook", &main, image);
        runner.open().await.unwrap();
        let mut done = String::new();
        for name in ["before", "main", "after"] {
            let (mut context, out, _err) = context(1);
            if name != "main" {
                context.command = Some(["sh", "-c", script, name].map(str::to_owned).to_vec());
            }
            let running = runner.run(context).await.unwrap();
            assert_eq!(ended(running).await, Exit::Status(0));
            done.push_str(name);
            done.push('\n');
            assert_eq!(text(out).await, format!("{name} run 1 c5-hook\n0\n/proc\n{done}"));
            let begun = Instant::now();
            assert_eq!(runner.stop(KILL).await.unwrap(), StopReport::default());
            eprintln!("clear after {name} took {:?}", begun.elapsed());
            assert_eq!(host.daemon.ctr(&["tasks", "ls", "-q"]), "");
        }
        // One that hangs is stopped as any run is.
        let (mut context, out, _err) = context(1);
        let deaf = "trap '' TERM; echo up; while :; do busybox sleep 1000; done";
        context.command = Some(["/bin/sh", "-c", deaf].map(str::to_owned).to_vec());
        let running = runner.run(context).await.unwrap();
        let _out = until(out, "up").await;
        assert!(runner.stop(HASTY).await.unwrap().killed);
        assert_eq!(ended(running).await, Exit::Signal { signal: 9, core: false });
        runner.close().await.unwrap();
        nothing_is_left(&host);
    });
}

#[test]
fn c4_containerd_dies_and_comes_back() {
    on_containerd(async |mut host| {
        let mut runner = host.runner(
            "c4",
            &["/bin/sh", "-c", "trap 'exit 7' TERM; echo up; while :; do busybox sleep 0.1; done"],
        );
        runner.open().await.unwrap();
        let (context, out, _err) = context(1);
        let Running { pid, mut exit, .. } = runner.run(context).await.unwrap();
        let _out = until(out, "up").await;
        let root = host.processes.cgroups().unwrap().path().to_owned();
        let members = |name: &str| fs::read_to_string(root.join(name).join("cgroup.procs")).unwrap();
        assert!(members("c4").lines().any(|line| line == pid.to_string()), "{}", members("c4"));
        assert!(!members("shims/c4").is_empty());
        host.daemon.kill();
        assert!(timeout(Duration::from_secs(2), &mut exit).await.is_err(), "no exit");
        host.daemon.restart();
        host.daemon.up().await;
        assert!(timeout(Duration::from_secs(3), &mut exit).await.is_err(), "no exit");
        assert!(host.daemon.ctr(&["tasks", "ls"]).contains(&pid.to_string()));
        let begun = Instant::now();
        let report = runner.stop(GENTLE).await.unwrap();
        assert!(!report.killed && begun.elapsed() < Duration::from_secs(4), "{report:?}");
        assert_eq!(exit.await, Exit::Status(7));
        runner.close().await.unwrap();
        nothing_is_left(&host);
    });
}

#[test]
fn c4_containerd_dies_while_it_makes_a_task() {
    on_containerd(async |mut host| {
        let mut runner = host.runner("half", &["/bin/busybox", "sleep", "1000"]);
        let shims = host.processes.cgroups().unwrap().path().join("shims/half/cgroup.kill");
        for milliseconds in (4..=60).step_by(4) {
            runner.open().await.unwrap();
            let (context, _out, _err) = context(1);
            let daemon = &mut host.daemon;
            let death = async {
                sleep(Duration::from_millis(milliseconds)).await;
                daemon.kill();
                // A shim that died before it had its task leaves a folder that the next containerd cannot remove.
                if milliseconds % 8 == 0 {
                    fs::write(&shims, "1").unwrap();
                }
                daemon.restart();
            };
            let (running, ()) = tokio::join!(runner.run(context), death);
            let running = running.unwrap_or_else(|error| panic!("after {milliseconds} ms: {error}"));
            host.daemon.up().await;
            runner.stop(KILL).await.unwrap();
            assert_eq!(ended(running).await, Exit::Signal { signal: 9, core: false });
            runner.close().await.unwrap();
            nothing_is_left(&host);
        }
    });
}

#[test]
fn c4_a_stop_needs_no_containerd() {
    on_containerd(async |mut host| {
        let mut runner = host.runner(
            "stopper",
            &["/bin/sh", "-c", "trap 'exit 7' TERM; echo up; while :; do busybox sleep 0.1; done"],
        );
        for (run, death) in [(1, libc::SIGKILL), (2, libc::SIGSTOP)] {
            runner.open().await.unwrap();
            let (context, out, _err) = context(run);
            let running = runner.run(context).await.unwrap();
            let _out = until(out, "up").await;
            host.daemon.signal(death);
            let begun = Instant::now();
            let report = runner.stop(GENTLE).await.unwrap();
            eprintln!("stop without containerd took {:?}", begun.elapsed());
            assert!(!report.killed && begun.elapsed() < Duration::from_secs(8), "{report:?}");
            if death == libc::SIGKILL {
                host.daemon.child.wait().unwrap();
                let begun = Instant::now();
                let error = runner.close().await.unwrap_err();
                assert!(begun.elapsed() < Duration::from_secs(5), "{error}");
                eprintln!("{error}");
                host.daemon.restart();
                host.daemon.up().await;
            } else {
                host.daemon.signal(libc::SIGCONT);
                assert!(matches!(ended(running).await, Exit::Status(7)));
            }
        }
        runner.close().await.unwrap();
        nothing_is_left(&host);
    });
}

#[test]
fn s2_one_that_ignores_its_signal_is_killed_with_all_its_children() {
    on_containerd(async |host| {
        let script =
            "trap '' TERM; busybox setsid busybox sleep 1000 & echo up; while :; do busybox sleep 1000; done";
        let mut runner = host.runner("s2", &["/bin/sh", "-c", script]);
        runner.open().await.unwrap();
        let (context, out, _err) = context(1);
        let running = runner.run(context).await.unwrap();
        let _out = until(out, "up").await;
        let report = runner.stop(HASTY).await.unwrap();
        assert!(report.killed && report.left_behind == 0);
        assert_eq!(ended(running).await, Exit::Signal { signal: 9, core: false });
        runner.close().await.unwrap();
        nothing_is_left(&host);
    });
}

#[test]
fn s3_a_frozen_container_is_thawed_and_a_shim_that_hangs_holds_nothing_up() {
    on_containerd(async |host| {
        let mut runner = host.runner(
            "s3",
            &["/bin/sh", "-c", "trap 'exit 7' TERM; echo up; while :; do busybox sleep 0.1; done"],
        );
        runner.open().await.unwrap();
        let (first, out, _err) = context(1);
        let running = runner.run(first).await.unwrap();
        let _out = until(out, "up").await;
        let root = host.processes.cgroups().unwrap().path().to_owned();
        fs::write(root.join("s3/cgroup.freeze"), "1").unwrap();
        assert!(!runner.stop(GENTLE).await.unwrap().killed);
        assert_eq!(ended(running).await, Exit::Status(7));

        let (second, out, _err) = context(2);
        let running = runner.run(second).await.unwrap();
        let _out = until(out, "up").await;
        let shim: i32 = fs::read_to_string(root.join("shims/s3/cgroup.procs"))
            .unwrap()
            .lines()
            .next()
            .unwrap()
            .parse()
            .unwrap();
        // SAFETY: numbers, of the shim that the test's own containerd made.
        unsafe { libc::kill(shim, libc::SIGSTOP) };
        let begun = Instant::now();
        let report = runner.stop(HASTY).await.unwrap();
        eprintln!("stop with a hung shim took {:?}, {report:?}", begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(10));
        let begun = Instant::now();
        let error = runner.close().await.unwrap_err();
        eprintln!("close with a hung shim took {:?}: {error}", begun.elapsed());
        assert!(begun.elapsed() < Duration::from_secs(30));
        // SAFETY: as above; it was never killed.
        unsafe { libc::kill(shim, libc::SIGCONT) };
        drop(running);
        runner.open().await.unwrap();
        runner.close().await.unwrap();
        nothing_is_left(&host);
    });
}

#[test]
fn c1_leftovers_of_an_earlier_life_are_gone() {
    on_containerd(async |host| {
        let mut first = host.runner("c1", &["/bin/busybox", "sleep", "1000"]);
        first.open().await.unwrap();
        let (one, _out, _err) = context(1);
        let running = first.run(one).await.unwrap();
        // PID 1 died here.
        std::mem::forget(first);
        let mut second = host.runner("c1", &["/bin/sh", "-c", "echo second"]);
        second.open().await.unwrap();
        assert_eq!(host.daemon.ctr(&["tasks", "ls", "-q"]), "");
        assert!(matches!(ended(running).await, Exit::Signal { signal: 9, .. }));
        let (two, out, _err) = context(2);
        let running = second.run(two).await.unwrap();
        assert_eq!(ended(running).await, Exit::Status(0));
        assert_eq!(text(out).await, "second\n");
        second.stop(KILL).await.unwrap();
        // Only some of it is left.
        host.daemon.ctr(&["containers", "rm", "--keep-snapshot", "c1"]);
        let mut third = host.runner("c1", &["/bin/busybox", "true"]);
        third.open().await.unwrap();
        third.close().await.unwrap();
        nothing_is_left(&host);
    });
}

#[test]
fn c4_a_next_life_takes_a_container_up() {
    on_containerd(async |mut host| {
        let script = "trap 'exit 7' TERM; echo up $KELSON_RUN; while :; do busybox sleep 0.1; done";
        let image = ImageConfig { working_directory: "/proc".into(), ..ImageConfig::default() };
        for containerd_dies in [false, true] {
            let mut first = host.runner_of("c4-life", &["/bin/sh", "-c", script], image.clone());
            first.open().await.unwrap();
            let (one, out, _err) = context(1);
            let Running { pid, start_time, .. } = first.run(one).await.unwrap();
            let _out = until(out, "up").await;
            drop(first);
            if containerd_dies {
                host.daemon.kill();
            }
            // It is not told of the image again.
            let mut second = host.runner("c4-life", &["/bin/sh", "-c", script]);
            let kept = Attachment { run: 1, pid, start_time, opened: true };
            let mut running = second.attach(kept).await.unwrap().unwrap();
            assert_eq!((running.pid, running.start_time), (pid, start_time));
            assert!(timeout(Duration::from_millis(500), &mut running.exit).await.is_err(), "no exit");
            if containerd_dies {
                host.daemon.restart();
                host.daemon.up().await;
            }
            assert!(!second.stop(GENTLE).await.unwrap().killed);
            assert_eq!(ended(running).await, Exit::Status(7));
            let (mut two, out, _err) = context(2);
            two.command = Some(["busybox", "pwd"].map(str::to_owned).to_vec());
            let running = second.run(two).await.unwrap();
            assert_eq!((ended(running).await, text(out).await.as_str()), (Exit::Status(0), "/proc\n"));
            second.stop(KILL).await.unwrap();
            second.close().await.unwrap();
            nothing_is_left(&host);
        }
    });
}

#[test]
fn v5_a_container_that_ended_between_two_lives_is_told_of() {
    on_containerd(async |host| {
        let mut first = host.runner("v5-late", &["/bin/sh", "-c", "busybox sleep 0.3; exit 9"]);
        first.open().await.unwrap();
        let (one, out, err) = context(1);
        let Running { pid, start_time, .. } = first.run(one).await.unwrap();
        drop(first);
        // The end of its output is its end, and its shim's hold on the pipes.
        text(out).await;
        text(err).await;
        let begun = Instant::now();
        while fs::exists(format!("/proc/{pid}")).unwrap() {
            assert!(begun.elapsed() < Duration::from_secs(10));
            sleep(Duration::from_millis(10)).await;
        }
        let mut second = host.runner("v5-late", &["/bin/busybox", "true"]);
        let kept = Attachment { run: 1, pid, start_time, opened: true };
        let running = second.attach(kept).await.unwrap().unwrap();
        assert_eq!(ended(running).await, Exit::Status(9));
        second.stop(KILL).await.unwrap();
        second.close().await.unwrap();
        nothing_is_left(&host);
        // A container that was only opened is known again.
        let mut first = host.runner("v5-late", &["/bin/busybox", "true"]);
        first.open().await.unwrap();
        drop(first);
        let mut second = host.runner("v5-late", &["/bin/busybox", "true"]);
        let kept = Attachment { run: 0, pid: 0, start_time: 0, opened: true };
        assert!(second.attach(kept).await.unwrap().is_none());
        let running = second.run(context(1).0).await.unwrap();
        assert_eq!(ended(running).await, Exit::Status(0));
        second.stop(KILL).await.unwrap();
        second.close().await.unwrap();
        nothing_is_left(&host);
    });
}

#[test]
fn a_command_that_is_missing_is_named() {
    on_containerd(async |host| {
        let mut runner = host.runner("missing", &["/bin/nope", "x"]);
        runner.open().await.unwrap();
        let error = runner.run(context(1).0).await.map(|_| ()).unwrap_err();
        assert_eq!(
            error.message,
            "cannot start the container of service missing: the image has no command /bin/nope"
        );
        runner.stop(KILL).await.unwrap();
        runner.close().await.unwrap();
        nothing_is_left(&host);
    });
}

#[test]
fn exits_are_what_they_are() {
    on_containerd(async |host| {
        for (script, expected) in [
            ("exit 0", Exit::Status(0)),
            ("exit 3", Exit::Status(3)),
            ("busybox sleep 0.2; exit 4", Exit::Status(4)),
        ] {
            let mut runner = host.runner("exits", &["/bin/sh", "-c", script]);
            runner.open().await.unwrap();
            let running = runner.run(context(1).0).await.unwrap();
            assert_eq!(ended(running).await, expected, "{script}");
            runner.stop(KILL).await.unwrap();
            runner.close().await.unwrap();
        }
        let mut runner = host.runner("exits", &["/bin/busybox", "sleep", "1000"]);
        runner.open().await.unwrap();
        let running = runner.run(context(1).0).await.unwrap();
        // SAFETY: numbers, of the container's process.
        unsafe { libc::kill(running.pid, libc::SIGKILL) };
        assert_eq!(ended(running).await, Exit::Signal { signal: 9, core: false });
        runner.stop(KILL).await.unwrap();
        runner.close().await.unwrap();
        nothing_is_left(&host);
    });
}

#[test]
fn g3_a_start_that_is_given_up_leaves_nothing() {
    on_containerd(async |host| {
        let mut runner = host.runner("g3", &["/bin/busybox", "sleep", "1000"]);
        for milliseconds in [0, 1, 3, 10, 20, 30, 40, 60, 100] {
            runner.open().await.unwrap();
            let run = runner.run(context(1).0);
            let _ = timeout(Duration::from_millis(milliseconds), run).await;
            let begun = Instant::now();
            runner.stop(KILL).await.unwrap();
            eprintln!("given up after {milliseconds} ms, stopped in {:?}", begun.elapsed());
            runner.close().await.unwrap();
            nothing_is_left(&host);
            for milliseconds in [0, 1, 2, 4] {
                let _ = timeout(Duration::from_millis(milliseconds), runner.open()).await;
                runner.close().await.unwrap();
                nothing_is_left(&host);
            }
        }
    });
}
