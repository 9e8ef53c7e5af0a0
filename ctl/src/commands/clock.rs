//! `time`: the clock of a host, and how good it is.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kelson_api::client::{Client, Endpoint};
use kelson_proto::v1::{ClockRequest, ClockResponse};

use crate::call::{Call, Run};
use crate::failure::{Failure, answer};
use crate::output::views::Clock;
use crate::output::{Page, Table, Tone, escape, time, toned};

/// A clock elsewhere is read so often: the fastest answer says most about it, and the first one has to connect.
const TIMES: usize = 4;

/// Show the clock, and how good it is
///
/// Of a host elsewhere also how far its clock is from the one here: it can be
/// known no better than by half of the time that the answer took.
///
/// Examples:
///   kelsonctl time
///   kelsonctl -n all time
///   kelsonctl time -o json | jq .synchronized
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let is_remote = matches!(call.choice.resolve()?.endpoint, Endpoint::Remote { .. });
        let clock = ask(&call.client()?, is_remote).await?;
        call.show(&clock, || match call.node {
            None => Page::Text(lines(&clock)),
            // Beside those of other hosts it is compared.
            Some(_) => Page::Table(table(&clock)),
        })
    }
}

/// The clock of the host, and of one elsewhere how far it is from the one here.
pub async fn ask(client: &Client, is_remote: bool) -> Result<Clock, Failure> {
    let mut best: Option<(Duration, f64, ClockResponse)> = None;
    for _ in 0..if is_remote { TIMES } else { 1 } {
        let (now, began) = (SystemTime::now(), Instant::now());
        let told = answer(client.inspect().clock(ClockRequest {})).await?;
        let took = began.elapsed();
        if best.as_ref().is_none_or(|(fastest, ..)| took < *fastest) {
            // It was read somewhere between the question and the answer.
            let here = now.duration_since(UNIX_EPOCH).unwrap_or_default() + took / 2;
            let there = told.time.as_ref().map_or(0.0, time::seconds);
            best = Some((took, (there - here.as_secs_f64()) * 1000.0, told));
        }
    }
    let Some((took, ahead, told)) = best else { return Err(Failure::Failed("nothing was asked".to_owned())) };
    Ok(view(&told, is_remote.then_some((ahead, took / 2))))
}

fn view(told: &ClockResponse, difference: Option<(f64, Duration)>) -> Clock {
    Clock {
        time: told.time.as_ref().map(time::rfc3339),
        uptime_ms: signed(&told.uptime).unwrap_or_default(),
        synchronized: told.synchronized,
        max_error_ms: signed(&told.max_error),
        estimated_error_ms: signed(&told.estimated_error),
        offset_ms: signed(&told.offset),
        hardware: told.hardware.as_ref().map(time::rfc3339),
        source: told.source.clone(),
        difference_ms: difference.map(|(ahead, _)| rounded(ahead)),
        uncertainty_ms: difference.map(|(_, uncertain)| time::millis(uncertain)),
    }
}

/// Milliseconds of what may be negative.
fn signed(wire: &Option<prost_types::Duration>) -> Option<f64> {
    wire.as_ref().map(|wire| rounded(wire.seconds as f64 * 1000.0 + f64::from(wire.nanos) / 1e6))
}

fn rounded(millis: f64) -> f64 {
    (millis * 1000.0).round() / 1000.0
}

fn lines(clock: &Clock) -> String {
    let mut out = format!("clock          {}\n", clock.time.as_deref().unwrap_or("not known"));
    out += &format!("synchronised   {}\n", kept(clock));
    if let Some(offset) = clock.offset_ms.filter(|offset| *offset != 0.0) {
        let way = if offset < 0.0 { "ahead" } else { "behind" };
        out += &format!("correcting     {} that it is {way}\n", time::measured_millis(offset.abs()));
    }
    out += &format!("hardware       {}\n", clock.hardware.as_deref().unwrap_or("none that can be read"));
    out += &format!("uptime         {}\n", uptime(clock));
    if !clock.source.is_empty() {
        out += &format!("counts by      {}\n", escape(&clock.source));
    }
    if let Some(difference) = difference(clock) {
        out += &format!("from here      {difference}\n");
    }
    out
}

fn table(clock: &Clock) -> Table {
    let kept_tone = |clock: &Clock| if clock.synchronized { Tone::Good } else { Tone::Waiting };
    Table::of([clock])
        .left("TIME", |clock| clock.time.as_deref().unwrap_or("-"))
        .cut("SYNCHRONISED", |clock| toned(kept_tone(clock), kept(clock)))
        .left("UPTIME", |clock| uptime(clock))
        .left("HARDWARE", |clock| clock.hardware.as_deref().unwrap_or("-"))
        .spare(1)
        .cut("FROM HERE", |clock| difference(clock).unwrap_or_default())
        .into()
}

fn kept(clock: &Clock) -> String {
    if !clock.synchronized {
        return "no".to_owned();
    }
    let most = clock.max_error_ms.map(|error| format!(", to {} at most", time::measured_millis(error.abs())));
    let believed =
        clock.estimated_error_ms.map(|error| format!(", likely {}", time::measured_millis(error.abs())));
    format!("yes{}{}", most.unwrap_or_default(), believed.unwrap_or_default())
}

fn uptime(clock: &Clock) -> String {
    time::relative(Duration::try_from_secs_f64(clock.uptime_ms / 1000.0).unwrap_or_default())
}

/// `12 ms ahead, give or take 3.10 ms`.
fn difference(clock: &Clock) -> Option<String> {
    let (ahead, uncertain) = (clock.difference_ms?, clock.uncertainty_ms?);
    let way = if ahead < 0.0 { "behind" } else { "ahead" };
    Some(format!(
        "{} {way}, give or take {}",
        time::measured_millis(ahead.abs()),
        time::measured_millis(uncertain)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_elsewhere() {
        let told = ClockResponse {
            time: Some(prost_types::Timestamp { seconds: 1_795_254_485, nanos: 123_000_000 }),
            uptime: Some(prost_types::Duration { seconds: 7500, nanos: 0 }),
            synchronized: true,
            max_error: Some(prost_types::Duration { seconds: 0, nanos: 16_000_000 }),
            estimated_error: Some(prost_types::Duration { seconds: 0, nanos: 1_200_000 }),
            offset: Some(prost_types::Duration { seconds: -1, nanos: -500_000_000 }),
            hardware: None,
            source: "tsc".to_owned(),
        };
        let clock = view(&told, Some((-12.5, Duration::from_micros(3100))));
        assert_eq!(
            lines(&clock),
            "\
clock          2026-11-21T09:48:05.123Z
synchronised   yes, to 16 ms at most, likely 1.20 ms
correcting     1.500 s that it is ahead
hardware       none that can be read
uptime         2h5m
counts by      tsc
from here      12 ms behind, give or take 3.10 ms
"
        );
        assert_eq!(clock.offset_ms, Some(-1500.0));
        assert_eq!(
            lines(&view(&ClockResponse::default(), None)).lines().next(),
            Some("clock          not known")
        );
    }
}
