//! Answers questions about hosts, services and plans of the fleet.

use std::time::Duration;

use etcd_client::{Error, KeyValue, KvClient};
use kelson_proto::v1::fleet_question::Question;
use kelson_proto::v1::{FleetHost, FleetInstance, FleetPage, FleetPlanPart, FleetQuestion};
use prost::Message;

use crate::connection;
use crate::entry;
use crate::key::Keys;
use crate::plan;
use crate::range;
use crate::session::within;

/// Bytes of a report: PID 1 takes messages that are twice as long.
const PART_MAX: usize = 8 << 10;
/// Bytes of an entry: 4 KiB of labels, and eight causes.
const ENTRY_MAX: usize = 7 << 10;
/// Of a question. Keys of other programs may lie between those of Kelson.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// Answers a question: one page in parts. `host`: the one whose plans may be changed.
pub async fn answer(
    mut reader: KvClient,
    keys: Keys,
    host: String,
    question: FleetQuestion,
) -> Vec<FleetPage> {
    let number = question.number;
    let answered = within(DEADLINE, async {
        page(&mut reader, &keys, &host, question).await.map_err(|error| connection::text(&error))
    });
    answered.await.unwrap_or_else(|problem| vec![refusal(number, problem)])
}

pub fn refusal(number: u64, problem: String) -> FleetPage {
    FleetPage { number, problem, ..FleetPage::default() }
}

async fn page(
    reader: &mut KvClient,
    keys: &Keys,
    host: &str,
    question: FleetQuestion,
) -> Result<Vec<FleetPage>, Error> {
    let number = question.number;
    match question.question {
        Some(Question::Hosts(request)) => {
            let parse = |value: &KeyValue| Some(entry::host(keys.parse_host(value.key())?, value.value()));
            let (hosts, rest) =
                range::read(reader, keys.hosts(), (keys.hosts(), &request.after), request.limit, parse)
                    .await?;
            Ok(parts(hosts.into_iter().map(Item::Host), FleetPage { number, rest, ..FleetPage::default() }))
        }
        Some(Question::Instances(request)) => {
            let parse =
                |value: &KeyValue| Some(entry::instance(keys.parse_service(value.key())?, value.value()));
            let name = Some(request.name.as_str()).filter(|name| !name.is_empty());
            let all = keys.services(None);
            let (instances, rest) =
                range::read(reader, &keys.services(name), (&all, &request.after), request.limit, parse)
                    .await?;
            let cursor = match instances.last() {
                Some(last) if rest => format!("{}/{}/{}", last.name, last.host, last.service),
                _ => String::new(),
            };
            Ok(parts(
                instances.into_iter().map(Item::Instance),
                FleetPage { number, rest, cursor, ..FleetPage::default() },
            ))
        }
        Some(Question::Plans(request)) => {
            let (plans, rest) = plan::read(reader, keys, &request).await?;
            let cursor = match plans.last() {
                Some(last) if rest => plan::cursor(&request, last),
                _ => String::new(),
            };
            Ok(parts(
                plans.into_iter().map(Item::Plan),
                FleetPage { number, rest, cursor, ..FleetPage::default() },
            ))
        }
        Some(Question::PutPlan(request)) => {
            let revision = plan::put(reader, keys, host, request).await?;
            Ok(vec![FleetPage { number, revision, ..FleetPage::default() }])
        }
        Some(Question::RemovePlan(request)) => {
            let revision = plan::remove(reader, keys, host, request).await?;
            Ok(vec![FleetPage { number, revision, ..FleetPage::default() }])
        }
        None => Ok(vec![refusal(number, "the question is of another version".to_owned())]),
    }
}

pub enum Item {
    Host(FleetHost),
    Instance(FleetInstance),
    Plan(FleetPlanPart),
}

/// The parts of a page, each short enough for a report. `last` has what the last one says.
pub fn parts(items: impl Iterator<Item = Item>, last: FleetPage) -> Vec<FleetPage> {
    let new = || FleetPage { number: last.number, more: true, ..FleetPage::default() };
    let (mut parts, mut part, mut bytes) = (Vec::new(), new(), 0_usize);
    for item in items.map(short) {
        // With its tag and its length.
        let length = item.length().saturating_add(8);
        if bytes.saturating_add(length) > PART_MAX {
            parts.push(std::mem::replace(&mut part, new()));
            bytes = 0;
        }
        bytes = bytes.saturating_add(length);
        match item {
            Item::Host(host) => part.hosts.push(host),
            Item::Instance(instance) => part.instances.push(instance),
            Item::Plan(plan) => part.plans.push(plan),
        }
    }
    parts.push(FleetPage { hosts: part.hosts, instances: part.instances, plans: part.plans, ..last });
    parts
}

impl Item {
    fn length(&self) -> usize {
        match self {
            Item::Host(host) => host.encoded_len(),
            Item::Instance(instance) => instance.encoded_len(),
            Item::Plan(plan) => plan.encoded_len(),
        }
    }
}

/// An entry that is too long for a report, without what makes it long.
fn short(item: Item) -> Item {
    let length = item.length();
    if length <= ENTRY_MAX {
        return item;
    }
    let problem = format!("its entry of {length} bytes is too long to be shown");
    match item {
        Item::Host(FleetHost { name, .. }) => Item::Host(FleetHost { name, problem, ..FleetHost::default() }),
        Item::Instance(FleetInstance { name, host, service, .. }) => {
            Item::Instance(FleetInstance { name, host, service, problem, ..FleetInstance::default() })
        }
        // None of Kelson's is as long; without its value it is none that a client can read.
        Item::Plan(plan) => Item::Plan(FleetPlanPart { value: Vec::new(), ..plan }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_answered_in_parts() {
        let host = |number: usize, length: usize| {
            let health = "x".repeat(length);
            Item::Host(FleetHost { name: format!("host-{number}"), health, ..FleetHost::default() })
        };
        let last = FleetPage { number: 7, rest: true, cursor: "c".into(), ..FleetPage::default() };
        let parts =
            parts((0..100).map(|number| host(number, if number == 5 { 20_000 } else { 400 })), last.clone());
        let (end, before) = parts.split_last().unwrap();
        assert!(before.len() > 4 && before.iter().all(|part| part.more && part.number == 7 && !part.rest));
        assert!(!end.more && end.rest && end.cursor == "c");
        assert!(parts.iter().all(|part| part.encoded_len() <= PART_MAX));
        let hosts: Vec<&FleetHost> = parts.iter().flat_map(|part| &part.hosts).collect();
        assert_eq!(hosts.len(), 100);
        assert!(hosts[5].name == "host-5" && hosts[5].problem.contains("too long"));
        assert_eq!(super::parts([].into_iter(), last.clone()), [last]);
    }
}
