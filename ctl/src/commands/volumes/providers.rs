//! The plugins, and what they say of themselves.

use kelson_proto::v1::VolumeProvider;

use crate::output::{Table, Tone, cell, or_dash, some, toned, views};

views! {
    // `most_volumes`: null where the plugin sets no limit. `topology`: as KEY=VALUE. `error`: null where it answered.
    VolumeProvider: provider {
        id, service, kind, socket, serves, name: some(&provider.name), version: some(&provider.version),
        capabilities, node_id: some(&provider.node_id), most_volumes: most(provider),
        topology: topology(provider), error: some(&provider.error),
    }
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

pub fn table(providers: &[VolumeProvider]) -> Table {
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
            table(&[answers, silent]).render(None, Palette::None),
            "ID   SERVICE     TYPE      SERVES  PLUGIN           NODE    MOST  CAPABILITIES\n\
             nfs  nfs-plugin  monolith  yes     nfs.example 4.9  edge-1     -  GET_VOLUME_STATS STAGE_UNSTAGE_VOLUME\n\
             zfs  zfs-plugin  monolith  no      -                -          -  connection refused\n"
        );
    }
}
