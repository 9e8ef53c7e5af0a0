//! `complete`: what the completion scripts ask; one candidate a line, a tab, what it is.

use std::collections::BTreeMap;
use std::time::Duration;

use kelson_proto::v1::{FleetHost, HealthReport, ListHealthRequest, ListRequest, Service};

use super::fleet;
use crate::call::{Call, Global, Run};
use crate::completion::{Wanted, wanted};
use crate::failure::Failure;
use crate::output::{escape, health_name, print, state_name};
use crate::rolling::plan::Head;
use crate::rolling::record;
use crate::targets;

/// A key press does not wait longer for a host.
const TIMEOUT: Duration = Duration::from_millis(700);

/// List what the last of these words could become
#[derive(Debug, Clone, clap::Args)]
#[command(hide = true)]
pub struct Arguments {
    /// The words after `kelsonctl`, up to the one that is being written
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

impl Run for Arguments {
    const SEVERAL: bool = false;

    async fn run(self, call: &Call) -> Result<(), Failure> {
        let question = wanted(&(call.grammar)(), &self.words);
        let begun = self.words.last().map_or("", String::as_str);
        let mut call = Call::new(
            Global { endpoint: question.endpoint, context: question.context, ..Global::default() },
            call.grammar,
        );
        // Of several hosts the first one tells.
        let first = question.nodes.iter().flat_map(|nodes| nodes.split(',')).next();
        if let Some(choice) = first.and_then(|node| targets::first(node, &call.choice)) {
            call.choice = choice;
        }
        let candidates = match question.wanted {
            Wanted::Words(words) => words,
            Wanted::Services => services(&call).await.unwrap_or_default(),
            Wanted::Groups => groups(&call).await.unwrap_or_default(),
            Wanted::Hosts => hosts(&call).await.unwrap_or_default(),
            Wanted::Registered => registered(&call).await.unwrap_or_default(),
            Wanted::Plans => plans(&call).await.unwrap_or_default(),
            Wanted::Contexts => call.choice.names(),
            Wanted::Nodes => several(call.choice.names(), begun),
            Wanted::Nothing => Vec::new(),
        };
        let mut out = String::new();
        for (word, about) in candidates.iter().filter(|(word, _)| word.starts_with(begun)) {
            // One that is written already need not be offered again.
            let earlier = self.words.split_last().map_or(&[][..], |(_, earlier)| earlier);
            if !earlier.contains(word) {
                out += &format!("{}\t{}\n", escape(word), escape(about));
            }
        }
        print(&out)
    }
}

/// The contexts that may follow those that stand before the last comma; at the beginning also that for all of them.
fn several(contexts: Vec<(String, String)>, begun: &str) -> Vec<(String, String)> {
    let earlier = begun.rsplit_once(',').map_or("", |(earlier, _)| earlier);
    let all = (!contexts.is_empty() && earlier.is_empty())
        .then(|| (targets::ALL.to_owned(), "every context".to_owned()));
    let front = if earlier.is_empty() { String::new() } else { format!("{earlier},") };
    let named = |name: &str| earlier.split(',').any(|one| one == name);
    let next = contexts.into_iter().filter(|(name, _)| !named(name)).chain(all);
    next.map(|(name, about)| (format!("{front}{name}"), about)).collect()
}

/// The names of all services, each with its state. A host that cannot be asked has none: a prompt is no place for errors.
async fn services(call: &Call) -> Option<Vec<(String, String)>> {
    let mut services = call.client().ok()?.services();
    let answer = tokio::time::timeout(TIMEOUT, services.list(ListRequest::default())).await.ok()?.ok()?;
    let named = |service: &Service| (service.name.clone(), state_name(service.state()).to_owned());
    Some(answer.into_inner().services.iter().map(named).collect())
}

/// The names of all groups, each with its health.
async fn groups(call: &Call) -> Option<Vec<(String, String)>> {
    let mut health = call.client().ok()?.health();
    let answer = tokio::time::timeout(TIMEOUT, health.list(ListHealthRequest {})).await.ok()?.ok()?;
    let named = |report: &HealthReport| (report.group.clone(), health_name(report.state()).to_owned());
    Some(answer.into_inner().groups.iter().map(named).collect())
}

/// The names of all hosts of the fleet, each with its health.
async fn hosts(call: &Call) -> Option<Vec<(String, String)>> {
    let hosts = fleet::hosts::all(&call.client().ok()?, TIMEOUT).await.ok()?;
    let named = |host: FleetHost| (host.name, host.health);
    Some(hosts.into_iter().map(named).collect())
}

/// The names under which services of the fleet are registered, each with how often.
async fn plans(call: &Call) -> Option<Vec<(String, String)>> {
    let client = call.client().ok()?;
    let (plans, _) = tokio::time::timeout(TIMEOUT, record::all(&client)).await.ok()?.ok()?;
    let about = |head: Result<Head, String>| head.map(|head| head.action.text()).unwrap_or_default();
    Some(plans.into_iter().map(|plan| (plan.name, about(plan.head))).collect())
}

async fn registered(call: &Call) -> Option<Vec<(String, String)>> {
    let instances = fleet::services::all(&call.client().ok()?, String::new(), TIMEOUT).await.ok()?;
    let mut names = BTreeMap::<String, usize>::new();
    instances.into_iter().for_each(|one| *names.entry(one.name).or_default() += 1);
    Some(names.into_iter().map(|(name, count)| (name, format!("{count} registered"))).collect())
}
