//! A host for the tests: kelson-fleet as a process of its own, which is this test binary started again.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kelson_fleet::{Folders, Limits};
use kelson_helper::transport::{self, FROM_HELPER, Receiver, TO_HELPER};
use kelson_proto::v1::fleet_command::Command as Order;
use kelson_proto::v1::fleet_question::Question;
use kelson_proto::v1::fleet_report::Report;
use kelson_proto::v1::{
    FleetCommand, FleetConnection, FleetHealth, FleetHostsRequest, FleetInstancesRequest, FleetPage,
    FleetQuestion, FleetRegister, FleetRemove, FleetReport, FleetServiceState,
};
use kelson_spec::fleet::FleetSpec;
use kelson_spec::wire;
use kelson_tests::Etcd;
use kelson_tests::child::{self, Child};
use kelson_tests::namespace::Namespace;
use nix::sys::signal::Signal;
use tempfile::TempDir;

pub mod store;

const PERSONALITY: &str = "KELSON_TEST_FLEET";

/// A deadline for whatever is waited for.
pub const SOON: Duration = Duration::from_secs(60);

/// The TTL of leases.
pub const TTL: Duration = Duration::from_secs(4);

/// Times with which a test is short, and those of a host.
pub const SHORT: &str = "short";
pub const USUAL: &str = "usual";

/// The body of the test named `personality`.
pub fn personality() {
    let Ok(words) = std::env::var(PERSONALITY) else { return };
    let words: Vec<&str> = words.split('\n').collect();
    let [limits, state, runtime] = words[..] else { panic!("{words:?}") };
    let short = Limits {
        ttl: TTL,
        silence: Duration::from_millis(1500),
        call: Duration::from_secs(2),
        removal: Duration::from_secs(1),
        spread: Duration::from_secs(1),
        first_retry: Duration::from_millis(50),
        last_retry: Duration::from_millis(400),
        causes: Duration::from_millis(500),
        look: Duration::from_secs(5),
        quiet: Duration::from_millis(100),
        gathered: Duration::from_secs(1),
        sources: Duration::from_millis(200),
    };
    let limits = if limits == USUAL { Limits::default() } else { short };
    kelson_fleet::serve(&Folders { state: state.into(), runtime: runtime.into() }, limits).unwrap();
    std::process::exit(0);
}

/// The folders of a host, and its settings.
pub struct Host {
    folder: TempDir,
    pub spec: FleetSpec,
    /// [`SHORT`] or [`USUAL`].
    pub limits: &'static str,
    /// Whose network it has. `None`: that of the test.
    pub network: Option<Namespace>,
}

impl Host {
    pub fn new(name: &str, etcd: &Etcd) -> Host {
        let mut spec = FleetSpec {
            endpoints: vec![etcd.endpoint()],
            name: Some(name.to_owned()),
            labels: [("role".to_owned(), "edge".to_owned())].into(),
            ..FleetSpec::default()
        };
        if let Some(authority) = etcd.authority() {
            spec.ca = Some(authority.path("ca.pem"));
            spec.certificate = Some(authority.path("machine.pem"));
            spec.key = Some(authority.path("machine.key"));
        }
        Host::of(spec)
    }

    /// With these settings.
    pub fn of(spec: FleetSpec) -> Host {
        Host { folder: tempfile::tempdir().unwrap(), spec, limits: SHORT, network: None }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts kelson-fleet with the settings.
    pub fn start(&self) -> Helper {
        let (control, theirs) = transport::pair().unwrap();
        let [state, runtime] = ["state", "runtime"].map(|name| self.path(name).display().to_string());
        let program = std::env::current_exe().unwrap();
        let mut command = match &self.network {
            Some(network) => network.command(program),
            None => Command::new(program),
        };
        command
            .args(["--exact", "personality", "--ignored", "--nocapture"])
            .env(PERSONALITY, [self.limits, &state, &runtime].join("\n"))
            .stderr(Stdio::inherit());
        let child = child::start(command, theirs, || Ok(()), |_| ()).unwrap();
        let helper = Helper { child, control, receiver: Receiver::new(FROM_HELPER), reports: Vec::new() };
        helper.send(Order::Settings(wire::encode(&self.spec).unwrap()));
        helper
    }

    /// As PID 1 does it: all services, and that these are all.
    pub fn start_with(&self, services: &[FleetRegister]) -> Helper {
        let helper = self.start();
        helper.send(Order::Health(FleetHealth { state: "healthy".into(), causes: Vec::new() }));
        services.iter().for_each(|service| helper.send(Order::Register(service.clone())));
        helper.send(Order::Complete(true));
        helper
    }
}

/// A question for a page of hosts.
pub fn hosts(after: &str, limit: u32) -> Question {
    Question::Hosts(FleetHostsRequest { after: after.to_owned(), limit })
}

/// A question for a page of services.
pub fn instances(name: &str, after: &str, limit: u32) -> Question {
    Question::Instances(FleetInstancesRequest { name: name.to_owned(), after: after.to_owned(), limit })
}

/// What a service registers: `name` at port 80 of the host's address.
pub fn register(service: &str, name: &str) -> FleetRegister {
    FleetRegister {
        service: service.to_owned(),
        name: name.to_owned(),
        port: 80,
        address: "auto".to_owned(),
        ..FleetRegister::default()
    }
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
    pub fn pid(&self) -> i32 {
        self.child.pid
    }

    pub fn signal(&self, signal: Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.child.pid), signal).unwrap();
    }

    /// Until the store has confirmed the lease once more.
    #[track_caller]
    pub fn confirmed(&mut self) {
        self.drain();
        self.connected(true);
    }

    /// Takes all reports that have come.
    pub fn drain(&mut self) {
        while let Ok(Some(packet)) = self.receiver.receive::<FleetReport>(self.control.as_fd()) {
            self.reports.push(packet.message.report.unwrap());
        }
    }

    pub fn send(&self, command: Order) {
        let message = FleetCommand { command: Some(command) };
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
    #[track_caller]
    pub fn wait<T>(&mut self, mut find: impl FnMut(&Report) -> Option<T>) -> T {
        let until = Instant::now() + SOON;
        loop {
            match self.receiver.receive::<FleetReport>(self.control.as_fd()) {
                Ok(Some(packet)) => {
                    let report = packet.message.report.unwrap();
                    let found = find(&report);
                    self.reports.push(report);
                    if let Some(found) = found {
                        return found;
                    }
                }
                Ok(None) => panic!("the helper has ended: {:#?}", self.reports),
                Err(error) if transport::would_block(&error) => {
                    assert!(Instant::now() < until, "{:#?}", self.reports);
                    std::thread::sleep(Duration::from_micros(200));
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Until a service has this state.
    #[track_caller]
    pub fn state(&mut self, service: &str, state: &str) -> FleetServiceState {
        self.drain();
        let of = |report: &Report| match report {
            Report::Service(one) if one.service == service => Some(one.clone()),
            _ => None,
        };
        match self.reports.iter().rev().find_map(of) {
            Some(one) if one.state == state => one,
            _ => self.wait(|report| of(report).filter(|one| one.state == state)),
        }
    }

    #[track_caller]
    pub fn connected(&mut self, is_connected: bool) -> FleetConnection {
        self.wait(|report| match report {
            Report::Connection(one) if one.connected == is_connected => Some(one.clone()),
            _ => None,
        })
    }

    /// Until there is a problem with these words.
    #[track_caller]
    pub fn problem(&mut self, words: &str) -> FleetConnection {
        self.wait(|report| match report {
            Report::Connection(one) if one.problem.contains(words) => Some(one.clone()),
            _ => None,
        })
    }

    /// Asks for the removal of a service. What is wrong with it.
    #[track_caller]
    pub fn remove(&mut self, service: &str, number: u64) -> String {
        self.send(Order::Remove(FleetRemove { service: service.to_owned(), number }));
        self.removed(number)
    }

    #[track_caller]
    pub fn removed(&mut self, number: u64) -> String {
        self.wait(|report| match report {
            Report::Removed(removed) if removed.number == number => Some(removed.problem.clone()),
            _ => None,
        })
    }

    /// All parts of an answer.
    #[track_caller]
    pub fn ask(&mut self, number: u64, question: Question) -> FleetPage {
        self.send(Order::Question(FleetQuestion { number, question: Some(question) }));
        let mut whole = FleetPage::default();
        loop {
            let part = self.wait(|report| match report {
                Report::Page(page) if page.number == number => Some(page.clone()),
                _ => None,
            });
            whole.hosts.extend(part.hosts);
            whole.instances.extend(part.instances);
            whole.plans.extend(part.plans);
            if !part.more {
                (whole.rest, whole.problem, whole.cursor) = (part.rest, part.problem, part.cursor);
                whole.revision = part.revision;
                return whole;
            }
        }
    }

    /// The text of all troubles.
    pub fn troubles(&self) -> Vec<&str> {
        self.reports
            .iter()
            .filter_map(|report| match report {
                Report::Trouble(text) => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }
}
