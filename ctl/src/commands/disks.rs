//! `disks`: block devices and their partitions.

use kelson_api::client::Client;
use kelson_proto::v1::{Disk, DisksRequest};

use super::looking::gather;
use crate::call::{Call, Run};
use crate::failure::Failure;
use crate::output::page::Page;
use crate::output::size::size;
use crate::output::table::{Table, cell};
use crate::output::tree::forest;

/// Show disks and their partitions
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  kelsonctl disks
  kelsonctl disks -o json | jq -r '.[] | select(.readOnly).name'")]
pub struct Arguments {}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let disks = ask(&call.client()?).await?;
        call.show(&disks, || Page::Table(table(&disks, call.terminal.unicode)))
    }
}

/// All disks of the host.
pub async fn ask(client: &Client) -> Result<Vec<Disk>, Failure> {
    gather(client.inspect().disks(DisksRequest {}), |page| page.disks).await
}

fn table(disks: &[Disk], unicode: bool) -> Table {
    let mut table = Table::new(&["NAME", "SIZE", "TYPE", "MOUNTED AT", "READ", "WRITTEN", "MODEL"])
        .right(&[1, 4, 5])
        .cut(&[3, 6]);
    let rows = forest(disks, |disk| disk.name.clone(), |disk| disk.parent.clone(), false, unicode);
    for (rails, disk) in rows {
        table.row(vec![
            cell(format!("{rails}{}", disk.name)),
            cell(size(disk.size)),
            cell(&disk.r#type),
            cell(disk.targets.join(", ")),
            cell(size(disk.read_bytes)),
            cell(size(disk.written_bytes)),
            cell(about(disk)),
        ]);
    }
    table
}

/// Its model or the file behind it, and what else is worth a word.
fn about(disk: &Disk) -> String {
    let mut parts = vec![disk.model.trim(), disk.backing.as_str()];
    parts.extend(disk.read_only.then_some("read-only"));
    parts.extend(disk.removable.then_some("removable"));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}
