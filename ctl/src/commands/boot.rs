//! `boot`: where the boot's time went, in four views.

use std::time::Duration;

use kelson_proto::v1::{BootPhase, BootRequest, BootResponse, BootService, BootTask, EventsRequest};

use super::looking::gather;
use crate::call::{Call, Run};
use crate::failure::{Failure, answer};
use crate::output::drawing::plot::{self, Link};
use crate::output::tree::{Branch, render};
use crate::output::{Cell, Page, Table, Terminal, Tone, cell, escape, print, time, toned, views};

/// Show the phases of the boot and their times
///
/// Examples:
///   kelsonctl boot
///   kelsonctl boot blame
///   kelsonctl boot critical-chain
///   kelsonctl boot plot > boot.svg
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(subcommand)]
    view: Option<View>,
}

/// How to look at it.
#[derive(Debug, Clone, Copy, clap::Subcommand)]
enum View {
    /// Services and tasks by the time that they took, longest first
    Blame,
    /// The chain that the whole boot waited for
    CriticalChain,
    /// A drawing for a browser (SVG)
    Plot,
}

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

views! {
    // Times are milliseconds since PID 1's start.
    BootResponse: boot { kernel_ms: boot.kernel, total_ms: boot.total, phases, services }
    BootPhase: phase { name, start_ms: phase.start.unwrap_or_default(), duration_ms: phase.duration, tasks }
    // `error`: empty where it went well.
    BootTask: task {
        name, start_ms: task.start.unwrap_or_default(), duration_ms: task.duration, error, message,
    }
    BootService: service { name, spawned_ms: service.spawned, up_ms: service.up, after }
    Blame: blame { duration_ms, kind, name, phase }
    Link: link { kind, name, start_ms, duration_ms }
}

impl Run for Arguments {
    /// Two drawings would be none.
    fn several(&self) -> bool {
        !matches!(self.view, Some(View::Plot))
    }

    async fn run(self, call: &Call) -> Result<(), Failure> {
        let boot = answer(call.client()?.machine().boot(BootRequest {})).await?;
        let terminal = &call.terminal;
        match self.view {
            None => call.show(&boot, || Page::Text(phases(&boot, terminal))),
            Some(View::Blame) => call.show(&blame(&boot), || Page::Table(blame_table(&blame(&boot)))),
            Some(View::CriticalChain) => {
                let tree = || chain_tree(&chain(&boot), &boot, terminal);
                call.show(&chain(&boot), || Page::Text(tree()))
            }
            Some(View::Plot) => {
                let events = call.client()?;
                let events = async { events.services().events(EventsRequest::default()).await };
                print(&plot::draw(&boot, &gather(events, |batch| batch.events).await?, &chain(&boot)))
            }
        }
    }
}

/// `kernel 900 ms, from PID 1's start to all services 700 ms`.
fn summary(boot: &BootResponse) -> String {
    let total = match &boot.total {
        Some(total) => {
            format!("all services stood {} after PID 1's start", time::measured(time::duration(total)))
        }
        None => "the boot is not over yet".to_owned(),
    };
    match &boot.kernel {
        Some(kernel) => format!("kernel {}; {total}", time::measured(time::duration(kernel))),
        None => total,
    }
}

fn phases(boot: &BootResponse, terminal: &Terminal) -> String {
    let took = |wire: &Option<prost_types::Duration>| match wire {
        Some(wire) => cell(time::measured(time::duration(wire))),
        None => toned(Tone::Busy, "runs"),
    };
    let rows = boot.phases.iter().flat_map(|phase| {
        let tasks = phase
            .tasks
            .iter()
            .map(|task| (cell(format!("  {}", task.name)), &task.start, &task.duration, result(task)));
        let phase = (toned(Tone::Strong, &phase.name), &phase.start, &phase.duration, cell(""));
        std::iter::once(phase).chain(tasks)
    });
    let table = Table::of(rows)
        .left("PHASE / TASK", |(name, ..)| name.clone())
        .right("START", |(_, start, ..)| time::measured(time::span(start)))
        .right("DURATION", |(.., duration, _)| took(duration))
        .cut("RESULT", |(.., result)| result.clone());
    let up = boot.services.iter().filter(|service| service.up.is_some()).count();
    let open = boot.services.len() - up;
    let services = match (up, open) {
        (0, 0) => String::new(),
        (up, 0) => format!("; services up: {up}"),
        (up, open) => format!("; services up: {up}, not up: {open}"),
    };
    format!("{}\n{}{services}\n", table.render(terminal.width, terminal.palette), summary(boot))
}

fn result(task: &BootTask) -> Cell {
    match (task.error.as_str(), task.message.as_str()) {
        ("", message) => cell(message),
        (error, _) => toned(Tone::Bad, format!("failed: {error}")),
    }
}

/// All tasks and services that are over, the longest first.
fn blame(boot: &BootResponse) -> Vec<Blame> {
    let mut all = Vec::new();
    for phase in &boot.phases {
        for task in &phase.tasks {
            if let Some(took) = &task.duration {
                all.push(Blame {
                    duration_ms: time::millis(time::duration(took)),
                    kind: "task",
                    name: task.name.clone(),
                    phase: phase.name.clone(),
                });
            }
        }
    }
    for service in &boot.services {
        if let Some((spawned, up)) = span(service) {
            all.push(Blame {
                duration_ms: time::millis(up.saturating_sub(spawned)),
                kind: "service",
                name: service.name.clone(),
                phase: String::new(),
            });
        }
    }
    all.sort_by(|a, b| b.duration_ms.total_cmp(&a.duration_ms).then_with(|| a.name.cmp(&b.name)));
    all
}

fn blame_table(blame: &[Blame]) -> Table {
    let what = |entry: &Blame| match entry.phase.as_str() {
        "" => entry.kind.to_owned(),
        phase => format!("task of {phase}"),
    };
    Table::of(blame)
        .right("DURATION", |entry| time::measured_millis(entry.duration_ms))
        .left("WHAT", |entry| toned(Tone::Quiet, what(entry)))
        .left("NAME", |entry| &entry.name)
        .into()
}

/// When it was spawned and when it was up.
fn span(service: &BootService) -> Option<(Duration, Duration)> {
    Some((time::duration(service.spawned.as_ref()?), time::duration(service.up.as_ref()?)))
}

/// The chain that the boot waited for, the end first: the service that was up last, of those that it depends on the one
/// that was up last, and so on; then the phases before the first of them, each with the task that ended it.
fn chain(boot: &BootResponse) -> Vec<Link> {
    let mut chain = Vec::new();
    let mut before = Duration::MAX;
    let all: Vec<&BootService> = boot.services.iter().collect();
    let mut current = last_up(&all);
    while let Some((service, spawned, up)) = current {
        chain.push(link("service", &service.name, spawned, up.saturating_sub(spawned)));
        before = spawned;
        // Only what was there first can have been waited for; this also ends a chain that would bite its tail.
        let needed: Vec<&BootService> = all
            .iter()
            .copied()
            .filter(|other| service.after.contains(&other.name) && other.name != service.name)
            .filter(|other| span(other).is_some_and(|(start, end)| end <= up && start < spawned))
            .collect();
        current = last_up(&needed);
    }
    for phase in phases_before(&boot.phases, before) {
        let (start, took) = times(&phase.start, &phase.duration);
        chain.push(link("phase", &phase.name, start, took));
        let last = phase.tasks.iter().filter(|task| task.duration.is_some()).max_by_key(|task| {
            let (start, took) = times(&task.start, &task.duration);
            start.saturating_add(took)
        });
        if let Some(task) = last {
            let (start, took) = times(&task.start, &task.duration);
            chain.push(link("task", &task.name, start, took));
        }
    }
    chain
}

fn link(kind: &'static str, name: &str, start: Duration, took: Duration) -> Link {
    Link { kind, name: name.to_owned(), start_ms: time::millis(start), duration_ms: time::millis(took) }
}

fn times(
    start: &Option<prost_types::Duration>,
    took: &Option<prost_types::Duration>,
) -> (Duration, Duration) {
    (time::span(start), time::span(took))
}

fn last_up<'a>(services: &[&'a BootService]) -> Option<(&'a BootService, Duration, Duration)> {
    let known =
        services.iter().filter_map(|service| span(service).map(|(spawned, up)| (*service, spawned, up)));
    known.max_by_key(|(_, _, up)| *up)
}

/// The phases that were over when the first service of the chain was spawned, the last one first.
fn phases_before(phases: &[BootPhase], before: Duration) -> Vec<&BootPhase> {
    let end = |phase: &BootPhase| {
        let (start, took) = times(&phase.start, &phase.duration);
        start.saturating_add(took)
    };
    let mut over: Vec<&BootPhase> =
        phases.iter().filter(|phase| phase.duration.is_some() && end(phase) <= before).collect();
    over.sort_by_key(|phase| std::cmp::Reverse(end(phase)));
    over
}

/// `@time` is when it was there, `+duration` how long it took.
fn chain_tree(chain: &[Link], boot: &BootResponse, terminal: &Terminal) -> String {
    let line = |link: &Link| {
        let front = if link.kind == "service" { String::new() } else { format!("{} ", link.kind) };
        let end = time::measured_millis(link.start_ms + link.duration_ms);
        let took = terminal
            .palette
            .paint(tone(link.duration_ms), &format!("+{}", time::measured_millis(link.duration_ms)));
        format!("{front}{} @{end} {took}", escape(&link.name))
    };
    // From the beginning of time: each link carries what came before it; a task hangs beside its phase's way on.
    let mut below: Vec<Branch> = Vec::new();
    let mut links = chain.iter().rev().peekable();
    while let Some(link) = links.next() {
        if link.kind == "task" {
            if let Some(phase) = links.next() {
                let task = Branch { line: line(link), below: Vec::new() };
                let mut all = vec![task];
                all.append(&mut below);
                below = vec![Branch { line: line(phase), below: all }];
            }
        } else {
            below = vec![Branch { line: line(link), below: std::mem::take(&mut below) }];
        }
    }
    let root = Branch { line: summary(boot), below };
    render(&root, terminal.unicode)
}

/// A long time stands out.
fn tone(millis: f64) -> Tone {
    if millis >= 1000.0 {
        Tone::Bad
    } else if millis >= 200.0 {
        Tone::Waiting
    } else {
        Tone::Plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::wire;

    fn service(name: &str, spawned: u64, up: Option<u64>, after: &[&str]) -> BootService {
        let after = after.iter().map(|name| (*name).to_owned()).collect();
        BootService { name: name.to_owned(), spawned: wire(spawned), up: up.and_then(wire), after }
    }

    #[test]
    fn a_chain_that_bites_its_tail_ends() {
        let services = vec![service("a", 10, Some(20), &["b", "a"]), service("b", 10, Some(20), &["a"])];
        let boot = BootResponse { services, ..BootResponse::default() };
        assert!(chain(&boot).len() < 10);
        assert_eq!(chain(&BootResponse::default()), []);
        assert_eq!(
            chain_tree(&[], &BootResponse::default(), &Terminal::plain()),
            "the boot is not over yet\n"
        );
    }
}
