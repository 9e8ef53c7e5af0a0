//! Several hosts in one call: `-n edge-1,edge-2`.
//!
//! A command knows of one host. Here, and nowhere else, it is done for each of several, at the same time, so that one
//! that is slow or gone holds up none of the others. Results are kept until all have answered and are shown as one, in
//! the order in which the hosts were named; lines of streams, and what goes wrong, come as they happen, each with the
//! name of its host.

use std::cell::RefCell;
use std::rc::Rc;

use kelson_api::client::{Endpoint, EndpointError};
use serde::Serialize;
use serde_yaml::Value;
use tokio::task::{JoinSet, LocalSet};

use crate::cli::Command;
use crate::commands::{self, Call, confirm};
use crate::contexts::Choice;
use crate::failure::Failure;
use crate::output::page::{Page, front, merged};
use crate::output::terminal::Terminal;
use crate::output::text::{nearest, width};
use crate::output::{Format, led};

/// Means every context of the file.
pub const ALL: &str = "all";

/// The name of one host, and what it told as a whole.
#[derive(Debug)]
pub struct Node {
    name: String,
    /// How wide the widest name of all is.
    widest: usize,
    kept: RefCell<Vec<Kept>>,
}

#[derive(Debug)]
enum Kept {
    Page(Page),
    Views(Vec<Value>),
}

impl Node {
    fn new(name: String, widest: usize) -> Node {
        Node { name, widest, kept: RefCell::default() }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// What stands in front of a line about it.
    pub fn front(&self, terminal: &Terminal) -> String {
        front(&self.name, self.widest, terminal)
    }

    /// The columns that [`Node::front`] takes.
    pub fn front_width(&self) -> usize {
        self.widest + 2
    }

    /// Keeps what is to be shown beside the pages of the others.
    pub fn keep_page(&self, page: Page) {
        self.kept.borrow_mut().push(Kept::Page(page));
    }

    /// Keeps what is to stand in one list with that of the others.
    pub fn keep_view(&self, view: &impl Serialize) -> Result<(), Failure> {
        let views = led(&self.name, view)?;
        self.kept.borrow_mut().push(Kept::Views(views));
        Ok(())
    }

    /// One item of a stream for programs.
    pub fn item(&self, format: Format, view: &impl Serialize) -> Result<String, Failure> {
        led(&self.name, view)?.iter().map(|value| format.item(value)).collect()
    }
}

/// A host of `-n`, and the way to it.
#[derive(Debug)]
struct Target {
    name: String,
    choice: Choice,
    /// A context whose name is nearly the same.
    near: Option<String>,
}

/// Does what the command says, on the host of the call or on each of these.
pub async fn run(command: Command, call: Call, names: &[String]) -> Result<(), Failure> {
    if names.is_empty() {
        confirm::ending_of_one(&command, &call)?;
        return commands::run(command, &call).await;
    }
    let mut targets = targets(names, &call.choice)?;
    if !commands::takes_several(&command) {
        return match (targets.pop(), targets.is_empty()) {
            (Some(Target { choice, .. }), true) => commands::run(command, &Call { choice, ..call }).await,
            _ => Err(Failure::Usage(
                "this command has one host at a time; give one with --nodes, and call it once for each"
                    .to_owned(),
            )),
        };
    }
    confirm::ending(&command, targets.iter().map(|target| (Some(&*target.name), &target.choice)))?;
    let widest = targets.iter().map(|target| width(&target.name)).max().unwrap_or_default();
    let calls: Vec<Rc<Call>> = targets
        .iter()
        .map(|Target { name, choice, .. }| {
            let node = Some(Node::new(name.clone(), widest));
            let (format, chosen, terminal) = (call.format, call.chosen, call.terminal);
            let screen = call.screen.clone();
            Rc::new(Call { format, chosen, terminal, choice: choice.clone(), node, screen })
        })
        .collect();
    let failures = ask(&command, &calls, &targets).await;
    show(&call, &calls, failures.is_empty())?;
    outcome(&failures)
}

/// Asks all at the same time. Who fails is told at once: the others may go on for long.
async fn ask(command: &Command, calls: &[Rc<Call>], targets: &[Target]) -> Vec<Failure> {
    let local = LocalSet::new();
    let mut running = JoinSet::new();
    for (call, target) in calls.iter().zip(targets) {
        let (command, call, near) = (command.clone(), Rc::clone(call), target.near.clone());
        let ask = async move {
            let failure = commands::run(command, &call).await.err()?;
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

/// Shows as one what the hosts told as a whole.
fn show(call: &Call, calls: &[Rc<Call>], whole: bool) -> Result<(), Failure> {
    let nodes = || calls.iter().filter_map(|call| call.node.as_ref());
    let (mut pages, mut views, mut told) = (Vec::new(), Vec::new(), false);
    for node in nodes() {
        for kept in node.kept.take() {
            told = true;
            match kept {
                Kept::Page(page) => pages.push((node.name(), page)),
                Kept::Views(more) => views.extend(more),
            }
        }
    }
    let widest = nodes().map(|node| node.widest).max().unwrap_or_default();
    match told {
        // A stream, or nobody answered.
        false => Ok(()),
        true if call.is_table() => call.print(&merged(pages, widest, whole, &call.terminal)),
        true => call.print(&call.format.document(&views)?),
    }
}

/// What all of it comes to: the status of those that failed, where they agree on it.
fn outcome(failures: &[Failure]) -> Result<(), Failure> {
    let mut statuses = failures.iter().map(Failure::exit_status);
    let Some(first) = statuses.next() else { return Ok(()) };
    Err(Failure::Ended(if statuses.all(|status| status == first) { first } else { 1 }))
}

/// The way to the first host of this name.
pub fn first(name: &str, choice: &Choice) -> Option<Choice> {
    let targets = targets(&[name.to_owned()], choice).ok()?;
    targets.into_iter().next().map(|target| target.choice)
}

/// The way to the one host of this name.
///
/// # Errors
/// It is not one, or the name is wrong.
pub fn only(name: &str, choice: &Choice) -> Result<Choice, Failure> {
    let mut targets = targets(&[name.to_owned()], choice)?;
    match (targets.pop(), targets.is_empty()) {
        (Some(target), true) => Ok(target.choice),
        _ => Err(Failure::Usage(format!("{name:?} is not one node"))),
    }
}

/// The hosts of these names, each once, in this order.
///
/// # Errors
/// The command line or the file of contexts is wrong; nobody is asked anything then.
fn targets(names: &[String], choice: &Choice) -> Result<Vec<Target>, Failure> {
    if choice.endpoint.is_some() {
        return Err(Failure::Usage(
            "--nodes and --endpoint both say where to go; give one of them".to_owned(),
        ));
    }
    let contexts = choice.known()?;
    let mut named: Vec<&str> = Vec::new();
    for name in names.iter().map(String::as_str) {
        match name == ALL && !contexts.iter().any(|context| context == ALL) {
            true if contexts.is_empty() => {
                return Err(Failure::Usage(
                    "`all` means every context of the file of contexts, and there is none".to_owned(),
                ));
            }
            true => named.extend(contexts.iter().map(String::as_str)),
            false => named.push(name),
        }
    }
    let mut targets: Vec<Target> = Vec::new();
    let mut addresses = 0;
    for name in named {
        if targets.iter().any(|target| target.name == name) {
            continue;
        }
        let (mut choice, mut near) = (Choice { environment: None, ..choice.clone() }, None);
        if contexts.iter().any(|context| context == name) {
            choice.context = Some(name.to_owned());
        } else {
            choice.endpoint = Some(address(name)?);
            near = nearest(name, contexts.iter().map(String::as_str)).map(str::to_owned);
            addresses += 1;
        }
        targets.push(Target { name: name.to_owned(), choice, near });
    }
    if let (Some(context), 0) = (&choice.context, addresses) {
        return Err(Failure::Usage(format!(
            "each of the nodes is a context itself, so --context {context} says nothing; it gives an address its \
             certificates"
        )));
    }
    Ok(targets)
}

/// The endpoint that HOST or HOST:PORT stands for.
fn address(name: &str) -> Result<String, Failure> {
    if name.is_empty() {
        return Err(Failure::Usage(
            "a node has no name; --nodes takes names with commas between them".to_owned(),
        ));
    }
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Failure::Usage(format!(
            "{name:?} is no node: it is a context, HOST or HOST:PORT (-n names nodes; lines are counted by --tail)"
        )));
    }
    if name.starts_with('/') || name.starts_with("unix:") {
        return Ok(name.to_owned());
    }
    match name.parse::<Endpoint>() {
        Ok(endpoint) => Ok(endpoint.to_string()),
        Err(EndpointError { problem, .. }) => Err(Failure::Usage(format!(
            "{name:?} is no node: {problem}; right are the name of a context, HOST and HOST:PORT"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, context and endpoint of each.
    type Chosen = (String, Option<String>, Option<String>);

    fn chosen(names: &[&str], choice: &Choice) -> Result<Vec<Chosen>, String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let targets = targets(&names, choice).map_err(|failure| {
            assert_eq!(failure.exit_status(), 2);
            failure.to_string()
        })?;
        Ok(targets.into_iter().map(|each| (each.name, each.choice.context, each.choice.endpoint)).collect())
    }

    #[test]
    fn a_host_without_a_port_has_the_usual_one() {
        for (name, endpoint) in [
            ("edge", "edge:50000"),
            ("192.0.2.7", "192.0.2.7:50000"),
            ("192.0.2.7:1", "192.0.2.7:1"),
            ("::1", "[::1]:50000"),
            ("[::1]", "[::1]:50000"),
            ("[::1]:7", "[::1]:7"),
            ("unix:///run/k.sock", "unix:///run/k.sock"),
        ] {
            assert_eq!(address(name).unwrap(), endpoint);
        }
        for (name, said) in [
            ("edge:0", "the port must be"),
            ("a b", "an address or a name"),
            ("", "no name"),
            ("20", "--tail"),
        ] {
            let failure = address(name).unwrap_err();
            assert!(failure.to_string().contains(said) && failure.exit_status() == 2, "{name}: {failure}");
        }
    }

    #[test]
    fn contexts_come_before_addresses() {
        let path = std::env::temp_dir().join(format!("kelsonctl-nodes-{}", std::process::id()));
        let context = |name: &str| format!("  {name}: {{endpoint: 'unix:///tmp/{name}.sock'}}\n");
        let write = |names: &[&str]| {
            let contexts: String = names.iter().map(|name| context(name)).collect();
            std::fs::write(&path, format!("contexts:\n{contexts}")).unwrap();
        };
        let choice = Choice {
            config: Some(path.clone()),
            environment: Some("unix:///tmp/elsewhere.sock".to_owned()),
            ..Choice::default()
        };
        let context = |name: &str| (name.to_owned(), Some(name.to_owned()), None);
        let address = |name: &str, endpoint: &str| (name.to_owned(), None, Some(endpoint.to_owned()));
        write(&["lab", "edge"]);
        assert_eq!(
            chosen(&["lab", "10.0.0.1", "lab", "edge"], &choice).unwrap(),
            [context("lab"), address("10.0.0.1", "10.0.0.1:50000"), context("edge")],
            "each once, in the order of the command line"
        );
        assert_eq!(chosen(&["lab", "all"], &choice).unwrap(), [context("lab"), context("edge")]);
        assert_eq!(targets(&["eddge".to_owned()], &choice).unwrap()[0].near.as_deref(), Some("edge"));
        let named = Choice { context: Some("edge".to_owned()), ..choice.clone() };
        assert!(chosen(&["lab"], &named).unwrap_err().contains("--context edge says nothing"));
        assert_eq!(
            chosen(&["lab", "h"], &named).unwrap(),
            [context("lab"), ("h".to_owned(), Some("edge".to_owned()), Some("h:50000".to_owned()))]
        );
        write(&["all", "edge"]);
        assert_eq!(chosen(&["all"], &choice).unwrap(), [context("all")], "a context of that name wins");
        std::fs::remove_file(path).unwrap();
        assert!(chosen(&["lab"], &choice).unwrap_err().starts_with("contexts: cannot read"));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(chosen(&["all"], &Choice::default()).unwrap_err().contains("there is none"));
        let choice = Choice { endpoint: Some("h:1".to_owned()), ..Choice::default() };
        assert!(chosen(&["edge"], &choice).unwrap_err().contains("give one of them"));
    }

    #[test]
    fn the_status_is_that_on_which_the_failures_agree() {
        let status = |failures: &[Failure]| outcome(failures).map_err(|failure| failure.exit_status());
        let gone = || Failure::NotReachable(String::new());
        assert_eq!(status(&[]), Ok(()));
        assert_eq!(status(&[gone()]), Err(3));
        assert_eq!(status(&[gone(), gone()]), Err(3));
        assert_eq!(status(&[gone(), Failure::Denied(String::new())]), Err(1));
        assert_eq!(status(&[Failure::Told]), Err(1));
    }
}
