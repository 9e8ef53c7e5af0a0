//! A host for the tests: the Collector on this side, kelson-logd as a process of its own, which is this test
//! binary started again with the test `personality_logd` alone.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kelson_helper::{BoxFuture, CONTROL, Launched, Launcher, Start};
use kelson_proto::v1;
use kelson_services::collector::{Collector, Copying, InheritedLog, KeptLog, LogOptions, Report};
use kelson_tests::child::{self, Child};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::mpsc;

const RUNTIME: &str = "KELSON_TEST_RUNTIME_DIR";

pub const OPTIONS: LogOptions =
    LogOptions { max_size: 1 << 20, max_files: 3, rate_limit: None, console: false, copy: Copying::Nothing };

/// The body of the test named `personality_logd` in each test binary.
pub fn personality() {
    if let Some(runtime) = std::env::var_os(RUNTIME) {
        let logs = PathBuf::from(&runtime).join("logs").into_os_string();
        let args = ["--runtime-dir".into(), runtime, "--log-dir".into(), logs];
        std::process::exit(kelson_logd::main(args.into_iter()));
    }
}

/// A function that the child calls before it becomes logd.
pub type Before = Arc<dyn Fn() -> io::Result<()> + Send + Sync>;

pub struct TestLauncher {
    pub runtime: PathBuf,
    pub before: Option<Before>,
    /// So many launches fail first.
    pub failing: Mutex<u32>,
}

impl Launcher for TestLauncher {
    fn launch(&self, mut start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        let mut failing = self.failing.lock().unwrap();
        if *failing > 0 {
            *failing -= 1;
            return Box::pin(async { Err(io::Error::other("the test wants it so")) });
        }
        let result = start.take(CONTROL).and_then(|control| self.spawn(control));
        Box::pin(async move { result })
    }

    fn attach(&self, pid: i32, start_time: u64) -> Option<Launched> {
        let lives = kill(Pid::from_raw(pid), None).is_ok();
        lives.then(|| Launched {
            pid,
            start_time,
            // Only its parent learns of its end; its socket shows it as well.
            exit: Box::pin(std::future::pending()),
            kill: Box::new(move || {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }),
        })
    }
}

impl TestLauncher {
    fn spawn(&self, control: OwnedFd) -> io::Result<Launched> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["personality_logd", "--exact", "--ignored", "--nocapture"]).env(RUNTIME, &self.runtime);
        let before = self.before.clone();
        let before = move || before.as_ref().map_or(Ok(()), |before| before());
        let (told, exit) = tokio::sync::oneshot::channel();
        let Child { pid, kill } = child::start(command, control, before, |how| drop(told.send(how)))?;
        Ok(Launched { pid, start_time: 7, exit: Box::pin(async move { exit.await.unwrap() }), kill })
    }
}

/// A Collector with its logd, in a folder of its own.
pub struct Host {
    pub folder: PathBuf,
    pub collector: Collector,
    pub reports: mpsc::Receiver<Report>,
    /// How often the driver was woken.
    pub wakes: Arc<AtomicU64>,
    driver: tokio::task::JoinHandle<()>,
    descriptor_store: Arc<DescriptorStore>,
}

/// Holds a copy of each descriptor that is open, as `execve` would.
#[derive(Default)]
pub struct DescriptorStore(Mutex<HashMap<RawFd, (KeptLog, OwnedFd)>>);

impl kelson_services::collector::DescriptorStore for DescriptorStore {
    fn keep(&self, descriptor: BorrowedFd<'_>, what: KeptLog) {
        let copy = descriptor.try_clone_to_owned().unwrap();
        self.0.lock().unwrap().insert(descriptor.as_raw_fd(), (what, copy));
    }

    fn let_go(&self, descriptor: BorrowedFd<'_>) {
        self.0.lock().unwrap().remove(&descriptor.as_raw_fd());
    }
}

impl Host {
    pub fn new(name: &str) -> Host {
        Host::with(name, None, 0)
    }

    pub fn with(name: &str, before: Option<Before>, failing: u32) -> Host {
        let folder = folder(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let launcher = TestLauncher { runtime: folder.clone(), before, failing: Mutex::new(failing) };
        let descriptor_store = Arc::new(DescriptorStore::default());
        Host::over(folder, launcher, descriptor_store, Vec::new())
    }

    /// PID 1 re-executes itself: the next incarnation has the descriptors that it held open, and logd gets no
    /// message.
    pub fn another_life(self) -> Host {
        self.driver.abort();
        let (folder, descriptor_store) = (self.folder.clone(), Arc::clone(&self.descriptor_store));
        // Its folder is not removed.
        std::mem::forget(self);
        let launcher = TestLauncher { runtime: folder.clone(), before: None, failing: Mutex::new(0) };
        let inherited = std::mem::take(&mut *descriptor_store.0.lock().unwrap());
        let (next, mut all) = (Arc::new(DescriptorStore::default()), Vec::new());
        for (what, descriptor) in inherited.into_values() {
            kelson_services::collector::DescriptorStore::keep(&*next, descriptor.as_fd(), what.clone());
            all.push(InheritedLog { what, descriptor });
        }
        Host::over(folder, launcher, next, all)
    }

    fn over(
        folder: PathBuf,
        launcher: TestLauncher,
        descriptor_store: Arc<DescriptorStore>,
        inherited: Vec<InheritedLog>,
    ) -> Host {
        let kept: Arc<dyn kelson_services::collector::DescriptorStore> = Arc::clone(&descriptor_store) as _;
        let (collector, mut driver, reports) =
            Collector::resume(Arc::new(launcher), folder.join("logs"), kept, inherited).unwrap();
        collector.admit_by(Arc::new(|_| Ok(())));
        let wakes = Arc::new(AtomicU64::new(0));
        let counted = wakes.clone();
        let driver = tokio::spawn(std::future::poll_fn(move |context| {
            counted.fetch_add(1, Ordering::Relaxed);
            driver.as_mut().poll(context)
        }));
        Host { folder, collector, reports, wakes, driver, descriptor_store }
    }

    /// Waits until a logd answers; gives its PID.
    pub async fn up(&self) -> Pid {
        let mut status = self.collector.status();
        let up = status.wait_for(|status| status.helper.up);
        let pid = tokio::time::timeout(Duration::from_secs(10), up).await.unwrap().unwrap().helper.pid;
        Pid::from_raw(pid.unwrap())
    }

    /// Waits until another one than `old` answers; gives its PID.
    pub async fn replaced(&self, old: Pid) -> Pid {
        let mut status = self.collector.status();
        let up = status.wait_for(|status| status.helper.up && status.helper.pid != Some(old.as_raw()));
        let pid = tokio::time::timeout(Duration::from_secs(10), up).await.unwrap().unwrap().helper.pid;
        Pid::from_raw(pid.unwrap())
    }

    pub fn restarts(&self) -> u32 {
        self.collector.status().borrow().helper.restarts
    }

    pub fn log(&self, service: &str) -> PathBuf {
        self.folder.join("logs").join(format!("{service}.log"))
    }

    pub async fn shutdown(&self) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
        self.collector.shutdown(deadline).await;
    }

    /// Lines from the log API, until the stream ends.
    pub async fn read(&self, request: v1::ReadRequest) -> Vec<v1::Line> {
        let mut lines = Vec::new();
        let mut stream = self.stream(request).await;
        while let Some(part) = stream.message().await.unwrap() {
            lines.extend(part.lines);
        }
        lines
    }

    pub async fn stream(&self, request: v1::ReadRequest) -> tonic::Streaming<v1::ReadResponse> {
        let address = format!("unix://{}", self.folder.join("log.sock").display());
        let channel = tonic::transport::Endpoint::try_from(address).unwrap().connect().await.unwrap();
        let mut client = v1::logs_client::LogsClient::new(channel);
        client.read(request).await.unwrap().into_inner()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // logd finds its socket closed and ends.
        self.driver.abort();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("kelson-logs-{}-{name}", std::process::id()))
}

pub fn ask(names: &[&str]) -> v1::ReadRequest {
    v1::ReadRequest { names: names.iter().map(|name| (*name).to_owned()).collect(), ..Default::default() }
}

pub fn texts(lines: &[v1::Line]) -> Vec<String> {
    lines.iter().map(|line| String::from_utf8_lossy(&line.text).into_owned()).collect()
}

/// Looks until it holds, for at most `within`.
pub async fn eventually(within: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < within, "not within {within:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub fn contents(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}
