//! The events of many hosts of a fleet.

use super::chosen::Selected;
use super::rolling::ways;
use crate::call::{Call, Run as _};
use crate::commands::events;
use crate::failure::Failure;
use crate::targets::Target;

/// The hosts, and which events.
#[derive(Debug, Clone, clap::Args)]
pub struct Events {
    #[command(flatten)]
    selected: Selected,
    #[command(flatten)]
    events: events::Arguments,
}

impl Events {
    /// What is asked of each host.
    pub fn of_each(&self) -> events::Arguments {
        self.events.clone()
    }

    /// The hosts, and the ways to them.
    pub async fn targets(&self, call: &Call) -> Result<Vec<Target>, Failure> {
        let (ways, hosts) = ways(call, &call.client()?, self.selected.clone().chosen()).await?;
        hosts.iter().map(|host| ways.target(&host.name)).collect()
    }

    /// Those of one host, where it was named by `-n`.
    pub async fn run(self, call: &Call) -> Result<(), Failure> {
        self.events.run(call).await
    }
}
