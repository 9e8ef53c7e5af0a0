//! `facts`: what a host is, and what says so.

use kelson_api::client::Client;
use kelson_proto::v1::{Fact, FactsRequest};

use super::looking::gather;
use crate::call::{Call, Run};
use crate::failure::Failure;
use crate::output::{Page, Table, views};

/// Show what a host is: hardware, kernel, platform
///
/// Each fact names the file or the instruction that says so. A fact that
/// nothing says is left out.
///
/// Examples:
///   kelsonctl facts
///   kelsonctl -n all facts -o json
///   kelsonctl facts -o json | jq -r '.[] | select(.name == "platform").value'
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {}

views! {
    Fact: fact { name, value, source }
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let facts = ask(&call.client()?).await?;
        call.show(&facts, || Page::Table(table(&facts)))
    }
}

/// All facts of the host.
pub async fn ask(client: &Client) -> Result<Vec<Fact>, Failure> {
    gather(client.inspect().facts(FactsRequest {}), |page| page.facts).await
}

fn table(facts: &[Fact]) -> Table {
    Table::of(facts)
        .left("FACT", |fact| &fact.name)
        .cut("VALUE", |fact| &fact.value)
        .spare(1)
        .cut("SOURCE", |fact| &fact.source)
        .into()
}
