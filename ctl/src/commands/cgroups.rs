//! `cgroups`: what services use of what they may use.

use std::time::Duration;

use kelson_api::client::Client;
use kelson_proto::v1::{Cgroup, CgroupsRequest};

use super::looking::gather;
use crate::call::{Call, Run};
use crate::failure::Failure;
use crate::output::page::Page;
use crate::output::size::size;
use crate::output::style::Tone;
use crate::output::table::{Cell, Table, cell, toned};
use crate::output::time;
use crate::output::tree::forest;
use crate::output::views::object;
use crate::watching::Watching;

/// Show the cgroups of services, what they use and may use
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  kelsonctl cgroups
  kelsonctl cgroups --watch
  kelsonctl cgroups -o json | jq -r '.cgroups[] | select(.oomKills > 0).service'")]
pub struct Arguments {
    #[command(flatten)]
    pub watching: Watching,
}

impl Run for Arguments {
    fn watch(&self) -> Option<Duration> {
        self.watching.watch
    }

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
    let mut table = Table::new(&[
        "CGROUP",
        "PROCESSES",
        "MEMORY",
        "MAX",
        "CPU",
        "THROTTLED",
        "PIDS",
        "MAX",
        "FROZEN",
        "OOM KILLS",
    ])
    .right(&[1, 2, 3, 4, 5, 6, 7, 9])
    .spare(&[8, 5, 1, 7]);
    for (rails, cgroup) in forest(cgroups, |cgroup| cgroup.path.clone(), above, false, unicode) {
        let name = match cgroup.path.rsplit('/').next() {
            None | Some("") => root,
            Some(name) => name,
        };
        let count = |count: Option<u64>| known(count, |count| count.to_string());
        table.row(vec![
            cell(format!("{rails}{name}")),
            cell(cgroup.processes.to_string()),
            near(known(cgroup.memory, size), cgroup.memory, cgroup.memory_max),
            known(cgroup.memory_max, size),
            known(cgroup.cpu.as_ref().map(time::duration), time::measured),
            known(cgroup.throttled.as_ref().map(time::duration), time::measured),
            near(count(cgroup.pids), cgroup.pids, cgroup.pids_max),
            count(cgroup.pids_max),
            if cgroup.frozen { toned(Tone::Waiting, "yes") } else { cell("no") },
            match cgroup.oom_kills {
                Some(kills @ 1..) => toned(Tone::Bad, kills.to_string()),
                kills => count(kills),
            },
        ]);
    }
    table
}

/// The path of the one that it is in.
fn above(cgroup: &Cgroup) -> String {
    cgroup.path.rsplit_once('/').map_or(String::new(), |(above, _)| above.to_owned())
}

fn known<T>(value: Option<T>, text: impl Fn(T) -> String) -> Cell {
    value.map_or_else(|| toned(Tone::Quiet, "-"), |value| cell(text(value)))
}

/// What comes near its limit stands out.
fn near(field: Cell, used: Option<u64>, limit: Option<u64>) -> Cell {
    match (used, limit) {
        (Some(used), Some(limit)) if used >= limit / 10 * 9 => field.in_tone(Tone::Waiting),
        _ => field,
    }
}
