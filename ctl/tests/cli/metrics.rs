//! `metrics` in each form.

use kelson_proto::v1::metric_family::Type;
use kelson_proto::v1::metric_sample::Value;
use kelson_proto::v1::{GetMetricsResponse, MetricFamily, MetricSummary, Service};

use crate::fake::{Fake, State};
use crate::samples::family;

/// A family in two parts on two pages, and one more.
fn state() -> State {
    let help = || "What it tells.".to_owned();
    let up = |service: &str, up| MetricFamily {
        help: help(),
        r#type: Type::Gauge.into(),
        ..family("kelson_service_up", &[(service, up)])
    };
    let mut starts = family("kelson_service_start_duration_seconds", &[("db", 0.0)]);
    (starts.help, starts.r#type) = (help(), Type::Summary.into());
    starts.samples[0].value = Some(Value::Summary(MetricSummary { count: 2, sum: 0.5 }));
    State {
        services: vec![Service { name: "db".to_owned(), ..Service::default() }],
        metrics: vec![
            GetMetricsResponse { families: vec![up("db", 1.0)] },
            GetMetricsResponse { families: vec![up("web", 0.0), starts] },
        ],
        ..State::default()
    }
}

#[test]
fn metrics_in_each_form() {
    Fake::start(state()).transcript("metrics");
}

#[test]
fn what_breaks_off_has_no_end() {
    Fake::start(State { metrics_break: true, ..state() }).transcript("metrics-break");
}
