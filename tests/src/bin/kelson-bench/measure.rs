//! One round of one peer.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::board::now;
use crate::cost;
use crate::figures::Figures;
use crate::system::{Programs, Run, Shape, System};

/// All that can be measured, by the names of `--only`.
pub const PARTS: [&str; 12] = [
    "fan-out",
    "bare",
    "chain",
    "restart",
    "storm",
    "stop",
    "memory",
    "idle",
    "list",
    "events",
    "logs",
    "container",
];
/// What is measured on one host of many services.
const OF_MANY: [&str; 7] = ["fan-out", "restart", "storm", "stop", "memory", "list", "events"];
const CHAINS: [usize; 2] = [31, 200];
/// PID 1 of Kelson serves 64 clients at the same time.
const WATCHERS: usize = 60;
/// What service.c writes.
const WRITTEN: f64 = 64.0 * 1024.0 * 1024.0;
/// From then on nothing happens by itself. And s6 and runit restart a service at once only if it has run for a second.
const SETTLES: Duration = Duration::from_secs(2);
/// A supervisor may look once more at what it did last: Kelson looks at its main loop 5 s after the last wake-up, and its
/// spare threads end after 10 s.
const COMES_TO_REST: Duration = Duration::from_secs(15);

/// How large and how long.
pub struct Plan {
    pub parts: Vec<String>,
    pub services: usize,
    pub rounds: usize,
    /// Seconds of idling.
    pub idle: u64,
    pub kills: usize,
}

impl Plan {
    pub fn has(&self, part: &str) -> bool {
        self.parts.iter().any(|one| one == part)
    }
}

/// One round of one peer.
pub struct Round<'a> {
    pub system: System,
    pub number: usize,
    pub plan: &'a Plan,
    pub base: &'a Path,
    pub programs: &'a Programs,
    pub figures: &'a mut Figures,
}

impl Round<'_> {
    /// Measures all parts of the plan once.
    pub fn measure(&mut self) {
        if self.system.is_for_many() {
            if OF_MANY.iter().any(|part| self.plan.has(part)) {
                self.many();
            }
            if self.plan.has("bare") {
                self.bare();
            }
            if self.plan.has("memory") && self.number == 0 {
                self.memory_of_few();
            }
            if self.plan.has("chain") {
                let system = self.system;
                CHAINS
                    .into_iter()
                    .filter(|length| system.has_chain(*length))
                    .for_each(|length| self.chain(length));
            }
            if self.plan.has("logs") {
                self.logs("logs_mb_s", Shape::Writer);
                if self.system == System::Loop {
                    self.logs("logs_null_mb_s", Shape::Silent);
                }
            }
        }
        if self.plan.has("container") && self.system.is_for_one() {
            self.container();
        }
    }

    fn add(&mut self, row: &str, value: f64) {
        self.figures.add(row, self.system, self.number, value);
    }

    fn add_millis(&mut self, row: &str, nanos: u64) {
        self.add(row, nanos as f64 / 1e6);
    }

    fn add_memory(&mut self, row: &str, run: &mut Run<'_>) {
        if self.system != System::Loop {
            let memory = run.memory();
            self.add(&format!("{row}_pss_mb"), memory.pss as f64 / 1e6);
            self.add(&format!("{row}_held_mb"), memory.held as f64 / 1e6);
        }
    }

    fn many(&mut self) {
        let (plan, programs) = (self.plan, self.programs);
        in_folder(self.base, |dir| {
            let mut run = Run::start(self.system, Shape::Flat, plan.services, dir, programs);
            self.add_millis("up_ms", run.wait_started());
            if self.system == System::Kelson {
                self.add_millis("said_up_ms", run.wait_said_up());
            }
            std::thread::sleep(SETTLES);
            if plan.has("memory") {
                self.add_memory("memory_1000", &mut run);
            }
            if plan.has("list") {
                run.list().into_iter().for_each(|time| self.add_millis("list_ms", time));
            }
            if plan.has("restart") {
                run.kill_some(plan.kills).into_iter().for_each(|time| self.add_millis("restart_ms", time));
            }
            if plan.has("events")
                && let Some(time) = run.tell_watchers(WATCHERS.min(plan.services))
            {
                self.add_millis("events_ms", time);
            }
            if plan.has("storm") {
                std::thread::sleep(SETTLES);
                self.add_millis("storm_ms", run.kill_all());
                std::thread::sleep(SETTLES);
            }
            if plan.has("stop") {
                self.stop("gone_ms", "stopped_ms", run);
            }
        });
    }

    fn stop(&mut self, gone_row: &str, stopped_row: &str, run: Run<'_>) {
        let (gone, stopped) = run.stop();
        self.add_millis(gone_row, gone);
        if let Some(stopped) = stopped {
            self.add_millis(stopped_row, stopped);
        }
    }

    fn bare(&mut self) {
        in_folder(self.base, |dir| {
            let programs = Programs { service: self.programs.bare_service.clone(), ..self.programs.clone() };
            let mut run = Run::start(self.system, Shape::Flat, self.plan.services, dir, &programs);
            self.add_millis("up_bare_ms", run.wait_started());
        });
    }

    fn memory_of_few(&mut self) {
        for (row, services) in [("memory_0", 0), ("memory_100", self.plan.services / 10)] {
            in_folder(self.base, |dir| {
                let mut run = Run::start(self.system, Shape::Flat, services, dir, self.programs);
                run.wait_started();
                if self.system == System::Kelson {
                    run.wait_said_up();
                }
                std::thread::sleep(SETTLES);
                self.add_memory(row, &mut run);
            });
        }
    }

    fn chain(&mut self, length: usize) {
        in_folder(self.base, |dir| {
            let mut run = Run::start(self.system, Shape::Chain, length, dir, self.programs);
            let last = if self.system.is_s6() { run.start_chain_by_commands() } else { run.wait_started() };
            self.add_millis(&format!("chain_{length}_ms"), last);
        });
    }

    fn logs(&mut self, row: &str, shape: Shape) {
        in_folder(self.base, |dir| {
            let mut run = Run::start(self.system, shape, 1, dir, self.programs);
            let began = run.wait_started();
            let took = now() - run.began - began;
            self.add(row, WRITTEN / 1e6 / (took as f64 / 1e9));
        });
    }

    fn container(&mut self) {
        in_folder(self.base, |dir| {
            let mut run = Run::start(self.system, Shape::Flat, 1, dir, self.programs);
            self.add_millis("container_start_ms", run.wait_started());
            if self.system == System::Kelson {
                run.wait_said_up();
            }
            std::thread::sleep(SETTLES);
            self.add_memory("container_memory", &mut run);
            self.stop("container_gone_ms", "container_exit_ms", run);
        });
    }
}

/// Wake-ups and processor time of all peers in the same seconds: what rests does not disturb the others.
pub fn idle(systems: &[System], plan: &Plan, base: &Path, programs: &Programs, figures: &mut Figures) {
    let mut runs = Vec::new();
    for system in systems.iter().filter(|system| system.is_for_many() && **system != System::Loop) {
        let dir = base.join(system.name());
        fs::create_dir(&dir).expect("the tmpfs is writable");
        let mut run = Run::start(*system, Shape::Flat, plan.services, &dir, programs);
        run.wait_started();
        runs.push((*system, run));
    }
    std::thread::sleep(COMES_TO_REST);
    let mut look = || -> Vec<(System, u64, u64)> {
        let costs = runs.iter_mut().map(|(system, run)| {
            let (own, _) = run.processes();
            (*system, cost::switches(&own), cost::processor(&own))
        });
        costs.collect()
    };
    let before = look();
    std::thread::sleep(Duration::from_secs(plan.idle));
    for ((system, switches, time), (_, switches_before, time_before)) in look().into_iter().zip(before) {
        figures.add("idle_wakeups", system, 0, switches as f64 - switches_before as f64);
        figures.add("idle_cpu_ms", system, 0, (time as f64 - time_before as f64) / 1e6);
    }
}

/// An empty folder, gone afterwards.
fn in_folder(base: &Path, measure: impl FnOnce(&Path)) {
    let dir = base.join("run");
    fs::create_dir(&dir).expect("the tmpfs is writable");
    measure(&dir);
    fs::remove_dir_all(&dir).expect("the tmpfs is writable");
}
