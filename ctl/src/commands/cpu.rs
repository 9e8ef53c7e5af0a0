//! `cpu`: what the processors do, from two looks at what they have done.

use std::time::Duration;

use kelson_api::client::Client;
use kelson_proto::v1::{CpuRequest, CpuResponse, CpuTimes, Pressure};

use super::memory::{percent, waited};
use crate::call::{Call, Run};
use crate::failure::{Failure, answer};
use crate::output::{Page, Table, Terminal, Tone, escape, time, toned, views};
use crate::watching::{Watching, parse_period};

/// Long enough to tell something.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// Show the load of the processors
///
/// Examples:
///   kelsonctl cpu
///   kelsonctl cpu --interval 10s
///   kelsonctl cpu -o json | jq '1 - .all.idle'
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The time between two samples
    #[arg(short, long, value_name = "D", default_value = "1s", value_parser = parse_period)]
    interval: Duration,
    #[command(flatten)]
    pub watching: Watching,
}

/// The work of the processors between two samples. `pressure`: null where the kernel does not count it.
#[derive(Debug, Clone)]
pub struct Cpu {
    pub model: String,
    pub interval_ms: f64,
    /// Over the last 1, 5 and 15 minutes.
    pub load: [f64; 3],
    pub pressure: Option<Pressure>,
    pub switches_per_second: f64,
    pub forks_per_second: f64,
    pub all: CpuShares,
    pub processors: Vec<CpuShares>,
}

/// Where the time of a processor went: shares of 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuShares {
    /// Null: all of them.
    pub processor: Option<u32>,
    pub user: f64,
    pub nice: f64,
    pub system: f64,
    pub irq: f64,
    pub soft_irq: f64,
    pub io_wait: f64,
    pub steal: f64,
    pub idle: f64,
}

views! {
    Cpu: cpu {
        model, interval_ms, load1: cpu.load[0], load5: cpu.load[1], load15: cpu.load[2], pressure,
        switches_per_second, forks_per_second, all, processors,
    }
    CpuShares: shares { processor, user, nice, system, irq, soft_irq, io_wait, steal, idle }
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let (cpu, last) = ask(&call.client()?, self.interval).await?;
        call.show(&cpu, || match call.node {
            None => Page::Text(lines(&cpu, &last, &call.terminal)),
            // Beside that of other hosts all processors together are enough.
            Some(_) => Page::Table(table([&cpu.all])),
        })
    }
}

/// Samples the work of the processors over this time, and returns it with the values of the last sample.
pub async fn ask(client: &Client, interval: Duration) -> Result<(Cpu, CpuResponse), Failure> {
    let first = answer(client.inspect().cpu(CpuRequest {})).await?;
    tokio::time::sleep(interval).await;
    let last = answer(client.inspect().cpu(CpuRequest {})).await?;
    Ok((between(&first, &last), last))
}

fn between(first: &CpuResponse, last: &CpuResponse) -> Cpu {
    let at = |look: &CpuResponse| look.time.as_ref().map_or(0.0, time::seconds);
    // A clock that was set meanwhile tells nothing.
    let seconds = (at(last) - at(first)).max(0.0);
    let rate = |first: u64, last: u64| match last.saturating_sub(first) as f64 / seconds {
        rate if rate.is_finite() => (rate * 10.0).round() / 10.0,
        _ => 0.0,
    };
    let before = |number| first.processors.iter().find(|times| times.number == number);
    let (none, processors) = (CpuTimes::default(), last.processors.iter());
    let all = |look: &CpuResponse| look.all.unwrap_or_default();
    Cpu {
        model: last.model.clone(),
        interval_ms: (seconds * 1000.0).round(),
        load: [last.load_1, last.load_5, last.load_15],
        pressure: last.pressure,
        switches_per_second: rate(first.switches, last.switches),
        forks_per_second: rate(first.forks, last.forks),
        all: CpuShares { processor: None, ..shares(&all(first), &all(last)) },
        // One that was switched on meanwhile has done all that it did since.
        processors: processors.map(|times| shares(before(times.number).unwrap_or(&none), times)).collect(),
    }
}

/// Where the time went between the two.
fn shares(first: &CpuTimes, last: &CpuTimes) -> CpuShares {
    let seconds = |wire: &Option<prost_types::Duration>| time::span(wire).as_secs_f64();
    // The kernel's counts of idle time may step back.
    let spent = |first, last| (seconds(last) - seconds(first)).max(0.0);
    let parts = [
        spent(&first.user, &last.user),
        spent(&first.nice, &last.nice),
        spent(&first.system, &last.system),
        spent(&first.irq, &last.irq),
        spent(&first.soft_irq, &last.soft_irq),
        spent(&first.io_wait, &last.io_wait),
        spent(&first.steal, &last.steal),
        spent(&first.idle, &last.idle),
    ];
    let whole: f64 = parts.iter().sum();
    let share = |part: f64| if whole > 0.0 { (part / whole * 10_000.0).round() / 10_000.0 } else { 0.0 };
    let [user, nice, system, irq, soft_irq, io_wait, steal, idle] = parts.map(share);
    CpuShares { processor: Some(last.number), user, nice, system, irq, soft_irq, io_wait, steal, idle }
}

fn lines(cpu: &Cpu, last: &CpuResponse, terminal: &Terminal) -> String {
    let mut out = format!("processors  {}", cpu.processors.len());
    if !cpu.model.is_empty() {
        out += &format!(", {}", escape(&cpu.model));
    }
    let [one, five, fifteen] = cpu.load;
    out += &format!("\nload        {:.2}, {:.2}, {:.2} (1, 5, 15 minutes)\n", one, five, fifteen);
    out += &waited("pressure    ", last.pressure.as_ref());
    let rows = std::iter::once(&cpu.all).chain(&cpu.processors);
    format!("{out}\n{}", table(rows).render(terminal.width, terminal.palette))
}

/// Work for processes that are nice counts as theirs, and work for interrupts as the kernel's.
fn table<'a>(rows: impl IntoIterator<Item = &'a CpuShares>) -> Table {
    let steal = |share| if share >= 0.05 { Tone::Waiting } else { Tone::Plain };
    Table::of(rows)
        .left("CPU", |row| row.processor.map_or("all".to_owned(), |number| number.to_string()))
        .right("USER", |row| percent(row.user + row.nice))
        .right("SYSTEM", |row| percent(row.system + row.irq + row.soft_irq))
        .right("IOWAIT", |row| percent(row.io_wait))
        .right("STEAL", |row| toned(steal(row.steal), percent(row.steal)))
        .right("IDLE", |row| percent(row.idle))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(second: i64, idle: i64, user: i64) -> CpuResponse {
        let wire = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        let times = |number| CpuTimes { number, idle: wire(idle), user: wire(user), ..CpuTimes::default() };
        CpuResponse {
            time: Some(prost_types::Timestamp { seconds: second, nanos: 0 }),
            all: Some(times(0)),
            processors: vec![times(3)],
            switches: 100,
            ..CpuResponse::default()
        }
    }

    #[test]
    fn shares_are_of_the_time_between() {
        let cpu = between(&look(10, 100, 50), &CpuResponse { switches: 150, ..look(14, 103, 51) });
        assert_eq!((cpu.all.idle, cpu.all.user, cpu.all.system), (0.75, 0.25, 0.0));
        assert_eq!((cpu.processors[0].processor, cpu.all.processor), (Some(3), None));
        assert_eq!((cpu.interval_ms, cpu.switches_per_second), (4000.0, 12.5));
    }

    #[test]
    fn what_steps_back_and_what_is_new_does_no_harm() {
        let back = between(&look(10, 100, 50), &look(9, 99, 51));
        assert_eq!((back.all.idle, back.all.user, back.switches_per_second), (0.0, 1.0, 0.0));
        let nothing = between(&CpuResponse::default(), &CpuResponse::default());
        assert_eq!((nothing.all.idle, nothing.processors.len()), (0.0, 0));
        let first = CpuResponse { processors: vec![], ..look(1, 0, 0) };
        assert_eq!(between(&first, &look(2, 3, 1)).processors[0].idle, 0.75, "it was switched on meanwhile");
    }
}
