//! `fleet`: the fleet that a host belongs to, as its store has it.

mod administration;
mod chosen;
mod dashboard;
mod events;
mod health;
pub mod hosts;
mod plan_view;
mod plans;
mod rolling;
mod selector;
pub mod services;
pub mod status;
mod versions;
mod why;

use std::time::{Duration, SystemTime};

use self::administration::Administer;
use self::chosen::Chosen;
use self::health::Health;
use self::rolling::{Apply, Restart, Resume};
use crate::call::{Call, Run};
use crate::failure::Failure;
use crate::output::Page;
use crate::watching::Repeating;

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
///   kelsonctl fleet why
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
    /// have to hold. fact.NAME in the place of a label is a fact of the host.
    ///
    /// Examples:
    ///   kelsonctl fleet hosts
    ///   kelsonctl fleet hosts 'edge-*' -l role=edge -l site!=lab
    ///   kelsonctl fleet hosts -o json | jq -r '.[] | select(.problem).name'
    #[command(verbatim_doc_comment)]
    Hosts {
        #[command(flatten)]
        chosen: Chosen,
    },
    /// Show why hosts of the fleet are not healthy, by cause
    ///
    /// The cause that most hosts have comes first, with the services that it
    /// affects. It also names hosts that are not healthy without a cause that
    /// they know, hosts whose entry in the store cannot be read, and hosts that
    /// are gone while services of theirs are registered.
    ///
    /// Examples:
    ///   kelsonctl fleet why
    ///   kelsonctl fleet why 'edge-*' -l site=hamburg
    ///   kelsonctl fleet why -o json | jq -r '.causes[0].hosts[]'
    #[command(verbatim_doc_comment)]
    Why {
        #[command(flatten)]
        chosen: Chosen,
    },
    /// Show how many hosts of the fleet are healthy, and which are not
    ///
    /// Exits with status 0 if all are healthy and 1 if not, or if there is none.
    ///
    /// Examples:
    ///   kelsonctl fleet health
    ///   kelsonctl fleet health -l role=edge >/dev/null && echo healthy
    ///   kelsonctl fleet health -o json | jq .unhealthy
    #[command(verbatim_doc_comment)]
    Health {
        #[command(flatten)]
        chosen: Chosen,
    },
    /// Restart services on many hosts, in waves
    ///
    /// The next wave begins once each host of the one before has been healthy for
    /// --healthy-for since its restart. If more than --max-failed hosts of a wave
    /// are not by --deadline, no other begins, and the exit status is 1.
    ///
    /// The plan is kept in the store: `fleet resume` continues it after an
    /// interruption, and restarts no host twice.
    ///
    /// Examples:
    ///   kelsonctl fleet restart web -l role=edge --dry-run
    ///   kelsonctl fleet restart web -l role=edge --waves 1,10%,all
    ///   kelsonctl fleet restart db --host 'db-*' --waves 1 --healthy-for 2m
    #[command(verbatim_doc_comment)]
    Restart(Restart),
    /// Put a configuration in force on many hosts, in waves
    ///
    /// The waves are those of `fleet restart`. On each host the configuration is on
    /// trial until the host has been healthy with it for --healthy-for; a host that
    /// is not returns to the one before. DIR and FILE are as in `apply`.
    ///
    /// Examples:
    ///   kelsonctl fleet apply ./config -l role=edge --dry-run
    ///   kelsonctl fleet apply web.yaml --waves 1,10%,all --healthy-for 2m
    #[command(verbatim_doc_comment)]
    Apply(Apply),
    /// Continue a plan that was interrupted or stopped
    ///
    /// Hosts that are done stay as they are. Those that have failed are tried again
    /// if the plan was stopped. A plan that another kelsonctl carries out is refused.
    ///
    /// Examples:
    ///   kelsonctl fleet resume restart-20261128-162007
    #[command(verbatim_doc_comment)]
    Resume(Resume),
    /// List the plans of the fleet, or the hosts of one
    ///
    /// Examples:
    ///   kelsonctl fleet plans
    ///   kelsonctl fleet plans restart-20261128-162007
    ///   kelsonctl fleet plans restart-20261128-162007 --remove
    #[command(verbatim_doc_comment)]
    Plans(plans::Plans),
    /// Show the events of many hosts, each with the name of its host
    ///
    /// Examples:
    ///   kelsonctl fleet events -l role=edge -f
    ///   kelsonctl fleet events --host 'db-*' --since 10m postgres
    #[command(verbatim_doc_comment)]
    Events(events::Events),
    /// List the versions of Kelson in the fleet, each with its hosts
    ///
    /// Examples:
    ///   kelsonctl fleet versions
    ///   kelsonctl fleet versions -o json | jq -r '.[1:][].hosts[]'
    #[command(verbatim_doc_comment)]
    Versions {
        #[command(flatten)]
        chosen: Chosen,
    },
    /// Watch the fleet: health, causes, versions, plans that are under way
    ///
    /// It shows them again and again until Ctrl-C.
    ///
    /// Examples:
    ///   kelsonctl fleet dashboard
    ///   kelsonctl fleet dashboard -l role=edge --interval 30s
    #[command(verbatim_doc_comment)]
    Dashboard {
        #[command(flatten)]
        chosen: Chosen,
        #[command(flatten)]
        repeating: Repeating,
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
    #[command(flatten)]
    Administer(Administer),
}

impl Arguments {
    /// The events of which hosts are asked for, where this is the command.
    pub fn events(&self) -> Option<&events::Events> {
        if let Action::Events(events) = &self.action { Some(events) } else { None }
    }
}

impl Run for Arguments {
    /// One coordinator asks many hosts itself.
    fn several(&self) -> bool {
        !matches!(
            self.action,
            Action::Restart(_) | Action::Apply(_) | Action::Resume(_) | Action::Plans(_) | Action::Events(_)
        )
    }

    async fn run(self, call: &Call) -> Result<(), Failure> {
        // They reach the store, and no host.
        if let Action::Administer(command) = self.action {
            return command.run(call).await;
        }
        let client = call.client()?;
        match self.action {
            Action::Restart(restart) => restart.run(call, &client).await,
            Action::Apply(apply) => apply.run(call, &client).await,
            Action::Resume(resume) => resume.run(call, &client).await,
            Action::Plans(plans) => plans.run(call, &client).await,
            Action::Events(events) => events.run(call).await,
            Action::Administer(_) => Ok(()),
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
            Action::Hosts { chosen } => {
                let shown = chosen.of(&client, TIMEOUT).await?;
                call.show(&shown, || Page::Table(hosts::table(&shown, &call.terminal)))
            }
            Action::Why { chosen } => {
                let causes = why::ask(&client, &chosen, TIMEOUT).await?;
                call.show(&causes, || causes.page(&call.terminal))
            }
            Action::Health { chosen } => {
                let hosts = chosen.of(&client, TIMEOUT).await?;
                let health = Health::of(&hosts);
                call.show(&health, || health.page(&call.terminal))?;
                if health.is_well() { Ok(()) } else { Err(Failure::Reported) }
            }
            Action::Versions { chosen } => {
                let hosts = chosen.of(&client, TIMEOUT).await?;
                let versions = versions::of(&hosts);
                call.show(&versions, || Page::Table(versions::table(&versions)))
            }
            Action::Dashboard { chosen, .. } => dashboard::show(call, &client, &chosen).await,
            Action::Services { name, tags } => {
                let mut shown = services::all(&client, name.unwrap_or_default(), TIMEOUT).await?;
                shown.retain(|one| tags.iter().all(|tag| one.tags.contains(tag)));
                call.show(&shown, || Page::Table(services::table(&shown, &call.terminal)))
            }
        }
    }
}
