//! `mounts`: what is mounted, and how full it is.

use kelson_api::client::Client;
use kelson_proto::v1::{Mount, MountsRequest};

use super::looking::gather;
use crate::call::{Call, Run};
use crate::failure::Failure;
use crate::output::{Cell, Page, Table, Tone, or_dash, size, some, toned, views};
use crate::watching::Watching;

/// Show the mounts, and how full each file system is
///
/// Examples:
///   kelsonctl mounts
///   kelsonctl mounts --all --wide
///   kelsonctl mounts -o json | jq -r '.[] | select(.available < 1e8).target'
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Include file systems without a size, such as proc and sysfs
    #[arg(short, long)]
    all: bool,
    /// Show their options
    #[arg(short = 'W', long)]
    wide: bool,
    #[command(flatten)]
    pub watching: Watching,
}

views! {
    // Bytes; null where there is no such number or nobody answered, and `trouble` says why. `root`: what of the file
    // system is mounted.
    Mount: mount {
        source, target, r#type, root, options, size, used, available, inodes, inodes_used,
        trouble: some(&mount.trouble),
    }
}

impl Run for Arguments {
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
    let table = Table::of(mounts)
        .cut("SOURCE", |mount| source(mount))
        .left("TARGET", |mount| &mount.target)
        .left("TYPE", |mount| &mount.r#type)
        .spare(2)
        .right("SIZE", |mount| or_dash(mount.size.map(size)))
        .right("USED", |mount| or_dash(mount.used.map(size)))
        .spare(1)
        .right("AVAILABLE", |mount| or_dash(mount.available.map(size)))
        .right("USE%", |mount| or_dash(full(mount.used, mount.available)));
    let table = if wide { table.cut("OPTIONS", |mount| mount.options.join(",")) } else { table };
    table.cut("TROUBLE", |mount| toned(Tone::Bad, &mount.trouble)).into()
}

/// With the folder that is mounted, where it is not all of the file system.
fn source(mount: &Mount) -> String {
    match mount.root.as_str() {
        "" | "/" => mount.source.clone(),
        root => format!("{}[{root}]", mount.source),
    }
}

/// How much of what may be taken is taken, rounded up: 100 % says that nothing is left.
pub fn full(used: Option<u64>, available: Option<u64>) -> Option<Cell> {
    let (used, available) = (u128::from(used?), u128::from(available?));
    let percent = (used * 100).checked_add(used + available - 1)?.checked_div(used + available)?;
    let tone = match percent {
        0..80 => Tone::Plain,
        80..95 => Tone::Waiting,
        _ => Tone::Bad,
    };
    Some(toned(tone, format!("{percent}%")))
}
