//! `cgroups`: what services use of what they may use.

use kelson_api::client::Client;
use kelson_proto::v1::{Cgroup, CgroupsRequest};

use super::looking::gather;
use crate::call::{Call, Run};
use crate::failure::Failure;
use crate::output::tree::forest;
use crate::output::{Cell, Page, Table, Tone, cell, object, or_dash, size, some, time, toned, views};
use crate::watching::Watching;

/// Show the cgroups of services, with use and limits
///
/// Examples:
///   kelsonctl cgroups
///   kelsonctl cgroups --watch
///   kelsonctl cgroups -o json | jq -r '.cgroups[] | select(.oomKills > 0).service'
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(flatten)]
    pub watching: Watching,
}

views! {
    // `path`: below the root; empty: the root itself. A value that no controller counts is null, and so is an
    // absent limit. `cpu_max`: processors.
    Cgroup: cgroup {
        path, service: some(&cgroup.service), processes, frozen, cpu_ms: cgroup.cpu, throttled_ms: cgroup.throttled,
        memory_bytes: cgroup.memory, memory_peak_bytes: cgroup.memory_peak, memory_max_bytes: cgroup.memory_max,
        memory_high_bytes: cgroup.memory_high, oom_kills, pids, pids_max, cpu_max, cpu_weight,
    }
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let (root, cgroups) = ask(&call.client()?).await?;
        let view = object!(root: root, cgroups: cgroups);
        call.show(&view, || Page::Table(table(&root, &cgroups, call.terminal.unicode)))
    }
}

/// Where the cgroup of all services is, and those below it.
pub async fn ask(client: &Client) -> Result<(String, Vec<Cgroup>), Failure> {
    let pages = gather(client.inspect().cgroups(CgroupsRequest {}), |page| [page]).await?;
    let root = pages.iter().map(|page| page.root.clone()).find(|root| !root.is_empty()).unwrap_or_default();
    Ok((root, pages.into_iter().flat_map(|page| page.cgroups).collect()))
}

fn table(root: &str, cgroups: &[Cgroup], unicode: bool) -> Table {
    let name = |cgroup: &Cgroup| match cgroup.path.rsplit('/').next() {
        None | Some("") => root.to_owned(),
        Some(name) => name.to_owned(),
    };
    let count = |count: Option<u64>| or_dash(count.map(|count| count.to_string()));
    let span =
        |span: &Option<prost_types::Duration>| or_dash(span.as_ref().map(time::duration).map(time::measured));
    Table::of(forest(cgroups, |cgroup| cgroup.path.clone(), above, false, unicode))
        .left("CGROUP", |(rails, cgroup)| format!("{rails}{}", name(cgroup)))
        .right("PROCESSES", |(_, cgroup)| cgroup.processes.to_string())
        .spare(3)
        .right("MEMORY", |(_, group)| near(or_dash(group.memory.map(size)), group.memory, group.memory_max))
        .right("MAX", |(_, cgroup)| or_dash(cgroup.memory_max.map(size)))
        .right("CPU", |(_, cgroup)| span(&cgroup.cpu))
        .right("THROTTLED", |(_, cgroup)| span(&cgroup.throttled))
        .spare(2)
        .right("PIDS", |(_, cgroup)| near(count(cgroup.pids), cgroup.pids, cgroup.pids_max))
        .right("MAX", |(_, cgroup)| count(cgroup.pids_max))
        .spare(4)
        .left("FROZEN", |(_, cgroup)| if cgroup.frozen { toned(Tone::Waiting, "yes") } else { cell("no") })
        .spare(1)
        .right("OOM KILLS", |(_, cgroup)| match cgroup.oom_kills {
            Some(kills @ 1..) => toned(Tone::Bad, kills.to_string()),
            kills => count(kills),
        })
        .into()
}

/// The path of the one that it is in.
fn above(cgroup: &Cgroup) -> String {
    cgroup.path.rsplit_once('/').map_or(String::new(), |(above, _)| above.to_owned())
}

/// A value near its limit stands out.
fn near(field: Cell, used: Option<u64>, limit: Option<u64>) -> Cell {
    match (used, limit) {
        (Some(used), Some(limit)) if used >= limit / 10 * 9 => field.in_tone(Tone::Waiting),
        _ => field,
    }
}
