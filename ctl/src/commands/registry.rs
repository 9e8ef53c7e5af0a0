//! `registry`: what the services of a host register.

use std::collections::BTreeMap;

use kelson_api::client::Client;
use kelson_proto::v1::{FleetRegistration, FleetRegistryRequest};

use crate::call::{Call, Run};
use crate::failure::{Failure, answer};
use crate::output::{Cell, Page, Table, Tone, cell, or_dash, some, toned, views};

/// List what the services of a host register
///
/// A service with `register` in its file is registered while it is up and
/// healthy. `kelsonctl fleet services` lists those of the whole fleet.
///
/// Examples:
///   kelsonctl registry
///   kelsonctl -n all registry
///   kelsonctl registry -o json | jq -r '.[] | select(.problem).service'
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {}

views! {
    // `address`: null where the host has none that others reach, or it is not found yet. `port`: null where it registers
    // none. `up`: it is up and healthy, and should be registered. `state`: absent, registering, registered, removing.
    // `problem`: null where nothing is wrong.
    FleetRegistration: registration {
        service, name, address: some(&registration.address), port: port(registration.port), tags,
        meta: registration.meta.iter().collect::<BTreeMap<_, _>>(), up, state, problem: some(&registration.problem),
    }
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let registrations = ask(&call.client()?).await?;
        call.show(&registrations, || Page::Table(table(&registrations)))
    }
}

/// Of all services of the host that have `register`.
pub async fn ask(client: &Client) -> Result<Vec<FleetRegistration>, Failure> {
    Ok(answer(client.fleet().registry(FleetRegistryRequest {})).await?.registrations)
}

/// A sentence about the registration of a service that has a problem. `None`: it has none, or that cannot be asked.
pub async fn problem(client: &Client, service: &str) -> Option<String> {
    let registrations = ask(client).await.ok()?;
    let of_it = |one: &&FleetRegistration| one.service == service && !one.problem.is_empty();
    registrations
        .iter()
        .find(of_it)
        .map(|one| format!("registration as {}: {}, {}", one.name, one.state, one.problem))
}

/// `None`: it has none.
pub fn port(port: u32) -> Option<u32> {
    Some(port).filter(|port| *port > 0)
}

fn table(registrations: &[FleetRegistration]) -> Table {
    Table::of(registrations)
        .left("SERVICE", |one| &one.service)
        .left("NAME", |one| &one.name)
        .left("ADDRESS", |one| or_dash(some(&one.address)))
        .right("PORT", |one| or_dash(port(one.port).map(|port| port.to_string())))
        .cut("TAGS", |one| one.tags.join(","))
        .spare(1)
        .left("STATE", |one| state(one))
        .cut("WHY", |one| why(one))
        .into()
}

fn state(registration: &FleetRegistration) -> Cell {
    let tone = match registration.state.as_str() {
        "registered" => Tone::Good,
        "absent" if !registration.up => Tone::Quiet,
        _ => Tone::Waiting,
    };
    toned(tone, &registration.state)
}

fn why(registration: &FleetRegistration) -> Cell {
    match registration.problem.as_str() {
        "" if registration.up => cell(""),
        "" => toned(Tone::Quiet, "it is not up and healthy"),
        problem => toned(Tone::Bad, problem),
    }
}
