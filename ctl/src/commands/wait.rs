//! `wait`: for scripts, until services are up, down or finished.

use std::time::{Duration, Instant};

use kelson_api::client::Client;
use kelson_proto::v1::wait_request::For;
use kelson_proto::v1::{ListRequest, Service, WaitRequest, WaitResponse};

use super::Call;
use super::awaiting::{Goal, awaiting};
use crate::failure::{Failure, answer, explain_names};
use crate::output::page::Page;
use crate::output::style::state_name;
use crate::output::text::list;
use crate::output::{time, views};

/// The host's own answer to a timeout is waited for a little longer than the timeout.
const GRACE: Duration = Duration::from_secs(2);

/// Wait until services are up, down or finished
///
/// Ends with status 0 once that holds for all of them at the same time, with 5
/// when the time is over.
#[derive(Debug, Clone, clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kelsonctl wait db web --for up --timeout 30s
  kelsonctl wait migrate --for finished && kelsonctl start web"
)]
pub struct Arguments {
    /// The services
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// What to wait for
    #[arg(long = "for", value_enum, value_name = "WHAT")]
    event: Event,
    /// Give up after this time, such as 500ms, 30s or 5m
    #[arg(short, long, value_name = "D", value_parser = time::parse_timeout)]
    timeout: Option<Duration>,
}

/// What a service can be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Event {
    /// It runs, and all that tells of its health says so now
    Up,
    /// It has ended, was stopped, or will not be started
    Down,
    /// It ended successfully by itself
    Finished,
}

impl Event {
    fn word(self) -> &'static str {
        match self {
            Event::Up => "up",
            Event::Down => "down",
            Event::Finished => "finished",
        }
    }

    fn wire(self) -> For {
        match self {
            Event::Up => For::Up,
            Event::Down => For::Down,
            Event::Finished => For::Finished,
        }
    }

    fn goal(self) -> Goal {
        match self {
            Event::Up => Goal::Up,
            Event::Down => Goal::Down,
            Event::Finished => Goal::Finished,
        }
    }
}

pub async fn run(call: &Call, arguments: Arguments) -> Result<(), Failure> {
    let client = call.client()?;
    let deadline = arguments.timeout.map(|timeout| Instant::now() + timeout);
    let began = Instant::now();
    // Asked first: who cannot be reached now is not waited for.
    now(&client, &arguments.names).await?;
    let mut reconnect = call.reconnect();
    let answer = loop {
        let attempt = once(&client, &arguments, deadline);
        match awaiting(call, &client, &arguments.names, arguments.event.goal(), began, attempt).await {
            Ok(answer) => break answer,
            // PID 1 executes itself anew: what is waited for may still come.
            Err(failure) if failure.is_passing() => reconnect.pause(failure).await?,
            Err(failure) => return Err(explain_names(failure, &client, &arguments.names).await),
        }
    };
    let view = || views::Wait { reached: answer.reached, services: views::services(&answer.services) };
    // Scripts wait, and people are told only what is missing.
    call.show(view, || Page::Lines(String::new()))?;
    if answer.reached {
        return Ok(());
    }
    let missing: Vec<&Service> =
        answer.services.iter().filter(|service| !arguments.event.goal().holds(service)).collect();
    missing.iter().for_each(|service| call.note(&lacking(service)));
    Err(Failure::TimedOut(format!(
        "{} not {} within {}; `kelsonctl why {}` tells what it waits for",
        list(&arguments.names),
        arguments.event.word(),
        kelson_spec::duration_text(arguments.timeout.unwrap_or_default()),
        missing.first().map_or("NAME", |service| service.name.as_str())
    )))
}

/// The services as they are now.
///
/// # Errors
/// The host cannot be asked, or does not know one of them.
async fn now(client: &Client, names: &[String]) -> Result<Vec<Service>, Failure> {
    let request = ListRequest { names: names.to_vec() };
    match answer(client.services().list(request)).await {
        Ok(answer) if names.iter().all(|name| answer.services.iter().any(|s| s.name == *name)) => {
            Ok(answer.services)
        }
        Ok(_) => {
            let unknown = Failure::Unknown(format!("no service {}", list(names)));
            Err(explain_names(unknown, client, names).await)
        }
        Err(failure) => Err(explain_names(failure, client, names).await),
    }
}

/// One attempt; the host's own "time is over" and ours come out the same.
async fn once(
    client: &Client,
    arguments: &Arguments,
    deadline: Option<Instant>,
) -> Result<WaitResponse, Failure> {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let mut request = WaitRequest {
        names: arguments.names.clone(),
        timeout: left.map(time::to_wire),
        ..WaitRequest::default()
    };
    request.set_event(arguments.event.wire());
    let mut services = client.services();
    let call = async { Ok(services.wait(request).await?.into_inner()) };
    let answer = match left {
        None => call.await,
        Some(left) => tokio::time::timeout(left + GRACE, call)
            .await
            .unwrap_or_else(|_| Err(Failure::TimedOut("the host did not answer".to_owned()))),
    };
    match answer {
        Err(Failure::TimedOut(_)) => {
            Ok(WaitResponse { reached: false, services: now(client, &arguments.names).await? })
        }
        other => other,
    }
}

/// What keeps a service from being there: `web is waiting: service "db" to be up`.
fn lacking(service: &Service) -> String {
    let why =
        if service.waiting_for.is_empty() { service.message.clone() } else { service.waiting_for.join(", ") };
    let state = state_name(service.state());
    if why.is_empty() {
        format!("{} is {state}", service.name)
    } else {
        format!("{} is {state}: {why}", service.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelson_proto::v1::State;

    #[test]
    fn what_is_missing_is_named() {
        let mut service = Service { name: "web".to_owned(), ..Service::default() };
        service.set_state(State::Failed);
        assert_eq!(lacking(&service), "web is failed");
        service.message = "exited with status 3".to_owned();
        assert_eq!(lacking(&service), "web is failed: exited with status 3");
        service.set_state(State::Waiting);
        service.waiting_for = vec!["service \"db\" to be up".to_owned(), "path \"/x\" to exist".to_owned()];
        assert_eq!(lacking(&service), "web is waiting: service \"db\" to be up, path \"/x\" to exist");
    }

    #[test]
    fn a_stopped_oneshot_is_not_finished() {
        let done = Service { oneshot: true, up: true, ..Service::default() };
        assert!(Goal::Finished.holds(&done));
        let stopped = Service { oneshot: true, stopped: true, down: true, ..Service::default() };
        assert!(!Goal::Finished.holds(&stopped) && Goal::Down.holds(&stopped) && !Goal::Up.holds(&stopped));
    }
}
