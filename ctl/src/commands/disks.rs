//! `disks`: block devices and their partitions.

use kelson_api::client::Client;
use kelson_proto::v1::{Disk, DisksRequest};

use super::looking::gather;
use crate::call::{Call, Run};
use crate::failure::Failure;
use crate::output::tree::forest;
use crate::output::{Page, Table, size, some, views};

/// Show disks and their partitions
///
/// Examples:
///   kelsonctl disks
///   kelsonctl disks -o json | jq -r '.[] | select(.readOnly).name'
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {}

views! {
    // A disk, or a partition of one, which has a parent. `type`: null where it is not mounted. `backing`: the file behind
    // a loop device.
    Disk: disk {
        name, parent: some(&disk.parent), size, model: some(&disk.model), serial: some(&disk.serial), read_only,
        removable, rotational, targets, r#type: some(&disk.r#type), read_bytes, written_bytes,
        busy_ms: disk.busy.unwrap_or_default(), backing: some(&disk.backing),
    }
}

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
    Table::of(forest(disks, |disk| disk.name.clone(), |disk| disk.parent.clone(), false, unicode))
        .left("NAME", |(rails, disk)| format!("{rails}{}", disk.name))
        .right("SIZE", |(_, disk)| size(disk.size))
        .left("TYPE", |(_, disk)| &disk.r#type)
        .cut("MOUNTED AT", |(_, disk)| disk.targets.join(", "))
        .right("READ", |(_, disk)| size(disk.read_bytes))
        .right("WRITTEN", |(_, disk)| size(disk.written_bytes))
        .cut("MODEL", |(_, disk)| about(disk))
        .into()
}

/// Its model or the file behind it, and what else is worth a word.
fn about(disk: &Disk) -> String {
    let mut parts = vec![disk.model.trim(), disk.backing.as_str()];
    parts.extend(disk.read_only.then_some("read-only"));
    parts.extend(disk.removable.then_some("removable"));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}
