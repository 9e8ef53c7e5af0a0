//! `memory`: what there is, what is left, and whether anybody waits for it.

use kelson_api::client::Client;
use kelson_proto::v1::{MemoryRequest, MemoryResponse, Pressure};

use crate::call::{Call, Run};
use crate::failure::{Failure, answer};
use crate::output::{Page, Table, size, views};
use crate::watching::Watching;

/// Show memory, swap, and the pressure on them
///
/// Examples:
///   kelsonctl memory
///   kelsonctl memory --watch=1s
///   kelsonctl memory -o json | jq .available
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(flatten)]
    pub watching: Watching,
}

views! {
    // How much of the time some processes, and all of them, waited over the last 10 s, 60 s, 300 s: shares of 0 to 1.
    Pressure: pressure { some_10, some_60, some_300, full_10, full_60, full_300 }
    // Bytes. `used`: what cannot be had without swapping.
    MemoryResponse: memory {
        total, used: memory.total.saturating_sub(memory.available), available, free, buffers, cached, shared, slab,
        slab_reclaimable, dirty, swap_total, swap_free, committed, commit_limit, pressure,
    }
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let memory = ask(&call.client()?).await?;
        call.show(&memory, || match call.node {
            None => Page::Text(lines(&memory)),
            // Beside that of other hosts it is compared.
            Some(_) => Page::Table(table(&memory)),
        })
    }
}

/// Memory of the host.
pub async fn ask(client: &Client) -> Result<MemoryResponse, Failure> {
    answer(client.inspect().memory(MemoryRequest {})).await
}

fn lines(memory: &MemoryResponse) -> String {
    let used = memory.total.saturating_sub(memory.available);
    let mut out = format!(
        "memory     {}: {} used ({}), {} available\n",
        size(memory.total),
        size(used),
        percent(share(used, memory.total)),
        size(memory.available)
    );
    let given = memory.cached.saturating_add(memory.buffers);
    out += &format!("cached     {}, of which {} is to be written\n", size(given), size(memory.dirty));
    out += &format!("kernel     {}\n", size(memory.slab));
    out += &match memory.swap_total {
        0 => "swap       none\n".to_owned(),
        total => {
            let used = total.saturating_sub(memory.swap_free);
            format!("swap       {}: {} used ({})\n", size(total), size(used), percent(share(used, total)))
        }
    };
    out + &waited("pressure   ", memory.pressure.as_ref())
}

fn table(memory: &MemoryResponse) -> Table {
    let pressure =
        |memory: &MemoryResponse| memory.pressure.as_ref().map(|pressure| percent(pressure.some_10));
    Table::of([memory])
        .right("TOTAL", |memory| size(memory.total))
        .right("USED", |memory| size(memory.total.saturating_sub(memory.available)))
        .right("AVAILABLE", |memory| size(memory.available))
        .right("CACHED", |memory| size(memory.cached.saturating_add(memory.buffers)))
        .right("SWAP", |memory| size(memory.swap_total))
        .right("SWAP USED", |memory| size(memory.swap_total.saturating_sub(memory.swap_free)))
        .right("PRESSURE", |memory| pressure(memory).unwrap_or("-".to_owned()))
        .into()
}

/// How much of the time processes waited; nothing where the kernel does not count it.
pub fn waited(front: &str, pressure: Option<&Pressure>) -> String {
    let Some(pressure) = pressure else { return String::new() };
    let shares = |shares: [f64; 3]| shares.map(percent).join(", ");
    format!(
        "{front}some waited {} of the last 10 s, 60 s, 300 s; all {}\n",
        shares([pressure.some_10, pressure.some_60, pressure.some_300]),
        shares([pressure.full_10, pressure.full_60, pressure.full_300])
    )
}

/// `12.3 %` of a share of 0 to 1.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
