//! Decides which process asks a check: PID 1 itself, or `kelson-probe`.

use std::sync::Arc;

use kelson_runner::{BoxFuture, Executor};
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::{self, Check, VolumeProbe};
use tokio::time::Instant;

use super::exec::ExecProbe;
use super::network::Network;
use super::plan::{Answer, Probe};
use crate::error::ServicesError;
use crate::prober::Schedule;

/// The process that asks a check.
pub enum Asks {
    Here(Arc<dyn Probe>),
    Elsewhere(Arc<dyn Network>, Box<Schedule>),
}

impl Asks {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Asks::Here(probe) => probe.kind(),
            Asks::Elsewhere(_, schedule) => schedule.probe.kind(),
        }
    }
}

/// How a check of a service file is asked. `executor` runs commands beside the run that is checked, `network` asks over
/// the network that the run has, `volume` looks at what the run sees.
pub fn asks(
    check: &Check,
    executor: impl FnOnce() -> Result<Arc<dyn Executor>, ServicesError>,
    network: impl FnOnce() -> Result<Arc<dyn Network>, ServicesError>,
    volume: impl FnOnce(&VolumeProbe) -> Result<Arc<dyn Probe>, ServicesError>,
) -> Asks {
    let asked = match (&check.probe, Schedule::of(check)) {
        (service::Probe::Exec { command }, _) => {
            return Asks::Here(Arc::new(ExecProbe::new(command.clone(), executor())));
        }
        (service::Probe::Volume(probe), _) if const { OWN.has(Feature::Volumes) } => {
            volume(probe).map(Asks::Here)
        }
        (_, None) => Err(ServicesError::NotNow("it performs no network check".to_owned())),
        (_, Some(schedule)) => network().map(|network| Asks::Elsewhere(network, Box::new(schedule))),
    };
    asked.unwrap_or_else(|why| Asks::Here(Arc::new(NotAsked { kind: check.probe.kind(), why })))
}

/// A check that nobody can ask, and why.
struct NotAsked {
    kind: &'static str,
    why: ServicesError,
}

impl Probe for NotAsked {
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn ask(&self, _: Instant) -> BoxFuture<'static, Answer> {
        Box::pin(std::future::ready(Answer::fails(self.why.to_string())))
    }
}
