//! The hosts of a fleet, and what is done on each.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use kelson_api::client::Client;
use kelson_proto::v1::FleetHost;
use tokio::time::sleep;

use super::runner::{Health, Hosts};
use super::{configuration, restart};
use crate::configuration::Given;
use crate::contexts::Choice;
use crate::failure::Failure;
use crate::targets::{self, Target};

/// Before a host that was lost is asked again.
const PAUSE: Duration = Duration::from_secs(1);

/// What is done.
#[derive(Debug)]
pub enum Work {
    Restart(Vec<String>),
    Apply { given: Given, plan: String, deadline: Duration },
}

/// The ways to hosts.
#[derive(Debug)]
pub struct Ways {
    choice: Choice,
    /// The host that `choice` leads to.
    own: String,
    /// The addresses of those that are registered.
    addresses: BTreeMap<String, String>,
}

impl Ways {
    pub fn new(choice: Choice, own: String, hosts: &[FleetHost]) -> Ways {
        let address = |host: &FleetHost| Some((host.name.clone(), host.addresses.first()?.clone()));
        Ways { choice, own, addresses: hosts.iter().filter_map(address).collect() }
    }

    /// The name of the host that is called.
    pub fn own(&self) -> &str {
        &self.own
    }

    /// A host and the way to it.
    ///
    /// # Errors
    /// There is none, or the file of contexts is wrong.
    pub fn target(&self, host: &str) -> Result<Target, Failure> {
        if host == self.own {
            // It may be reached over its socket alone.
            return Ok(Target { name: host.to_owned(), choice: self.choice.clone(), near: None });
        }
        targets::of_fleet(host, self.addresses.get(host).map(String::as_str), &self.choice)
    }

    /// The way to a host.
    ///
    /// # Errors
    /// As [`Ways::target`].
    pub fn to(&self, host: &str) -> Result<Choice, Failure> {
        Ok(self.target(host)?.choice)
    }
}

#[derive(Debug)]
pub struct Members {
    pub ways: Ways,
    pub work: Work,
    clients: RefCell<BTreeMap<String, Client>>,
}

impl Members {
    pub fn new(ways: Ways, work: Work) -> Members {
        Members { ways, work, clients: RefCell::default() }
    }

    fn client(&self, host: &str) -> Result<Client, Failure> {
        if let Some(client) = self.clients.borrow().get(host) {
            return Ok(client.clone());
        }
        let client = self.ways.to(host)?.resolve()?.client()?;
        self.clients.borrow_mut().insert(host.to_owned(), client.clone());
        Ok(client)
    }

    async fn once(&self, host: &str, mark: &str, resumed: bool) -> Result<(), Failure> {
        let client = self.client(host)?;
        match &self.work {
            Work::Restart(services) => restart::act(&client, services, mark, resumed).await,
            Work::Apply { given, plan, deadline } => {
                configuration::act(&client, given, plan, *deadline).await
            }
        }
    }
}

impl Hosts for Members {
    async fn mark(&self, host: &str) -> Result<String, String> {
        let mark = async {
            let client = self.client(host)?;
            match &self.work {
                Work::Restart(services) => restart::mark(&client, services).await,
                Work::Apply { .. } => configuration::mark(&client).await,
            }
        };
        mark.await.map_err(|failure: Failure| failure.to_string())
    }

    async fn act(&self, host: &str, mark: &str, mut resumed: bool) -> Result<(), String> {
        loop {
            match self.once(host, mark, resumed).await {
                Ok(()) => return Ok(()),
                // The host may have done it before the answer was lost. The deadline of the host ends this.
                Err(failure) if failure.is_passing() || matches!(failure, Failure::TimedOut(_)) => {
                    resumed = true;
                    sleep(PAUSE).await;
                }
                Err(failure) => return Err(failure.to_string()),
            }
        }
    }

    async fn health(&self, host: &str, mark: &str) -> Result<Health, String> {
        let health = async {
            let client = self.client(host)?;
            match &self.work {
                Work::Restart(services) => restart::health(&client, services, mark).await,
                Work::Apply { .. } => restart::of_host(&client).await,
            }
        };
        health.await.map_err(|failure: Failure| failure.to_string())
    }

    async fn keep(&self, host: &str) -> Result<(), String> {
        let Work::Apply { given, .. } = &self.work else { return Ok(()) };
        let keep = async { configuration::keep(&self.client(host)?, given).await };
        keep.await.map_err(|failure: Failure| failure.to_string())
    }

    async fn leave(&self, host: &str, mark: &str) -> Option<String> {
        let Work::Apply { given, .. } = &self.work else { return None };
        let leave = async { configuration::leave(&self.client(host)?, given, mark).await };
        leave.await.unwrap_or_else(|failure: Failure| {
            Some(format!("its trial of the configuration ends by itself, as this cannot end it: {failure}"))
        })
    }
}
