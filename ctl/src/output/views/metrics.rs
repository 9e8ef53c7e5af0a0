//! `metrics`, as programs read them.

use kelson_proto::v1;
use serde::Serialize;

/// One metric of `metrics`, with all its values.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricFamily {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub unit: String,
    pub help: String,
    pub samples: Vec<MetricSample>,
}

/// `value` of a gauge or a counter, `count` and `sum` of a summary.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricSample {
    pub labels: std::collections::BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum: Option<f64>,
}

impl From<&v1::MetricFamily> for MetricFamily {
    fn from(family: &v1::MetricFamily) -> MetricFamily {
        use v1::metric_sample::Value;
        let sample = |sample: &v1::MetricSample| {
            let labels = family.labels.iter().cloned().zip(sample.labels.iter().cloned()).collect();
            let (value, count, sum) = match &sample.value {
                Some(Value::Number(number)) => (Some(*number), None, None),
                Some(Value::Summary(summary)) => (None, Some(summary.count), Some(summary.sum)),
                None => (None, None, None),
            };
            MetricSample { labels, value, count, sum }
        };
        MetricFamily {
            name: family.name.clone(),
            kind: kelson_apid::openmetrics::kind(family),
            unit: family.unit.clone(),
            help: family.help.clone(),
            samples: family.samples.iter().map(sample).collect(),
        }
    }
}
