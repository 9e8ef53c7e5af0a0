//! Answers questions about hosts and services of the fleet from Consul.

use std::collections::BTreeMap;
use std::time::Duration;

use kelson_proto::v1::fleet_question::Question;
use kelson_proto::v1::{FleetHost, FleetInstance, FleetPage, FleetQuestion};
use serde::Deserialize;
use serde_json::{Value, json};

use super::agent::Agent;
use super::{Done, One, Service, path_of};
use crate::entry::{self, Entry as _, ServiceEntry};
use crate::key::{Keys, Place, is_host};
use crate::list::{DEADLINE, Item, parts, refusal};
use crate::range::limit_of;
use crate::session::within;

const NO_PLANS: &str = "a fleet in Consul keeps no plans; they need etcd";
/// Consul's limit of a transaction.
const READS_MAX: usize = 64;

/// A service that passes its checks.
pub struct Instance {
    pub host: String,
    pub service: String,
    pub entry: ServiceEntry,
}

/// The instances of a name that pass, and the state of Consul that the answer is from. `since`: the answer is to wait until
/// the state is another than this, at most this time.
///
/// # Errors
/// For an operator.
pub async fn passing(
    agent: &Agent,
    name: &str,
    since: Option<(u64, Duration)>,
) -> Result<(Vec<Instance>, u64), String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Found {
        node: Node,
        service: Service,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Node {
        node: String,
        address: String,
    }
    let wait = since.map(|(index, wait)| format!("&index={index}&wait={}s", wait.as_secs()));
    let path = format!("/v1/health/service/{name}?passing=true{}", wait.unwrap_or_default());
    let answer = agent.get(&path).await?;
    let index = answer.index;
    let found: Vec<Found> = answer.json()?;
    let instance = |Found { node, service }: Found| {
        let id = service.id.clone();
        // What other programs have registered counts like any other.
        let (tags, address, port) = (service.tags.clone(), service.address.clone(), service.port);
        match service.entry() {
            Some((Place { host, service, .. }, entry, _)) => Instance { host, service, entry },
            None => {
                let address = if address.is_empty() { node.address } else { address };
                let entry =
                    ServiceEntry { address, port, tags: tags.unwrap_or_default(), ..ServiceEntry::default() };
                Instance { host: node.node, service: id, entry }
            }
        }
    };
    let mut all: Vec<Instance> = found.into_iter().map(instance).collect();
    all.sort_by(|one, other| (&one.host, &one.service).cmp(&(&other.host, &other.service)));
    Ok((all, index))
}

/// Answers a question: one page in parts.
pub async fn answer(agent: Agent, keys: Keys, question: FleetQuestion) -> Vec<FleetPage> {
    let number = question.number;
    let answered = within(DEADLINE, page(&agent, &keys, question));
    answered.await.unwrap_or_else(|problem| vec![refusal(number, problem)])
}

async fn page(agent: &Agent, keys: &Keys, question: FleetQuestion) -> Result<Vec<FleetPage>, String> {
    let number = question.number;
    match question.question {
        Some(Question::Hosts(request)) => {
            let (hosts, rest) = hosts(agent, keys, &request.after, limit_of(request.limit)).await?;
            Ok(parts(hosts.into_iter().map(Item::Host), FleetPage { number, rest, ..FleetPage::default() }))
        }
        Some(Question::Instances(request)) => {
            let limit = limit_of(request.limit);
            let (instances, rest) = instances(agent, &request.name, &request.after, limit).await?;
            let cursor = instances.last().filter(|_| rest).map(place_of).unwrap_or_default();
            let page = FleetPage { number, rest, cursor, ..FleetPage::default() };
            Ok(parts(instances.into_iter().map(Item::Instance), page))
        }
        Some(Question::Plans(_)) => Ok(vec![FleetPage { number, ..FleetPage::default() }]),
        Some(Question::PutPlan(_) | Question::RemovePlan(_)) => Err(NO_PLANS.to_owned()),
        None => Ok(vec![refusal(number, "the question is of another version".to_owned())]),
    }
}

/// The hosts after this name, and whether there may be more.
async fn hosts(
    agent: &Agent,
    keys: &Keys,
    after: &str,
    limit: usize,
) -> Result<(Vec<FleetHost>, bool), String> {
    let folder = path_of(keys.hosts().as_bytes());
    let answer = agent.get(&format!("/v1/kv/{folder}?keys")).await?;
    let all: Vec<String> = if answer.is_missing() { Vec::new() } else { answer.json()? };
    let name = |key: &String| key.strip_prefix(&folder).filter(|name| is_host(name)).map(str::to_owned);
    let mut names: Vec<String> = all.iter().filter_map(name).filter(|name| name.as_str() > after).collect();
    names.sort();
    let rest = names.len() > limit;
    names.truncate(limit);
    let mut hosts = Vec::new();
    for some in names.chunks(READS_MAX) {
        let read = |name: &String| json!({"KV": {"Verb": "get-or-empty", "Key": format!("{folder}{name}")}});
        let reads: Vec<Value> = some.iter().map(read).collect();
        let done: Done = agent.put("/v1/txn", &json!(reads)).await?.json()?;
        for One { pair } in done.results.unwrap_or_default() {
            if let (Some(name), true) = (name(&pair.key), pair.value.is_some()) {
                hosts.push(entry::host(name, &pair.value()));
            }
        }
    }
    Ok((hosts, rest))
}

/// The instances of a name, or of all, after this place, and whether there may be more.
async fn instances(
    agent: &Agent,
    name: &str,
    after: &str,
    limit: usize,
) -> Result<(Vec<FleetInstance>, bool), String> {
    let names: Vec<String> = match name {
        "" => {
            let all: BTreeMap<String, Value> = agent.get("/v1/catalog/services").await?.json()?;
            let last = after.split('/').next().unwrap_or_default().to_owned();
            all.into_keys().filter(|name| *name >= last).collect()
        }
        name => vec![name.to_owned()],
    };
    let mut found = Vec::new();
    for name in names {
        for Instance { host, service, entry } in passing(agent, &name, None).await?.0 {
            let one = entry::instance(Place { name: name.clone(), host, service }, &entry.to_value());
            if place_of(&one).as_str() > after {
                found.push(one);
            }
            if found.len() > limit {
                found.truncate(limit);
                return Ok((found, true));
            }
        }
    }
    Ok((found, false))
}

/// Its place among all.
fn place_of(one: &FleetInstance) -> String {
    format!("{}/{}/{}", one.name, one.host, one.service)
}
