//! `services`: all services in a table.

use std::time::{Duration, SystemTime};

use kelson_proto::v1::{ListRequest, Service, State};

use crate::call::{Call, Run};
use crate::failure::{Failure, answer};
use crate::output::{Cell, Page, Rows, Table, Tone, cell, retry, service_tone, state_name, time, toned};
use crate::watching::parse_period;

/// List all services and their state
///
/// Examples:
///   kelsonctl services
///   kelsonctl services --failed
///   kelsonctl services --watch=5s
///   kelsonctl services -o json | jq -r '.[] | select(.up | not).name'
#[derive(Debug, Clone, clap::Args)]
#[command(visible_alias = "list", verbatim_doc_comment)]
pub struct Arguments {
    /// Show them again every 2s, or at this interval
    #[arg(short, long, value_name = "D", num_args = 0..=1, require_equals = true, default_missing_value = "2s",
          value_parser = parse_period)]
    pub watch: Option<Duration>,
    /// Only those that failed, are in backoff, or are unhealthy
    #[arg(long)]
    failed: bool,
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let mut services = answer(call.client()?.services().list(ListRequest::default())).await?.services;
        services.retain(|service| !self.failed || is_failed(service));
        call.show(&services, || Page::Table(table(&services, SystemTime::now())))
    }
}

fn table(services: &[Service], now: SystemTime) -> Table {
    standing(services)
        .left("SINCE", |service| since(service, now))
        .spare(2)
        .right("RESTARTS", |service| restarts(service))
        .spare(1)
        .cut("WAITING FOR / WHY", |service| reason(service))
        .into()
}

/// It failed, is restarted after a failure, or is unhealthy.
pub fn is_failed(service: &Service) -> bool {
    matches!(service.state(), State::Failed | State::Backoff) || service.healthy == Some(false)
}

/// A built-in service that runs once there is something to do.
pub fn is_idle(service: &Service) -> bool {
    service.builtin && service.state() == State::Finished && !service.down
}

/// The beginning of a table of services: how each stands.
pub fn standing<'a>(services: impl IntoIterator<Item = &'a Service>) -> Rows<&'a Service> {
    Table::of(services)
        .left("NAME", |service| &service.name)
        .left("STATE", |service| state(service))
        .left("UP", |service| match service.up {
            true => toned(Tone::Good, "yes"),
            // It has nothing to do, and nobody misses it.
            false if is_idle(service) => toned(Tone::Quiet, "-"),
            false => cell("no"),
        })
        .left("HEALTH", |service| match service.healthy {
            Some(true) => toned(Tone::Good, "healthy"),
            Some(false) => toned(Tone::Bad, "unhealthy"),
            None => toned(Tone::Quiet, "-"),
        })
}

/// The word for its state.
pub fn state(service: &Service) -> Cell {
    toned(service_tone(service), state_name(service.state()))
}

/// How long it has been in its state.
pub fn since(service: &Service, now: SystemTime) -> Cell {
    cell(time::age(&service.lasts, &service.since, now).map_or(String::new(), time::relative))
}

/// How often it was restarted; more than never is worth a look.
pub fn restarts(service: &Service) -> Cell {
    let tone = if service.restarts > 0 { Tone::Waiting } else { Tone::Quiet };
    toned(tone, service.restarts.to_string())
}

/// The conditions that it waits for, or the reason for its state, and anything else that an operator should
/// know at a glance.
pub fn reason(service: &Service) -> Cell {
    let unhealthy = service.healthy == Some(false);
    let (tone, why) = match service.state() {
        _ if !service.waiting_for.is_empty() => {
            (Tone::Waiting, retry::waiting(&service.waiting_for, service.retry.as_ref()))
        }
        State::Failed => (Tone::Bad, service.message.clone()),
        State::Backoff => (Tone::Bad, retry::message(&service.message, service.retry.as_ref())),
        State::Preparing | State::Starting | State::Stopping | State::Skipped => {
            (Tone::Plain, service.message.clone())
        }
        State::Stopped => (Tone::Quiet, service.message.clone()),
        // It runs again, and is not up yet.
        State::Running if service.retry.is_some() => (Tone::Waiting, service.message.clone()),
        _ if unhealthy => (Tone::Bad, service.message.clone()),
        _ => (Tone::Quiet, service.status_text.clone()),
    };
    let faulty = service.faulty_file.as_ref().is_some_and(|file| file.earlier_in_use);
    let tone = if faulty && tone == Tone::Quiet { Tone::Waiting } else { tone };
    let mut parts = vec![why];
    if faulty {
        parts.push("mistake in its file".to_owned());
    }
    if service.changed {
        parts.push("its file or image changed".to_owned());
    }
    if service.builtin {
        parts.push("built-in".to_owned());
    }
    parts.retain(|part| !part.is_empty());
    toned(tone, parts.join("; "))
}
