//! Containers against a real containerd and runc: skipped unless `KELSON_CONTAINERD_BIN` names the folder that holds
//! them. Run it as root in namespaces of its own, with a writable cgroup2 at `/sys/fs/cgroup` and the temporary folder
//! on a file system that overlayfs takes:
//!
//! `unshare --pid --fork --mount --mount-proc`, mount cgroup2 and a tmpfs, then this, one test at a time.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, as it should")]

use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kelson_runner::{
    BoxFuture, CgroupRoot, ContainerExecutor, ContainerRunner, Containerd, ExecRequest, Executor, Exit,
    ImageConfig, Images, Options, Processes, RunContext, Runner, RunnerError, Running, StopPlan, WindowSize,
};
use kelson_spec::ServiceSpec;
use kelson_spec::service::{
    ContainerDevice, ContainerMount, ContainerNetwork, ContainerSpec, ResourceLimit, Workload,
};
use tokio::time::{sleep, timeout};

/// A containerd of the test's own.
struct Daemon {
    bin: PathBuf,
    dir: PathBuf,
    child: Child,
}

impl Daemon {
    fn start(name: &str) -> Option<Daemon> {
        let bin = PathBuf::from(std::env::var_os("KELSON_CONTAINERD_BIN")?);
        let dir = std::env::temp_dir().join(format!("kc-{name}"));
        fs::create_dir_all(dir.join("containerd")).unwrap();
        let at = dir.display();
        let plugins = ["io.containerd.grpc.v1.cri", "io.containerd.snapshotter.v1.zfs"];
        let config = format!(
            "version = 2\nroot = \"{at}/root\"\nstate = \"{at}/state\"\ndisabled_plugins = {plugins:?}\n\
             [grpc]\naddress = \"{at}/containerd/containerd.sock\"\n"
        );
        fs::write(dir.join("config.toml"), config).unwrap();
        let child = Daemon::spawn(&bin, &dir);
        Some(Daemon { bin, dir, child })
    }

    fn spawn(bin: &Path, dir: &Path) -> Child {
        let log = fs::File::options().create(true).append(true).open(dir.join("log")).unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        Command::new(bin.join("containerd"))
            .arg("--config")
            .arg(dir.join("config.toml"))
            .env("PATH", path)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn signal(&self, signal: i32) {
        // SAFETY: numbers, of a child that is ours.
        unsafe { libc::kill(i32::try_from(self.child.id()).unwrap(), signal) };
    }

    fn restart(&mut self) {
        self.child = Daemon::spawn(&self.bin, &self.dir);
    }

    async fn up(&self) -> Containerd {
        let containerd = Containerd::below(&self.dir);
        let begun = Instant::now();
        while let Err(error) = containerd.health().await {
            assert!(begun.elapsed() < Duration::from_secs(20), "{error}");
            sleep(Duration::from_millis(20)).await;
        }
        containerd
    }

    fn ctr(&self, arguments: &[&str]) -> String {
        let output = Command::new(self.bin.join("ctr"))
            .arg("-a")
            .arg(self.dir.join("containerd/containerd.sock"))
            .args(["-n", "kelson"])
            .args(arguments)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An image without layers; the program is mounted into it.
struct Empty(ImageConfig);

impl Images for Empty {
    fn prepare<'a>(
        &'a self,
        _: &'a str,
        image: &'a str,
        _: Option<&'a str>,
    ) -> BoxFuture<'a, Result<ImageConfig, RunnerError>> {
        let config =
            ImageConfig { image: image.to_owned(), snapshotter: "overlayfs".into(), ..self.0.clone() };
        Box::pin(std::future::ready(Ok(config)))
    }
}

struct Host {
    daemon: Daemon,
    containerd: Containerd,
    processes: Processes,
}

impl Host {
    async fn new(name: &str) -> Option<Host> {
        let daemon = Daemon::start(name)?;
        let containerd = daemon.up().await;
        // Of its own, so that what one test leaves does not fail the next.
        let own = PathBuf::from(format!("/sys/fs/cgroup/{name}"));
        fs::create_dir_all(&own).unwrap();
        let options = Options { cgroups: Some(CgroupRoot::below(&own).unwrap()), ..Options::default() };
        Some(Host { daemon, containerd, processes: Processes::new(options).unwrap() })
    }

    fn runner(&self, name: &str, command: &[&str]) -> ContainerRunner {
        self.runner_of(name, command, ImageConfig::default())
    }

    fn runner_of(&self, name: &str, command: &[&str], image: ImageConfig) -> ContainerRunner {
        self.runner_with(name, command, image, |_, _| ())
    }

    fn runner_with(
        &self,
        name: &str,
        command: &[&str],
        image: ImageConfig,
        change: impl FnOnce(&mut ServiceSpec, &mut ContainerSpec),
    ) -> ContainerRunner {
        let mut container = ContainerSpec::new("test/busybox:1");
        container.command = command.iter().map(|word| (*word).to_owned()).collect();
        container.mounts = ["/bin/sh", "/bin/busybox"]
            .map(|target| ContainerMount {
                source: "/usr/bin/busybox".into(),
                target: target.into(),
                options: vec!["ro".into()],
            })
            .to_vec();
        let mut spec = ServiceSpec::process(name, ["x"]);
        change(&mut spec, &mut container);
        spec.workload = Workload::Container(container);
        ContainerRunner::new(
            self.containerd.clone(),
            self.processes.clone(),
            Arc::new(Empty(image)),
            Arc::new(spec),
            Arc::from(self.daemon.dir.as_path()),
        )
    }
}

fn pipe() -> (fs::File, OwnedFd) {
    let (read, write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
    (read.into(), write)
}

/// A run's context, and the read ends of its output and errors.
fn context(run: u64) -> (RunContext, fs::File, fs::File) {
    let ((out, stdout), (err, stderr)) = (pipe(), pipe());
    let environment = vec![("GREETING".to_owned(), format!("run {run}"))];
    (RunContext { run, stdout, stderr, environment, descriptors: Vec::new() }, out, err)
}

async fn text(mut file: fs::File) -> String {
    tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        text
    })
    .await
    .unwrap()
}

/// Reads until the text has come.
async fn until(mut file: fs::File, wanted: &'static str) -> fs::File {
    let read = tokio::task::spawn_blocking(move || {
        let (mut text, mut byte) = (String::new(), [0u8; 1]);
        while !text.contains(wanted) {
            assert_eq!(file.read(&mut byte).unwrap(), 1, "it ended after: {text}");
            text.push(char::from(byte[0]));
        }
        file
    });
    timeout(Duration::from_secs(20), read).await.unwrap().unwrap()
}

const GENTLE: StopPlan = StopPlan { signal: libc::SIGTERM, timeout: Duration::from_secs(5) };
const HASTY: StopPlan = StopPlan { signal: libc::SIGTERM, timeout: Duration::from_millis(500) };
const KILL: StopPlan = StopPlan { signal: libc::SIGKILL, timeout: Duration::ZERO };

async fn ended(running: Running) -> Exit {
    timeout(Duration::from_secs(40), running.exit).await.unwrap()
}

#[tokio::test]
async fn c5_one_container_a_task_each_run() {
    let Some(host) = Host::new("c5").await else { return };
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
}

fn nothing_is_left(host: &Host) {
    assert_eq!(host.daemon.ctr(&["tasks", "ls", "-q"]), "");
    assert_eq!(host.daemon.ctr(&["containers", "ls", "-q"]), "");
    assert_eq!(host.daemon.ctr(&["snapshots", "ls"]).lines().count(), 1);
    assert_eq!(host.daemon.ctr(&["leases", "ls", "-q"]), "");
    let root = host.processes.cgroups().unwrap().path().to_owned();
    let left: Vec<PathBuf> = fs::read_dir(&root)
        .unwrap()
        .chain(fs::read_dir(root.join("shims")).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir() && !path.ends_with("shims") && !path.ends_with("_init"))
        .collect();
    assert_eq!(left, Vec::<PathBuf>::new());
}

#[tokio::test]
async fn c4_containerd_dies_and_comes_back() {
    let Some(mut host) = Host::new("c4").await else { return };
    let mut runner = host
        .runner("c4", &["/bin/sh", "-c", "trap 'exit 7' TERM; echo up; while :; do busybox sleep 0.1; done"]);
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
}

#[tokio::test]
async fn c4_a_stop_needs_no_containerd() {
    let Some(mut host) = Host::new("c4-stop").await else { return };
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
}

#[tokio::test]
async fn s2_one_that_ignores_its_signal_is_killed_with_all_its_children() {
    let Some(host) = Host::new("s2").await else { return };
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
}

#[tokio::test]
async fn s3_a_frozen_container_is_thawed_and_a_shim_that_hangs_holds_nothing_up() {
    let Some(host) = Host::new("s3").await else { return };
    let mut runner = host
        .runner("s3", &["/bin/sh", "-c", "trap 'exit 7' TERM; echo up; while :; do busybox sleep 0.1; done"]);
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
}

#[tokio::test]
async fn c1_leftovers_of_an_earlier_life_are_gone() {
    let Some(host) = Host::new("c1").await else { return };
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
}

#[tokio::test]
async fn a_command_that_is_missing_is_named() {
    let Some(host) = Host::new("missing").await else { return };
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
}

#[tokio::test]
async fn exits_are_what_they_are() {
    let Some(host) = Host::new("exits").await else { return };
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
}

#[tokio::test]
async fn g3_a_start_that_is_given_up_leaves_nothing() {
    let Some(host) = Host::new("g3").await else { return };
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
}

#[tokio::test]
async fn h4_commands_run_inside() {
    let Some(host) = Host::new("exec").await else { return };
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
    let command = executor.exec(sh("echo $GREETING $EXTRA; busybox id; echo bad >&2; exit 5")).await.unwrap();
    eprintln!("exec took {:?}", begun.elapsed());
    let root = host.processes.cgroups().unwrap().path().to_owned();
    let shims = fs::read_to_string(root.join("shims/exec/cgroup.procs")).unwrap();
    assert!(!shims.is_empty());
    assert_eq!(timeout(Duration::from_secs(10), command.exit).await.unwrap(), Exit::Status(5));
    assert_eq!(text(fs::File::from(command.output)).await, "run 1 extra\nuid=33 gid=34 groups=35\n");
    assert_eq!(text(fs::File::from(command.errors.unwrap())).await, "bad\n");

    // Input reaches it, and its end does.
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
}

/// Runs a script, and returns what it wrote.
async fn output_of(
    host: &Host,
    script: &str,
    image: ImageConfig,
    change: impl FnOnce(&mut ServiceSpec, &mut ContainerSpec),
) -> String {
    let mut runner = host.runner_with("inside", &["/bin/sh", "-c", script], image, change);
    runner.open().await.unwrap();
    let (context, out, err) = context(1);
    let running = runner.run(context).await.unwrap();
    let exit = ended(running).await;
    let output = format!("{}{}{exit}", text(out).await, text(err).await);
    runner.stop(KILL).await.unwrap();
    runner.close().await.unwrap();
    nothing_is_left(host);
    output
}

#[tokio::test]
async fn the_specification_holds_inside() {
    let Some(host) = Host::new("inside").await else { return };
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
}

#[tokio::test]
async fn it_says_that_it_is_ready_through_its_socket() {
    let Some(host) = Host::new("notify").await else { return };
    let path = host.daemon.dir.join("notify.sock");
    let socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let image = ImageConfig { uid: 5, gid: 6, ..ImageConfig::default() };
    let script = "echo READY=1 | busybox nc local:$NOTIFY_SOCKET; busybox stat -c '%u %g %F' $NOTIFY_SOCKET";
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
}
