//! The metrics of volumes, which follow all others where the build has volumes.

use kelson_proto::v1::VolumeStatistics;
use kelson_proto::v1::metric_family::Type::{Counter, Gauge};

use super::families::{Family, Figures, Samples, host};

/// As [`families::FAMILIES`](super::families::FAMILIES).
pub const FAMILIES: &[Family] = &[
    host(
        Gauge,
        "kelson_volume_size_bytes",
        VOLUME,
        "The size of a volume of a storage plugin.",
        |host, to| bytes(host, to, |known| known.size),
    ),
    host(Gauge, "kelson_volume_used_bytes", VOLUME, "How much of the volume is used.", |host, to| {
        bytes(host, to, |known| known.used);
    }),
    host(
        Gauge,
        "kelson_volume_available_bytes",
        VOLUME,
        "How much of the volume is free for users without privileges.",
        |host, to| bytes(host, to, |known| known.available),
    ),
    host(Gauge, "kelson_volume_inodes", VOLUME, "The inodes of the volume.", |host, to| {
        inodes(host, to, |known| known.inodes);
    }),
    host(
        Gauge,
        "kelson_volume_inodes_used",
        VOLUME,
        "How many inodes of the volume are used.",
        |host, to| {
            inodes(host, to, |known| known.inodes_used);
        },
    ),
    host(
        Gauge,
        "kelson_volume_abnormal",
        VOLUME,
        "1 if the plugin of the volume reports that something is wrong with it; absent if not.",
        |host, to| each(host, to, |known| (!known.condition.is_empty()).then_some(1)),
    ),
    host(
        Counter,
        "kelson_volume_step_failures",
        &["plugin", "step"],
        "How often a step with a volume failed; absent for what has not failed yet.",
        |host, to| {
            for ((plugin, step), count) in &host.volumes.failures {
                to.count(&[plugin, step], *count);
            }
        },
    ),
];

const VOLUME: &[&str] = &["volume", "plugin"];

/// What is not known of a volume has no sample.
fn each(host: &Figures, to: &mut Samples, tell: impl Fn(&VolumeStatistics) -> Option<u64>) {
    for volume in &host.volumes.volumes {
        to.count(&[&volume.name, &volume.plugin], volume.statistics.as_ref().and_then(&tell));
    }
}

fn bytes(host: &Figures, to: &mut Samples, tell: fn(&VolumeStatistics) -> u64) {
    each(host, to, |known| (known.size > 0).then(|| tell(known)));
}

fn inodes(host: &Figures, to: &mut Samples, tell: fn(&VolumeStatistics) -> u64) {
    each(host, to, |known| (known.inodes > 0).then(|| tell(known)));
}
