//! `timers`: the services that a schedule starts, and when.

use std::time::SystemTime;

use kelson_proto::v1::{ListTimersRequest, Timer};

use crate::call::{Call, Run};
use crate::failure::{Failure, answer};
use crate::output::{Page, Table, Tone, cell, or_dash, some, state_name, time, toned, views};

/// List the services that a schedule starts, and when
///
/// `kelsonctl start NAME` runs one now.
///
/// Examples:
///   kelsonctl timers
///   kelsonctl timers -o json | jq -r '.[] | select(.trouble).service'
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {}

views! {
    // `next`, `last`: null where there is none. `trouble`: null where the schedule starts it.
    Timer: timer {
        service, next: timer.next, last: timer.last, schedule, overlap, state: timer.state(),
        trouble: some(&timer.trouble),
    }
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let timers = answer(call.client()?.timers().list(ListTimersRequest {})).await?.timers;
        call.show(&timers, || Page::Table(table(&timers, SystemTime::now())))
    }
}

fn table(timers: &[Timer], now: SystemTime) -> Table {
    Table::of(timers)
        .left("NAME", |timer| &timer.service)
        .left("NEXT", |timer| or_dash(timer.next.as_ref().map(|next| time::short(next, now))))
        .right("LEFT", |timer| or_dash(timer.next.as_ref().map(|next| time::relative(time::left(next, now)))))
        .left("LAST", |timer| or_dash(timer.last.as_ref().map(|last| time::short(last, now))))
        .left("STATE", |timer| cell(state_name(timer.state())))
        .left("OVERLAP", |timer| &timer.overlap)
        .cut("SCHEDULE", |timer| match timer.trouble.as_str() {
            "" => cell(&timer.schedule),
            trouble => toned(Tone::Bad, trouble),
        })
        .into()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::output::Palette;

    #[test]
    fn each_has_its_next_and_its_last_start_or_what_keeps_it_from_them() {
        let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
        let timer = |service: &str, schedule: &str, trouble: &str| Timer {
            service: service.to_owned(),
            schedule: schedule.to_owned(),
            overlap: "queue".to_owned(),
            state: kelson_proto::v1::State::Finished.into(),
            trouble: trouble.to_owned(),
            ..Timer::default()
        };
        // 2026-11-21 09:48:05 UTC.
        let now = 1_795_254_485;
        let timers = [
            Timer { next: at(now + 7500), last: at(now - 86_400), ..timer("backup", "daily", "") },
            timer("lost", "daily X/Y", "there is no time zone X/Y"),
        ];
        let table = table(&timers, UNIX_EPOCH + Duration::from_secs(now as u64));
        assert_eq!(
            table.render(None, Palette::None),
            "NAME    NEXT          LEFT  LAST          STATE     OVERLAP  SCHEDULE\n\
             backup  11:53:05.000  2h5m  11-20 09:48   finished  queue    daily\n\
             lost    -                -  -             finished  queue    there is no time zone X/Y\n"
        );
    }
}
