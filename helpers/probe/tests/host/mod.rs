//! A host for the tests: the Prober on this side, kelson-probe as a process of its own, which is this test
//! binary started again with the test `personality_probe` alone.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kelson_helper::{BoxFuture, CONTROL, Launched, Launcher, Start};
use kelson_services::prober::{
    CheckAnswer, Launchers, Place, Prober, Report, RunNetwork, Schedule, Sink, Watch,
};
use kelson_spec::service::{Asks, NetworkProbe, Probe};
use kelson_tests::child::{self, Child};
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::Pid;
use tokio::sync::mpsc;

const PERSONALITY: &str = "KELSON_TEST_PROBE";

pub const SOON: Duration = Duration::from_secs(20);

/// The body of the test named `personality_probe` in each test binary.
pub fn personality() {
    if std::env::var_os(PERSONALITY).is_some() {
        std::process::exit(kelson_probe::main(std::iter::empty()));
    }
}

#[derive(Default)]
pub struct TestLauncher {
    /// So many launches fail first.
    pub failing: AtomicU32,
    /// The next ones are no kelson-probe, but a shell that does this.
    pub stand_in: Mutex<Option<&'static str>>,
    /// For each start, whether it was for a network that is not the host's.
    pub apart: Mutex<Vec<bool>>,
    /// The limit on open files, where it is another than ours.
    pub files: Option<u64>,
}

impl Launcher for TestLauncher {
    fn launch(&self, mut start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        self.apart.lock().unwrap().push(start.network.is_some());
        if self.failing.load(Ordering::Relaxed) > 0 {
            self.failing.fetch_sub(1, Ordering::Relaxed);
            return Box::pin(async { Err(io::Error::other("the test wants it so")) });
        }
        let result = start.take(CONTROL).and_then(|control| self.spawn(control));
        Box::pin(async move { result })
    }
}

impl TestLauncher {
    fn spawn(&self, control: OwnedFd) -> io::Result<Launched> {
        let mut command = if let Some(script) = *self.stand_in.lock().unwrap() {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", script]);
            command
        } else {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["personality_probe", "--exact", "--ignored", "--nocapture"]);
            command
        };
        command.env(PERSONALITY, "1");
        let files = self.files;
        let before = move || match files {
            Some(files) => Ok(setrlimit(Resource::RLIMIT_NOFILE, files, files)?),
            None => Ok(()),
        };
        let (told, exit) = tokio::sync::oneshot::channel();
        let Child { pid, kill } = child::start(command, control, before, |how| drop(told.send(how)))?;
        Ok(Launched { pid, start_time: 0, exit: Box::pin(async move { exit.await.unwrap() }), kill })
    }
}

/// A Prober and its probes.
pub struct Host {
    pub prober: Prober,
    pub launcher: Arc<TestLauncher>,
    pub reports: mpsc::Receiver<Report>,
    /// How often the driver was woken.
    pub wakes: Arc<AtomicU64>,
    driver: tokio::task::JoinHandle<()>,
}

impl Host {
    pub fn new() -> Host {
        Host::with(TestLauncher::default())
    }

    pub fn with(launcher: TestLauncher) -> Host {
        let launcher = Arc::new(launcher);
        let launchers = Launchers { networks: launcher.clone(), sockets: launcher.clone() };
        let (prober, mut driver, reports) = Prober::new(launchers);
        let wakes = Arc::new(AtomicU64::new(0));
        let counted = wakes.clone();
        let driver = tokio::spawn(std::future::poll_fn(move |context| {
            counted.fetch_add(1, Ordering::Relaxed);
            driver.as_mut().poll(context)
        }));
        Host { prober, launcher, reports, wakes, driver }
    }

    /// Begins a check of what is at `address`, every 50 ms.
    pub fn watch(&self, address: SocketAddr, asks: Asks) -> Asked {
        self.watch_with(schedule(address, asks))
    }

    pub fn watch_with(&self, schedule: Schedule) -> Asked {
        self.watch_at(Place::Host, schedule)
    }

    pub fn watch_at(&self, place: Place, schedule: Schedule) -> Asked {
        let (sink, answers) = mpsc::unbounded_channel();
        let watch = self.prober.watch(place, schedule, Arc::new(Forward(sink)));
        Asked { watch: Some(watch), answers }
    }

    /// Waits until a probe answers; gives its PID.
    pub async fn up(&self) -> Pid {
        self.up_other_than(None).await
    }

    /// Waits until another one than `old` answers; gives its PID.
    pub async fn replaced(&self, old: Pid) -> Pid {
        self.up_other_than(Some(old)).await
    }

    async fn up_other_than(&self, old: Option<Pid>) -> Pid {
        let mut status = self.prober.status();
        let up = status.wait_for(|status| status.helper.up && status.helper.pid != old.map(Pid::as_raw));
        let pid = tokio::time::timeout(SOON, up).await.unwrap().unwrap().helper.pid;
        Pid::from_raw(pid.unwrap())
    }

    pub async fn report(&mut self) -> Report {
        tokio::time::timeout(SOON, self.reports.recv()).await.unwrap().unwrap()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

struct Forward(mpsc::UnboundedSender<CheckAnswer>);

impl Sink for Forward {
    fn take(&self, answer: CheckAnswer) {
        let _ = self.0.send(answer);
    }
}

/// One check, and what it answers.
pub struct Asked {
    pub watch: Option<Watch>,
    pub answers: mpsc::UnboundedReceiver<CheckAnswer>,
}

impl Asked {
    pub async fn next(&mut self) -> CheckAnswer {
        tokio::time::timeout(SOON, self.answers.recv()).await.unwrap().unwrap()
    }

    /// The next one that comes, with all that came before thrown away.
    pub async fn fresh(&mut self) -> CheckAnswer {
        while self.answers.try_recv().is_ok() {}
        self.next().await
    }

    pub async fn text(&mut self) -> String {
        self.next().await.text.to_string()
    }

    /// Waits until it answers this.
    pub async fn becomes(&mut self, text: &str) {
        let answer = async { while self.text().await != text {} };
        assert!(tokio::time::timeout(SOON, answer).await.is_ok(), "{text}");
    }
}

pub fn schedule(address: SocketAddr, asks: Asks) -> Schedule {
    often(Probe::Network(NetworkProbe { address: address.ip(), port: address.port(), asks }))
}

pub fn often(probe: Probe) -> Schedule {
    Schedule {
        probe,
        initial_delay: Duration::ZERO,
        interval: Duration::from_millis(50),
        timeout: Duration::from_secs(10),
        grace: Duration::ZERO,
        success_threshold: 1,
    }
}

pub fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

/// The network of a run of the service `web`; in truth the host's.
pub fn of_web() -> Place {
    let namespace = std::fs::File::open("/proc/self/ns/net").unwrap().into();
    Place::NetworkOf(Arc::new(RunNetwork { service: Arc::from("web"), pid: 7, namespace }))
}
