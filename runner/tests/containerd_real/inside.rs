//! A container from within, and commands that run there.

use std::fs;
use std::io::Write;
use std::time::{Duration, Instant};

use kelson_runner::{
    ContainerExecutor, ExecRequest, Executor, Exit, ImageConfig, Runner, Running, WindowSize,
};
use kelson_spec::service::{ContainerDevice, ContainerMount, ContainerNetwork, ResourceLimit};
use tokio::time::{sleep, timeout};

use crate::host::*;

#[test]
fn h4_commands_run_inside() {
    on_containerd(async |host| {
        let image = ImageConfig { uid: 33, gid: 34, groups: vec![35], ..ImageConfig::default() };
        let mut runner = host.runner_of("exec", &["/bin/sh", "-c", "busybox sleep 1000; exit 1"], image);
        runner.open().await.unwrap();
        let Running { pid, start_time, .. } = runner.run(context(1).0).await.unwrap();
        let executor = ContainerExecutor::new(host.containerd.clone(), "exec", pid, start_time);
        let sh = |script: &str| ExecRequest {
            command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            environment: vec![("EXTRA".into(), "extra".into())],
            ..ExecRequest::default()
        };

        let begun = Instant::now();
        let command =
            executor.exec(sh("echo $GREETING $EXTRA; busybox id; echo bad >&2; exit 5")).await.unwrap();
        eprintln!("exec took {:?}", begun.elapsed());
        let root = host.processes.cgroups().unwrap().path().to_owned();
        let shims = fs::read_to_string(root.join("shims/exec/cgroup.procs")).unwrap();
        assert!(!shims.is_empty());
        assert_eq!(timeout(Duration::from_secs(10), command.exit).await.unwrap(), Exit::Status(5));
        assert_eq!(text(fs::File::from(command.output)).await, "run 1 extra\nuid=33 gid=34 groups=35\n");
        assert_eq!(text(fs::File::from(command.errors.unwrap())).await, "bad\n");

        // Input reaches it, and its end does.
        let (output, theirs) = nix::unistd::pipe().unwrap();
        let (errors, of_errors) = nix::unistd::pipe().unwrap();
        let outputs = Some(std::sync::Arc::new((theirs, of_errors)));
        let command = executor.exec(ExecRequest { outputs, ..sh("echo said; echo wrong >&2; exit 2") }).await;
        assert_eq!(command.unwrap().exit.await, Exit::Status(2));
        let read =
            |end| tokio::task::spawn_blocking(|| std::io::read_to_string(fs::File::from(end)).unwrap());
        assert_eq!(
            (read(output).await.unwrap(), read(errors).await.unwrap()),
            ("said\n".into(), "wrong\n".into())
        );
        let command = executor.exec(ExecRequest { input: true, ..sh("busybox cat; exit 6") }).await.unwrap();
        let mut input = fs::File::from(command.input.unwrap());
        input.write_all(b"hello\n").unwrap();
        drop(input);
        assert_eq!(timeout(Duration::from_secs(10), command.exit).await.unwrap(), Exit::Status(6));
        assert_eq!(text(fs::File::from(command.output)).await, "hello\n");

        // A terminal, with its size, and the interrupt of a key.
        let terminal = Some(WindowSize { rows: 33, columns: 99 });
        let command = executor
            .exec(ExecRequest {
                terminal,
                input: true,
                ..sh("busybox stty size; read x; busybox stty size; read x; echo never")
            })
            .await
            .unwrap();
        let mut input = fs::File::from(command.input.unwrap());
        let output = until(fs::File::from(command.output), "33 99\r\n").await;
        assert!(command.errors.is_none());
        command.control.resize(WindowSize { rows: 40, columns: 120 });
        // The size goes its own way to the terminal; ask until it is there.
        sleep(Duration::from_millis(300)).await;
        input.write_all(b"x\n").unwrap();
        let _output = until(output, "40 120\r\n").await;
        drop(input);
        let mut exit = command.exit;
        assert!(timeout(Duration::from_millis(300), &mut exit).await.is_err(), "it has its terminal yet");
        command.control.signal(libc::SIGHUP);
        assert_eq!(
            timeout(Duration::from_secs(10), exit).await.unwrap(),
            Exit::Signal { signal: 1, core: false }
        );

        // Killed with its children; a missing one; a start that is given up.
        let command = executor.exec(sh("busybox sleep 1000 & busybox sleep 1000; exit 0")).await.unwrap();
        let members = || fs::read_to_string(root.join("exec/cgroup.procs")).unwrap().lines().count();
        command.control.kill();
        assert_eq!(
            timeout(Duration::from_secs(10), command.exit).await.unwrap(),
            Exit::Signal { signal: 9, core: false }
        );
        let error = executor
            .exec(ExecRequest { command: vec!["nope".into()], ..ExecRequest::default() })
            .await
            .map(|_| ())
            .unwrap_err();
        assert_eq!(error.message, "cannot run a command in service exec: the image has no command nope");
        for milliseconds in [1, 5, 10, 20, 40] {
            let _ = timeout(Duration::from_millis(milliseconds), executor.exec(sh("busybox sleep 1000")))
                .await
                .map(|command| {
                    command.unwrap().control.kill();
                });
        }
        let begun = Instant::now();
        while members() > 2 {
            assert!(begun.elapsed() < Duration::from_secs(10), "{} are left", members());
            sleep(Duration::from_millis(20)).await;
        }
        runner.stop(KILL).await.unwrap();
        let error = executor.exec(sh("exit 0")).await.map(|_| ()).unwrap_err();
        assert_eq!(error.message, "service exec does not run any more");
        runner.close().await.unwrap();
        nothing_is_left(&host);
    });
}

#[test]
fn the_specification_holds_inside() {
    on_containerd(async |host| {
        let script = "busybox grep -E 'CapBnd|CapEff|NoNewPrivs|Seccomp:' /proc/self/status; ulimit -n; \
            busybox touch /x; busybox unshare -m true; busybox ls /sys/class/net; busybox ls /dev; \
            busybox cat /etc/hosts; busybox df /mem | busybox tail -1; busybox cat /proc/self/cgroup; \
            busybox hostname; pwd; echo $HOME; busybox cat /proc/self/oom_score_adj; echo x > /dev/sink; echo $$";
        let image = ImageConfig {
            home: Some("/home".into()),
            host_files: vec!["/etc/hosts".into()],
            ..ImageConfig::default()
        };
        let plain = output_of(&host, script, image.clone(), |_, _| ()).await;
        assert!(plain.contains("CapBnd:\t00000000a80425fb") && plain.contains("CapEff:\t00000000a80425fb"));
        assert!(plain.contains("NoNewPrivs:\t1") && plain.contains("Seccomp:\t2"));
        assert!(!plain.contains("/x: Read-only"));
        let strict = output_of(&host, script, ImageConfig { uid: 5, gid: 6, ..image }, |spec, container| {
            spec.security.read_only_root = true;
            spec.security.ambient = 1 << 10;
            spec.limits = vec![ResourceLimit { resource: 7, soft: 100, hard: 200 }];
            spec.resources.memory_max = Some(64 << 20);
            container.network = ContainerNetwork::None;
            container.working_directory = Some("/mem".into());
            container.mounts.push(ContainerMount {
                source: "tmpfs".into(),
                target: "/mem".into(),
                options: vec!["size=1048576".into()],
                ..ContainerMount::default()
            });
            container.devices = vec![ContainerDevice {
                source: "/dev/null".into(),
                target: "/dev/sink".into(),
                permissions: "rw".into(),
            }];
        })
        .await;
        assert!(strict.contains("CapEff:\t0000000000000400"));
        assert!(strict.contains("/x: Read-only file system"));
        assert!(strict.contains("\n100\n") && strict.contains("\nlo\n") && strict.contains("\nsink\n"));
        assert!(strict.contains(" 1024 ") && strict.contains("\ninside\n/mem\n/home\n"));
        assert!(strict.contains("/home\n0\n1\n") && strict.ends_with("exited with status 0"));
    });
}

#[test]
fn it_says_that_it_is_ready_through_its_socket() {
    on_containerd(async |host| {
        let path = host.daemon.dir.join("notify.sock");
        let socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let image = ImageConfig { uid: 5, gid: 6, ..ImageConfig::default() };
        let script =
            "echo READY=1 | busybox nc local:$NOTIFY_SOCKET; busybox stat -c '%u %g %F' $NOTIFY_SOCKET";
        let mut runner = host.runner_of("notify", &["/bin/sh", "-c", script], image);
        runner.open().await.unwrap();
        let (mut context, out, _err) = context(1);
        context.environment.push(("NOTIFY_SOCKET".into(), path.display().to_string()));
        let running = runner.run(context).await.unwrap();
        assert_eq!(ended(running).await, Exit::Status(0));
        assert_eq!(text(out).await, "5 6 socket\n");
        drop(socket);
        runner.stop(KILL).await.unwrap();
        runner.close().await.unwrap();
        nothing_is_left(&host);
    });
}
