//! Which hosts of the fleet a command is about.

use std::time::Duration;

use kelson_api::client::Client;
use kelson_proto::v1::FleetHost;

use super::hosts;
use super::selector::Selector;
use crate::failure::Failure;

/// How many names stand for many.
const NAMED: usize = 3;

/// All hosts, or those with these names and labels.
#[derive(Debug, Clone, clap::Args)]
pub struct Chosen {
    /// Names; * is any text, ? one character; without any: all
    #[arg(id = "hosts", value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Only with this label: KEY=VALUE, KEY!=VALUE or KEY
    #[arg(short = 'l', long = "label", value_name = "LABEL", value_delimiter = ',')]
    labels: Vec<Selector>,
}

/// The hosts of a command whose words name something else.
#[derive(Debug, Clone, clap::Args)]
pub struct Selected {
    /// Only hosts of this name; * and ? are wildcards
    #[arg(long = "host", value_name = "PATTERN", value_delimiter = ',')]
    hosts: Vec<String>,
    /// Only with this label: KEY=VALUE, KEY!=VALUE or KEY
    #[arg(short = 'l', long = "label", value_name = "LABEL", value_delimiter = ',')]
    labels: Vec<Selector>,
}

impl Selected {
    pub fn chosen(self) -> Chosen {
        Chosen { patterns: self.hosts, labels: self.labels }
    }
}

impl Chosen {
    /// Those of the fleet that are meant.
    pub async fn of(&self, client: &Client, timeout: Duration) -> Result<Vec<FleetHost>, Failure> {
        let mut all = hosts::all(client, timeout).await?;
        hosts::known(&all, &self.patterns)?;
        all.retain(|host| self.has(&host.name));
        all.retain(|host| self.labels.iter().all(|label| label.holds(host)));
        Ok(all)
    }

    /// Whether a host of this name is meant, whatever its labels are.
    pub fn has(&self, name: &str) -> bool {
        hosts::is_one(name, &self.patterns)
    }

    /// Whether labels decide.
    pub fn is_by_labels(&self) -> bool {
        !self.labels.is_empty()
    }
}

/// `edge-1, edge-2, edge-3, 409 more`.
pub fn first_of<T: AsRef<str>>(names: &[T]) -> String {
    let mut parts: Vec<String> = names.iter().take(NAMED).map(|name| name.as_ref().to_owned()).collect();
    let more = names.len().saturating_sub(NAMED);
    parts.extend((more > 0).then(|| format!("{more} more")));
    parts.join(", ")
}
