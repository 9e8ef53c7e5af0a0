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

/// A family whose samples have a second label.
fn labelled(name: &str, label: &str, samples: &[(&str, &str, Value)]) -> MetricFamily {
    let numbers: Vec<_> = samples.iter().map(|(service, ..)| (*service, 0.0)).collect();
    let mut family = family(name, &numbers);
    family.labels.push(label.to_owned());
    for (sample, (_, word, value)) in family.samples.iter_mut().zip(samples) {
        sample.labels.push((*word).to_owned());
        sample.value = Some(*value);
    }
    family
}

#[test]
fn a_line_a_service() {
    use Value::{Number, Summary};
    let summary = |count, sum| Summary(MetricSummary { count, sum });
    let mut events = family("kelson_events", &[("", 7.0)]);
    (events.labels, events.samples[0].labels) = (Vec::new(), Vec::new());
    let families = vec![
        events,
        labelled(
            "kelson_service_state",
            "state",
            &[("db", "running", Number(1.0)), ("job", "failed", Number(1.0))],
        ),
        family("kelson_service_up", &[("db", 1.0), ("job", 0.0)]),
        family("kelson_service_runs", &[("db", 4.0), ("job", 1.0)]),
        labelled(
            "kelson_service_restarts",
            "reason",
            &[("db", "exit", Number(1.0)), ("db", "check", Number(2.0))],
        ),
        family("kelson_service_memory_bytes", &[("db", 2_097_152.0)]),
        family("kelson_service_cpu_seconds", &[("db", 1.25)]),
        family("kelson_service_processes", &[("db", 3.0)]),
        family("kelson_service_last_start_duration_seconds", &[("db", 0.012)]),
        labelled("kelson_check_failures", "check", &[("db", "tcp", Number(3.0)), ("db", "sql", Number(0.0))]),
        labelled(
            "kelson_check_duration_seconds",
            "check",
            &[("db", "tcp", summary(30, 0.03)), ("db", "sql", summary(10, 0.05))],
        ),
    ];
    Fake::start(State { metrics: vec![GetMetricsResponse { families }], ..state() })
        .transcript("metrics-table");
}
