//! `fleet`: the fleet that a host belongs to, as its store has it.

pub mod hosts;
mod selector;
pub mod services;
pub mod status;

use std::time::{Duration, SystemTime};

use self::selector::Selector;
use crate::call::{Call, Run};
use crate::failure::Failure;
use crate::output::Page;

/// For all pages of a list: the store may be slow.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The fleet of a host: its connection, all hosts, all services
///
/// A host with `fleet` in its machine file registers itself and its services
/// in a store. Any host of the fleet answers for all.
///
/// Examples:
///   kelsonctl fleet status
///   kelsonctl fleet hosts -l role=edge
///   kelsonctl fleet services web
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum Action {
    /// Show how the host is connected with the store of its fleet
    ///
    /// Examples:
    ///   kelsonctl -n all fleet status
    ///   kelsonctl fleet status -o json | jq .lastConfirmed
    #[command(verbatim_doc_comment)]
    Status {},
    /// List the hosts of the fleet
    ///
    /// Those that are registered now: a host that is gone leaves the list when
    /// its lease ends. Labels with commas between them, or in several -l, all
    /// have to hold.
    ///
    /// Examples:
    ///   kelsonctl fleet hosts
    ///   kelsonctl fleet hosts 'edge-*' -l role=edge -l site!=lab
    ///   kelsonctl fleet hosts -o json | jq -r '.[] | select(.problem).name'
    #[command(verbatim_doc_comment)]
    Hosts {
        /// Names; * is any text, ? one character; without any: all
        #[arg(id = "hosts", value_name = "PATTERN")]
        patterns: Vec<String>,
        /// Only with this label: KEY=VALUE, KEY!=VALUE or KEY
        #[arg(short = 'l', long = "label", value_name = "LABEL", value_delimiter = ',')]
        labels: Vec<Selector>,
    },
    /// List the registered services of the fleet
    ///
    /// Examples:
    ///   kelsonctl fleet services
    ///   kelsonctl fleet services postgres --tag primary
    ///   kelsonctl fleet services web -o json | jq -r '.[] | "\(.address):\(.port)"'
    #[command(verbatim_doc_comment)]
    Services {
        /// The name under which they are registered; without it: all
        #[arg(id = "registered", value_name = "NAME")]
        name: Option<String>,
        /// Only with this tag; several times: with all of them
        #[arg(long = "tag", value_name = "TAG")]
        tags: Vec<String>,
    },
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let client = call.client()?;
        match self.action {
            Action::Status {} => {
                let Some(member) = status::ask(&client).await? else {
                    return Err(Failure::Failed(status::NONE.to_owned()));
                };
                let now = SystemTime::now();
                call.show(&member, || match call.node {
                    None => Page::Text(status::lines(&member, now)),
                    // Beside those of other hosts it is compared.
                    Some(_) => Page::Table(status::table(&member, &call.terminal, now)),
                })
            }
            Action::Hosts { patterns, labels } => {
                let all = hosts::all(&client, TIMEOUT).await?;
                hosts::known(&all, &patterns)?;
                let mut shown = all;
                shown.retain(|host| hosts::is_one(host, &patterns));
                shown.retain(|host| labels.iter().all(|label| label.holds(&host.labels)));
                call.show(&shown, || Page::Table(hosts::table(&shown, &call.terminal)))
            }
            Action::Services { name, tags } => {
                let mut shown = services::all(&client, name.unwrap_or_default(), TIMEOUT).await?;
                shown.retain(|one| tags.iter().all(|tag| one.tags.contains(tag)));
                call.show(&shown, || Page::Table(services::table(&shown, &call.terminal)))
            }
        }
    }
}
