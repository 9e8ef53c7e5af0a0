//! One volume whole.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use kelson_api::client::Client;
use kelson_proto::v1::{Event, EventsRequest, VolumeProvider, VolumeStatusResponse};

use super::list::{self, Row};
use crate::failure::{Failure, answer};
use crate::output::{Table, Terminal, Tone, cell, escape, or_dash, some, time, toned, views};

/// How many of its events are shown.
const EVENTS: usize = 10;

/// What is known of a volume.
pub struct Shown {
    name: String,
    status: VolumeStatusResponse,
    uses: Vec<Row>,
    /// The last ones of it.
    events: Vec<Event>,
}

views! {
    // `plugin`, `id`: null where the file of the volume cannot be read, and `file_error` says why. `fs_type`: null where the
    // plugin decides. `step`: the call under way, null where there is none.
    Shown: shown {
        name, plugin: some(&shown.status.plugin), id: some(&shown.status.id), fs_type: some(&shown.status.fs_type),
        mount_flags: shown.status.mount_flags, file_error: some(&shown.status.file_error), step: some(shown.step()),
        providers: shown.status.providers, uses, events,
    }
}

/// All events that the host keeps.
pub async fn events(client: &Client) -> Result<Vec<Event>, Failure> {
    let mut stream = answer(client.services().events(EventsRequest::default())).await?;
    let mut events = Vec::new();
    while let Some(batch) = stream.message().await? {
        events.extend(batch.events);
    }
    Ok(events)
}

impl Shown {
    /// `events`: of any volume and service.
    pub fn new(name: String, status: VolumeStatusResponse, mut events: Vec<Event>) -> Shown {
        events.retain(|event| event.details.get("volume") == Some(&name));
        events.drain(..events.len().saturating_sub(EVENTS));
        let uses = status.uses.iter().flat_map(list::rows).collect();
        Shown { name, status, uses, events }
    }

    fn step(&self) -> &str {
        self.status.uses.first().map_or("", |volume| &volume.step)
    }

    /// Facts, uses, events.
    pub fn page(&self, terminal: &Terminal, now: SystemTime) -> String {
        let palette = terminal.palette;
        let mut out = format!("{}\n", palette.paint(Tone::Strong, &escape(&self.name)));
        for (what, value, tone) in self.facts() {
            let what = palette.paint(Tone::Quiet, &format!("{:<12}", format!("{what}:")));
            let _ = writeln!(out, "  {what} {}", palette.paint(tone, &escape(&value)));
        }
        let mut part = |head: &str, table: Table| {
            let _ = write!(out, "\n{}\n", palette.paint(Tone::Strong, head));
            let room = terminal.width.map(|width| width.saturating_sub(2));
            table.render(room, palette).lines().for_each(|row| _ = writeln!(out, "  {row}"));
        };
        if !self.uses.is_empty() {
            part("Uses", uses(&self.uses));
        }
        if !self.events.is_empty() {
            let when = |event: &Event| event.time.as_ref().map_or(String::new(), |at| terminal.time(at, now));
            let table = Table::of(&self.events)
                .right("SEQ", |event| toned(Tone::Quiet, event.seq.to_string()))
                .left("TIME", |event| when(event))
                .left("SERVICE", |event| or_dash(some(&event.service)))
                .cut("MESSAGE", |event| &event.message);
            part("Last events", table.into());
        }
        out
    }

    fn facts(&self) -> Vec<(&'static str, String, Tone)> {
        let VolumeStatusResponse { plugin, id, fs_type, mount_flags, file_error, providers, .. } =
            &self.status;
        let mut facts = Vec::new();
        let mut add = |what, value: &str, tone| {
            if !value.is_empty() {
                facts.push((what, value.to_owned(), tone));
            }
        };
        add("file", file_error, Tone::Bad);
        add("plugin", plugin, Tone::Plain);
        add("id", id, Tone::Plain);
        add("file system", fs_type, Tone::Plain);
        add("options", &mount_flags.join(","), Tone::Plain);
        for provider in providers {
            add("provider", &described(provider), if provider.serves { Tone::Plain } else { Tone::Waiting });
        }
        if providers.is_empty() && file_error.is_empty() {
            add("provider", "no service of the host provides the plugin", Tone::Bad);
        }
        if self.uses.is_empty() {
            add("uses", "no service uses it", Tone::Quiet);
        }
        add("under way", self.step(), Tone::Waiting);
        facts
    }
}

/// The service, and what the plugin says of itself.
fn described(provider: &VolumeProvider) -> String {
    let VolumeProvider { service, name, version, serves, error, .. } = provider;
    match (serves, error.as_str()) {
        (true, _) => format!("service {service}: {name} {version}"),
        (false, "") => format!("service {service}: {name} {version}; a newer one serves"),
        (false, error) => format!("service {service}: {error}"),
    }
}

fn uses(rows: &[Row]) -> Table {
    let trouble = |row: &&Row| match (row.trouble.as_str(), row.attempt) {
        ("", _) => cell(""),
        (trouble, attempt) => {
            let again = row.again_ms.map(|ms| time::relative(Duration::from_millis(u64::from(ms))));
            let again = again.map(|span| format!(", again in {span}")).unwrap_or_default();
            toned(Tone::Bad, format!("{trouble}, attempt {attempt}{again}"))
        }
    };
    Table::of(rows)
        .left("SERVICE", |row| or_dash(some(&row.service)))
        .left("STATE", list::state)
        .left("USAGE", |row| &row.usage)
        .left("PATH", |row| or_dash(some(&row.path)))
        .cut("TROUBLE", trouble)
        .into()
}
