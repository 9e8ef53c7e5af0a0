//! A restart of services of one host, at most once.

use kelson_api::client::Client;
use kelson_proto::v1::{GetHealthRequest, HealthReport, ListRequest, Service, State, health_report};

use super::runner::Health;
use crate::commands::acting::{Action, Manner, describe_outcome, is_bad, request};
use crate::failure::{ANSWER, Failure, answer, answer_about, within};
use crate::output::{state_name, time};

async fn list(client: &Client, services: &[String]) -> Result<Vec<Service>, Failure> {
    let request = ListRequest { names: services.to_vec() };
    Ok(answer_about(client, services, client.services().list(request)).await?.services)
}

/// The number of the present run of each: another one is there after the restart.
pub async fn mark(client: &Client, services: &[String]) -> Result<String, Failure> {
    let listed = list(client, services).await?;
    Ok(services.iter().map(|name| run_of(&listed, name).to_string()).collect::<Vec<_>>().join(","))
}

fn run_of(listed: &[Service], name: &str) -> u64 {
    listed.iter().find(|service| service.name == name).map_or(0, |service| service.run)
}

/// The services with the runs that they had.
fn marked<'a>(services: &'a [String], mark: &'a str) -> impl Iterator<Item = (&'a String, u64)> {
    services.iter().zip(mark.split(',').map(|run| run.parse().unwrap_or_default()))
}

/// Restarts those that have not been since the mark was taken. `resumed`: some may have been.
pub async fn act(client: &Client, services: &[String], mark: &str, resumed: bool) -> Result<(), Failure> {
    let mut names = services.to_vec();
    if resumed {
        let listed = list(client, services).await?;
        let is_begun = |service: &Service, run| service.run != run || service.state() == State::Stopping;
        let is_due = |(name, run): &(&String, u64)| {
            !listed.iter().any(|service| service.name == **name && is_begun(service, *run))
        };
        names = marked(services, mark).filter(is_due).map(|(name, _)| name.clone()).collect();
    }
    if names.is_empty() {
        return Ok(());
    }
    let results = within(ANSWER, request(client, Action::Restart, names, Manner::default())).await?.results;
    match results.iter().find(|result| is_bad(result)) {
        Some(result) => Err(Failure::Failed(describe_outcome(result))),
        None => Ok(()),
    }
}

/// The host is healthy, and the services are up again.
pub async fn health(client: &Client, services: &[String], mark: &str) -> Result<Health, Failure> {
    let listed = list(client, services).await?;
    for (name, run) in marked(services, mark) {
        let Some(service) = listed.iter().find(|service| service.name == *name) else { continue };
        let state = state_name(service.state());
        let text = match service.message.as_str() {
            "" => format!("{name} is {state}"),
            message => format!("{name} is {state}: {message}"),
        };
        if service.state() == State::Failed && service.run != run {
            return Ok(Health::Failed(text));
        }
        if service.run == run || !service.up {
            return Ok(Health::Not(text));
        }
    }
    let host = of_host(client).await?;
    let shortest = listed.iter().map(|service| time::span(&service.lasts)).min().unwrap_or_default();
    Ok(match host {
        Health::Healthy(lasts) => Health::Healthy(lasts.min(shortest)),
        not => not,
    })
}

/// How the host is, by itself.
pub async fn of_host(client: &Client) -> Result<Health, Failure> {
    let request = GetHealthRequest { group: String::new() };
    let report: HealthReport = answer(client.health().get(request)).await?.health.unwrap_or_default();
    Ok(match (report.state(), report.culprits.first()) {
        // It is longer than that of the state, which begins after the minimum of the machine file.
        (health_report::State::Healthy, _) => Health::Healthy(time::span(&report.steady)),
        (_, Some(culprit)) => Health::Not(format!("{}: {}", culprit.service, culprit.reason)),
        (_, None) => Health::Not(report.message),
    })
}
