//! `volumes`: the volumes of storage plugins that services use, the plugins, and the snapshots of volumes.

mod created;
mod list;
mod providers;
mod snapshot;
mod status;

use std::time::{Duration, SystemTime};

use kelson_proto::v1::{
    CreateVolumeRequest, DeleteVolumeRequest, ExpandVolumeRequest, ListVolumeProvidersRequest,
    ListVolumesRequest, VolumeStatusRequest,
};

use kelson_spec::units;

use crate::call::{Call, Run};
use crate::failure::{Failure, answer_within};
use crate::output::{Page, escape, object, print, size as shown_size};

/// A plugin that hangs is in the answer too.
const TIMEOUT: Duration = Duration::from_secs(60);
/// A plugin may have much to copy.
const ACTION: Duration = Duration::from_secs(310);

/// The volumes of storage plugins, and the plugins
///
/// Examples:
///   kelsonctl volumes list
///   kelsonctl volumes providers
///   kelsonctl volumes create db-data --size 10Gi
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Clone, clap::Subcommand)]
enum Action {
    /// List the volumes that services use
    ///
    /// One that could not be unpublished or unstaged stays in the list until
    /// that has succeeded. With --statistics the plugins are asked how full
    /// the volumes are, and have 5 s to answer.
    ///
    /// Examples:
    ///   kelsonctl volumes list --statistics
    ///   kelsonctl volumes list -o json | jq -r '.[] | select(.trouble).service'
    #[command(verbatim_doc_comment)]
    List {
        /// Show how full the volumes are
        #[arg(long)]
        statistics: bool,
    },
    /// Show one volume whole
    ///
    /// It shows what its file says, the services that provide its plugin, how it
    /// is used, what is tried, and its last events. It need not be in use.
    ///
    /// Examples:
    ///   kelsonctl volumes status db-data
    ///   kelsonctl volumes status db-data -o json | jq .uses
    #[command(verbatim_doc_comment)]
    Status {
        /// The name of the file of the volume
        #[arg(value_name = "NAME")]
        volume: String,
    },
    /// Ask the storage plugins for their names and capabilities
    ///
    /// Examples:
    ///   kelsonctl volumes providers -o json | jq '.[].capabilities'
    #[command(verbatim_doc_comment)]
    Providers {},
    /// Make the volume that a file describes
    ///
    /// The file stays as it is: where the plugin gives the volume an id or a
    /// context of its own, the command shows what to write into the file.
    ///
    /// Examples:
    ///   kelsonctl volumes create db-data --size 10Gi
    #[command(verbatim_doc_comment)]
    Create {
        /// The name of the file of the volume
        #[arg(value_name = "NAME")]
        volume: String,
        /// How large it is at least; without it the plugin decides
        #[arg(long, value_name = "SIZE", value_parser = bytes)]
        size: Option<u64>,
        /// The id of a snapshot whose content it gets
        #[arg(long, value_name = "ID")]
        snapshot: Option<String>,
    },
    /// Delete a volume, with its data
    ///
    /// Examples:
    ///   kelsonctl volumes delete db-data --yes
    #[command(verbatim_doc_comment)]
    Delete {
        /// The name of the file of the volume
        #[arg(value_name = "NAME")]
        volume: String,
        /// Do not ask first
        #[arg(short, long)]
        yes: bool,
    },
    /// Make a volume larger, also while services use it
    ///
    /// Examples:
    ///   kelsonctl volumes expand db-data 20Gi
    #[command(verbatim_doc_comment)]
    Expand {
        /// The name of the file of the volume
        #[arg(value_name = "NAME")]
        volume: String,
        /// How large it is at least
        #[arg(value_parser = bytes)]
        size: u64,
    },
    /// Make, list and delete snapshots of volumes
    ///
    /// Examples:
    ///   kelsonctl volumes snapshot create db-data --name before-upgrade
    ///   kelsonctl volumes snapshot list db-data
    ///   kelsonctl volumes create db-old --snapshot db-data@before-upgrade
    #[command(verbatim_doc_comment, subcommand)]
    Snapshot(snapshot::Action),
}

impl Run for Arguments {
    fn several(&self) -> bool {
        match &self.action {
            Action::List { .. } | Action::Status { .. } | Action::Providers {} => true,
            Action::Create { .. } | Action::Delete { .. } | Action::Expand { .. } => false,
            Action::Snapshot(action) => action.several(),
        }
    }

    fn confirmed(&self) -> Option<&'static str> {
        match &self.action {
            Action::Delete { yes: false, .. } => Some("Delete the volume at"),
            Action::Snapshot(action) => action.confirmed(),
            _ => None,
        }
    }

    async fn run(self, call: &Call) -> Result<(), Failure> {
        let client = call.client()?;
        let mut volumes = client.volumes();
        match self.action {
            Action::List { statistics } => {
                let request = ListVolumesRequest { statistics };
                let listed = answer_within(TIMEOUT, volumes.list(request)).await?.volumes;
                let rows: Vec<list::Row> = listed.iter().flat_map(list::rows).collect();
                call.show(&rows, || Page::Table(list::table(&rows, statistics)))
            }
            Action::Status { volume } => {
                let request = VolumeStatusRequest { name: volume.clone() };
                let answer = answer_within(TIMEOUT, volumes.status(request)).await?;
                let shown = status::Shown::new(volume, answer, status::events(&client).await?);
                call.show(&shown, || Page::Text(shown.page(&call.terminal, SystemTime::now())))
            }
            Action::Providers {} => {
                let asked = volumes.providers(ListVolumeProvidersRequest {});
                let asked = answer_within(TIMEOUT, asked).await?.providers;
                call.show(&asked, || Page::Table(providers::table(&asked)))
            }
            Action::Create { volume, size, snapshot } => {
                let (size, snapshot) = (size.unwrap_or_default(), snapshot.unwrap_or_default());
                let request = CreateVolumeRequest { name: volume, size, snapshot };
                let name = request.name.clone();
                let made = answer_within(ACTION, volumes.create(request)).await?;
                print(&call.item(&made, || created::text(&name, &made))?)
            }
            Action::Delete { volume, yes: _ } => {
                let request = DeleteVolumeRequest { name: volume.clone() };
                answer_within(ACTION, volumes.delete(request)).await?;
                print(
                    &call.item(&object!(name: volume), || {
                        format!("volume {} is deleted\n", escape(&volume))
                    })?,
                )
            }
            Action::Expand { volume, size } => {
                let request = ExpandVolumeRequest { name: volume.clone(), size };
                let bytes = answer_within(ACTION, volumes.expand(request)).await?.size;
                print(&call.item(&object!(name: volume, size: bytes), || {
                    format!("volume {} has {}\n", escape(&volume), shown_size(bytes))
                })?)
            }
            Action::Snapshot(action) => action.run(call).await,
        }
    }
}

/// As in the files: `10Gi`, `500M`.
fn bytes(text: &str) -> Result<u64, &'static str> {
    units::size(text).filter(|bytes| *bytes > 0).ok_or("write a size such as 10Gi")
}
