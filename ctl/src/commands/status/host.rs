//! The host at a glance: what it is, how it is, and which services need a look.

use std::collections::BTreeMap;
use std::time::SystemTime;

use kelson_api::client::Client;
use kelson_proto::v1::health_report;
use kelson_proto::v1::{
    GetHealthRequest, HealthReport, ListRequest, Service, State, VersionRequest, VersionResponse,
};
use serde_yaml::Value;

use super::super::health::{lasts, tone};
use super::super::services::{self, is_failed, reason, since};
use crate::call::Call;
use crate::failure::{Failure, answer};
use crate::output::{
    Page, Table, Terminal, Tone, View, escape, health_name, joined, object, state_name, time,
};

pub async fn run(call: &Call, client: &Client) -> Result<(), Failure> {
    let host = Host {
        version: answer(client.machine().version(VersionRequest {})).await?,
        health: answer(client.health().get(GetHealthRequest::default())).await?.health.unwrap_or_default(),
        services: answer(client.services().list(ListRequest::default())).await?.services,
    };
    let now = SystemTime::now();
    call.show(&host.view(now), || Page::Text(host.text(&call.terminal, now)))
}

/// The answer of the host.
struct Host {
    version: VersionResponse,
    health: HealthReport,
    services: Vec<Service>,
}

impl Host {
    fn view(&self, now: SystemTime) -> Value {
        let only = |wanted: fn(&Service) -> bool| {
            self.services.iter().filter(|service| wanted(service)).map(View::view).collect::<Vec<_>>()
        };
        let states = self.states().into_iter().map(|(state, count)| (state_name(state).to_owned(), count));
        let own = object!(
            uptime_ms: time::age(&self.version.uptime, &self.version.started, now),
            health: self.health,
            up: self.up(),
            states: states.collect::<BTreeMap<_, _>>(),
            failed: only(is_failed),
            waiting: only(waits),
        );
        joined(self.version.view(), own)
    }

    fn text(&self, terminal: &Terminal, now: SystemTime) -> String {
        let (version, palette) = (&self.version, terminal.palette);
        let dot = palette.paint(tone(self.health.state()), if terminal.unicode { "●" } else { "*" });
        let name = palette.paint(Tone::Strong, &escape(&version.hostname));
        let mut out = format!(
            "{dot} {name} - Kelson {} in {} mode, Linux {}\n",
            escape(&version.version),
            escape(&version.mode),
            escape(&version.kernel)
        );
        let mut fact = |what: &str, value: String| {
            out += &format!(
                "  {} {value}\n",
                palette.paint(Tone::Quiet, &format!("{:<10}", format!("{what}:")))
            );
        };
        if let (Some(started), Some(uptime)) =
            (&version.started, time::age(&version.uptime, &version.started, now))
        {
            fact("uptime", format!("{}, since {}", time::relative(uptime), time::rfc3339(started)));
        }
        let state = palette.paint(tone(self.health.state()), health_name(self.health.state()));
        fact(
            "health",
            match self.health.state() {
                health_report::State::Unspecified => "not known".to_owned(),
                _ => format!("{state} for {}: {}", lasts(&self.health), escape(&self.health.message)),
            },
        );
        let states = self.states().into_iter().map(|(state, count)| format!("{count} {}", state_name(state)));
        let states = states.collect::<Vec<_>>().join(", ");
        fact("services", format!("{}, {} up: {states}", self.services.len(), self.up()));
        if version.crashes > 0 {
            fact("crashes", format!("{} of PID 1; `kelsonctl events` tells of them", version.crashes));
        }
        let wanted: Vec<&Service> =
            self.services.iter().filter(|service| is_failed(service) || waits(service)).collect();
        if !wanted.is_empty() {
            let table = Table::of(wanted)
                .left("NAME", |service| &service.name)
                .left("STATE", |service| services::state(service))
                .left("SINCE", |service| since(service, now))
                .spare(1)
                .cut("WAITING FOR / WHY", |service| reason(service));
            out += &format!("\n{}\n", palette.paint(Tone::Strong, "Failed or waiting"));
            let room = terminal.width.map(|columns| columns.saturating_sub(2));
            table.render(room, palette).lines().for_each(|row| out += &format!("  {row}\n"));
        }
        out
    }

    fn up(&self) -> usize {
        self.services.iter().filter(|service| service.up).count()
    }

    /// How many services are in each state, in the order of a service's life.
    fn states(&self) -> BTreeMap<State, u32> {
        let mut states = BTreeMap::new();
        self.services.iter().for_each(|service| *states.entry(service.state()).or_default() += 1);
        states
    }
}

fn waits(service: &Service) -> bool {
    service.state() == State::Waiting
}
