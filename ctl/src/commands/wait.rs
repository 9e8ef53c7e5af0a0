//! `wait`: for scripts, until services are up, down, finished, stopped or have exited.

use std::time::{Duration, Instant};

use kelson_api::client::Client;
use kelson_proto::v1::wait_request::For;
use kelson_proto::v1::{ListRequest, Service, State, WaitRequest, WaitResponse};

use super::awaiting::{Goal, awaiting};
use crate::call::{Call, Run};
use crate::failure::{Failure, answer_about, explain_names};
use crate::follow::from_now;
use crate::output::{Page, list, object, state_name, time};

/// A look at the services at least this often.
const LOOK: Duration = Duration::from_secs(1);
/// The host's own answer to a timeout is waited for a little longer than the timeout.
const GRACE: Duration = Duration::from_secs(2);

/// Wait until services are up, or down, or have exited
///
/// Exits with status 0 once this holds for all of them at the same time, and
/// with 5 when the timeout has passed.
///
/// Examples:
///   kelsonctl wait db web --for up --timeout 30s
///   kelsonctl wait migrate --for finished && kelsonctl start web
///   kelsonctl wait web --for exit --timeout 1m
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The services
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
    /// Until
    #[arg(long = "for", value_enum, value_name = "WHAT")]
    event: Event,
    /// Give up after this time, such as 500ms, 30s or 5m
    #[arg(short, long, value_name = "D", value_parser = time::parse_timeout)]
    timeout: Option<Duration>,
}

/// The events of a service that `wait` can wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Event {
    /// It runs, and every check says so now; also `healthy`
    #[value(alias = "healthy")]
    Up,
    /// It has ended, was stopped, or will not be started
    Down,
    /// It ended successfully by itself
    Finished,
    /// An operator stopped it, and it is down
    Stopped,
    /// Its present run has ended, or none runs
    Exit,
}

impl Event {
    fn word(self) -> &'static str {
        match self {
            Event::Up => "up",
            Event::Down => "down",
            Event::Finished => "finished",
            Event::Stopped => "stopped",
            Event::Exit => "exited",
        }
    }

    /// The form of the event in the request to the host; `None`: this program looks for it.
    fn wire(self) -> Option<For> {
        match self {
            Event::Up => Some(For::Up),
            Event::Down => Some(For::Down),
            Event::Finished => Some(For::Finished),
            Event::Stopped | Event::Exit => None,
        }
    }

    fn goal(self) -> Goal {
        match self {
            Event::Up => Goal::Up,
            Event::Down | Event::Stopped | Event::Exit => Goal::Down,
            Event::Finished => Goal::Finished,
        }
    }

    /// True where it has come for a service; `before` is how the services were at the beginning.
    fn holds(self, service: &Service, before: &[Service]) -> bool {
        let runs =
            |service: &Service| matches!(service.state(), State::Starting | State::Running | State::Stopping);
        match self {
            Event::Stopped => service.stopped && service.down,
            Event::Exit => {
                let before = before.iter().find(|before| before.name == service.name);
                !runs(service) || before.is_none_or(|before| !runs(before) || before.run != service.run)
            }
            other => other.goal().holds(service),
        }
    }
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let client = call.client()?;
        let deadline = self.timeout.map(|timeout| Instant::now() + timeout);
        let began = Instant::now();
        // Asked first: who cannot be reached now is not waited for.
        let before = now(&client, &self.names).await?;
        let mut reconnect = call.reconnect();
        let answer = loop {
            let attempt = once(&client, &self, &before, deadline);
            match awaiting(call, &client, &self.names, self.event.goal(), began, attempt).await {
                Ok(answer) => break answer,
                // PID 1 re-executes itself: what is waited for may still come.
                Err(failure) if failure.is_passing() => reconnect.pause(failure).await?,
                Err(failure) => return Err(explain_names(failure, &client, &self.names).await),
            }
        };
        let view = object!(reached: answer.reached, services: answer.services);
        // A script waits silently; a person sees what is missing.
        call.show(&view, || Page::Lines(String::new()))?;
        if answer.reached {
            return Ok(());
        }
        let missing: Vec<&Service> =
            answer.services.iter().filter(|service| !self.event.holds(service, &before)).collect();
        missing.iter().for_each(|service| call.note(&lacking(service)));
        Err(Failure::TimedOut(format!(
            "{} not {} within {}; `kelsonctl why {}` tells what it waits for",
            list(&self.names),
            self.event.word(),
            kelson_spec::duration_text(self.timeout.unwrap_or_default()),
            missing.first().map_or("NAME", |service| service.name.as_str())
        )))
    }
}

/// The services as they are now.
///
/// # Errors
/// The host cannot be asked, or does not know one of them.
async fn now(client: &Client, names: &[String]) -> Result<Vec<Service>, Failure> {
    let request = ListRequest { names: names.to_vec() };
    let services = answer_about(client, names, client.services().list(request)).await?.services;
    if names.iter().all(|name| services.iter().any(|service| service.name == *name)) {
        return Ok(services);
    }
    let unknown = Failure::Unknown(format!("no service {}", list(names)));
    Err(explain_names(unknown, client, names).await)
}

/// One attempt; the host's own "time is over" and ours come out the same.
async fn once(
    client: &Client,
    arguments: &Arguments,
    before: &[Service],
    deadline: Option<Instant>,
) -> Result<WaitResponse, Failure> {
    let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let wire = arguments.event.wire();
    let reaching = async {
        let Some(event) = wire else { return look(client, arguments, before).await };
        let names = arguments.names.clone();
        let mut request = WaitRequest { names, timeout: left.map(time::to_wire), ..WaitRequest::default() };
        request.set_event(event);
        Ok(client.services().wait(request).await?.into_inner())
    };
    let grace = if wire.is_some() { GRACE } else { Duration::ZERO };
    let limit = left.map_or(Duration::MAX, |left| left + grace);
    match tokio::time::timeout(limit, reaching).await {
        Ok(Err(Failure::TimedOut(_))) | Err(_) => {
            Ok(WaitResponse { reached: false, services: now(client, &arguments.names).await? })
        }
        Ok(answer) => answer,
    }
}

/// Looks at the services until it holds for all of them: after each of their events, and now and then.
async fn look(client: &Client, arguments: &Arguments, before: &[Service]) -> Result<WaitResponse, Failure> {
    // Opened first, so that nothing happens between a look and the next event unseen.
    let mut events = client.services().events(from_now(&arguments.names)).await?.into_inner();
    loop {
        let services = now(client, &arguments.names).await?;
        if services.iter().all(|service| arguments.event.holds(service, before)) {
            return Ok(WaitResponse { reached: true, services });
        }
        if let Ok(next) = tokio::time::timeout(LOOK, events.message()).await
            && next?.is_none()
        {
            return Err(Failure::Lost("the host ended the stream of its events".to_owned()));
        }
    }
}

/// The obstacle that keeps a service from the event: `web is waiting: service "db" to be up`.
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

    #[test]
    fn a_run_that_ended_has_exited_whatever_came_after() {
        let service = |run, state: State| Service { run, state: state.into(), ..Service::default() };
        let exited = |before: Service, service: Service| Event::Exit.holds(&service, &[before]);
        let runs = || service(3, State::Running);
        assert!(!exited(runs(), runs()) && !exited(runs(), service(3, State::Stopping)));
        assert!(exited(runs(), service(3, State::Backoff)));
        assert!(exited(runs(), service(4, State::Running)), "it was restarted meanwhile");
        assert!(exited(service(2, State::Backoff), service(2, State::Backoff)));
        assert!(exited(service(2, State::Waiting), service(3, State::Running)), "none ran at the beginning");
    }

    #[test]
    fn stopped_is_what_an_operator_did() {
        let stopped =
            |stopped, down| Event::Stopped.holds(&Service { stopped, down, ..Service::default() }, &[]);
        assert!(stopped(true, true) && !stopped(false, true) && !stopped(true, false));
    }

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
