//! The table as docs/reference/service-table.md prints it. With KELSON_RENEW set the file is written, not compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use kelson_conditions::Subject;
use kelson_proto::state::v1 as stored;
use kelson_runner::{Exit, RunnerError, StopReport};
use kelson_spec::service::{Readiness, WhenDown};

use super::{Answer, Effect, HookKinds, Input, Report, Rules, ServiceState, Step, StopReason, Timer};
use crate::model::RestartReason;
use crate::service_runner::table_tests;
use crate::state_store::service::phase_number;

const NOW: Duration = Duration::from_secs(100);
const HEAD: &str = "# The table of a service

Made from [`service_runner::table`](../../services/src/service_runner/table.rs), whose head explains the model.
`hack/docs --renew` makes it again.

Each section is a phase, each line an input that changes something or has an answer.
The service of this page has `when`, all hooks, a readiness signal, a `stop.delay` and a policy that restarts it.
The next phase is the one before the effects have brought further inputs: `AskGate` is followed by `GateHolds` or `GateShut`.
";

fn rules() -> Rules {
    let mut rules = table_tests::rules();
    rules.has_when = true;
    rules.readiness = Readiness::Notify;
    rules.stop.delay = Duration::from_secs(5);
    rules.hooks = HookKinds { pre: true, pre_stop: true, post: true, undo: false };
    rules
}

fn exited() -> Input {
    Input::Exited { run: 1, exit: Exit::Status(1) }
}

fn cleared() -> Input {
    Input::Cleared { exit: None, report: StopReport::default() }
}

fn stop(reason: StopReason) -> Input {
    Input::Stop { request_id: 1, reason }
}

/// A state in each phase, as a service comes to it.
fn states() -> BTreeMap<i32, ServiceState> {
    let mut states = BTreeMap::new();
    let mut state = ServiceState::new(true);
    let mut come = |state: &mut ServiceState, inputs: Vec<Input>| {
        for input in inputs {
            states.entry(phase_number(&state.phase).into()).or_insert_with(|| state.clone());
            state.step(&rules(), input, NOW, 0);
        }
        states.entry(phase_number(&state.phase).into()).or_insert_with(|| state.clone());
    };
    let to_active = vec![
        Input::Begin,
        Input::WhenHolds,
        Input::GateShut(vec![Subject::TimeSynced.into()]),
        Input::GateHolds,
        Input::Opened(Ok(())),
        Input::GateHolds,
        Input::Turn,
        Input::PreDone(Ok(Vec::new())),
        Input::Turn,
        Input::Spawned(Ok(100)),
    ];
    come(&mut state, to_active);
    come(&mut state.clone(), vec![exited(), cleared(), Input::PostDone(vec![])]);
    let to_rest = vec![
        stop(StopReason::Operator),
        Input::PreStopDone(vec![]),
        Input::Timer(Timer::StopDelay),
        cleared(),
        Input::PostDone(vec![]),
    ];
    come(&mut state, to_rest);
    let all = (1..).map_while(|number| stored::Phase::try_from(number).ok().map(|_| number));
    assert!(all.eq(states.keys().copied()), "a phase is not reached");
    states
}

fn inputs() -> Vec<(&'static str, Input)> {
    let (run, text) = (1, String::new());
    let failed = || RunnerError::new("why");
    vec![
        ("Begin", Input::Begin),
        ("Start", Input::Start { request_id: 2 }),
        ("Restart", Input::Restart { request_id: 2 }),
        ("Replace", Input::Replace { text: text.clone() }),
        ("Stop (operator)", stop(StopReason::Operator)),
        ("Stop (group)", stop(StopReason::Group(text.clone()))),
        ("Stop (shutdown)", stop(StopReason::Shutdown)),
        ("Due", Input::Due),
        ("StopFor", Input::StopFor(Some(NOW))),
        ("GroupStart", Input::GroupStart { text: text.clone() }),
        ("GroupRefused", Input::GroupRefused { text: text.clone() }),
        ("Arm", Input::Arm),
        ("NewSpec", Input::NewSpec { has_when: true }),
        ("OldSpec", Input::OldSpec),
        ("Leaving", Input::Leaving),
        ("ArchivesChanged", Input::ArchivesChanged),
        ("Closing", Input::Closing),
        ("Attached (alive)", Input::Attached { found: Ok(100), closing: false }),
        ("Attached (ended)", Input::Attached { found: Err(Exit::Lost), closing: false }),
        ("WhenHolds", Input::WhenHolds),
        ("WhenFails", Input::WhenFails(text.clone())),
        ("GateShut", Input::GateShut(vec![Subject::Any(vec![]).into()])),
        ("GateHolds", Input::GateHolds),
        ("Opened", Input::Opened(Ok(()))),
        ("Opened (failed)", Input::Opened(Err(failed()))),
        ("Turn", Input::Turn),
        ("PreDone", Input::PreDone(Ok(Vec::new()))),
        ("PreDone (failed)", Input::PreDone(Err(failed()))),
        ("PreSkips", Input::PreSkips(text.clone())),
        ("Spawned", Input::Spawned(Ok(100))),
        ("Spawned (failed)", Input::Spawned(Err(failed()))),
        ("Ready", Input::Report(run, Report::Ready)),
        ("Unready", Input::Report(run, Report::Unready { text: text.clone() })),
        ("NeverReady", Input::Report(run, Report::NeverReady { text: text.clone() })),
        ("Broken", Input::Report(run, Report::Broken { reason: RestartReason::Check, text: text.clone() })),
        ("Health", Input::Report(run, Report::Health { healthy: Some(true), missing: text.clone() })),
        (
            "DependencyDown (stop)",
            Input::Report(run, Report::DependencyDown { rule: WhenDown::Stop, text: text.clone() }),
        ),
        (
            "DependencyDown (restart)",
            Input::Report(run, Report::DependencyDown { rule: WhenDown::Restart, text }),
        ),
        ("Exited", exited()),
        ("MainFound", Input::MainFound(Ok(100))),
        ("MainFound (failed)", Input::MainFound(Err(failed()))),
        ("PreStopDone", Input::PreStopDone(vec![])),
        ("Cleared", cleared()),
        ("PostDone", Input::PostDone(vec![])),
        ("Closed", Input::Closed(Ok(()))),
        ("Timer Start", Input::Timer(Timer::Start)),
        ("Timer StopDelay", Input::Timer(Timer::StopDelay)),
        ("Timer Backoff", Input::Timer(Timer::Backoff)),
        ("Timer Watchdog", Input::Timer(Timer::Watchdog)),
        ("Timer StopFor", Input::Timer(Timer::StopFor)),
        ("Ping", Input::Ping),
        ("WatchdogInterval", Input::WatchdogInterval(Some(NOW))),
        ("Extend", Input::Extend(2 * NOW)),
        ("Force", Input::Force),
        ("Kill", Input::Kill),
    ]
}

/// Of the phase, on the way down of its stage, without their data.
fn name_of(service: &ServiceState) -> String {
    let text = service.stage().map_or_else(|| format!("{:?}", service.phase), |stage| format!("{stage:?}"));
    text.split([' ', '(']).next().unwrap_or_default().to_owned()
}

fn name(effect: &Effect) -> String {
    match effect {
        Effect::Note(_) => "Note".to_owned(),
        Effect::AskGroup { .. } => "AskGroup".to_owned(),
        Effect::Work(work) => format!("Work {work:?}"),
        Effect::Tell
        | Effect::Record
        | Effect::Publish
        | Effect::AskGate
        | Effect::DropGate
        | Effect::Demand
        | Effect::Adopt
        | Effect::Rested => {
            format!("{effect:?}")
        }
    }
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for before in states().values() {
        let mut ignored = Vec::new();
        write!(page, "\n## {}\n\n| input | next phase | effects |\n|---|---|---|\n", name_of(before))
            .unwrap();
        for (input, given) in inputs() {
            let mut after = before.clone();
            let Step { effects, answer } = after.step(&rules(), given, NOW, 0);
            if answer.is_none() && effects.is_empty() && after == *before {
                ignored.push(input);
                continue;
            }
            let mut what: Vec<String> = effects.iter().map(name).collect();
            if answer.is_none() && effects.is_empty() {
                what.push("none; it is remembered".to_owned());
            }
            match answer {
                None | Some(Answer::Done) => {}
                Some(Answer::NothingToDo(text)) => what.push(format!("nothing to do: {text}")),
                Some(Answer::Refused(text)) => what.push(format!("refused: {text}")),
            }
            let (was, next) = (name_of(before), name_of(&after));
            let next = if was == next { String::new() } else { next };
            writeln!(page, "| {input} | {next} | {} |", what.join(", ")).unwrap();
        }
        writeln!(page, "\nIgnored: {}.", ignored.join(", ")).unwrap();
    }
    page
}

#[test]
fn the_table_is_printed_in_the_documents() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/service-table.md");
    let page = page();
    if std::env::var_os("KELSON_RENEW").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let published = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(published == page, "{} is not what the table says: run hack/docs --renew", file.display());
}
