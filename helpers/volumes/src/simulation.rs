//! Random claims, releases and ends of all that can end, against a [`model`] of a host, in simulated time.

mod model;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kelson_proto::v1::volumes_command::Command;
use kelson_proto::v1::volumes_report::Report;
use kelson_proto::v1::{VolumeClaim, VolumePlugin, VolumeUse};
use kelson_tests::dice::Dice;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::core::{Core, Limits};
use crate::engine::Engine;
use crate::path::HostPath;
use model::{FOLDER, Model};

/// A helper that runs.
struct Helper {
    commands: mpsc::UnboundedSender<Command>,
    reports: mpsc::UnboundedReceiver<Report>,
    task: JoinHandle<()>,
}

impl Helper {
    fn start(model: &Model) -> Helper {
        let (commands, mut orders) = mpsc::unbounded_channel();
        let (sent, reports) = mpsc::unbounded_channel();
        let core = Core::new(model.records(), model.boot(), Limits::default());
        let mut engine = Engine::new(Arc::new(model.clone()), core);
        let task = tokio::spawn(async move {
            loop {
                tokio::select! {
                    command = orders.recv() => match command {
                        Some(command) => engine.command(command),
                        None => return,
                    },
                    () = engine.wait() => {}
                }
                while let Some(report) = engine.report() {
                    let _ = sent.send(report);
                }
            }
        });
        Helper { commands, reports, task }
    }

    fn send(&self, command: Command) {
        assert!(self.commands.send(command).is_ok(), "the helper has panicked");
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Claiming,
    Held,
    Releasing,
}

#[derive(Debug)]
struct Service {
    name: String,
    number: u64,
    state: State,
    uses: Vec<VolumeUse>,
}

/// PID 1 and its services.
struct Simulation {
    seed: u64,
    dice: Dice,
    model: Model,
    helper: Helper,
    services: Vec<Service>,
}

impl Simulation {
    fn new(seed: u64) -> Simulation {
        let model = Model::new(seed);
        let helper = Helper::start(&model);
        let service = |index: usize| Service {
            name: format!("service-{index}"),
            number: 0,
            state: State::Idle,
            uses: Vec::new(),
        };
        let services = (0..4).map(service).collect();
        let simulation = Simulation { seed, dice: Dice::new(seed), model, helper, services };
        simulation.send_all();
        simulation
    }

    fn targets(&self, states: &[State]) -> BTreeSet<HostPath> {
        let services = self.services.iter().filter(|service| states.contains(&service.state));
        services.flat_map(|service| service.uses.iter().map(|one| HostPath::new(&one.published))).collect()
    }

    /// What a new helper, or a new incarnation of PID 1, sends.
    fn send_all(&self) {
        self.helper.send(Command::Complete(false));
        self.helper.send(Command::Plugin(VolumePlugin {
            id: "p".to_owned(),
            kind: "monolith".to_owned(),
            socket: format!("{FOLDER}/csi.sock"),
            ..VolumePlugin::default()
        }));
        for service in &self.services {
            match service.state {
                State::Idle => {}
                State::Claiming | State::Held => self.helper.send(Command::Claim(claim(service))),
                State::Releasing => self.helper.send(Command::Release(claim(service))),
            }
        }
        self.helper.send(Command::Complete(true));
    }

    fn take_reports(&mut self) {
        while let Ok(report) = self.helper.reports.try_recv() {
            match report {
                Report::Claimed(answer) => {
                    let service = self.services.iter_mut().find(|one| one.name == answer.service).unwrap();
                    if service.number == answer.number && service.state == State::Claiming {
                        service.state = if answer.failures.is_empty() { State::Held } else { State::Idle };
                    }
                }
                Report::Released(answer) => {
                    let service = self.services.iter_mut().find(|one| one.name == answer.service).unwrap();
                    if service.number == answer.number && service.state == State::Releasing {
                        service.state = State::Idle;
                    }
                }
                _ => {}
            }
        }
        self.check_needed();
    }

    fn check_needed(&self) {
        self.model.need(self.targets(&[State::Held]));
        assert_eq!(self.model.violations(), Vec::<String>::new(), "seed {}", self.seed);
    }

    fn new_uses(&mut self, service: usize) -> Vec<VolumeUse> {
        let name = self.services[service].name.clone();
        let count = 1 + self.dice.below(3);
        let mut uses = Vec::new();
        for index in 0..count {
            uses.push(VolumeUse {
                name: format!("v{index}"),
                volume: format!("volume-{}", self.dice.below(4)),
                plugin: "p".to_owned(),
                access: "multiNodeMultiWriter".to_owned(),
                attachment: "filesystem".to_owned(),
                mount_flags: None,
                read_only: self.dice.once_in(3),
                published: format!("{FOLDER}/published/{name}/v{index}"),
            });
        }
        uses
    }

    async fn step(&mut self) {
        let pause = match self.dice.below(20) {
            0 => 400_000,
            1..4 => 20_000,
            4..8 => 0,
            _ => 1500,
        };
        tokio::time::sleep(self.dice.millis(pause.max(1))).await;
        self.take_reports();
        let index = usize::try_from(self.dice.below(4)).unwrap();
        match self.dice.below(14) {
            0..5 => {
                let state = self.services[index].state;
                if state == State::Idle || (state == State::Releasing && self.dice.once_in(2)) {
                    let same = self.dice.once_in(2) && !self.services[index].uses.is_empty();
                    let uses = if same { self.services[index].uses.clone() } else { self.new_uses(index) };
                    let service = &mut self.services[index];
                    (service.number, service.state, service.uses) =
                        (service.number + 1, State::Claiming, uses);
                    self.helper.send(Command::Claim(claim(&self.services[index])));
                }
            }
            5..9 => {
                let service = &mut self.services[index];
                if matches!(service.state, State::Held | State::Claiming) {
                    service.state = State::Releasing;
                    self.check_needed();
                    self.helper.send(Command::Release(claim(&self.services[index])));
                }
            }
            9 | 10 => self.restart_helper().await,
            11 => {
                // PID 1 begins again: what it was sent is lost, and perhaps what it knew of a service.
                while self.helper.reports.try_recv().is_ok() {}
                if self.dice.once_in(2) {
                    self.services[index].state = State::Idle;
                }
                // It makes a claim of its own: an answer to the one before may still be under way.
                let open =
                    |service: &&mut Service| matches!(service.state, State::Claiming | State::Releasing);
                self.services.iter_mut().filter(open).for_each(|service| service.number += 1);
                self.check_needed();
                self.send_all();
            }
            12 => self.model.end_plugin(),
            _ if self.dice.once_in(4) => {
                self.services.iter_mut().for_each(|service| service.state = State::Idle);
                self.check_needed();
                self.end_helper().await;
                self.model.reboot();
                self.restart_helper().await;
            }
            _ => self.helper.send(Command::List(1)),
        }
    }

    /// PID 1 starts no other one before it has ended, with all its threads.
    async fn end_helper(&mut self) {
        if !self.helper.task.is_finished() {
            self.helper.task.abort();
            let _ = (&mut self.helper.task).await;
        }
    }

    async fn restart_helper(&mut self) {
        self.end_helper().await;
        self.helper = Helper::start(&self.model);
        self.send_all();
    }

    /// Hours in which nothing goes wrong.
    async fn settle(&mut self) {
        self.model.calm();
        tokio::time::sleep(Duration::from_secs(3 * 3600)).await;
        self.take_reports();
        let busy: Vec<&Service> = self
            .services
            .iter()
            .filter(|service| matches!(service.state, State::Claiming | State::Releasing))
            .collect();
        assert!(busy.is_empty(), "seed {}: no answer for {busy:?}", self.seed);
        let left = self.model.left(&self.targets(&[State::Held]));
        assert_eq!(left, Vec::<String>::new(), "seed {}", self.seed);
    }
}

fn claim(service: &Service) -> VolumeClaim {
    VolumeClaim { service: service.name.clone(), number: service.number, volumes: service.uses.clone() }
}

fn simulate(seed: u64, steps: u32) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut simulation = Simulation::new(seed);
        for _ in 0..steps {
            simulation.step().await;
        }
        simulation.settle().await;
        for service in &mut simulation.services {
            service.state = State::Idle;
        }
        simulation.check_needed();
        simulation.restart_helper().await;
        simulation.settle().await;
    });
}

/// The first seed and the number of them, where the environment has them.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("KELSON_SEED").unwrap_or(0);
    first..first + number("KELSON_SEEDS").unwrap_or(usual)
}

#[test]
fn nothing_unclaimed_stays_and_nothing_claimed_is_removed() {
    seeds(150).for_each(|seed| simulate(seed, 80));
}

#[test]
fn long_100_000_seeds() {
    seeds(100_000).for_each(|seed| simulate(seed, 80));
}

#[test]
fn long_a_week() {
    // A step takes 12 s of simulated time in the mean.
    (0..20).for_each(|seed| simulate(seed, 7 * 24 * 3600 / 12));
}
