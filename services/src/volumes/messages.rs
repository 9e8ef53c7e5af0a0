//! The words for what became of a volume.

use std::fmt::Write as _;
use std::time::Duration;

use kelson_proto::v1::VolumeStep;
use kelson_sys::text::harmless;
use kelson_sys::units;

use crate::model::Details;

/// A sentence with the volume, the plugin, the step and its outcome, without control characters.
pub fn of_step(step: &VolumeStep) -> String {
    let VolumeStep { name, volume, plugin, volume_id, attempt, failure, again_ms, .. } = step;
    let name = if name.is_empty() { volume } else { name };
    let mut text = if name.is_empty() { String::new() } else { format!("volume {name}: ") };
    text.push_str(&step.step);
    if !plugin.is_empty() {
        let _ = write!(text, " of plugin {plugin}");
    }
    if !volume_id.is_empty() {
        let _ = write!(text, " for {volume_id}");
    }
    match failure.as_str() {
        "" => text.push_str(" succeeded"),
        failure => _ = write!(text, ": {failure}"),
    }
    if *attempt > 1 {
        let _ = write!(text, ", attempt {attempt}");
    }
    if let Some(again) = again_ms {
        let _ = write!(text, ", again in {}", units::duration(Duration::from_millis(u64::from(*again))));
    }
    harmless(&text, Some('\u{fffd}')).collect()
}

/// The same for programs.
pub fn details_of_step(step: &VolumeStep) -> Details {
    let attempt = step.attempt.to_string();
    let all = [
        ("attempt", attempt.as_str()),
        ("plugin_id", &step.plugin),
        ("step", &step.step),
        ("volume", &step.volume),
        ("volume_id", &step.volume_id),
    ];
    let known = all.into_iter().filter(|(_, value)| !value.is_empty());
    Some(known.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_names_volume_plugin_and_answer() {
        let step = VolumeStep {
            service: "db".to_owned(),
            name: "data".to_owned(),
            volume: "db".to_owned(),
            plugin: "nfs".to_owned(),
            volume_id: "vol-1".to_owned(),
            step: "NodeStageVolume".to_owned(),
            attempt: 1,
            ..VolumeStep::default()
        };
        assert_eq!(of_step(&step), "volume data: NodeStageVolume of plugin nfs for vol-1 succeeded");
        let again = VolumeStep {
            failure: "UNAVAILABLE: no\x1b way".to_owned(),
            attempt: 3,
            again_ms: Some(4000),
            ..step
        };
        assert_eq!(
            of_step(&again),
            "volume data: NodeStageVolume of plugin nfs for vol-1: UNAVAILABLE: no\u{fffd} way, attempt 3, again in 4 s"
        );
        let unread = VolumeStep {
            volume: "db".to_owned(),
            step: "reading its file".to_owned(),
            failure: "there is none".to_owned(),
            ..VolumeStep::default()
        };
        assert_eq!(of_step(&unread), "volume db: reading its file: there is none");
    }
}
