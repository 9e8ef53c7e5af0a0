//! `status`: one service whole, or the host at a glance.

mod host;

use std::fmt::Write as _;
use std::time::SystemTime;

use kelson_proto::v1::check::Standing;
use kelson_proto::v1::line::Stream;
use kelson_proto::v1::{Check, CheckResult, Event, Line, Service, State, StatusRequest, StatusResponse};

use super::last_lines::last_lines;
use super::newer_secrets::newer_secrets;
use super::services::is_idle;
use crate::call::{Call, Run};
use crate::failure::{Failure, answer_about};
use crate::output::views::service::written_spec;
use crate::output::{
    Page, Table, Terminal, Tone, escape, escape_bytes, escape_lines, faulty, retry, service_tone, size,
    standing_name, state_name, state_tone, time, toned,
};

/// How many lines of its log are shown.
const LINES: u32 = 10;

/// Show the host at a glance, or one service whole
///
/// Of the host it shows version, uptime, health, the number of services in each
/// state, and the services that failed or wait. Of a service it shows the state
/// and its reason, events, spec, and last log lines.
///
/// Examples:
///   kelsonctl status
///   kelsonctl status db
///   kelsonctl status db -o json | jq .memoryBytes
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The service [default: the host]
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let client = call.client()?;
        let Some(name) = self.name else { return host::run(call, &client).await };
        let request = StatusRequest { name: name.clone() };
        let status =
            answer_about(&client, std::slice::from_ref(&name), client.services().status(request)).await?;
        let mut shown = String::new();
        if call.is_table() {
            let lines = last_lines(&client, &name, LINES, None).await;
            // Asked only of a service that may have some.
            let newer = match status.spec.contains("secrets") {
                true => newer_secrets(&client, &name).await,
                false => None,
            };
            shown = page(&status, newer, &call.terminal, SystemTime::now()) + &log(lines, &call.terminal);
        }
        call.show(&status, || Page::Text(shown))
    }
}

/// The last lines of its log, or why there are none to show.
fn log(lines: Result<Vec<Line>, Failure>, terminal: &Terminal) -> String {
    let head = terminal.palette.paint(Tone::Strong, "Last lines of its log");
    let rows = match lines {
        Ok(lines) if lines.is_empty() => return String::new(),
        Ok(lines) => {
            let tone = |line: &Line| match line.stream() {
                Stream::Stdout => Tone::Plain,
                _ => Tone::Waiting,
            };
            let when = |line: &Line| line.time.as_ref().map(time::rfc3339).unwrap_or_default();
            let table = Table::of(&lines)
                .left("TIME", |line| toned(Tone::Quiet, when(line)))
                .cut("LINE", |line| toned(tone(line), escape_bytes(&line.text)));
            table.bare().render(terminal.width.map(|width| width.saturating_sub(2)), terminal.palette)
        }
        Err(why) => escape(&why.to_string()).into_owned(),
    };
    let rows: String = rows.lines().map(|row| format!("  {row}\n")).collect();
    format!("\n{head}\n{rows}")
}

/// All that is known, in four parts: facts, checks, events, spec. `newer`: what is to be said of its secrets.
pub fn page(status: &StatusResponse, newer: Option<String>, terminal: &Terminal, now: SystemTime) -> String {
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
    let mut last = "";
    let newer = newer.map(|text| ("secrets", palette.paint(Tone::Waiting, &escape(&text))));
    for (what, value) in facts(status, now, terminal).into_iter().chain(newer) {
        // The lines of a mistake are one fact.
        let what = if std::mem::replace(&mut last, what) == what { "" } else { what };
        let what = if what.is_empty() { String::new() } else { format!("{what}:") };
        line(format!("  {} {value}", palette.paint(Tone::Quiet, &format!("{what:<12}"))));
    }
    if !status.checks.is_empty() {
        line(String::new());
        line(palette.paint(Tone::Strong, "Checks"));
        let checked = status.checks.iter().any(|each| each.since.is_some());
        status
            .checks
            .iter()
            .flat_map(|each| check(each, checked, now, terminal))
            .for_each(|row| line(format!("  {row}")));
    }
    if !status.events.is_empty() {
        line(String::new());
        line(palette.paint(Tone::Strong, "Last events"));
        let when = |event: &Event| event.time.as_ref().map_or(String::new(), |at| terminal.time(at, now));
        let table = Table::of(&status.events)
            .right("SEQ", |event| toned(Tone::Quiet, event.seq.to_string()))
            .left("TIME", |event| when(event))
            .left("STATE", |event| toned(state_tone(event.state(), true), state_name(event.state())))
            .cut("MESSAGE", |event| &event.message);
        let room = terminal.width.map(|width| width.saturating_sub(2));
        table.render(room, palette).lines().for_each(|row| line(format!("  {row}")));
    }
    if !status.spec.is_empty() {
        line(String::new());
        line(palette.paint(Tone::Strong, "Spec"));
        let spec = written_spec(&status.spec).map_or_else(|| status.spec.clone(), |spec| spec.file());
        escape_lines(spec.trim_end()).lines().for_each(|row| line(format!("  {row}")));
    }
    out
}

/// A check: its name, its state, its last results in a row, and the output of the last. `checked`: the service is.
fn check(check: &Check, checked: bool, now: SystemTime, terminal: &Terminal) -> Vec<String> {
    let palette = terminal.palette;
    let (good, bad) = if terminal.unicode { ("✓", "✗") } else { ("+", "-") };
    let tone = match check.standing() {
        Standing::Passing => Tone::Good,
        Standing::Failing => Tone::Bad,
        Standing::Pending | Standing::Unspecified => Tone::Quiet,
    };
    let name = palette.paint(Tone::Strong, &escape(&check.name));
    let part = match (check.startup, check.registration) {
        (true, _) => ", startup",
        (_, true) => ", registration",
        _ => "",
    };
    let stands = match check.since {
        Some(_) => standing_name(check.standing()),
        None if checked => "begins once the startup checks pass",
        None => "not asked now",
    };
    let mut head = format!("{name} ({}{part}): {}", escape(&check.kind), palette.paint(tone, stands));
    if let Some(lasts) = time::age(&check.lasts, &check.since, now) {
        let _ = write!(head, " for {}", time::relative(lasts));
    }
    if let Some(late) = &check.late {
        let late = format!("late by {}", time::relative(time::duration(late)));
        let _ = write!(head, ", {}", palette.paint(Tone::Waiting, &late));
    }
    let mut rows = vec![head];
    if let Some(last) = check.results.last() {
        let mark = |result: &CheckResult| match result.passed {
            true => palette.paint(Tone::Good, good),
            false => palette.paint(Tone::Bad, bad),
        };
        let mut row: String = check.results.iter().map(mark).collect();
        if let Some(took) = &last.duration {
            let _ = write!(row, "  the last took {}", time::measured(time::duration(took)));
        }
        if let Some(ago) = time::age(&last.ago, &last.time, now) {
            let _ = write!(row, ", {} ago", time::relative(ago));
        }
        rows.push(format!("  {row}"));
        let said = escape_lines(last.output.trim_end());
        rows.extend(said.lines().map(|said| format!("    {said}")));
    }
    rows
}

fn facts(status: &StatusResponse, now: SystemTime, terminal: &Terminal) -> Vec<(&'static str, String)> {
    let service = status.service.clone().unwrap_or_default();
    let palette = terminal.palette;
    let mut facts = Vec::new();
    let mut state = palette.paint(service_tone(&service), state_name(service.state()));
    if let (Some(since), Some(lasts)) = (&service.since, time::age(&service.lasts, &service.since, now)) {
        let _ = write!(state, " for {}, since {}", time::relative(lasts), time::rfc3339(since));
    }
    facts.push(("state", state));
    let mut fact = |what, value: &str| {
        if !value.is_empty() {
            facts.push((what, escape(value).into_owned()));
        }
    };
    fact("message", &retry::message(&service.message, service.retry.as_ref()));
    fact("says", &service.status_text);
    fact(
        "up",
        if service.up {
            "yes"
        } else if is_idle(&service) {
            "no, it has nothing to do"
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
            None if status.checks.is_empty() => "no checks",
            None => not_known(status, &service),
        },
    );
    fact("waiting for", &service.waiting_for.join(", "));
    for (label, value) in demands(status) {
        fact(label, &value);
    }
    fact("needed by", &status.needed_by.join(", "));
    let processes = match (service.pid, status.processes) {
        (Some(pid), Some(count)) if count > 1 => format!("{pid} ({count} processes)"),
        (Some(pid), _) => pid.to_string(),
        (None, Some(count)) if count > 0 => format!("none ({count} processes are left)"),
        (None, _) => String::new(),
    };
    fact("pid", &processes);
    fact("address", &service.addresses.join(", "));
    fact("memory", &status.memory_bytes.map_or(String::new(), size));
    fact("cpu", &status.cpu.as_ref().map_or(String::new(), |cpu| time::measured(time::duration(cpu))));
    let kind = if service.oneshot { ", one-shot" } else { "" };
    fact("restarts", &format!("{} (run {}{kind})", service.restarts, service.run));
    let reasons: Vec<String> =
        service.restarts_by.iter().map(|by| format!("{} {}", by.count, by.reason)).collect();
    fact("again for", &reasons.join(", "));
    fact("group", &service.group);
    if !service.required {
        fact("required", "no: neither the boot nor the host's health waits for it");
    }
    if service.changed {
        let text = match service.state() {
            State::Backoff => "its file or image changed; its next run uses the new one",
            _ => "its file or image changed; its next run uses the new one, also after `kelsonctl restart`",
        };
        fact("changed", text);
    }
    fact(
        "file",
        if service.builtin && status.file.is_empty() { "none, it is built in" } else { &status.file },
    );
    let mistakes = service.faulty_file.iter().flat_map(|file| faulty::lines(file, now));
    facts.extend(mistakes.map(|line| ("mistake", palette.paint(Tone::Waiting, &escape(&line)))));
    facts
}

/// The sockets that are held for it, and the paths that start it; empty where it has none, or its spec is of a release
/// that writes it in another way.
fn demands(status: &StatusResponse) -> [(&'static str, String); 2] {
    let Ok(spec) = serde_json::from_str::<kelson_spec::ServiceSpec>(&status.spec) else {
        return [("sockets", String::new()), ("paths", String::new())];
    };
    let sockets: Vec<String> = spec.sockets.iter().map(ToString::to_string).collect();
    let paths: Vec<String> = spec.paths.iter().map(ToString::to_string).collect();
    [("sockets", sockets.join(", ")), ("paths", paths.join(", "))]
}

/// Why it is not known whether a service with checks is healthy.
fn not_known(status: &StatusResponse, service: &Service) -> &'static str {
    if service.pid.is_none() {
        "nothing is checked while it does not run"
    } else if status.checks.iter().any(|check| check.since.is_some()) {
        "no result yet"
    } else if service.state() == State::Stopping {
        "nothing is checked while it stops"
    } else {
        "nothing is checked before it is ready"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_health_is_not_known() {
        let asked = Check { since: Some(prost_types::Timestamp::default()), ..Check::default() };
        for (pid, state, check, expected) in [
            (None, State::Finished, Check::default(), "nothing is checked while it does not run"),
            (Some(7), State::Starting, Check::default(), "nothing is checked before it is ready"),
            (Some(7), State::Stopping, Check::default(), "nothing is checked while it stops"),
            (Some(7), State::Running, asked, "no result yet"),
        ] {
            let service = Service { pid, state: state.into(), ..Service::default() };
            let status =
                StatusResponse { service: Some(service), checks: vec![check], ..StatusResponse::default() };
            let page = page(&status, None, &Terminal::plain(), SystemTime::now());
            assert!(page.contains(&format!("health:      {expected}\n")), "{page}");
        }
    }
}
