//! A host for the tests: kelson-volumes and plugins as processes of their own, which are this test binary started again,
//! in a mount namespace of the test.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kelson_helper::transport::{self, FROM_HELPER, Receiver, TO_HELPER};
use kelson_proto::v1::volumes_command::Command as Order;
use kelson_proto::v1::volumes_report::Report;
use kelson_proto::v1::{VolumeClaim, VolumePlugin, VolumeStep, VolumeUse, VolumesCommand, VolumesReport};
use kelson_tests::child::{self, Child};
use kelson_volumes::{Deadlines, Folders, Limits};
use tempfile::TempDir;

const PERSONALITY: &str = "KELSON_TEST_VOLUMES";

/// A deadline for whatever is waited for.
pub const SOON: Duration = Duration::from_secs(60);

/// The body of the test named `personality` in each test binary.
pub fn personality() {
    let Ok(words) = std::env::var(PERSONALITY) else { return };
    let words: Vec<&str> = words.split('\n').collect();
    match words[0] {
        "plugin" => kelson_fault_plugin::main(words[1..].iter().map(|word| (*word).to_owned())),
        kind => {
            let [_, state, runtime, config] = words[..] else { panic!("{words:?}") };
            let folders = Folders { state: state.into(), runtime: runtime.into(), config: config.into() };
            let step = Duration::from_millis(700);
            let deadlines = Deadlines { step, action: step, identity: step, system: step };
            let limits = Limits {
                claim: Duration::from_secs(8),
                release: Duration::from_secs(3),
                first_retry: Duration::from_millis(50),
                claim_retry: Duration::from_millis(400),
                undo_retry: Duration::from_millis(400),
                ..Limits::default()
            };
            let (deadlines, limits) = match kind {
                "usual" => (Deadlines::default(), Limits::default()),
                _ => (deadlines, limits),
            };
            kelson_volumes::serve(folders, deadlines, limits).unwrap();
        }
    }
    std::process::exit(0);
}

/// Runs the body of a test in a mount namespace of its own. `name`: of the test.
pub fn alone(name: &str, body: impl FnOnce()) {
    kelson_tests::alone(&["--mount", "--propagation", "private"], name, body);
}

fn start(words: &[&str], control: OwnedFd) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "personality", "--ignored", "--nocapture"])
        .env(PERSONALITY, words.join("\n"))
        .stderr(Stdio::inherit());
    child::start(command, control, || Ok(()), |_| ()).unwrap()
}

pub struct Helper {
    child: Child,
    control: OwnedFd,
    receiver: Receiver,
    /// All that it has reported.
    pub reports: Vec<Report>,
}

impl Drop for Helper {
    fn drop(&mut self) {
        (self.child.kill)();
    }
}

impl Helper {
    pub fn send(&self, command: Order) {
        let message = VolumesCommand { command: Some(command) };
        loop {
            match transport::send(self.control.as_fd(), &message, TO_HELPER, &[]) {
                Err(error) if transport::would_block(&error) => {
                    std::thread::sleep(Duration::from_micros(200));
                }
                sent => return sent.unwrap(),
            }
        }
    }

    /// The next report for which `find` has something.
    pub fn wait<T>(&mut self, mut find: impl FnMut(&Report) -> Option<T>) -> T {
        let until = Instant::now() + SOON;
        loop {
            match self.receiver.receive::<VolumesReport>(self.control.as_fd()) {
                Ok(Some(packet)) => {
                    let report = packet.message.report.unwrap();
                    let found = find(&report);
                    self.reports.push(report);
                    if let Some(found) = found {
                        return found;
                    }
                }
                Ok(None) => panic!("the helper has ended"),
                Err(error) if transport::would_block(&error) => {
                    assert!(Instant::now() < until, "{:#?}", self.reports);
                    std::thread::sleep(Duration::from_micros(200));
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// The failures of a claim.
    pub fn claimed(&mut self, service: &str, number: u64) -> Vec<VolumeStep> {
        self.wait(|report| match report {
            Report::Claimed(claimed) if claimed.service == service && claimed.number == number => {
                Some(claimed.failures.clone())
            }
            _ => None,
        })
    }

    /// The failures of a release.
    pub fn released(&mut self, service: &str, number: u64) -> Vec<VolumeStep> {
        self.wait(|report| match report {
            Report::Released(released) if released.service == service && released.number == number => {
                Some(released.failures.clone())
            }
            _ => None,
        })
    }

    pub fn release(&mut self, service: &str, number: u64) -> Vec<VolumeStep> {
        let service_name = service.to_owned();
        self.send(Order::Release(VolumeClaim { service: service_name, number, volumes: Vec::new() }));
        self.released(service, number)
    }

    /// The time that it has computed.
    pub fn computed(&self) -> Duration {
        computed(self.child.pid)
    }

    /// The steps that were reported, without failure.
    pub fn steps(&self) -> Vec<String> {
        let step = |report: &Report| match report {
            Report::Step(step) if step.failure.is_empty() => Some(format!("{} {}", step.step, step.volume)),
            _ => None,
        };
        self.reports.iter().filter_map(step).collect()
    }
}

/// The time that a process has computed, to a hundredth of a second.
fn computed(pid: i32) -> Duration {
    let ticks = |stat: &kelson_sys::process::Stat<'_>| Some(stat.field::<u64>(14)? + stat.field::<u64>(15)?);
    Duration::from_millis(10 * kelson_sys::process::stat(pid, ticks).unwrap().unwrap())
}

/// See the module.
pub struct Host {
    folder: TempDir,
    plugins: Vec<Child>,
}

impl Drop for Host {
    fn drop(&mut self) {
        self.plugins.iter().for_each(|plugin| (plugin.kill)());
    }
}

impl Default for Host {
    fn default() -> Host {
        Host::new()
    }
}

impl Host {
    pub fn new() -> Host {
        let host = Host { folder: tempfile::tempdir().unwrap(), plugins: Vec::new() };
        fs::create_dir_all(host.path("config/volumes")).unwrap();
        fs::create_dir_all(host.path("state")).unwrap();
        host
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A file of a volume.
    pub fn volume(&self, name: &str) {
        let text = format!("plugin: fault\nid: id-{name}\ncontext: {{secret: hunter2}}\n");
        fs::write(self.path("config/volumes").join(format!("{name}.yaml")), text).unwrap();
    }

    pub fn faults(&self, lines: &str) {
        fs::write(self.path("state/faults"), lines).unwrap();
    }

    pub fn capabilities(&self, words: &str) {
        fs::write(self.path("state/capabilities"), words).unwrap();
    }

    /// The calls that the plugins got, without questions.
    pub fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("state/calls")).unwrap_or_default();
        let is_step =
            |line: &&str| line.contains("Publish") || line.contains("tage") || line.contains("Unpublish");
        let short = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        text.lines().filter(is_step).map(short).collect()
    }

    pub fn count(&self, call: &str) -> usize {
        self.calls().iter().filter(|line| line.starts_with(call)).count()
    }

    pub fn socket(&self) -> String {
        self.text("csi/fault/csi.sock")
    }

    /// Starts a plugin, and waits until it takes connections.
    pub fn start_plugin(&mut self) {
        let socket = self.socket();
        let _ = fs::remove_file(&socket);
        let (_ours, theirs) = transport::pair().unwrap();
        self.plugins.push(start(&["plugin", &socket, &self.text("state")], theirs));
        let until = Instant::now() + SOON;
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            assert!(Instant::now() < until, "no plugin");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The time that the newest plugin has computed.
    pub fn computed_by_plugin(&self) -> Duration {
        computed(self.plugins.last().unwrap().pid)
    }

    pub fn end_plugins(&mut self) {
        for plugin in self.plugins.drain(..) {
            (plugin.kill)();
            while Path::new(&format!("/proc/{}/exe", plugin.pid)).exists() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    pub fn plugin(&self) -> VolumePlugin {
        VolumePlugin {
            id: "fault".to_owned(),
            service: "fault-plugin".to_owned(),
            kind: "monolith".to_owned(),
            socket: self.socket(),
            mount_dir: self.text("csi/fault"),
            cgroup: String::new(),
        }
    }

    /// Starts kelson-volumes, with deadlines that a test can wait for.
    pub fn start_helper(&self) -> Helper {
        self.start_helper_with("quick")
    }

    /// `times`: quick or usual.
    pub fn start_helper_with(&self, times: &str) -> Helper {
        let (control, theirs) = transport::pair().unwrap();
        let child = start(&[times, &self.text("host"), &self.text("runtime"), &self.text("config")], theirs);
        Helper { child, control, receiver: Receiver::new(FROM_HELPER), reports: Vec::new() }
    }

    /// With the plugin, and nothing else to send.
    pub fn helper(&mut self) -> Helper {
        self.start_plugin();
        let helper = self.start_helper();
        helper.send(Order::Plugin(self.plugin()));
        helper.send(Order::Complete(true));
        helper
    }

    pub fn target(&self, service: &str, name: &str) -> PathBuf {
        self.path("csi/fault/published").join(service).join(name)
    }

    /// One volume of a service, by its name.
    pub fn volume_use(&self, service: &str, volume: &str) -> VolumeUse {
        VolumeUse {
            name: volume.to_owned(),
            volume: volume.to_owned(),
            plugin: "fault".to_owned(),
            access: "singleNodeWriter".to_owned(),
            attachment: "filesystem".to_owned(),
            published: self.target(service, volume).to_str().unwrap().to_owned(),
            ..VolumeUse::default()
        }
    }

    pub fn claim(&self, service: &str, number: u64, volumes: &[&str]) -> Order {
        let volumes = volumes.iter().map(|volume| self.volume_use(service, volume)).collect();
        Order::Claim(VolumeClaim { service: service.to_owned(), number, volumes })
    }

    /// What is mounted below the folder of the plugin.
    pub fn mounts(&self) -> Vec<PathBuf> {
        let below = self.path("csi");
        let mounts = kelson_sys::mountinfo::read().unwrap();
        mounts.into_iter().map(|mount| mount.target).filter(|target| target.starts_with(&below)).collect()
    }

    /// The text of all records.
    pub fn records(&self) -> String {
        let entries = fs::read_dir(self.path("host/volumes")).into_iter().flatten().flatten();
        entries.map(|entry| fs::read_to_string(entry.path()).unwrap_or_default()).collect()
    }
}

/// Until it is so.
pub fn until(mut is: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !is() {
        assert!(Instant::now() < end, "it has not become so");
        std::thread::sleep(Duration::from_millis(2));
    }
}
