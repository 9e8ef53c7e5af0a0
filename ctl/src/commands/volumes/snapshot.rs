//! `volumes snapshot`: the snapshots of volumes, which the plugins keep.

use std::time::{Duration, Instant, SystemTime};

use kelson_api::client::Client;
use kelson_proto::v1::{
    CreateSnapshotRequest, DeleteSnapshotRequest, ListSnapshotsRequest, ListVolumeProvidersRequest,
    VolumeSnapshot,
};
use prost_types::Timestamp;

use crate::call::Call;
use crate::failure::{Failure, answer_within};
use crate::output::{Page, Table, Tone, cell, escape, object, or_dash, print, size, time, toned, views};

/// A plugin may have much to copy.
const TIMEOUT: Duration = Duration::from_secs(310);
/// Between two questions whether a snapshot is ready.
const PAUSE: Duration = Duration::from_secs(1);
const LISTS: &str = "LIST_SNAPSHOTS";

#[derive(Debug, Clone, clap::Subcommand)]
pub enum Action {
    /// Make a snapshot of a volume
    ///
    /// Another call with the same name finds the same snapshot.
    ///
    /// Examples:
    ///   kelsonctl volumes snapshot create db-data
    ///   kelsonctl volumes snapshot create db-data --name before-upgrade --wait
    #[command(verbatim_doc_comment)]
    Create {
        /// The name of the file of the volume
        #[arg(value_name = "NAME")]
        volume: String,
        /// Its name [default: the volume and the time]
        #[arg(id = "snapshot", long = "name", value_name = "NAME")]
        name: Option<String>,
        /// For the plugin; several times
        #[arg(long = "parameter", value_name = "KEY=VALUE", value_parser = parameter)]
        parameters: Vec<(String, String)>,
        /// Wait until a volume can be made of it
        #[arg(long)]
        wait: bool,
        /// How long it waits
        #[arg(long, value_name = "D", value_parser = time::parse_timeout, default_value = "10m", requires = "wait")]
        timeout: Duration,
    },
    /// List the snapshots of a volume, or of all plugins
    ///
    /// Examples:
    ///   kelsonctl volumes snapshot list
    ///   kelsonctl volumes snapshot list db-data -o json | jq -r '.[].id'
    #[command(verbatim_doc_comment)]
    List {
        /// The name of the file of the volume [default: of all]
        #[arg(value_name = "NAME")]
        volume: Option<String>,
        /// Only of this plugin
        #[arg(long, value_name = "ID", conflicts_with = "volume")]
        plugin: Option<String>,
    },
    /// Delete a snapshot
    ///
    /// Examples:
    ///   kelsonctl volumes snapshot delete db-data@before-upgrade --volume db-data
    ///   kelsonctl volumes snapshot delete db-data@before-upgrade --plugin loop --yes
    #[command(verbatim_doc_comment)]
    Delete {
        /// By which the plugin knows it
        #[arg(id = "snapshot", value_name = "ID")]
        id: String,
        /// The plugin that has it
        #[arg(long, value_name = "ID", required_unless_present = "volume", conflicts_with = "volume")]
        plugin: Option<String>,
        /// A volume of this plugin, such as the one that it is of
        #[arg(long, value_name = "NAME")]
        volume: Option<String>,
        /// Do not ask first
        #[arg(short, long)]
        yes: bool,
    },
}

views! {
    // `size`: null where the plugin does not say. `volume_id`: by which the plugin knows the volume.
    VolumeSnapshot: snapshot {
        id, plugin, volume_id, size: Some(snapshot.size).filter(|size| *size > 0), created, ready,
    }
}

impl Action {
    pub fn several(&self) -> bool {
        matches!(self, Action::List { .. })
    }

    pub fn confirmed(&self) -> Option<&'static str> {
        matches!(self, Action::Delete { yes: false, .. }).then_some("Delete the snapshot at")
    }

    pub async fn run(self, call: &Call) -> Result<(), Failure> {
        let client = call.client()?;
        match self {
            Action::Create { volume, name, parameters, wait, timeout } => {
                let name = name.unwrap_or_else(|| usual_name(&volume, SystemTime::now()));
                let parameters = parameters.into_iter().collect();
                let request = CreateSnapshotRequest { volume, name, parameters };
                let made = create(&client, request, wait.then_some(timeout)).await?;
                print(&call.item(&made, || {
                    let more = if made.ready { "" } else { "; it is not ready yet" };
                    format!("snapshot {} is made{more}\n", escape(&made.id))
                })?)
            }
            Action::List { volume, plugin } => {
                let snapshots = match (volume, plugin) {
                    (None, None) => all(call, &client).await?,
                    (volume, plugin) => list(&client, volume, plugin).await?,
                };
                call.show(&snapshots, || Page::Table(table(&snapshots, call)))
            }
            Action::Delete { id, plugin, volume, yes: _ } => {
                let (plugin, volume) = (plugin.unwrap_or_default(), volume.unwrap_or_default());
                let request = DeleteSnapshotRequest { id: id.clone(), plugin, volume };
                answer_within(TIMEOUT, client.volumes().delete_snapshot(request)).await?;
                print(&call.item(&object!(id: id), || format!("snapshot {} is deleted\n", escape(&id)))?)
            }
        }
    }
}

/// `wait`: until it is ready. The interface has it asked for by the same call.
async fn create(
    client: &Client,
    request: CreateSnapshotRequest,
    wait: Option<Duration>,
) -> Result<VolumeSnapshot, Failure> {
    let began = Instant::now();
    let mut volumes = client.volumes();
    loop {
        let asked = volumes.create_snapshot(request.clone());
        let made = answer_within(TIMEOUT, asked).await?.snapshot.unwrap_or_default();
        match wait {
            Some(timeout) if !made.ready && began.elapsed() >= timeout => {
                return Err(Failure::Failed(format!(
                    "snapshot {} is not ready after {}; the plugin may continue: see kelsonctl volumes snapshot list",
                    made.id,
                    time::passed(timeout)
                )));
            }
            Some(_) if !made.ready => tokio::time::sleep(PAUSE).await,
            _ => return Ok(made),
        }
    }
}

/// Of one plugin, page by page.
async fn list(
    client: &Client,
    volume: Option<String>,
    plugin: Option<String>,
) -> Result<Vec<VolumeSnapshot>, Failure> {
    let (volume, plugin) = (volume.unwrap_or_default(), plugin.unwrap_or_default());
    let mut request = ListSnapshotsRequest { volume, plugin, token: String::new() };
    let mut snapshots = Vec::new();
    loop {
        let page = answer_within(TIMEOUT, client.volumes().list_snapshots(request.clone())).await?;
        snapshots.extend(page.snapshots);
        request.token = page.next;
        if request.token.is_empty() {
            return Ok(snapshots);
        }
    }
}

/// Of all plugins that list snapshots. Those that fail are reported, and hide no other.
async fn all(call: &Call, client: &Client) -> Result<Vec<VolumeSnapshot>, Failure> {
    let mut volumes = client.volumes();
    let asked = volumes.providers(ListVolumeProvidersRequest {});
    let mut providers = answer_within(TIMEOUT, asked).await?.providers;
    providers.retain(|provider| provider.capabilities.iter().any(|one| one == LISTS));
    providers.dedup_by(|one, other| one.id == other.id);
    let mut snapshots = Vec::new();
    for provider in providers {
        match list(client, None, Some(provider.id.clone())).await {
            Ok(its) => snapshots.extend(its),
            Err(failure) => call.note(&format!("plugin {}: {failure}", escape(&provider.id))),
        }
    }
    Ok(snapshots)
}

fn table(snapshots: &[VolumeSnapshot], call: &Call) -> Table {
    let now = SystemTime::now();
    Table::of(snapshots)
        .left("SNAPSHOT", |snapshot| &snapshot.id)
        .left("PLUGIN", |snapshot| &snapshot.plugin)
        .left("OF", |snapshot| &snapshot.volume_id)
        .right("SIZE", |snapshot| or_dash(Some(snapshot.size).filter(|bytes| *bytes > 0).map(size)))
        .left("CREATED", |snapshot| or_dash(snapshot.created.as_ref().map(|at| call.terminal.time(at, now))))
        .left("READY", |snapshot| if snapshot.ready { cell("yes") } else { toned(Tone::Waiting, "no") })
        .into()
}

/// `db-data-20261128t090000z`: plugins make names of files and of objects of it.
fn usual_name(volume: &str, now: SystemTime) -> String {
    let at = time::rfc3339(&Timestamp::from(now));
    let seconds = at.split_once('.').map_or(at.as_str(), |(seconds, _)| seconds);
    let plain: String = seconds.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("{volume}-{}z", plain.to_lowercase())
}

fn parameter(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_has_the_name_of_its_volume_and_the_time() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_856_461_250);
        assert_eq!(usual_name("db-data", at), "db-data-20261128t090101z");
    }
}
