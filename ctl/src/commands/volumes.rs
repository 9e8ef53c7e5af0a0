//! `volumes`: the volumes of storage plugins that services use, and the plugins.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use kelson_proto::v1::{
    CreateVolumeRequest, CreateVolumeResponse, DeleteVolumeRequest, ExpandVolumeRequest,
    ListVolumeProvidersRequest, ListVolumesRequest, Volume, VolumeProvider, VolumeStage, VolumeUser,
};

use kelson_spec::units;

use crate::call::{Call, Run};
use crate::failure::{Failure, answer_within};
use crate::output::{
    Page, Table, Tone, cell, escape, object, or_dash, print, size as shown_size, some, toned, views,
};

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
    /// that has succeeded.
    ///
    /// Examples:
    ///   kelsonctl volumes list -o json | jq -r '.[] | select(.trouble).service'
    #[command(verbatim_doc_comment)]
    List {},
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
}

/// One use of a volume.
struct Row {
    volume: String,
    plugin: String,
    id: String,
    usage: String,
    service: String,
    state: &'static str,
    path: String,
    trouble: String,
}

views! {
    // `service`, `path`: null where no service uses it any more. `trouble`: null where the last step succeeded.
    Row: row {
        volume, plugin, id, usage, service: some(&row.service), state, path: some(&row.path),
        trouble: some(&row.trouble),
    }
    // `most_volumes`: null where the plugin sets no limit. `topology`: as KEY=VALUE. `error`: null where it answered.
    VolumeProvider: provider {
        id, service, kind, socket, serves, name: some(&provider.name), version: some(&provider.version),
        capabilities, node_id: some(&provider.node_id), most_volumes: most(provider),
        topology: topology(provider), error: some(&provider.error),
    }
    // `size`: null where the plugin does not say. `matches`: the file of the volume has this id and this context.
    CreateVolumeResponse: created {
        id, size: Some(created.size).filter(|size| *size > 0), context: created.context.iter().collect::<BTreeMap<_, _>>(),
        matches,
    }
}

impl Run for Arguments {
    fn several(&self) -> bool {
        matches!(self.action, Action::List {} | Action::Providers {})
    }

    fn confirmed(&self) -> Option<&'static str> {
        matches!(self.action, Action::Delete { yes: false, .. }).then_some("Delete the volume at")
    }

    async fn run(self, call: &Call) -> Result<(), Failure> {
        let mut volumes = call.client()?.volumes();
        match self.action {
            Action::List {} => {
                let listed = answer_within(TIMEOUT, volumes.list(ListVolumesRequest {})).await?.volumes;
                let rows: Vec<Row> = listed.iter().flat_map(rows).collect();
                call.show(&rows, || Page::Table(table(&rows)))
            }
            Action::Providers {} => {
                let asked = volumes.providers(ListVolumeProvidersRequest {});
                let providers = answer_within(TIMEOUT, asked).await?.providers;
                call.show(&providers, || Page::Table(of_providers(&providers)))
            }
            Action::Create { volume, size } => {
                let request = CreateVolumeRequest { name: volume, size: size.unwrap_or_default() };
                let name = request.name.clone();
                let created = answer_within(ACTION, volumes.create(request)).await?;
                print(&call.item(&created, || made(&name, &created))?)
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
        }
    }
}

/// What a volume that was made is, and what its file has to say.
fn made(name: &str, created: &CreateVolumeResponse) -> String {
    let size = if created.size > 0 { format!(" with {}", shown_size(created.size)) } else { String::new() };
    let mut text = format!("volume {} is made{size}\n", escape(name));
    if !created.matches {
        text.push_str("its file has to say:\n");
        let _ = writeln!(text, "  id: {}", escape(&created.id));
        if !created.context.is_empty() {
            text.push_str("  context:\n");
        }
        for (key, value) in created.context.iter().collect::<BTreeMap<_, _>>() {
            let _ = writeln!(text, "    {}: {}", escape(key), escape(value));
        }
    }
    text
}

/// One for each service that uses it; one for a stage that no service uses any more.
fn rows(volume: &Volume) -> Vec<Row> {
    let row = |stage: &VolumeStage| Row {
        volume: volume.name.clone(),
        plugin: volume.plugin.clone(),
        id: volume.id.clone(),
        usage: usage(stage),
        service: String::new(),
        state: if stage.staged { "staged" } else { "unstaged" },
        path: String::new(),
        trouble: stage.trouble.clone(),
    };
    let of_user = |stage: &VolumeStage, user: &VolumeUser| Row {
        service: user.service.clone(),
        state: match (user.released, user.published) {
            (true, _) => "released",
            (false, true) => "published",
            (false, false) => "claimed",
        },
        path: user.path.clone(),
        trouble: user.trouble.clone(),
        ..row(stage)
    };
    let rows = volume.stages.iter().flat_map(|stage| match stage.users.as_slice() {
        [] => vec![row(stage)],
        users => users.iter().map(|user| of_user(stage, user)).collect(),
    });
    rows.collect()
}

/// As in the files: `10Gi`, `500M`.
fn bytes(text: &str) -> Result<u64, &'static str> {
    units::size(text).filter(|bytes| *bytes > 0).ok_or("write a size such as 10Gi")
}

fn usage(stage: &VolumeStage) -> String {
    let mut words = vec![stage.access.as_str()];
    words.extend((stage.attachment == "block").then_some("block"));
    words.extend(stage.read_only.then_some("readOnly"));
    words.extend(stage.mount_flags.iter().map(String::as_str));
    words.join(" ")
}

fn table(rows: &[Row]) -> Table {
    Table::of(rows)
        .left("VOLUME", |row| &row.volume)
        .left("PLUGIN", |row| &row.plugin)
        .left("ID", |row| or_dash(some(&row.id)))
        .left("SERVICE", |row| or_dash(some(&row.service)))
        .left("STATE", |row| match row.state {
            "published" => cell(row.state),
            state => toned(Tone::Waiting, state),
        })
        .cut("USAGE", |row| cell(&row.usage))
        .cut("TROUBLE", |row| toned(Tone::Bad, &row.trouble))
        .into()
}

fn most(provider: &VolumeProvider) -> Option<u64> {
    u64::try_from(provider.most_volumes).ok().filter(|most| *most > 0)
}

fn topology(provider: &VolumeProvider) -> Vec<String> {
    let mut segments: Vec<String> =
        provider.topology.iter().map(|(key, value)| format!("{key}={value}")).collect();
    segments.sort();
    segments
}

fn of_providers(providers: &[VolumeProvider]) -> Table {
    let version = |provider: &&VolumeProvider| {
        or_dash(some(format!("{} {}", provider.name, provider.version).trim()).map(str::to_owned))
    };
    Table::of(providers)
        .left("ID", |provider| &provider.id)
        .left("SERVICE", |provider| &provider.service)
        .left("TYPE", |provider| &provider.kind)
        .left("SERVES", |provider| if provider.serves { cell("yes") } else { toned(Tone::Waiting, "no") })
        .left("PLUGIN", version)
        .left("NODE", |provider| or_dash(some(&provider.node_id)))
        .right("MOST", |provider| or_dash(most(provider).map(|most| most.to_string())))
        .cut("CAPABILITIES", |provider| match provider.error.as_str() {
            "" => cell(provider.capabilities.join(" ")),
            error => toned(Tone::Bad, error),
        })
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Palette;

    #[test]
    fn each_use_of_a_volume_is_a_row() {
        let user = |service: &str, released, trouble: &str| VolumeUser {
            service: service.to_owned(),
            path: format!("/run/kelson/csi/nfs/published/{service}/data"),
            published: true,
            released,
            trouble: trouble.to_owned(),
        };
        let stage = |access: &str, staged, users| VolumeStage {
            access: access.to_owned(),
            attachment: "filesystem".to_owned(),
            staged,
            users,
            ..VolumeStage::default()
        };
        let late = "NodeUnpublishVolume: no answer in 30 s";
        let users = vec![user("db", false, ""), user("web", true, late)];
        let volume = Volume {
            name: "data".to_owned(),
            plugin: "nfs".to_owned(),
            id: "vol-1".to_owned(),
            stages: vec![
                stage("multiNodeMultiWriter", true, users),
                VolumeStage { read_only: true, ..stage("singleNodeReader", false, Vec::new()) },
            ],
        };
        assert_eq!(
            table(&rows(&volume)).render(None, Palette::None),
            "VOLUME  PLUGIN  ID     SERVICE  STATE      USAGE                      TROUBLE\n\
             data    nfs     vol-1  db       published  multiNodeMultiWriter\n\
             data    nfs     vol-1  web      released   multiNodeMultiWriter       NodeUnpublishVolume: no answer in 30 s\n\
             data    nfs     vol-1  -        unstaged   singleNodeReader readOnly\n"
        );
    }

    #[test]
    fn a_plugin_that_does_not_answer_shows_why() {
        let provider = |id: &str, error: &str| VolumeProvider {
            id: id.to_owned(),
            service: format!("{id}-plugin"),
            kind: "monolith".to_owned(),
            serves: error.is_empty(),
            error: error.to_owned(),
            ..VolumeProvider::default()
        };
        let answers = VolumeProvider {
            name: "nfs.example".to_owned(),
            version: "4.9".to_owned(),
            capabilities: vec!["GET_VOLUME_STATS".to_owned(), "STAGE_UNSTAGE_VOLUME".to_owned()],
            node_id: "edge-1".to_owned(),
            ..provider("nfs", "")
        };
        let silent = provider("zfs", "connection refused");
        assert_eq!(
            of_providers(&[answers, silent]).render(None, Palette::None),
            "ID   SERVICE     TYPE      SERVES  PLUGIN           NODE    MOST  CAPABILITIES\n\
             nfs  nfs-plugin  monolith  yes     nfs.example 4.9  edge-1     -  GET_VOLUME_STATS STAGE_UNSTAGE_VOLUME\n\
             zfs  zfs-plugin  monolith  no      -                -          -  connection refused\n"
        );
    }
}
