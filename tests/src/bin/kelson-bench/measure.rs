//! One round of one system, and all figures of all rounds.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::cost;
use crate::system::{Programs, Run, Shape, System};

/// How large and how long.
pub struct Plan {
    pub services: usize,
    pub chain: usize,
    pub rounds: usize,
    /// Seconds of idling, in the first `idle_rounds` rounds.
    pub idle: u64,
    pub idle_rounds: usize,
    pub kills: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    First,
    Up,
    UpBare,
    SaidUp,
    Chain,
    Gone,
    Stopped,
    Again,
    MemoryNone,
    MemorySome,
    MemoryAll,
    Wakeups,
}

impl Metric {
    fn name(self) -> &'static str {
        match self {
            Metric::First => "first_ms",
            Metric::Up => "up_ms",
            Metric::UpBare => "up_bare_ms",
            Metric::SaidUp => "said_up_ms",
            Metric::Chain => "chain_ms",
            Metric::Gone => "gone_ms",
            Metric::Stopped => "stopped_ms",
            Metric::Again => "again_ms",
            Metric::MemoryNone => "memory_0_mb",
            Metric::MemorySome => "memory_tenth_mb",
            Metric::MemoryAll => "memory_all_mb",
            Metric::Wakeups => "wakeups",
        }
    }
}

/// Every number that was measured: by system and metric, a list a round.
#[derive(Default)]
pub struct Figures {
    values: Vec<(System, Metric, usize, f64)>,
}

impl Figures {
    fn add(&mut self, system: System, metric: Metric, round: usize, value: f64) {
        self.values.push((system, metric, round, value));
    }

    pub fn systems(&self) -> Vec<System> {
        System::ALL.into_iter().filter(|s| self.values.iter().any(|(system, ..)| system == s)).collect()
    }

    pub fn all(&self, system: System, metric: Metric) -> Vec<f64> {
        let own = self.values.iter().filter(|(s, m, ..)| (*s, *m) == (system, metric));
        own.map(|(.., value)| *value).collect()
    }

    /// Kelson to the C loop in each round, by the mean of what was measured in it.
    pub fn ratios(&self, metric: Metric) -> Vec<f64> {
        let mean = |system, round| {
            let own = self.values.iter().filter(|(s, m, r, _)| (*s, *m, *r) == (system, metric, round));
            let own: Vec<f64> = own.map(|(.., value)| *value).collect();
            (!own.is_empty()).then(|| own.iter().sum::<f64>() / own.len() as f64)
        };
        let rounds = self.values.iter().map(|(_, _, round, _)| round + 1).max().unwrap_or(0);
        (0..rounds)
            .filter_map(|round| Some(mean(System::Kelson, round)? / mean(System::Loop, round)?))
            .collect()
    }

    pub fn to_json(&self) -> serde_json::Value {
        let mut json: BTreeMap<&str, BTreeMap<&str, BTreeMap<String, Vec<f64>>>> = BTreeMap::new();
        for (system, metric, round, value) in &self.values {
            let metrics = json.entry(system.name()).or_default();
            let rounds = metrics.entry(metric.name()).or_default();
            rounds.entry(format!("round {}", round + 1)).or_default().push(*value);
        }
        serde_json::json!(json)
    }
}

fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

/// Measures all of one system once.
pub fn round(
    system: System,
    round: usize,
    plan: &Plan,
    base: &Path,
    programs: &Programs,
    figures: &mut Figures,
) {
    let mut add = |metric, value| figures.add(system, metric, round, value);
    let supervised = system != System::Loop;

    in_folder(base, |dir| {
        let mut run = Run::start(system, Shape::Flat, plan.services, dir, programs);
        let (first, last) = run.wait_started();
        add(Metric::First, millis(first));
        add(Metric::Up, millis(last));
        if system == System::Kelson {
            add(Metric::SaidUp, millis(run.wait_said_up()));
        }
        // s6 and runit restart a service at once only if it has run for a second.
        std::thread::sleep(Duration::from_millis(2000));
        if supervised {
            if round < plan.idle_rounds {
                let before = cost::switches(&run.processes().0);
                std::thread::sleep(Duration::from_secs(plan.idle));
                let after = cost::switches(&run.processes().0);
                add(Metric::Wakeups, after as f64 - before as f64);
            }
            add(Metric::MemoryAll, cost::memory(&run.processes().0) as f64 / 1e6);
        }
        for time in run.kill_some(plan.kills) {
            add(Metric::Again, millis(time));
        }
        let (gone, stopped) = run.stop();
        add(Metric::Gone, millis(gone));
        if let Some(stopped) = stopped {
            add(Metric::Stopped, millis(stopped));
        }
    });

    in_folder(base, |dir| {
        let programs = Programs { service: programs.bare_service.clone(), ..programs.clone() };
        let mut run = Run::start(system, Shape::Flat, plan.services, dir, &programs);
        add(Metric::UpBare, millis(run.wait_started().1));
    });

    if supervised && round < plan.idle_rounds {
        for (metric, services) in [(Metric::MemoryNone, 0), (Metric::MemorySome, plan.services / 10)] {
            in_folder(base, |dir| {
                let mut run = Run::start(system, Shape::Flat, services, dir, programs);
                if services > 0 {
                    run.wait_started();
                }
                if system == System::Kelson {
                    run.wait_said_up();
                }
                std::thread::sleep(Duration::from_millis(2000));
                add(metric, cost::memory(&run.processes().0) as f64 / 1e6);
            });
        }
    }

    if system.has_readiness() {
        in_folder(base, |dir| {
            let mut run = Run::start(system, Shape::Chain, plan.chain, dir, programs);
            let last = match system {
                System::S6 | System::S6WithoutLogs => run.start_chain_by_commands(),
                _ => run.wait_started().1,
            };
            add(Metric::Chain, millis(last));
        });
    }
}

/// An empty folder, gone afterwards.
fn in_folder(base: &Path, measure: impl FnOnce(&Path)) {
    let dir = base.join("run");
    fs::create_dir(&dir).expect("the tmpfs is writable");
    measure(&dir);
    fs::remove_dir_all(&dir).expect("the tmpfs is writable");
}
