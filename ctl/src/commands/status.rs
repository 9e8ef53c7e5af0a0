//! `status`: one service whole.

use std::fmt::Write as _;
use std::time::SystemTime;

use kelson_proto::v1::{Service, StatusRequest, StatusResponse};

use super::Call;
use crate::failure::{Failure, answer, explain_names};
use crate::output::size::size;
use crate::output::style::{Tone, service_tone, state_name, state_tone};
use crate::output::table::{Table, cell, toned};
use crate::output::terminal::Terminal;
use crate::output::text::{escape, escape_lines};
use crate::output::{print, time, views};

/// Show one service whole: state, why, last events, spec
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kelsonctl status db
  kelsonctl status db -o json | jq .memoryBytes")]
pub struct Arguments {
    /// The service
    #[arg(value_name = "NAME")]
    name: String,
}

pub async fn run(call: &Call, arguments: Arguments) -> Result<(), Failure> {
    let client = call.client()?;
    let names = [arguments.name.clone()];
    let status = match answer(client.services().status(StatusRequest { name: arguments.name })).await {
        Ok(status) => status,
        Err(failure) => return Err(explain_names(failure, &client, &names).await),
    };
    if call.is_table() {
        print(&page(&status, &call.terminal, SystemTime::now()))
    } else {
        call.format.print(&views::Status::from(&status))
    }
}

/// All that is known, in three parts: facts, events, spec.
fn page(status: &StatusResponse, terminal: &Terminal, now: SystemTime) -> String {
    let service = status.service.clone().unwrap_or_default();
    let palette = terminal.palette;
    let tone = service_tone(&service);
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };

    let dot = palette.paint(tone, if terminal.unicode { "●" } else { "*" });
    let name = palette.paint(Tone::Strong, &escape(&service.name));
    line(match service.description.as_str() {
        "" => format!("{dot} {name}"),
        about => format!("{dot} {name} - {}", escape(about)),
    });
    for (what, value) in facts(status, now, terminal) {
        line(format!("  {} {value}", palette.paint(Tone::Quiet, &format!("{:<12}", format!("{what}:")))));
    }
    if !status.events.is_empty() {
        line(String::new());
        line(palette.paint(Tone::Strong, "Last events"));
        let mut table = Table::new(&["SEQ", "TIME", "STATE", "MESSAGE"]).right(&[0]);
        for event in &status.events {
            let tone = state_tone(event.state(), true);
            table.row(vec![
                toned(Tone::Quiet, event.seq.to_string()),
                cell(event.time.as_ref().map_or(String::new(), time::rfc3339)),
                toned(tone, state_name(event.state())),
                cell(&event.message),
            ]);
        }
        let room = terminal.width.map(|width| width.saturating_sub(2));
        table.render(room, palette).lines().for_each(|row| line(format!("  {row}")));
    }
    if !status.spec.is_empty() {
        line(String::new());
        line(palette.paint(Tone::Strong, "Spec"));
        escape_lines(status.spec.trim_end()).lines().for_each(|row| line(format!("  {row}")));
    }
    out
}

fn facts(status: &StatusResponse, now: SystemTime, terminal: &Terminal) -> Vec<(&'static str, String)> {
    let service = status.service.clone().unwrap_or_default();
    let palette = terminal.palette;
    let mut facts = Vec::new();
    let mut state = palette.paint(service_tone(&service), &state(&service));
    if let Some(since) = &service.since {
        let ago = time::relative(time::ago(since, now));
        let _ = write!(state, " for {ago}, since {}", time::rfc3339(since));
    }
    facts.push(("state", state));
    let mut fact = |what, value: &str| {
        if !value.is_empty() {
            facts.push((what, escape(value).into_owned()));
        }
    };
    fact("message", &service.message);
    fact("says", &service.status_text);
    fact(
        "up",
        if service.up {
            "yes"
        } else if service.down {
            "no, and it is down"
        } else {
            "no"
        },
    );
    fact(
        "health",
        match service.healthy {
            Some(true) => "healthy",
            Some(false) => "unhealthy",
            None => "no checks, or no result yet",
        },
    );
    fact("waiting for", &service.waiting_for.join(", "));
    fact("needed by", &status.needed_by.join(", "));
    let processes = match (service.pid, status.processes) {
        (Some(pid), Some(count)) if count > 1 => format!("{pid} ({count} processes)"),
        (Some(pid), _) => pid.to_string(),
        (None, Some(count)) if count > 0 => format!("none ({count} processes are left)"),
        (None, _) => String::new(),
    };
    fact("pid", &processes);
    fact("memory", &status.memory_bytes.map_or(String::new(), size));
    fact("cpu", &status.cpu.as_ref().map_or(String::new(), |cpu| time::measured(time::duration(cpu))));
    let kind = if service.oneshot { ", one-shot" } else { "" };
    fact("restarts", &format!("{} (run {}{kind})", service.restarts, service.run));
    if service.changed {
        fact("changed", "its file changed since it was started; `kelsonctl restart` takes the change up");
    }
    fact(
        "file",
        if service.builtin && status.file.is_empty() { "none, it is built in" } else { &status.file },
    );
    facts
}

/// The state with what qualifies it: `finished (stopped)`.
fn state(service: &Service) -> String {
    let word = state_name(service.state());
    if service.stopped { format!("{word} (stopped)") } else { word.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelson_proto::v1::{Event, State};
    use std::time::Duration;

    #[test]
    fn the_whole_of_a_service() {
        let mut service = Service {
            name: "db".to_owned(),
            description: "the database".to_owned(),
            up: true,
            pid: Some(812),
            restarts: 1,
            run: 2,
            since: Some(prost_types::Timestamp { seconds: 1000, nanos: 0 }),
            message: "ready".to_owned(),
            ..Service::default()
        };
        service.set_state(State::Running);
        let mut event = Event {
            seq: 31,
            time: Some(prost_types::Timestamp { seconds: 1000, nanos: 0 }),
            service: "db".to_owned(),
            message: "ready\x1b[2J".to_owned(),
            ..Event::default()
        };
        event.set_state(State::Running);
        let status = StatusResponse {
            service: Some(service),
            spec: "name: db\nstop: {timeout: 10s}\n".to_owned(),
            events: vec![event],
            memory_bytes: Some(12_345_678),
            cpu: Some(prost_types::Duration { seconds: 1, nanos: 234_000_000 }),
            processes: Some(3),
            needed_by: vec!["web".to_owned(), "job".to_owned()],
            file: "/etc/kelson/services/db.yaml".to_owned(),
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1005);
        assert_eq!(
            page(&status, &Terminal::plain(), now),
            "\
● db - the database
  state:       running for 5s, since 1970-01-01T00:16:40.000Z
  message:     ready
  up:          yes
  health:      no checks, or no result yet
  needed by:   web, job
  pid:         812 (3 processes)
  memory:      11.8 MiB
  cpu:         1.234 s
  restarts:    1 (run 2)
  file:        /etc/kelson/services/db.yaml

Last events
  SEQ  TIME                      STATE    MESSAGE
   31  1970-01-01T00:16:40.000Z  running  ready\\x1b[2J

Spec
  name: db
  stop: {timeout: 10s}
"
        );
    }
}
