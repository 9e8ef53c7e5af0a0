//! The line that tells what a command still waits for, on a terminal and as long as it waits.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::future::Future;
use std::time::{Duration, Instant};

use kelson_api::client::Client;
use kelson_proto::v1::missing::{Kind, Problem};
use kelson_proto::v1::{Alternative, ListRequest, Missing, Reason, Service, State, WhyRequest};
use tonic::Response;

use crate::call::Call;
use crate::follow::from_now;
use crate::output::{Progress, list, retry, state_name};

/// The time that is shown is right to this.
const TICK: Duration = Duration::from_secs(1);
/// Obstacles to a start are looked for first after this time, and again each second.
const FIRST_LOOK: Duration = Duration::from_millis(50);

/// The state that a service is to reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    Up,
    Down,
    Finished,
}

impl Goal {
    /// True where nothing is left to wait for.
    pub fn holds(self, service: &Service) -> bool {
        match self {
            Goal::Up => service.up,
            Goal::Down => service.down,
            Goal::Finished => service.oneshot && service.up,
        }
    }
}

/// Awaits it, and shows meanwhile what those services do that are not there yet, and since when it is awaited.
pub async fn awaiting<T>(
    call: &Call,
    client: &Client,
    names: &[String],
    goal: Goal,
    began: Instant,
    awaited: impl Future<Output = T>,
) -> T {
    let progress = call.progress().since(began);
    let seen = call.is_table() && progress.is_seen();
    tokio::select! {
        done = awaited => done,
        never = show(client, names, goal, progress), if seen => match never {},
        never = watch_obstacles(call, client, names), if goal != Goal::Down => match never {},
    }
}

/// Notes, once each, what keeps the services from their start and does not come by itself; for as long as it is polled.
async fn watch_obstacles(call: &Call, client: &Client, names: &[String]) -> Infallible {
    let mut noted = HashSet::new();
    let mut pause = FIRST_LOOK;
    loop {
        // The service may have been asked for just now.
        tokio::time::sleep(pause).await;
        note_obstacles(call, client, names, &mut noted).await;
        pause = TICK.min(pause * 2);
    }
}

/// Notes what keeps services from their start and does not come by itself, unless that was `noted` before. A host that
/// cannot be asked has nothing noted. True where there is such an obstacle.
pub async fn note_obstacles(
    call: &Call,
    client: &Client,
    names: &[String],
    noted: &mut HashSet<String>,
) -> bool {
    let mut found = false;
    let mut services = client.services();
    for name in names {
        let asked = services.why(WhyRequest { name: name.clone() });
        let Ok(Ok(answer)) = tokio::time::timeout(TICK, asked).await else { continue };
        let reason = answer.into_inner().reason.unwrap_or_default();
        if let Some(line) = obstacles(name, &reason) {
            found = true;
            if noted.insert(line.clone()) {
                call.progress().erase();
                call.note(&line);
            }
        }
    }
    found
}

/// `web waits for service "db" to be up (it was stopped); …`.
fn obstacles(name: &str, reason: &Reason) -> Option<String> {
    let mut found = Vec::new();
    collect(reason, &mut found);
    let texts: Vec<&str> = found.iter().map(|missing| missing.text.as_str()).collect();
    let unknown = found.iter().all(|missing| missing.problem() == Problem::UnknownService);
    (!texts.is_empty()).then(|| {
        let way_out = match unknown {
            true => "add the file of that service and run `kelsonctl reload`".to_owned(),
            false => format!("`kelsonctl start --with-dependencies {name}` starts what it needs"),
        };
        format!("{name} waits for {}; {way_out}", texts.join(", "))
    })
}

/// The services down the chain that nothing starts by itself.
fn collect<'a>(reason: &'a Reason, found: &mut Vec<&'a Missing>) {
    let at_rest = |missing: &Missing| {
        // To wait until a service is down is no reason to start it.
        missing.event != "down"
            && matches!(
                missing.problem(),
                Problem::Stopped
                    | Problem::Manual
                    | Problem::Failed
                    | Problem::Skipped
                    | Problem::UnknownService
            )
    };
    if let Some(missing) = &reason.missing {
        // Another alternative may come by itself.
        let never = |alternative: &Alternative| alternative.missing.iter().any(at_rest);
        if missing.kind() == Kind::Any && !missing.alternatives.iter().all(never) {
            return;
        }
        found.extend(at_rest(missing).then_some(missing));
    }
    reason.causes.iter().for_each(|cause| collect(cause, found));
}

/// Shows it for as long as it is polled.
async fn show(client: &Client, names: &[String], goal: Goal, mut progress: Progress) -> Infallible {
    // Only what is new: nothing that happened earlier belongs to this.
    let mut stream = client.services().events(from_now(names)).await.map(Response::into_inner).ok();
    // The last event of each, with its state: only it has the progress of an image.
    let mut last: HashMap<String, (State, String)> = HashMap::new();
    loop {
        // All: who is not named may be what is waited for.
        let listed = tokio::time::timeout(TICK, client.services().list(ListRequest::default())).await;
        if let Ok(Ok(answer)) = listed {
            progress.show(&line(names, &answer.into_inner().services, &last, goal));
        } else {
            progress.show(&format!("waiting for {}", list(names)));
        }
        let next = async {
            match &mut stream {
                Some(stream) => stream.message().await,
                None => std::future::pending().await,
            }
        };
        match tokio::time::timeout(TICK, next).await {
            Ok(Ok(Some(batch))) => {
                let news = batch.events.into_iter().map(|event| (event.state(), event));
                last.extend(news.map(|(state, event)| (event.service, (state, event.message))));
            }
            // The line stays; the answer that is awaited will say what is wrong.
            Ok(Ok(None) | Err(_)) => stream = None,
            Err(_) => {}
        }
    }
}

/// Names the conditions that are still missing: `web: waiting for service "db" to be up (and 2 more)`.
fn line(
    names: &[String],
    services: &[Service],
    last: &HashMap<String, (State, String)>,
    goal: Goal,
) -> String {
    let awaited = services.iter().filter(|service| names.contains(&service.name) && !goal.holds(service));
    let mut missing: Vec<&Service> = awaited.collect();
    // First who does something: the others may wait for that one.
    missing.sort_by_key(|service| service.state() == State::Waiting);
    let Some(first) = missing.first() else {
        return format!("waiting for {}", list(names));
    };
    let state = first.state();
    let stopping = services.iter().filter(|other| other.state() == State::Stopping);
    let stopping: Vec<String> = stopping.map(|other| other.name.clone()).collect();
    let what = match last.get(&first.name) {
        _ if !first.waiting_for.is_empty() => format!("waiting for {}", first.waiting_for.join(", ")),
        // It stops once all that need it are down.
        _ if goal == Goal::Down && state == State::Running && !stopping.is_empty() => {
            format!("waiting for {} to be down", list(&stopping))
        }
        _ if state == State::Backoff => {
            format!("backoff, {}", retry::message(&first.message, first.retry.as_ref()))
        }
        Some((then, message)) if *then == state && !message.starts_with(state_name(state)) => {
            format!("{}, {message}", state_name(state))
        }
        Some((then, message)) if *then == state => message.clone(),
        _ if !first.message.is_empty() => format!("{}, {}", state_name(state), first.message),
        _ => state_name(state).to_owned(),
    };
    match missing.len() {
        1 => format!("{}: {what}", first.name),
        more => format!("{}: {what} (and {} more)", first.name, more - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::service;

    #[test]
    fn who_does_something_is_told_first() {
        let names = ["db", "web", "mail"].map(str::to_owned);
        let mut web = service("web", State::Waiting);
        web.waiting_for = vec!["service \"db\" to be up".to_owned()];
        let up = Service { up: true, ..service("mail", State::Running) };
        let mut last = HashMap::new();
        let said = |services: &[Service], last: &HashMap<_, _>| line(&names, services, last, Goal::Up);
        let two = [web.clone(), service("db", State::Preparing), up.clone()];
        assert_eq!(said(&two, &last), "db: preparing (and 1 more)");
        last.insert("db".to_owned(), (State::Preparing, "unpacking demo/db:1: 3 of 9 MiB".to_owned()));
        assert_eq!(said(&two, &last), "db: preparing, unpacking demo/db:1: 3 of 9 MiB (and 1 more)");
        last.insert("db".to_owned(), (State::Waiting, "of another state".to_owned()));
        assert_eq!(said(&two, &last), "db: preparing (and 1 more)");
        assert_eq!(said(&[web], &last), "web: waiting for service \"db\" to be up");
        assert_eq!(said(&[up], &last), "waiting for db, web and mail");
    }

    #[test]
    fn what_nothing_starts_is_noted_with_the_way_out() {
        let missing = |name: &str, problem: Problem| {
            let text = format!("service \"{name}\" to be up ({problem:?})");
            let missing =
                Missing { name: name.to_owned(), event: "up".to_owned(), text, ..Missing::default() };
            Some(Missing { problem: problem.into(), ..missing })
        };
        let link = |missing, causes| Reason { missing, causes, ..Reason::default() };
        // `app` waits itself; `db` is what holds both up.
        let db = link(missing("db", Problem::Stopped), vec![]);
        let app = link(missing("app", Problem::Unspecified), vec![db]);
        assert_eq!(
            obstacles("web", &link(None, vec![app])).as_deref(),
            Some(
                "web waits for service \"db\" to be up (Stopped); \
                 `kelsonctl start --with-dependencies web` starts what it needs"
            )
        );
        let unknown = link(missing("gone", Problem::UnknownService), vec![]);
        assert_eq!(
            obstacles("web", &link(None, vec![unknown])).as_deref(),
            Some(
                "web waits for service \"gone\" to be up (UnknownService); \
                 add the file of that service and run `kelsonctl reload`"
            )
        );
        let either = |problems: [Problem; 2]| {
            let one = |problem| missing("db", problem).unwrap();
            let alternative = |problem| Alternative { missing: vec![one(problem)] };
            let alternatives = problems.map(alternative).to_vec();
            let any = Missing { kind: Kind::Any.into(), alternatives, ..Missing::default() };
            let causes = problems.map(|problem| link(Some(one(problem)), vec![])).to_vec();
            obstacles("web", &link(None, vec![link(Some(any), causes)]))
        };
        assert_eq!(either([Problem::Stopped, Problem::Unspecified]), None, "the other one may come");
        assert!(either([Problem::Stopped, Problem::Failed]).is_some());
        let path = link(missing("/run/x", Problem::Silent), vec![]);
        assert_eq!(obstacles("web", &link(None, vec![path])), None);
        let mut down = missing("db", Problem::Manual).unwrap();
        down.event = "down".to_owned();
        assert_eq!(obstacles("web", &link(None, vec![link(Some(down), vec![])])), None);
    }

    #[test]
    fn a_stop_waits_for_those_that_need_it() {
        let db = service("db", State::Running);
        let all = [db, service("web", State::Stopping), service("cron", State::Running)];
        let said = |goal| line(&["db".to_owned()], &all, &HashMap::new(), goal);
        assert_eq!(said(Goal::Down), "db: waiting for web to be down");
        assert_eq!(said(Goal::Up), "db: running");
    }
}
