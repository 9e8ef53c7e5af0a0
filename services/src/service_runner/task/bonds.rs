//! The services that this one needs and whose going down it minds (`whenDown`).
//!
//! Their runs are noted when it is spawned: one that has ended since then went down, however soon it was back, and also
//! if PID 1 began another life in between.

use std::task::Poll;

use kelson_spec::service::{Requirement, ServiceSpec, WhenDown};
use tokio::sync::watch;

use crate::model::{Snapshot, State};
use crate::service_runner::gate::Registry;

/// All bonds of one run.
pub enum Bonds {
    Tied(Vec<Bond>),
    /// What an earlier life of PID 1 had noted, to be tied to once all services are there again.
    Noted(Vec<u64>),
}

pub struct Bond {
    name: String,
    rule: WhenDown,
    /// Its run when the dependant was spawned; 0: there was none.
    run: u64,
    /// `None`: there is no such service.
    snapshot: Option<watch::Receiver<Snapshot>>,
}

impl Bonds {
    /// `noted`: what an earlier life of PID 1 had noted. `None`: it minds nobody.
    pub fn tie(spec: &ServiceSpec, registry: &Registry, noted: &[u64]) -> Option<Box<Bonds>> {
        let minded = spec.depends.iter().filter_map(|requirement| match requirement {
            Requirement::Service { name, when_down, .. } if *when_down != WhenDown::Ignore => {
                Some((name, *when_down))
            }
            _ => None,
        });
        let mut noted = noted.iter().copied();
        let tie = |(name, rule): (&String, WhenDown)| {
            let mut snapshot = registry.get(name);
            let run = snapshot.as_mut().map_or(0, |snapshot| snapshot.borrow_and_update().run);
            Bond { name: name.clone(), rule, run: noted.next().unwrap_or(run), snapshot }
        };
        let bonds: Vec<Bond> = minded.map(tie).collect();
        (!bonds.is_empty()).then(|| Box::new(Bonds::Tied(bonds)))
    }

    /// As it was noted.
    pub fn recall(runs: &[u64]) -> Option<Box<Bonds>> {
        (!runs.is_empty()).then(|| Box::new(Bonds::Noted(runs.to_vec())))
    }

    /// The run of each, in the order of the spec.
    pub fn runs(&self) -> Vec<u64> {
        match self {
            Bonds::Tied(bonds) => bonds.iter().map(|bond| bond.run).collect(),
            Bonds::Noted(runs) => runs.clone(),
        }
    }

    /// Ends once one of them is down: what is to be done, and what happened. Cancelled by dropping; loses nothing then.
    pub async fn broken(&mut self) -> (WhenDown, String) {
        let Bonds::Tied(bonds) = self else { return std::future::pending().await };
        loop {
            // A stop outweighs a restart.
            let broken = bonds.iter().filter_map(|bond| Some((bond.rule, bond.broken()?)));
            if let Some(broken) = broken.max_by_key(|(rule, _)| *rule == WhenDown::Stop) {
                return broken;
            }
            changed(bonds).await;
        }
    }
}

/// Ends once one of them has told something new.
async fn changed(bonds: &mut [Bond]) {
    let there = bonds.iter_mut().filter_map(|bond| bond.snapshot.as_mut());
    let mut changes: Vec<_> =
        there.map(|snapshot| Box::pin(async { drop(snapshot.changed().await) })).collect();
    std::future::poll_fn(|context| {
        let any = changes.iter_mut().any(|change| change.as_mut().poll(context).is_ready());
        if any { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

impl Bond {
    /// What happened, once it is down.
    fn broken(&self) -> Option<String> {
        let name = &self.name;
        let there = self.snapshot.as_ref().filter(|snapshot| snapshot.has_changed().is_ok());
        let Some(snapshot) = there else {
            return (self.run > 0).then(|| format!("service \"{name}\", which it needs, was removed"));
        };
        let now = snapshot.borrow();
        let down = match now.oneshot {
            // One that has ended successfully is up.
            true => now.state.at_rest() && !now.finished,
            // It is still called running while what its process has left is cleared away.
            false => {
                let runs = now.pid.is_some() && matches!(now.state, State::Starting | State::Running);
                now.run != self.run || !runs
            }
        };
        down.then(|| match now.run == self.run {
            true => format!("service \"{name}\", which it needs, went down ({})", now.message),
            false => format!("service \"{name}\", which it needs, went down and was started again"),
        })
    }
}
