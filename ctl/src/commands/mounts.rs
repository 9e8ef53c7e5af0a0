//! `mounts`: what is mounted, and how full it is.

use std::time::Duration;

use kelson_api::client::Client;
use kelson_proto::v1::{Mount, MountsRequest};

use super::looking::gather;
use crate::call::{Call, Run};
use crate::failure::Failure;
use crate::output::page::Page;
use crate::output::size::size;
use crate::output::style::Tone;
use crate::output::table::{Cell, Table, cell, toned};
use crate::watching::Watching;

/// Show what is mounted, and how full it is
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  kelsonctl mounts
  kelsonctl mounts --all --wide
  kelsonctl mounts -o json | jq -r '.[] | select(.available < 1e8).target'")]
pub struct Arguments {
    /// Those that have no size, too, such as proc and sysfs
    #[arg(short, long)]
    all: bool,
    /// With their options
    #[arg(short = 'W', long)]
    wide: bool,
    #[command(flatten)]
    pub watching: Watching,
}

impl Run for Arguments {
    fn watch(&self) -> Option<Duration> {
        self.watching.watch
    }

    async fn run(self, call: &Call) -> Result<(), Failure> {
        let mut mounts = ask(&call.client()?).await?;
        mounts
            .retain(|mount| self.all || mount.size.is_some_and(|size| size > 0) || !mount.trouble.is_empty());
        call.show(&mounts, || Page::Table(table(&mounts, self.wide)))
    }
}

/// All mounts of the host.
pub async fn ask(client: &Client) -> Result<Vec<Mount>, Failure> {
    gather(client.inspect().mounts(MountsRequest {}), |page| page.mounts).await
}

fn table(mounts: &[Mount], wide: bool) -> Table {
    let mut head = vec!["SOURCE", "TARGET", "TYPE", "SIZE", "USED", "AVAILABLE", "USE%"];
    head.extend(wide.then_some("OPTIONS"));
    head.push("TROUBLE");
    let mut table =
        Table::new(&head).right(&[3, 4, 5, 6]).cut(if wide { &[0, 7, 8] } else { &[0, 7] }).spare(&[4, 2]);
    let known = |bytes: Option<u64>| bytes.map_or_else(|| toned(Tone::Quiet, "-"), |bytes| cell(size(bytes)));
    for mount in mounts {
        let mut row = vec![
            cell(source(mount)),
            cell(&mount.target),
            cell(&mount.r#type),
            known(mount.size),
            known(mount.used),
            known(mount.available),
            full(mount),
        ];
        row.extend(wide.then(|| cell(mount.options.join(","))));
        row.push(toned(Tone::Bad, &mount.trouble));
        table.row(row);
    }
    table
}

/// With the folder that is mounted, where it is not all of the file system.
fn source(mount: &Mount) -> String {
    match mount.root.as_str() {
        "" | "/" => mount.source.clone(),
        root => format!("{}[{root}]", mount.source),
    }
}

/// How much of what may be taken is taken, rounded up: 100 % says that nothing is left.
fn full(mount: &Mount) -> Cell {
    let (Some(used), Some(available)) = (mount.used, mount.available) else {
        return toned(Tone::Quiet, "-");
    };
    let (used, room) = (u128::from(used), u128::from(used) + u128::from(available));
    if room == 0 {
        return toned(Tone::Quiet, "-");
    }
    let percent = (used * 100).div_ceil(room);
    let tone = match percent {
        0..80 => Tone::Plain,
        80..95 => Tone::Waiting,
        _ => Tone::Bad,
    };
    toned(tone, format!("{percent}%"))
}
