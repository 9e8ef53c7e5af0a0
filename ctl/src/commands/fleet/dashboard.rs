//! A fleet at a glance: its health, its causes, its versions and its plans.

use std::time::SystemTime;

use kelson_api::client::Client;

use super::chosen::Chosen;
use super::health::Health;
use super::{TIMEOUT, plans, versions, why};
use crate::call::Call;
use crate::failure::Failure;
use crate::output::{Page, Table, object};

/// Shows it once.
pub async fn show(call: &Call, client: &Client, chosen: &Chosen) -> Result<(), Failure> {
    let hosts = chosen.of(client, TIMEOUT).await?;
    let causes = why::of(client, chosen, &hosts, TIMEOUT).await?;
    let plans = plans::unfinished(client).await?;
    let (health, versions) = (Health::of(&hosts), versions::of(&hosts));
    let (terminal, now) = (&call.terminal, SystemTime::now());
    let page = || {
        let table = |table: Table| Page::Table(table).render(terminal);
        let parts = [
            format!("{}  {}", terminal.time(&now.into(), now), health.counts()),
            causes.page(terminal).render(terminal),
            table(versions::table(&versions)),
            if plans.is_empty() { String::new() } else { table(plans::table(&plans, terminal)) },
        ];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Page::Text(parts.join("\n"))
    };
    call.show(&object!(health: health, causes: causes, versions: versions, plans: plans), page)
}
