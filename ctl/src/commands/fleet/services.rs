//! The registered services of a fleet.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use kelson_api::client::Client;
use kelson_proto::v1::{FleetInstance, FleetInstancesRequest};

use crate::commands::registry::port;
use crate::failure::{Failure, within};
use crate::output::{Cell, Table, Terminal, Tone, cell, or_dash, some, toned, views};

views! {
    // `service`: that of the host. All but the first three is empty or null where the entry in the store cannot be read, and
    // `problem` says why; otherwise it is null. `port`: null where none is registered.
    FleetInstance: instance {
        name, host, service, address: some(&instance.address), port: port(instance.port), tags,
        meta: instance.meta.iter().collect::<BTreeMap<_, _>>(), since, problem: some(&instance.problem),
    }
}

/// Those of this name, or of all names, page by page.
pub async fn all(client: &Client, name: String, timeout: Duration) -> Result<Vec<FleetInstance>, Failure> {
    let pages = async {
        let (mut fleet, mut instances) = (client.fleet(), Vec::new());
        let mut request = FleetInstancesRequest { name, after: String::new(), limit: 0 };
        loop {
            let page = fleet.instances(request.clone()).await?.into_inner();
            instances.extend(page.instances);
            match page.cursor {
                end if end.is_empty() => return Ok(instances),
                same if same == request.after => {
                    return Err(Failure::Failed(
                        "the host sends the same services again and again".to_owned(),
                    ));
                }
                next => request.after = next,
            }
        }
    };
    within(timeout, pages).await
}

pub fn table(instances: &[FleetInstance], terminal: &Terminal) -> Table {
    let now = SystemTime::now();
    Table::of(instances)
        .left("NAME", |one| &one.name)
        .left("HOST", |one| &one.host)
        .left("ADDRESS", |one| or_dash(some(&one.address)))
        .right("PORT", |one| or_dash(port(one.port).map(|port| port.to_string())))
        .cut("TAGS", |one| tags(one))
        .left("SINCE", |one| or_dash(one.since.as_ref().map(|since| terminal.time(since, now))))
        .spare(1)
        .into()
}

/// Its tags, or why nothing of it is known.
fn tags(instance: &FleetInstance) -> Cell {
    match instance.problem.as_str() {
        "" => cell(instance.tags.join(",")),
        problem => toned(Tone::Bad, problem),
    }
}
