//! `health`: whether all that should be up is up, and who is not.

use std::time::{Duration, SystemTime};

use kelson_api::client::Client;
use kelson_proto::v1::health_report::State;
use kelson_proto::v1::{
    Culprit, FileWarning, GetHealthRequest, HealthReport, ListHealthRequest, ListHealthResponse,
    WatchHealthRequest,
};

use crate::call::{Call, Run};
use crate::failure::{Failure, answer};
use crate::output::{
    Page, Table, Terminal, Tone, View as _, escape, faulty, health_name, joined, nearest, object, state_name,
    state_tone, time, toned,
};
use crate::watching::parse_period;

/// The host's last word on a timeout is waited for a little longer than the timeout.
const GRACE: Duration = Duration::from_secs(2);

/// Show whether the host, or a group of services, is healthy
///
/// The host is healthy once every required service is up, or a finished
/// one-shot, at the same time and without a break for the minimum of the
/// machine file. For a group with a file that file counts, and all checks in it
/// must pass as well. Exits with status 0 if it is healthy and 1 if not. Files
/// with mistakes are warnings: services run with the versions read before.
///
/// Examples:
///   kelsonctl health
///   kelsonctl health --watch
///   kelsonctl health shop --wait --timeout 2m && echo open
///   kelsonctl health -o json | jq -r '.culprits[].service'
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// A group of services [default: the host]
    #[arg(value_name = "GROUP")]
    group: Option<String>,
    /// Wait until it is healthy, or has failed
    #[arg(short, long)]
    wait: bool,
    /// Show it again every 2s, or at this interval
    #[arg(long, value_name = "D", num_args = 0..=1, require_equals = true, default_missing_value = "2s",
          value_parser = parse_period, conflicts_with = "wait")]
    pub watch: Option<Duration>,
    /// Give up after this time, such as 30s or 5m, with status 5
    #[arg(short, long, value_name = "D", value_parser = time::parse_timeout, requires = "wait")]
    timeout: Option<Duration>,
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let client = call.client()?;
        let group = self.group.clone().unwrap_or_default();
        let (report, groups) = if self.wait {
            match self.timeout {
                None => (watch(call, &client, &group).await?, None),
                Some(limit) => match tokio::time::timeout(limit, watch(call, &client, &group)).await {
                    Ok(report) => (report?, None),
                    Err(_) => return Err(timed_out(call, &client, &group, limit).await),
                },
            }
        } else if group.is_empty() {
            let ListHealthResponse { node, groups } =
                answer(client.health().list(ListHealthRequest {})).await?;
            (node.unwrap_or_default(), Some(groups))
        } else {
            (get(&client, &group).await?, None)
        };
        show(call, &report, groups.as_deref())?;
        if report.state() == State::Healthy { Ok(()) } else { Err(Failure::Reported) }
    }
}

async fn get(client: &Client, group: &str) -> Result<HealthReport, Failure> {
    match answer(client.health().get(GetHealthRequest { group: group.to_owned() })).await {
        Ok(answer) => Ok(answer.health.unwrap_or_default()),
        Err(failure) => Err(explain(failure, client, group).await),
    }
}

/// A group that was mistyped.
async fn explain(failure: Failure, client: &Client, group: &str) -> Failure {
    let Failure::Unknown(said) = failure else { return failure };
    let Ok(known) = answer(client.health().list(ListHealthRequest {})).await else {
        return Failure::Unknown(said);
    };
    let names: Vec<&str> = known.groups.iter().map(|report| report.group.as_str()).collect();
    match nearest(group, names.iter().copied()) {
        Some(near) => Failure::Unknown(format!("{said}; did you mean \"{near}\"?")),
        None if names.is_empty() => Failure::Unknown(format!("{said}; no service is in any")),
        None => Failure::Unknown(format!("{said}; there are: {}", names.join(", "))),
    }
}

/// Until it is healthy or has failed.
async fn watch(call: &Call, client: &Client, group: &str) -> Result<HealthReport, Failure> {
    let mut progress = call.progress();
    // Asked first: who cannot be reached now is not waited for.
    let mut last = get(client, group).await?;
    let mut reconnect = call.reconnect();
    let decided = |report: &HealthReport| matches!(report.state(), State::Healthy | State::Failed);
    while !decided(&last) {
        let request = WatchHealthRequest { group: group.to_owned() };
        let broken = match client.health().watch(request).await {
            Err(status) => Failure::from(status),
            Ok(stream) => {
                let mut stream = stream.into_inner();
                loop {
                    match stream.message().await {
                        Ok(Some(message)) => {
                            reconnect.works();
                            last = message.health.unwrap_or_default();
                            if decided(&last) {
                                return Ok(last);
                            }
                            if call.is_table() {
                                progress.show(&waits_for(&last));
                            }
                        }
                        Ok(None) => break Failure::NotReachable("the host ended the stream".to_owned()),
                        Err(status) => break Failure::from(status),
                    }
                }
            }
        };
        // PID 1 re-executes itself, or it ends: then no connection comes.
        match broken {
            passing if passing.is_passing() => reconnect.pause(passing).await?,
            failure => return Err(explain(failure, client, group).await),
        }
    }
    Ok(last)
}

fn waits_for(report: &HealthReport) -> String {
    let names: Vec<String> = report.culprits.iter().map(name).collect();
    match names.len() {
        0 => "all are up, waiting until they have been for long enough".to_owned(),
        1..=3 => format!("waiting for {}", names.join(", ")),
        count if report.culprits.iter().all(|culprit| culprit.check.is_empty()) => {
            format!("waiting for {count} services")
        }
        count => format!("waiting for {count} checks"),
    }
}

/// A service by its name, a check of the group as `check NAME`.
fn name(culprit: &Culprit) -> String {
    match culprit.check.as_str() {
        "" => culprit.service.clone(),
        check => format!("check {check}"),
    }
}

async fn timed_out(call: &Call, client: &Client, group: &str, limit: Duration) -> Failure {
    // How it is now tells why; where not even that comes, the time is over all the same.
    if let Ok(Ok(report)) = tokio::time::timeout(GRACE, get(client, group)).await
        && let Err(failure) = show(call, &report, None)
    {
        return failure;
    }
    Failure::TimedOut(format!("{} not healthy within {}", subject(group), kelson_spec::duration_text(limit)))
}

fn subject(group: &str) -> String {
    if group.is_empty() { "the host".to_owned() } else { format!("group {}", escape(group)) }
}

fn show(call: &Call, report: &HealthReport, groups: Option<&[HealthReport]>) -> Result<(), Failure> {
    // Of the host alone, and not while it is awaited.
    let view = match groups {
        Some(groups) => joined(report.view(), object!(groups: groups.to_vec())),
        None => report.view(),
    };
    let text = || text(report, groups.unwrap_or_default(), &call.terminal, SystemTime::now());
    call.show(&view, || Page::Text(text()))
}

pub fn tone(state: State) -> Tone {
    match state {
        State::Unspecified => Tone::Plain,
        State::Pending => Tone::Busy,
        State::Healthy => Tone::Good,
        State::Unhealthy | State::Failed => Tone::Bad,
    }
}

pub fn lasts(report: &HealthReport) -> String {
    report.lasts.as_ref().map(|lasts| time::relative(time::duration(lasts))).unwrap_or_default()
}

fn text(report: &HealthReport, groups: &[HealthReport], terminal: &Terminal, now: SystemTime) -> String {
    let state = terminal.palette.paint(tone(report.state()), health_name(report.state()));
    let mut out = format!(
        "{} is {state} (for {}): {}\n",
        subject(&report.group),
        lasts(report),
        escape(&report.message)
    );
    if !report.culprits.is_empty() {
        out.push('\n');
        out += &culprits(&report.culprits, terminal, now);
    } else if let Some(last) = report.last_break.as_ref().filter(|_| report.state() != State::Healthy) {
        let since = time::age(&last.lasts, &last.since, now).map(time::relative);
        let (name, reason) = (name(last), escape(&last.reason));
        out += &format!("the last break, {} ago: {}: {reason}\n", since.unwrap_or_default(), escape(&name));
    }
    if !report.optional.is_empty() {
        out += "\nnot up, and not required:\n";
        out += &culprits(&report.optional, terminal, now);
    }
    if !report.warnings.is_empty() {
        out.push('\n');
        let paint = |line: &str| terminal.palette.paint(Tone::Waiting, &escape(line));
        report.warnings.iter().for_each(|file| out += &format!("{}\n", paint(&warning(file, now))));
    }
    if !groups.is_empty() {
        let table = Table::of(groups)
            .left("GROUP", |group| &group.group)
            .left("HEALTH", |group| toned(tone(group.state()), health_name(group.state())))
            .left("SINCE", |group| lasts(group))
            .cut("WHY", |group| &group.message);
        out.push('\n');
        out += &table.render(terminal.width, terminal.palette);
    }
    out
}

/// `warning: web: /etc/kelson/services/web.yaml:2:3: unknown key; the version read 5m ago (…) is in use`
fn warning(warning: &FileWarning, now: SystemTime) -> String {
    let file = warning.file.clone().unwrap_or_default();
    let mut parts: Vec<String> = file.mistakes.iter().map(faulty::mistake).collect();
    parts.extend(file.earlier_in_use.then(|| format!("{} is in use", faulty::earlier(&file, now))));
    let of = if warning.service.is_empty() { String::new() } else { format!("{}: ", warning.service) };
    format!("warning: {of}{}", parts.join("; "))
}

fn culprits(culprits: &[Culprit], terminal: &Terminal, now: SystemTime) -> String {
    let since = |culprit: &Culprit| time::age(&culprit.lasts, &culprit.since, now).map(time::relative);
    Table::of(culprits)
        .left("SERVICE", |culprit| name(culprit))
        .left("STATE", |culprit| toned(state_tone(culprit.state(), false), state_name(culprit.state())))
        .left("SINCE", |culprit| since(culprit).unwrap_or_default())
        .cut("REASON", |culprit| &culprit.reason)
        .render(terminal.width, terminal.palette)
}
