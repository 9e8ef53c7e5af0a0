//! The boot, logs, images and versions, as programs read them.

use std::collections::BTreeMap;

use kelson_proto::v1;
use serde_yaml::Value;

use super::value::{View, object, some, views};
use crate::output::style::stream_name;

/// One line of `boot blame`.
#[derive(Debug, Clone, PartialEq)]
pub struct Blame {
    pub duration_ms: f64,
    /// `task` or `service`.
    pub kind: &'static str,
    pub name: String,
    /// The phase of a task; empty for a service.
    pub phase: String,
}

/// One link of `boot critical-chain`, the last that ended first.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// `service`, `phase` or `task`.
    pub kind: &'static str,
    pub name: String,
    pub start_ms: f64,
    pub duration_ms: f64,
}

views! {
    // Times are milliseconds since PID 1's start.
    v1::BootResponse: boot { kernel_ms: boot.kernel, total_ms: boot.total, phases, services }
    v1::BootPhase: phase { name, start_ms: phase.start.unwrap_or_default(), duration_ms: phase.duration, tasks }
    // `error`: empty where it went well.
    v1::BootTask: task {
        name, start_ms: task.start.unwrap_or_default(), duration_ms: task.duration, error, message,
    }
    v1::BootService: service { name, spawned_ms: service.spawned, up_ms: service.up, after }
    Blame: blame { duration_ms, kind, name, phase }
    Link: link { kind, name, start_ms, duration_ms }
    // `stream`: stdout, stderr, or note for what logd itself says. `text`: bytes that are not UTF-8 are replaced. `run`:
    // where it is known. `boot`: the same for all lines of one start of the host; runs count from there.
    v1::Line: line {
        service, time, stream: stream_name(line.stream()), text: String::from_utf8_lossy(&line.text).into_owned(), partial,
        run: Some(line.run).filter(|run| *run > 0),
        boot: Some(line.boot).filter(|boot| *boot > 0).map(|boot| format!("{boot:04x}")),
    }
    // `time_ms`: since the kernel's start.
    v1::KernelMessage: message { seq, time_ms: message.time.unwrap_or_default(), level, text }
    // `archive`: null where no archive holds it, only containerd. `trouble`: null where it can be used. `services`: those
    // whose files name it.
    v1::Image: image {
        reference, digest, archive: some(&image.archive), platform, size, unpacked, trouble: some(&image.trouble),
        services,
    }
    // `size`: bytes of its blobs; other images may still need some of them.
    v1::PrunedImage: image { reference, size }
    // `reexecs`: how often PID 1 has executed itself again since, as it was asked to. `crashes`: how often it has crashed
    // since, and gone on.
    v1::VersionResponse: version { version, mode, hostname, kernel, started, reexecs, crashes }
}

/// One metric with all its values: `value` of a gauge or a counter, `count` and `sum` of a summary.
impl View for v1::MetricFamily {
    fn view(&self) -> Value {
        use v1::metric_sample::Value as Number;
        let sample = |sample: &v1::MetricSample| {
            let named = self.labels.iter().cloned().zip(sample.labels.iter().cloned());
            let labels: BTreeMap<String, String> = named.collect();
            match &sample.value {
                Some(Number::Number(number)) => object!(labels: labels, value: *number),
                Some(Number::Summary(summary)) => {
                    object!(labels: labels, count: summary.count, sum: summary.sum)
                }
                None => object!(labels: labels),
            }
        };
        let samples: Vec<Value> = self.samples.iter().map(sample).collect();
        object!(self => name, r#type: kelson_apid::openmetrics::kind(self), unit, help, samples: samples)
    }
}
