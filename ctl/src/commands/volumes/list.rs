//! Volumes in use, one row for each use.

use kelson_proto::v1::{Volume, VolumeStage, VolumeStatistics, VolumeUser};

use crate::commands::mounts::full;
use crate::output::{Cell, Table, Tone, cell, or_dash, size, some, toned, views};

/// One use of a volume.
pub struct Row {
    volume: String,
    plugin: String,
    id: String,
    pub usage: String,
    pub service: String,
    state: &'static str,
    pub path: String,
    pub trouble: String,
    pub attempt: u32,
    pub again_ms: Option<u32>,
    statistics: VolumeStatistics,
}

views! {
    // `service`, `path`: null where no service uses it any more. `trouble`, `attempt`: null where the last step succeeded.
    // `again_ms`: null where the step is not tried again later. The numbers, `condition` and `error` come with --statistics,
    // and are null where the plugin does not say them.
    Row: row {
        volume, plugin, id, usage, service: some(&row.service), state, path: some(&row.path),
        trouble: some(&row.trouble), attempt: Some(row.attempt).filter(|attempt| *attempt > 0), again_ms,
        size: known(row, |row| row.size), used: known(row, |row| row.used),
        available: known(row, |row| row.available), inodes: inodes(row, |row| row.inodes),
        inodes_used: inodes(row, |row| row.inodes_used), condition: some(&row.statistics.condition),
        error: some(&row.statistics.error),
    }
}

/// One for each service that uses it; one for a stage that no service uses any more.
pub fn rows(volume: &Volume) -> Vec<Row> {
    let row = |stage: &VolumeStage| Row {
        volume: volume.name.clone(),
        plugin: volume.plugin.clone(),
        id: volume.id.clone(),
        usage: usage(stage),
        service: String::new(),
        state: if stage.staged { "staged" } else { "unstaged" },
        path: String::new(),
        trouble: stage.trouble.clone(),
        attempt: stage.attempt,
        again_ms: stage.again_ms,
        statistics: volume.statistics.clone().unwrap_or_default(),
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
        attempt: user.attempt,
        again_ms: user.again_ms,
        ..row(stage)
    };
    let rows = volume.stages.iter().flat_map(|stage| match stage.users.as_slice() {
        [] => vec![row(stage)],
        users => users.iter().map(|user| of_user(stage, user)).collect(),
    });
    rows.collect()
}

/// In bytes.
fn known(row: &Row, of: fn(&VolumeStatistics) -> u64) -> Option<u64> {
    (row.statistics.size > 0).then(|| of(&row.statistics))
}

fn inodes(row: &Row, of: fn(&VolumeStatistics) -> u64) -> Option<u64> {
    (row.statistics.inodes > 0).then(|| of(&row.statistics))
}

/// What an operator should know of it.
fn troubles(row: &Row) -> String {
    let VolumeStatistics { condition, error, .. } = &row.statistics;
    let all = [&row.trouble, condition, error].map(String::as_str);
    all.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ")
}

fn usage(stage: &VolumeStage) -> String {
    let mut words = vec![stage.access.as_str()];
    words.extend((stage.attachment == "block").then_some("block"));
    words.extend(stage.read_only.then_some("readOnly"));
    words.extend(stage.mount_flags.iter().map(String::as_str));
    words.join(" ")
}

pub fn state(row: &&Row) -> Cell {
    match row.state {
        "published" => cell(row.state),
        state => toned(Tone::Waiting, state),
    }
}

pub fn table(rows: &[Row], statistics: bool) -> Table {
    let table = Table::of(rows)
        .left("VOLUME", |row| &row.volume)
        .left("PLUGIN", |row| &row.plugin)
        .left("ID", |row| or_dash(some(&row.id)))
        .left("SERVICE", |row| or_dash(some(&row.service)))
        .left("STATE", state);
    let table = match statistics {
        true => table
            .right("SIZE", |row| or_dash(known(row, |row| row.size).map(size)))
            .right("USED", |row| or_dash(known(row, |row| row.used).map(size)))
            .right("USE%", |row| or_dash(full(known(row, |row| row.used), known(row, |row| row.available)))),
        false => table,
    };
    let table = table.cut("USAGE", |row| cell(&row.usage));
    table.cut("TROUBLE", |row| toned(Tone::Bad, troubles(row))).into()
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
            ..VolumeUser::default()
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
            ..Volume::default()
        };
        assert_eq!(
            table(&rows(&volume), false).render(None, Palette::None),
            "VOLUME  PLUGIN  ID     SERVICE  STATE      USAGE                      TROUBLE\n\
             data    nfs     vol-1  db       published  multiNodeMultiWriter\n\
             data    nfs     vol-1  web      released   multiNodeMultiWriter       NodeUnpublishVolume: no answer in 30 s\n\
             data    nfs     vol-1  -        unstaged   singleNodeReader readOnly\n"
        );
    }

    #[test]
    fn how_full_a_volume_is_stands_beside_its_uses() {
        let volume = |name: &str, statistics| Volume {
            name: name.to_owned(),
            plugin: "nfs".to_owned(),
            stages: vec![VolumeStage { access: "singleNodeWriter".to_owned(), ..VolumeStage::default() }],
            statistics,
            ..Volume::default()
        };
        let full = VolumeStatistics {
            size: 20 << 30,
            used: 19 << 30,
            available: 1 << 30,
            condition: "a disk of the mirror is missing".to_owned(),
            ..VolumeStatistics::default()
        };
        let error = "NodeGetVolumeStats of plugin nfs: no answer within 5 s".to_owned();
        let silent = VolumeStatistics { error, ..VolumeStatistics::default() };
        let all = [volume("data", Some(full)), volume("logs", Some(silent)), volume("old", None)];
        let rows: Vec<Row> = all.iter().flat_map(rows).collect();
        assert_eq!(
            table(&rows, true).render(None, Palette::None),
            "VOLUME  PLUGIN  ID  SERVICE  STATE         SIZE      USED  USE%  USAGE             TROUBLE\n\
             data    nfs     -   -        unstaged  20.0 GiB  19.0 GiB   95%  singleNodeWriter  a disk of the mirror is missing\n\
             logs    nfs     -   -        unstaged         -         -     -  singleNodeWriter  NodeGetVolumeStats of plugin nfs: no answer within 5 s\n\
             old     nfs     -   -        unstaged         -         -     -  singleNodeWriter\n"
        );
    }
}
