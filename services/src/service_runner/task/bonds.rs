//! The services that this one needs and whose going down it minds (`whenDown`).
//!
//! Their runs are noted when it is spawned: one that has ended since then went down, however soon it was back.

use std::task::Poll;

use kelson_spec::service::{Requirement, ServiceSpec, WhenDown};
use tokio::sync::watch;

use crate::model::{Snapshot, State};
use crate::service_runner::gate::Registry;

/// All bonds of one run.
pub struct Bonds(Vec<Bond>);

struct Bond {
    name: String,
    rule: WhenDown,
    /// Its run when the dependant was spawned.
    run: u64,
    snapshot: watch::Receiver<Snapshot>,
}

impl Bonds {
    /// `None`: it minds nobody.
    pub fn tie(spec: &ServiceSpec, registry: &Registry) -> Option<Box<Bonds>> {
        let tie = |requirement: &Requirement| match requirement {
            Requirement::Service { name, when_down, .. } if *when_down != WhenDown::Ignore => {
                let mut snapshot = registry.get(name)?;
                let run = snapshot.borrow_and_update().run;
                Some(Bond { name: name.clone(), rule: *when_down, run, snapshot })
            }
            _ => None,
        };
        let bonds: Vec<Bond> = spec.depends.iter().filter_map(tie).collect();
        (!bonds.is_empty()).then(|| Box::new(Bonds(bonds)))
    }

    /// Ends once one of them is down: what is to be done, and what happened. Cancelled by dropping; loses nothing then.
    pub async fn broken(&mut self) -> (WhenDown, String) {
        loop {
            // A stop outweighs a restart.
            let broken = self.0.iter().filter_map(|bond| Some((bond.rule, bond.broken()?)));
            if let Some(broken) = broken.max_by_key(|(rule, _)| *rule == WhenDown::Stop) {
                return broken;
            }
            self.changed().await;
        }
    }

    /// Ends once one of them has told something new.
    async fn changed(&mut self) {
        let mut changes: Vec<_> =
            self.0.iter_mut().map(|bond| Box::pin(async { drop(bond.snapshot.changed().await) })).collect();
        std::future::poll_fn(|context| {
            let any = changes.iter_mut().any(|change| change.as_mut().poll(context).is_ready());
            if any { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

impl Bond {
    /// What happened, once it is down.
    fn broken(&self) -> Option<String> {
        let name = &self.name;
        if self.snapshot.has_changed().is_err() {
            return Some(format!("service \"{name}\", which it needs, was removed"));
        }
        let now = self.snapshot.borrow();
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
