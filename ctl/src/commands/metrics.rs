//! `metrics`: numbers about the host and its services, for scrapers, programs and people.

use std::collections::BTreeMap;
use std::time::Duration;

use kelson_api::client::Client;
use kelson_apid::openmetrics;
use kelson_proto::v1::metric_sample::Value;
use kelson_proto::v1::{GetMetricsRequest, GetMetricsResponse, MetricFamily, MetricSample};
use tonic::Streaming;

use crate::call::{Call, Run};
use crate::failure::{Failure, answer, answer_about};
use crate::output::{Cell, Page, Table, Tone, View, cell, object, or_dash, print, size, time, toned};

/// The host makes a page in milliseconds.
const PAGE: Duration = Duration::from_secs(30);

/// Print metrics of the host and its services
///
/// Without -o it prints OpenMetrics text, as kelson-apid serves it at /metrics.
/// A text that does not end in `# EOF` is incomplete.
///
/// Examples:
///   kelsonctl metrics > kelson.prom
///   kelsonctl metrics -o table
///   kelsonctl metrics web -o json
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Services; without any: all, and the host
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// One metric with all its values: `value` of a gauge or a counter, `count` and `sum` of a summary.
impl View for MetricFamily {
    fn view(&self) -> serde_yaml::Value {
        let sample = |sample: &MetricSample| {
            let named = self.labels.iter().cloned().zip(sample.labels.iter().cloned());
            let labels: BTreeMap<String, String> = named.collect();
            match &sample.value {
                Some(Value::Number(number)) => object!(labels: labels, value: *number),
                Some(Value::Summary(summary)) => {
                    object!(labels: labels, count: summary.count, sum: summary.sum)
                }
                None => object!(labels: labels),
            }
        };
        let samples: Vec<_> = self.samples.iter().map(sample).collect();
        object!(self => name, r#type: openmetrics::kind(self), unit, help, samples: samples)
    }
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let Arguments { names } = self;
        let client = call.client()?;
        let request = GetMetricsRequest { names: names.clone() };
        let pages = answer_about(&client, &names, client.metrics().get(request)).await?;
        if call.chosen.is_none() && call.node.is_none() {
            return print_text(pages).await;
        }
        let families = collect(pages).await?;
        call.show(&families, || match call.chosen {
            Some(_) => Page::Table(table(&families)),
            None => Page::Metrics(families.clone()),
        })
    }
}

async fn next(pages: &mut Streaming<GetMetricsResponse>) -> Result<Option<GetMetricsResponse>, Failure> {
    match tokio::time::timeout(PAGE, pages.message()).await {
        Ok(page) => Ok(page?),
        Err(_) => {
            Err(Failure::TimedOut(format!("the host sent no further metrics within {} s", PAGE.as_secs())))
        }
    }
}

/// Page by page, so that a reader has the first while the last is made.
async fn print_text(mut pages: Streaming<GetMetricsResponse>) -> Result<(), Failure> {
    let mut text = openmetrics::Text::default();
    while let Some(page) = next(&mut pages).await? {
        page.families.iter().for_each(|family| text.family(family));
        print(&text.take())?;
    }
    print(openmetrics::END)
}

/// Asks the host for its metrics, each family whole.
pub async fn ask(client: &Client, request: GetMetricsRequest) -> Result<Vec<MetricFamily>, Failure> {
    collect(answer(client.metrics().get(request)).await?).await
}

/// All families, each whole.
pub async fn collect(mut pages: Streaming<GetMetricsResponse>) -> Result<Vec<MetricFamily>, Failure> {
    let mut families: Vec<MetricFamily> = Vec::new();
    while let Some(page) = next(&mut pages).await? {
        for part in page.families {
            match families.last_mut() {
                Some(last) if last.name == part.name => last.samples.extend(part.samples),
                _ => families.push(part),
            }
        }
    }
    Ok(families)
}

/// The values of a service in the table.
#[derive(Default)]
struct Row {
    state: String,
    up: Option<bool>,
    memory: Option<f64>,
    cpu: Option<f64>,
    processes: Option<f64>,
    runs: f64,
    /// Reasons and how often.
    restarts: Vec<String>,
    started: Option<f64>,
    checks: u64,
    check_count: u64,
    check_seconds: f64,
    check_failures: f64,
}

/// A line a service: what it uses, how it starts, what its checks cost.
fn table(families: &[MetricFamily]) -> Table {
    let tone = |row: &Row| match row.up {
        Some(true) => Tone::Good,
        _ if row.state == "failed" => Tone::Bad,
        _ => Tone::Plain,
    };
    Table::of(rows(families))
        .left("NAME", |(name, _)| *name)
        .left("STATE", |(_, row)| toned(tone(row), &row.state))
        .right("MEMORY", |(_, row)| or_dash(row.memory.map(|bytes| size(bytes as u64))))
        .right("CPU", |(_, row)| or_dash(row.cpu.map(seconds)))
        .right("PROCESSES", |(_, row)| or_dash(row.processes.map(|many| many.to_string())))
        .spare(1)
        .right("RUNS", |(_, row)| row.runs.to_string())
        .spare(2)
        .right("LAST START", |(_, row)| or_dash(row.started.map(seconds)))
        .spare(3)
        .left("CHECKS", |(_, row)| checks(row))
        .cut("RESTARTS", |(_, row)| toned(Tone::Waiting, row.restarts.join(", ")))
        .into()
}

/// The memory in bytes and the CPU time of each service, as far as they are known.
pub fn usage(families: &[MetricFamily]) -> impl Iterator<Item = (&str, Option<u64>, Option<Duration>)> {
    rows(families).into_iter().map(|(name, row)| {
        let cpu = row.cpu.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        (name, row.memory.map(|bytes| bytes as u64), cpu)
    })
}

fn rows(families: &[MetricFamily]) -> BTreeMap<&str, Row> {
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    for family in families.iter().filter(|family| family.labels.first().is_some_and(|l| l == "service")) {
        for sample in &family.samples {
            let (Some(service), Some(value)) = (sample.labels.first(), &sample.value) else { continue };
            let second = sample.labels.get(1).map_or("", String::as_str);
            let row = rows.entry(service).or_default();
            match (family.name.as_str(), value) {
                ("kelson_service_state", _) => row.state = second.to_owned(),
                ("kelson_service_up", Value::Number(up)) => row.up = Some(*up > 0.0),
                ("kelson_service_memory_bytes", Value::Number(bytes)) => row.memory = Some(*bytes),
                ("kelson_service_cpu_seconds", Value::Number(cpu)) => row.cpu = Some(*cpu),
                ("kelson_service_processes", Value::Number(many)) => row.processes = Some(*many),
                ("kelson_service_runs", Value::Number(runs)) => row.runs = *runs,
                ("kelson_service_restarts", Value::Number(count)) => {
                    row.restarts.push(format!("{second} {count}"));
                }
                ("kelson_service_last_start_duration_seconds", Value::Number(took)) => {
                    row.started = Some(*took);
                }
                ("kelson_check_failures", Value::Number(count)) => row.check_failures += count,
                ("kelson_check_duration_seconds", Value::Summary(summary)) => {
                    row.checks += 1;
                    row.check_count += summary.count;
                    row.check_seconds += summary.sum;
                }
                _ => {}
            }
        }
    }
    rows
}

/// A span of time from the host; one that is no span counts as zero.
fn seconds(seconds: f64) -> String {
    time::measured(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// `2: 1.20 ms, 3 of 450 failed`: how many, the mean of their answers, and what failed.
fn checks(row: &Row) -> Cell {
    if row.checks == 0 {
        return toned(Tone::Quiet, "-");
    }
    if row.check_count == 0 {
        return cell(format!("{}: no result", row.checks));
    }
    let mean = seconds(row.check_seconds / row.check_count as f64);
    match row.check_failures {
        0.0 => cell(format!("{}: {mean}", row.checks)),
        failures => {
            let text = format!("{}: {mean}, {failures} of {} failed", row.checks, row.check_count);
            toned(Tone::Waiting, text)
        }
    }
}
