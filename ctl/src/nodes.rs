//! Several hosts in one call: `-n edge-1,edge-2`.
//!
//! A command knows of one host. Here, and nowhere else, it is done for each of several, at the same time, so that one
//! that is slow or gone holds up none of the others. Results are kept until all have answered and are shown as one, in
//! the order in which the hosts were named; lines of streams, and what goes wrong, come as they happen, each with the
//! name of its host.

use std::rc::Rc;

use kelson_api::client::Endpoint;
use tokio::task::{JoinSet, LocalSet};

use crate::call::Call;
use crate::commands::{Command, question};
use crate::contexts::Choice;
use crate::failure::Failure;
use crate::node::{Kept, Node};
use crate::output::page::merged;
use crate::output::width;
use crate::targets::{Target, targets};

/// Does what the command says, on the host of the call or on each of these.
pub async fn run(command: Command, call: Call, names: &[String]) -> Result<(), Failure> {
    if let Command::Fleet(fleet) = &command
        && let Some(events) = fleet.events()
        && names.is_empty()
    {
        let (targets, command) = (events.targets(&call).await?, Command::Events(events.of_each()));
        return each(command, call, targets).await;
    }
    if names.is_empty() {
        ending(&command, std::iter::once((call.choice.context.as_deref(), &call.choice)))?;
        return command.run(&call).await;
    }
    let targets = targets(names, &call.choice)?;
    if !command.several() {
        let [Target { choice, .. }] = targets.as_slice() else {
            return Err(Failure::Usage(
                "this command has one host at a time; give one with --nodes, and call it once for each"
                    .to_owned(),
            ));
        };
        return command.run(&Call { choice: choice.clone(), ..call }).await;
    }
    ending(&command, targets.iter().map(|target| (Some(&*target.name), &target.choice)))?;
    each(command, call, targets).await
}

/// Does what the command says on each of these hosts at the same time.
async fn each(command: Command, call: Call, targets: Vec<Target>) -> Result<(), Failure> {
    let widest = targets.iter().map(|target| width(&target.name)).max().unwrap_or_default();
    let calls: Vec<Rc<Call>> = targets
        .iter()
        .map(|Target { name, choice, .. }| {
            let node = Some(Rc::new(Node::new(name.clone(), widest)));
            Rc::new(Call { choice: choice.clone(), node, ..call.clone() })
        })
        .collect();
    let failures = ask(&command, &calls, &targets).await;
    show(&call, &calls, failures.is_empty())?;
    outcome(&failures)
}

/// Asks all at the same time. A failure is shown at once: the others may take long.
async fn ask(command: &Command, calls: &[Rc<Call>], targets: &[Target]) -> Vec<Failure> {
    let local = LocalSet::new();
    let mut running = JoinSet::new();
    for (call, target) in calls.iter().zip(targets) {
        let (command, call, near) = (command.clone(), Rc::clone(call), target.near.clone());
        let ask = async move {
            let failure = command.run(&call).await.err()?;
            if let Some(said) = failure.unsaid() {
                let meant = near.filter(|_| matches!(failure, Failure::NotReachable(_) | Failure::Usage(_)));
                let meant = meant.map(|near| format!("; did you mean the context {near:?}?"));
                call.tell(said + &meant.unwrap_or_default());
            }
            Some(failure)
        };
        running.spawn_local_on(ask, &local);
    }
    local.run_until(running.join_all()).await.into_iter().flatten().collect()
}

/// Shows the whole answers of the hosts as one.
fn show(call: &Call, calls: &[Rc<Call>], whole: bool) -> Result<(), Failure> {
    let nodes = || calls.iter().filter_map(|call| call.node.as_ref());
    let (mut pages, mut views, mut reported) = (Vec::new(), Vec::new(), false);
    for node in nodes() {
        for kept in node.take() {
            reported = true;
            match kept {
                Kept::Page(page) => pages.push((node.name(), page)),
                Kept::Views(more) => views.extend(more),
            }
        }
    }
    let widest = nodes().map(|node| node.widest()).max().unwrap_or_default();
    match reported {
        // A stream, or nobody answered.
        false => Ok(()),
        true if call.is_table() => call.print(&merged(pages, widest, whole, &call.terminal)),
        true => call.print(&call.format.document(&views)?),
    }
}

/// The outcome for all nodes: the status of those that failed, where they agree on it.
fn outcome(failures: &[Failure]) -> Result<(), Failure> {
    let mut statuses = failures.iter().map(Failure::exit_status);
    let Some(first) = statuses.next() else { return Ok(()) };
    Err(Failure::Ended(if statuses.all(|status| status == first) { first } else { 1 }))
}

/// Asks back, on a terminal, before the end of the run of hosts that are reached over the network.
///
/// # Errors
/// The answer is not yes.
fn ending<'a>(
    command: &Command,
    hosts: impl Iterator<Item = (Option<&'a str>, &'a Choice)>,
) -> Result<(), Failure> {
    let Some(verb) = command.confirmed().filter(|_| question::can_ask()) else { return Ok(()) };
    let remote = hosts.filter_map(|(name, choice)| {
        // One that cannot be resolved fails on its own, when it is called.
        let endpoint = choice.resolve().ok()?.endpoint;
        let remote = !matches!(endpoint, Endpoint::Unix(_));
        remote.then(|| name.map_or_else(|| endpoint.to_string(), |name| format!("{name} ({endpoint})")))
    });
    let remote: Vec<String> = remote.collect();
    match remote.is_empty() {
        true => Ok(()),
        false => question::ask(&format!("{verb} {}?", remote.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_that_on_which_the_failures_agree() {
        let status = |failures: &[Failure]| outcome(failures).map_err(|failure| failure.exit_status());
        let gone = || Failure::NotReachable(String::new());
        assert_eq!(status(&[]), Ok(()));
        assert_eq!(status(&[gone()]), Err(3));
        assert_eq!(status(&[gone(), gone()]), Err(3));
        assert_eq!(status(&[gone(), Failure::Denied(String::new())]), Err(1));
        assert_eq!(status(&[Failure::Reported]), Err(1));
    }
}
