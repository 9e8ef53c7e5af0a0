//! `metrics` in each form.

use kelson_proto::v1::metric_family::Type;
use kelson_proto::v1::metric_sample::Value;
use kelson_proto::v1::{GetMetricsResponse, MetricFamily, MetricSummary, Service};
use serde_json::json;

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
fn text_is_what_comes_unasked() {
    let fake = Fake::start(state());
    let done = fake.run("metrics").silent(0);
    assert_eq!(
        done.out,
        "\
# TYPE kelson_service_up gauge
# HELP kelson_service_up What it tells.
kelson_service_up{service=\"db\"} 1
kelson_service_up{service=\"web\"} 0
# TYPE kelson_service_start_duration_seconds summary
# HELP kelson_service_start_duration_seconds What it tells.
kelson_service_start_duration_seconds_count{service=\"db\"} 2
kelson_service_start_duration_seconds_sum{service=\"db\"} 0.5
# EOF
"
    );
}

#[test]
fn a_table_and_data_are_asked_for() {
    let fake = Fake::start(state());
    let table = fake.run("metrics -o table");
    assert_eq!(table.status, 0);
    let names: Vec<&str> = table.out.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["NAME", "db", "web"]);
    assert_eq!(
        fake.json("metrics"),
        json!([
            {"name": "kelson_service_up", "type": "gauge", "unit": "", "help": "What it tells.", "samples": [
                {"labels": {"service": "db"}, "value": 1.0}, {"labels": {"service": "web"}, "value": 0.0}]},
            {"name": "kelson_service_start_duration_seconds", "type": "summary", "unit": "", "help": "What it tells.",
             "samples": [{"labels": {"service": "db"}, "count": 2, "sum": 0.5}]}
        ])
    );
    assert!(fake.run("metrics -o yaml").out.starts_with("- name: kelson_service_up\n  type: gauge\n"));
}

#[test]
fn names_are_handed_on_and_unknown_ones_explained() {
    let fake = Fake::start(state());
    assert_eq!(fake.run("metrics db").status, 0);
    assert_eq!(fake.asked(), ["metrics db"]);
    let done = fake.run("metrics bd").refused(1);
    assert!(done.err.contains("did you mean \"db\"?"), "{done:?}");
}

#[test]
fn what_breaks_off_has_no_end() {
    let fake = Fake::start(State { metrics_break: true, ..state() });
    for words in ["metrics", "metrics -o json", "metrics -o table"] {
        let done = fake.run(words);
        assert_eq!((done.status, done.err.as_str()), (3, "kelsonctl: PID 1 is ending\n"), "{words}");
        assert!(!done.out.contains("# EOF"), "{done:?}");
        assert_eq!(done.out.is_empty(), words != "metrics", "{done:?}");
    }
}
