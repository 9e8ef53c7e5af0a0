//! A containerd of the test's own, and services to run on it.

use std::fs;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kelson_runner::{
    BoxFuture, CgroupRoot, ContainerRunner, Containerd, Exit, ImageConfig, Images, Options, Processes,
    RunContext, Runner, RunnerError, Running, StopPlan,
};
use kelson_spec::ServiceSpec;
use kelson_spec::service::{ContainerMount, ContainerSpec, Workload};
use kelson_tests::containers;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use tokio::time::{sleep, timeout};

use crate::pid_one::as_pid_one_of;

/// A containerd of the test's own.
pub struct Daemon {
    bin: PathBuf,
    pub dir: PathBuf,
    pub child: Child,
}

impl Daemon {
    fn start(bin: PathBuf, dir: PathBuf) -> Daemon {
        fs::create_dir_all(dir.join("containerd")).unwrap();
        let at = dir.display();
        let plugins = ["io.containerd.grpc.v1.cri", "io.containerd.snapshotter.v1.zfs"];
        let state = Containerd::state_folder(&dir);
        let config = format!(
            "version = 2\nroot = \"{at}/root\"\nstate = {state:?}\ndisabled_plugins = {plugins:?}\n\
             [grpc]\naddress = \"{at}/containerd/containerd.sock\"\n"
        );
        fs::write(dir.join("config.toml"), config).unwrap();
        let child = Daemon::spawn(&bin, &dir);
        Daemon { bin, dir, child }
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

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: numbers, of a child that is ours.
        unsafe { libc::kill(i32::try_from(self.child.id()).unwrap(), signal) };
    }

    pub fn restart(&mut self) {
        self.child = Daemon::spawn(&self.bin, &self.dir);
    }

    pub async fn up(&self) -> Containerd {
        let containerd = Containerd::below(&self.dir);
        let begun = Instant::now();
        while let Err(error) = containerd.health().await {
            assert!(begun.elapsed() < Duration::from_secs(20), "{error}");
            sleep(Duration::from_millis(20)).await;
        }
        containerd
    }

    pub fn ctr(&self, arguments: &[&str]) -> String {
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
pub struct Empty(ImageConfig);

impl Images for Empty {
    fn prepare<'a>(
        &'a self,
        _: &'a str,
        container: &'a ContainerSpec,
    ) -> BoxFuture<'a, Result<ImageConfig, RunnerError>> {
        let config =
            ImageConfig { image: container.image.clone(), snapshotter: "overlayfs".into(), ..self.0.clone() };
        Box::pin(std::future::ready(Ok(config)))
    }
}

/// Runs `body` as PID 1 of namespaces of its own that have a containerd.
pub fn on_containerd(body: impl AsyncFnOnce(Host)) {
    let Some(bin) = containers::find_programs() else {
        return kelson_tests::skip("there is no containerd in out/cache: run `make image`");
    };
    // Outside it is where a disk is mounted for the test; inside it is a folder on that disk.
    let folder = std::env::temp_dir().join(format!("kelson-containerd-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let mut namespaces = containers::namespaces(&folder);
    namespaces.env("TMPDIR", &folder);
    as_pid_one_of(namespaces, || async { body(Host::new(bin, folder.clone()).await).await });
    let _ = fs::remove_dir(&folder);
}

pub struct Host {
    pub daemon: Daemon,
    pub containerd: Containerd,
    pub processes: Processes,
}

impl Host {
    async fn new(bin: PathBuf, dir: PathBuf) -> Host {
        let daemon = Daemon::start(bin, dir);
        let containerd = daemon.up().await;
        let options = Options { cgroups: Some(CgroupRoot::discover().unwrap()), ..Options::default() };
        Host { daemon, containerd, processes: Processes::new(options).unwrap() }
    }

    pub fn runner(&self, name: &str, command: &[&str]) -> ContainerRunner {
        self.runner_of(name, command, ImageConfig::default())
    }

    pub fn runner_of(&self, name: &str, command: &[&str], image: ImageConfig) -> ContainerRunner {
        self.runner_with(name, command, image, |_, _| ())
    }

    pub fn runner_with(
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
                ..ContainerMount::default()
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

pub fn pipe() -> (fs::File, OwnedFd) {
    let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC).unwrap();
    (read.into(), write)
}

/// A run's context, and the read ends of its output and errors.
pub fn context(run: u64) -> (RunContext, fs::File, fs::File) {
    let ((out, stdout), (err, stderr)) = (pipe(), pipe());
    let environment = vec![("GREETING".to_owned(), format!("run {run}"))];
    (RunContext { environment, ..RunContext::new(run, stdout, stderr) }, out, err)
}

/// Makes a descriptor blocking: the output of commands comes through a pipe that does not block PID 1.
fn block(file: &fs::File) {
    fcntl(file, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
}

pub async fn text(mut file: fs::File) -> String {
    block(&file);
    tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        text
    })
    .await
    .unwrap()
}

/// Reads until the text has come.
pub async fn until(mut file: fs::File, wanted: &'static str) -> fs::File {
    block(&file);
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

pub const GENTLE: StopPlan = StopPlan { signal: libc::SIGTERM, timeout: Duration::from_secs(5) };
pub const HASTY: StopPlan = StopPlan { signal: libc::SIGTERM, timeout: Duration::from_millis(500) };
pub const KILL: StopPlan = StopPlan { signal: libc::SIGKILL, timeout: Duration::ZERO };

pub async fn ended(running: Running) -> Exit {
    timeout(Duration::from_secs(40), running.exit).await.unwrap()
}

pub fn nothing_is_left(host: &Host) {
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

/// Runs a script, and returns what it wrote.
pub async fn output_of(
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
