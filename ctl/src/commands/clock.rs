//! `time`: the clock of a host, and how good it is.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use kelson_api::client::{Client, Endpoint};
use kelson_proto::v1::{ClockRequest, ClockResponse};
use prost_types::Timestamp;

use crate::call::{Call, Run};
use crate::failure::{Failure, answer};
use crate::output::{Page, Table, Tone, escape, time, toned, views};

/// Readings of a remote clock: the fastest answer is the most exact, and the first one has to connect.
const TIMES: usize = 4;

/// Show the clock, and how good it is
///
/// For a remote host it also shows the difference to the local clock, which is
/// known to half of the time that the answer took.
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
        let is_remote = !matches!(call.choice.resolve()?.endpoint, Endpoint::Unix(_));
        let clock = ask(&call.client()?, is_remote).await?;
        call.show(&clock, || match call.node {
            None => Page::Text(lines(&clock)),
            // Beside those of other hosts it is compared.
            Some(_) => Page::Table(table(&clock)),
        })
    }
}

/// The clock of a host as it answered.
#[derive(Debug, Clone)]
pub struct Clock {
    reply: ClockResponse,
    /// Of one elsewhere: by how many milliseconds it is ahead of the one here, and how far that may be off.
    difference: Option<(f64, Duration)>,
}

views! {
    // `max_error_ms`, `estimated_error_ms`: null where nobody keeps it right. `offset_ms`: what is being corrected;
    // negative: the clock is ahead. `hardware`: null where there is none that can be read. `difference_ms`: how far it
    // is ahead of the caller's clock; null, as the next, where it is the caller's. `uncertainty_ms`: how far that may
    // be off.
    Clock: clock {
        time: clock.reply.time, uptime_ms: signed(&clock.reply.uptime).unwrap_or_default(),
        synchronized: clock.reply.synchronized, max_error_ms: signed(&clock.reply.max_error),
        estimated_error_ms: signed(&clock.reply.estimated_error), offset_ms: signed(&clock.reply.offset),
        hardware: clock.reply.hardware, source: clock.reply.source,
        difference_ms: clock.difference.map(|(ahead, _)| rounded(ahead)),
        uncertainty_ms: clock.difference.map(|(_, uncertain)| time::millis(uncertain)),
    }
}

/// The clock of the host, and of one elsewhere how far it is from the one here.
pub async fn ask(client: &Client, is_remote: bool) -> Result<Clock, Failure> {
    let mut best: Option<(Duration, f64, ClockResponse)> = None;
    for _ in 0..if is_remote { TIMES } else { 1 } {
        let (now, began) = (SystemTime::now(), Instant::now());
        let reply = answer(client.inspect().clock(ClockRequest {})).await?;
        let took = began.elapsed();
        if best.as_ref().is_none_or(|(fastest, ..)| took < *fastest) {
            // It was read somewhere between the question and the answer.
            let here = now.duration_since(UNIX_EPOCH).unwrap_or_default() + took / 2;
            let there = reply.time.as_ref().map_or(0.0, time::seconds);
            best = Some((took, (there - here.as_secs_f64()) * 1000.0, reply));
        }
    }
    let Some((took, ahead, reply)) = best else {
        return Err(Failure::Failed("nothing was asked".to_owned()));
    };
    Ok(Clock { reply, difference: is_remote.then_some((ahead, took / 2)) })
}

/// Milliseconds of what may be negative.
fn signed(wire: &Option<prost_types::Duration>) -> Option<f64> {
    wire.as_ref().map(|wire| rounded(wire.seconds as f64 * 1000.0 + f64::from(wire.nanos) / 1e6))
}

fn rounded(millis: f64) -> f64 {
    (millis * 1000.0).round() / 1000.0
}

fn lines(clock: &Clock) -> String {
    let at = |time: &Option<Timestamp>, none: &str| time.as_ref().map_or(none.to_owned(), time::rfc3339);
    let mut out = format!("clock          {}\n", at(&clock.reply.time, "not known"));
    out += &format!("synchronised   {}\n", kept(clock));
    if let Some(offset) = signed(&clock.reply.offset).filter(|offset| *offset != 0.0) {
        let way = if offset < 0.0 { "ahead" } else { "behind" };
        out += &format!("correcting     {} that it is {way}\n", time::measured_millis(offset.abs()));
    }
    out += &format!("hardware       {}\n", at(&clock.reply.hardware, "none that can be read"));
    out += &format!("uptime         {}\n", uptime(clock));
    if !clock.reply.source.is_empty() {
        out += &format!("counts by      {}\n", escape(&clock.reply.source));
    }
    if let Some(difference) = difference(clock) {
        out += &format!("from here      {difference}\n");
    }
    out
}

fn table(clock: &Clock) -> Table {
    let at = |time: &Option<Timestamp>| time.as_ref().map_or("-".to_owned(), time::rfc3339);
    let tone = if clock.reply.synchronized { Tone::Good } else { Tone::Waiting };
    Table::of([clock])
        .left("TIME", |clock| at(&clock.reply.time))
        .cut("SYNCHRONISED", |clock| toned(tone, kept(clock)))
        .left("UPTIME", |clock| uptime(clock))
        .left("HARDWARE", |clock| at(&clock.reply.hardware))
        .spare(1)
        .cut("FROM HERE", |clock| difference(clock).unwrap_or_default())
        .into()
}

fn kept(clock: &Clock) -> String {
    if !clock.reply.synchronized {
        return "no".to_owned();
    }
    let error = |wire: &Option<prost_types::Duration>, before: &str, behind: &str| {
        let error = signed(wire).map(|error| time::measured_millis(error.abs()));
        error.map_or(String::new(), |error| format!(", {before} {error}{behind}"))
    };
    let (most, likely) = (&clock.reply.max_error, &clock.reply.estimated_error);
    format!("yes{}{}", error(most, "to", " at most"), error(likely, "likely", ""))
}

fn uptime(clock: &Clock) -> String {
    time::relative(time::span(&clock.reply.uptime))
}

/// `12 ms ahead, give or take 3.10 ms`.
fn difference(clock: &Clock) -> Option<String> {
    let (ahead, uncertain) = clock.difference?;
    let way = if ahead < 0.0 { "behind" } else { "ahead" };
    let (ahead, uncertain) = (time::measured_millis(rounded(ahead).abs()), time::measured(uncertain));
    Some(format!("{ahead} {way}, give or take {uncertain}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_elsewhere() {
        let reply = ClockResponse {
            time: Some(prost_types::Timestamp { seconds: 1_795_254_485, nanos: 123_000_000 }),
            uptime: Some(prost_types::Duration { seconds: 7500, nanos: 0 }),
            synchronized: true,
            max_error: Some(prost_types::Duration { seconds: 0, nanos: 16_000_000 }),
            estimated_error: Some(prost_types::Duration { seconds: 0, nanos: 1_200_000 }),
            offset: Some(prost_types::Duration { seconds: -1, nanos: -500_000_000 }),
            hardware: None,
            source: "tsc".to_owned(),
        };
        let clock = Clock { reply, difference: Some((-12.5, Duration::from_micros(3100))) };
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
        assert_eq!(signed(&clock.reply.offset), Some(-1500.0));
        let unknown = Clock { reply: ClockResponse::default(), difference: None };
        assert_eq!(lines(&unknown).lines().next(), Some("clock          not known"));
    }
}
