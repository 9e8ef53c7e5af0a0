//! The table alone: no process, no clock, no task.

use std::time::Duration;

use kelson_conditions::Subject;
use kelson_runner::{Deaf, ErrorKind, Exit, RunnerError, StopReport};
use kelson_spec::service::{Exhausted, Readiness, RestartPolicy, RestartSpec, ServiceKind, StopSpec};

use super::table::{
    Answer, Effect, HookKinds, Input, Phase, Report, Rules, ServiceState, Stage, StopReason, Timer, Work,
};
use super::words;
use crate::model::{Failure, RestartReason, State};

pub fn rules() -> Rules {
    Rules {
        kind: ServiceKind::Service,
        restart: RestartSpec {
            policy: RestartPolicy::Forever,
            delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(30),
            attempts: 0,
            interval: Duration::from_secs(300),
            exhausted: Exhausted::Fail,
            scope: kelson_spec::service::RestartScope::Service,
            ..RestartSpec::default()
        },
        readiness: Readiness::None,
        start_timeout: Duration::from_secs(90),
        watchdog: None,
        stop: StopSpec::default(),
        has_when: false,
        has_checks: false,
        checks_restart: false,
        hooks: Default::default(),
        registers: false,
        scheduled: false,
        on_demand: false,
        memory_max: None,
    }
}

/// A life with its rules and a clock; carries out what the task would do at once.
struct Case {
    service: ServiceState,
    rules: Rules,
    now: Duration,
    gate: bool,
    work: Work,
    told: Vec<String>,
    rested: usize,
    asked: Vec<String>,
}

impl Case {
    fn new(rules: Rules) -> Case {
        Case {
            service: ServiceState::new(true),
            rules,
            now: Duration::ZERO,
            gate: true,
            work: Work::None,
            told: Vec::new(),
            rested: 0,
            asked: Vec::new(),
        }
    }

    fn feed(&mut self, input: Input) -> Option<Answer> {
        let step = self.service.step(&self.rules, input, self.now, 0);
        for effect in step.effects {
            match effect {
                Effect::Tell => {
                    self.told.push(format!("{}: {}", self.service.state().name(), self.service.message));
                }
                Effect::Work(work) => self.work = work,
                Effect::AskGate => {
                    let input = if self.gate {
                        Input::GateHolds
                    } else {
                        Input::GateShut(vec![Subject::TimeSynced.into()])
                    };
                    self.feed(input);
                }
                Effect::AskGroup { text, .. } => self.asked.push(text),
                Effect::Rested => self.rested += 1,
                Effect::Note(_)
                | Effect::Publish
                | Effect::Record
                | Effect::DropGate
                | Effect::Demand
                | Effect::Adopt => {}
            }
        }
        step.answer
    }

    /// To a living process.
    fn run(&mut self) {
        self.feed(Input::Begin);
        self.opened_and_spawned();
    }

    fn opened_and_spawned(&mut self) {
        if self.work == Work::Open {
            self.feed(Input::Opened(Ok(())));
        }
        assert_eq!(self.work, Work::Spawn);
        self.feed(Input::Spawned(Ok(100 + i32::try_from(self.service.run).unwrap())));
        assert!(self.service.active().is_some());
    }

    fn exit(&mut self, status: i32) {
        self.feed(Input::Exited { run: self.service.run, exit: Exit::Status(status) });
        assert_eq!(self.work, Work::Clear);
        self.cleared();
    }

    fn cleared(&mut self) {
        self.cleared_with(StopReport::default());
    }

    fn cleared_with(&mut self, report: StopReport) {
        self.feed(Input::Cleared { exit: None, report });
    }

    fn closed(&mut self) {
        assert_eq!(self.work, Work::Close);
        self.feed(Input::Closed(Ok(())));
    }

    fn stop(&mut self) -> Answer {
        self.feed(Input::Stop { request_id: 1, reason: StopReason::Operator }).unwrap()
    }

    fn rests(&self) -> bool {
        matches!(self.service.phase, Phase::Rest(_))
    }

    fn deadlines(&self) -> Vec<(Timer, Duration)> {
        self.service.deadlines().collect()
    }

    fn up(&self) -> bool {
        self.service.up(&self.rules)
    }
}

#[test]
fn from_file_to_running_to_stopped() {
    let mut case = Case::new(rules());
    case.run();
    assert!(case.up());
    assert_eq!(case.stop(), Answer::Done);
    assert!(!case.up());
    assert_eq!(case.work, Work::Stop);
    case.cleared();
    case.closed();
    assert_eq!(
        case.told,
        [
            "preparing: all that it waits for holds",
            "starting: run 1",
            "running: running (PID 101)",
            "stopping: stopped: asked by an operator",
            "stopped: stopped: asked by an operator",
        ]
    );
    assert!(case.service.stopped() && case.service.down(&case.rules) && !case.service.finished());
    assert_eq!(case.rested, 1);
}

#[test]
fn g3_stop_takes_effect_in_every_phase_and_leaves_nothing() {
    // Waiting: nothing was opened, nothing is closed.
    let mut case = Case::new(rules());
    case.gate = false;
    case.feed(Input::Begin);
    assert_eq!(case.service.state(), State::Waiting);
    assert_eq!(case.stop(), Answer::Done);
    assert_eq!(case.service.state(), State::Stopped);
    assert!(case.service.message.contains("while waiting for the clock"), "{}", case.service.message);

    // Preparing: what was prepared is undone.
    let mut case = Case::new(rules());
    case.feed(Input::Begin);
    assert_eq!(case.work, Work::Open);
    assert_eq!(case.stop(), Answer::Done);
    case.closed();
    assert_eq!((case.service.state(), case.service.stopped()), (State::Stopped, true));

    // Spawning: a program that runs by then has its signal.
    let mut case = Case::new(rules());
    case.feed(Input::Begin);
    case.feed(Input::Opened(Ok(())));
    assert_eq!(case.stop(), Answer::Done);
    assert_eq!(case.work, Work::Stop);
    case.cleared();
    case.closed();
    assert_eq!((case.service.state(), case.service.stopped()), (State::Stopped, true));

    // A hook before it is killed.
    let mut case = Case::new(Rules { hooks: HookKinds { pre: true, ..HookKinds::default() }, ..rules() });
    case.feed(Input::Begin);
    case.feed(Input::Opened(Ok(())));
    assert_eq!(case.work, Work::Pre);
    assert_eq!(case.stop(), Answer::Done);
    assert_eq!(case.work, Work::Clear);

    // Starting, not ready yet.
    let mut case = Case::new(Rules { readiness: Readiness::Notify, ..rules() });
    case.run();
    assert_eq!(case.service.state(), State::Starting);
    assert_eq!(case.stop(), Answer::Done);
    case.cleared();
    case.closed();
    assert_eq!((case.service.state(), case.service.stopped()), (State::Stopped, true));

    // Backoff.
    let mut case = Case::new(rules());
    case.run();
    case.exit(3);
    assert_eq!(case.service.state(), State::Backoff);
    assert_eq!(case.stop(), Answer::Done);
    case.closed();
    assert_eq!((case.service.state(), case.service.stopped()), (State::Stopped, true));
    case.feed(Input::Timer(Timer::Backoff));
    assert_eq!(case.service.state(), State::Stopped);
}

#[test]
fn r5_a_restart_keeps_the_preparations_and_asks_the_gate_again() {
    let mut case = Case::new(rules());
    case.run();
    case.exit(3);
    assert_eq!(case.service.state(), State::Backoff);
    case.gate = false;
    case.feed(Input::Timer(Timer::Backoff));
    assert_eq!(case.service.state(), State::Waiting);
    case.gate = true;
    case.feed(Input::GateHolds);
    assert_eq!(case.work, Work::Spawn, "what was prepared still holds");
    case.opened_and_spawned();
    assert_eq!((case.service.run, case.service.restarts), (2, 1));
}

#[test]
fn h1_h2_nothing_of_an_earlier_run_counts() {
    let mut case = Case::new(Rules { has_checks: true, readiness: Readiness::Notify, ..rules() });
    case.run();
    case.feed(Input::Report(1, Report::Ready));
    case.feed(Input::Report(1, Report::Health { healthy: Some(true), missing: String::new() }));
    assert!(case.up());
    case.exit(1);
    assert!(!case.up());
    case.feed(Input::Timer(Timer::Backoff));
    case.opened_and_spawned();
    case.feed(Input::Report(1, Report::Ready));
    case.feed(Input::Report(1, Report::Health { healthy: Some(true), missing: String::new() }));
    assert!(
        !case.up() && case.service.active().is_some_and(|active| !active.ready() && active.healthy.is_none())
    );
    case.feed(Input::Exited { run: 1, exit: Exit::Status(0) });
    assert!(case.service.active().is_some());
    case.feed(Input::Report(2, Report::Health { healthy: Some(true), missing: String::new() }));
    assert!(!case.up(), "ready is missing");
    case.feed(Input::Report(2, Report::Ready));
    assert!(case.up());
    case.feed(Input::Report(2, Report::Unready { text: "reloading".into() }));
    assert!(!case.up());
}

#[test]
fn what_ended_the_last_run_is_said_until_it_is_up_again() {
    let mut case = Case::new(Rules { readiness: Readiness::Notify, ..rules() });
    case.run();
    assert!(case.service.retry().is_none(), "its first run");
    case.now = Duration::from_secs(2);
    case.exit(3);
    let ended = "exited with status 3 before it was ready after 2 s";
    assert_eq!(&*case.service.reason(), format!("{ended}, restarting in 1 s"), "it is said once");
    assert_eq!(case.service.retry().unwrap().ended, ended);
    case.gate = false;
    case.feed(Input::Timer(Timer::Backoff));
    assert_eq!(case.service.state(), State::Waiting);
    assert!(
        case.service.reason().ends_with(&format!("; the last run: {ended}")),
        "{}",
        case.service.reason()
    );
    case.gate = true;
    case.feed(Input::GateHolds);
    assert_eq!(&*case.service.reason(), format!("run 2; the last run: {ended}"));
    // The record is the same for the next incarnation.
    let mut record = kelson_proto::state::v1::ServiceRecord::default();
    case.service.store(&mut record);
    assert_eq!(ServiceState::of_stored(&record).0.reason(), case.service.reason());
    case.opened_and_spawned();
    assert!(case.service.reason().ends_with(ended));
    case.feed(Input::Report(2, Report::Ready));
    assert!(case.up() && case.service.retry().is_none() && !case.service.reason().contains("the last run"));

    // An operator begins again.
    for stop in [false, true] {
        case.exit(3);
        assert!(case.service.retry().is_some());
        if stop {
            case.stop();
            case.closed();
        }
        case.feed(Input::Start { request_id: 2 });
        assert!(case.service.retry().is_none(), "{stop}");
        case.opened_and_spawned();
    }
}

/// What others of the fleet learn.
#[test]
fn why_it_is_not_up_has_no_times_and_stays_until_it_is() {
    let mut case = Case::new(Rules { has_checks: true, ..rules() });
    let failure = |case: &Case| {
        let Failure { cause, detail } = words::failure(case.service.failure.as_deref()?, &case.rules);
        Some(format!("{cause}|{detail}"))
    };
    let health = |run, healthy, missing: &str| {
        Input::Report(run, Report::Health { healthy, missing: missing.to_owned() })
    };
    case.run();
    assert_eq!(failure(&case), None);
    case.now = Duration::from_secs(2);
    case.exit(3);
    assert_eq!(failure(&case).unwrap(), "exited with status 3|");
    case.feed(Input::Timer(Timer::Backoff));
    case.opened_and_spawned();
    case.feed(health(2, None, "check web: no result yet"));
    assert_eq!(failure(&case).unwrap(), "exited with status 3|");
    case.feed(health(2, Some(true), ""));
    assert!(case.up() && failure(&case).is_none());

    // A check that fails, and then has it restarted, is one cause.
    case.feed(health(2, Some(false), "check web: refused"));
    assert_eq!(failure(&case).unwrap(), "|check web: refused");
    let text = "check web failed 4 times: refused".to_owned();
    case.feed(Input::Report(2, Report::Broken { reason: RestartReason::Check, text }));
    case.cleared();
    assert_eq!(
        (case.service.state(), failure(&case).unwrap()),
        (State::Backoff, "|check web: refused".into())
    );
    let mut record = kelson_proto::state::v1::ServiceRecord::default();
    case.service.store(&mut record);
    assert_eq!(ServiceState::of_stored(&record).0.failure, case.service.failure);
    case.feed(Input::Start { request_id: 1 });
    assert_eq!(failure(&case), None, "an operator begins again");

    case.feed(Input::Spawned(Err(RunnerError::new("no such file"))));
    assert_eq!(failure(&case).unwrap(), "|could not start: no such file");
}

#[test]
fn a_member_counts_the_restarts_of_its_group() {
    let mut case = Case::new(rules());
    case.run();
    case.feed(Input::Stop { request_id: 1, reason: StopReason::Group("why".into()) });
    case.cleared();
    case.closed();
    assert_eq!((case.service.state(), case.service.restarts), (State::Stopped, 0));
    case.feed(Input::GroupStart { text: "why".into() });
    assert_eq!(case.service.restarts, 1);
    assert_eq!(case.service.retry().unwrap().ended, "its group is restarted (why)");
}

#[test]
fn a_oneshot_is_up_once_it_succeeded_and_not_down_then() {
    let mut one = rules();
    one.kind = ServiceKind::Oneshot;
    one.restart.policy = RestartPolicy::Once;
    let mut case = Case::new(one.clone());
    case.run();
    assert!(!case.up());
    case.exit(0);
    case.closed();
    assert!(case.up() && case.service.finished() && !case.service.down(&case.rules));
    assert_eq!(case.service.state(), State::Finished);

    let mut case = Case::new(one);
    case.run();
    case.exit(2);
    case.closed();
    assert!(!case.up() && !case.service.finished() && case.service.down(&case.rules));
    assert_eq!(case.service.state(), State::Failed);
}

#[test]
fn g9_a_oneshot_stopped_half_way_is_not_finished() {
    let mut case = Case::new(Rules { kind: ServiceKind::Oneshot, ..rules() });
    case.run();
    case.stop();
    // It ends with status 0 on its signal: that is no success of its own.
    case.feed(Input::Exited { run: 1, exit: Exit::Status(0) });
    case.cleared();
    case.closed();
    assert_eq!(case.service.state(), State::Stopped);
    assert!(
        case.service.stopped() && !case.service.finished() && !case.up() && case.service.down(&case.rules)
    );
}

#[test]
fn g7_manual_is_down_and_to_be_started_is_not() {
    let rules = rules();
    assert!(ServiceState::new(false).down(&rules));
    assert!(!ServiceState::new(true).down(&rules));
}

#[test]
fn g8_the_last_request_wins() {
    let mut case = Case::new(rules());
    case.run();
    assert_eq!(case.feed(Input::Restart { request_id: 1 }), Some(Answer::Done));
    assert_eq!(case.feed(Input::Restart { request_id: 2 }), Some(Answer::Done));
    assert_eq!(case.service.request_id, 2);
    assert_eq!(case.feed(Input::Stop { request_id: 3, reason: StopReason::Operator }), Some(Answer::Done));
    case.cleared();
    case.closed();
    assert_eq!((case.service.state(), case.service.run), (State::Stopped, 1));

    let mut case = Case::new(rules());
    case.run();
    assert_eq!(case.feed(Input::Stop { request_id: 1, reason: StopReason::Operator }), Some(Answer::Done));
    assert_eq!(case.feed(Input::Start { request_id: 2 }), Some(Answer::Done));
    case.cleared();
    case.opened_and_spawned();
    assert_eq!((case.service.state(), case.service.run, case.service.restarts), (State::Running, 2, 0));
}

#[test]
fn s4_the_delay_takes_it_down_at_once_and_ends_early_with_the_process() {
    let mut with_delay = rules();
    with_delay.stop.delay = Duration::from_secs(5);
    let mut case = Case::new(with_delay);
    case.run();
    case.stop();
    let until = Duration::from_secs(5);
    let delayed = Some(Stage::StopDelay { until, pid: 101 });
    assert_eq!((case.service.stage(), case.service.state()), (delayed, State::Stopping));
    assert!(!case.up());
    assert_eq!(case.deadlines(), [(Timer::StopDelay, until)]);
    case.feed(Input::Exited { run: 1, exit: Exit::Status(0) });
    assert_eq!(case.work, Work::Clear, "no signal: it is gone");
    case.cleared();
    case.closed();
    assert_eq!((case.service.state(), case.service.stopped()), (State::Stopped, true));
}

#[test]
fn nothing_starts_once_the_host_stops() {
    let mut case = Case::new(rules());
    case.run();
    case.exit(1);
    case.feed(Input::Stop { request_id: 0, reason: StopReason::Shutdown });
    assert!(matches!(case.feed(Input::Start { request_id: 9 }), Some(Answer::Refused(_))));
    assert!(matches!(case.feed(Input::Restart { request_id: 9 }), Some(Answer::Refused(_))));
    case.closed();
    assert_eq!(case.rested, 1);
    case.feed(Input::Begin);
    assert!(case.rests());

    // An exit that was under way when the stop came is not restarted against.
    let mut case = Case::new(rules());
    case.run();
    case.feed(Input::Exited { run: 1, exit: Exit::Status(1) });
    case.feed(Input::Stop { request_id: 0, reason: StopReason::Shutdown });
    case.cleared();
    case.closed();
    assert_eq!((case.rests(), case.rested), (true, 1));
}

#[test]
fn only_what_was_added_to_be_started_is_begun() {
    let mut case = Case { service: ServiceState::new(false), ..Case::new(rules()) };
    // Its file says `auto` by now.
    case.feed(Input::NewSpec { has_when: false });
    case.feed(Input::Begin);
    assert_eq!((case.rests(), case.service.state()), (true, State::Initialized));
    case.feed(Input::Start { request_id: 1 });
    assert_eq!(case.work, Work::Open);
    // One that was stopped before the boot came to it stays stopped.
    let mut case = Case::new(rules());
    case.feed(Input::Stop { request_id: 1, reason: StopReason::Operator });
    case.feed(Input::Begin);
    assert_eq!((case.rests(), case.service.state()), (true, State::Stopped));
}

#[test]
fn preparing_that_fails_is_undone_and_counts_as_a_failure() {
    let mut once = rules();
    once.restart.policy = RestartPolicy::Once;
    let mut case = Case::new(once);
    case.feed(Input::Begin);
    case.feed(Input::Opened(Err(RunnerError::new("no room"))));
    case.closed();
    assert_eq!(case.service.state(), State::Failed);
    assert!(case.service.message.contains("no room"), "{}", case.service.message);
}

#[test]
fn what_is_not_ready_in_time_is_stopped_and_restarted() {
    let mut case = Case::new(Rules { readiness: Readiness::Notify, ..rules() });
    case.run();
    case.now = Duration::from_secs(90);
    case.feed(Input::Timer(Timer::Start));
    assert_eq!((case.work, case.service.state()), (Work::Stop, State::Stopping));
    case.cleared();
    assert_eq!(case.service.state(), State::Backoff);
    assert!(case.service.message.starts_with("not ready after 1m30s"), "{}", case.service.message);
}

#[test]
fn an_operators_restart_is_not_counted() {
    let mut case = Case::new(rules());
    case.run();
    case.exit(1);
    case.feed(Input::Timer(Timer::Backoff));
    case.opened_and_spawned();
    assert_eq!(case.service.restarts, 1);
    case.feed(Input::Restart { request_id: 1 });
    case.cleared();
    case.opened_and_spawned();
    assert_eq!((case.service.restarts, case.service.run), (1, 3));
}

/// Random inputs in any order: the invariants hold after each.
#[test]
fn no_order_of_inputs_breaks_the_invariants() {
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |bound: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % bound
    };
    for round in 0..20_000 {
        let mut rules = rules();
        rules.has_when = random(4) == 0;
        rules.kind = if random(3) == 0 { ServiceKind::Oneshot } else { ServiceKind::Service };
        rules.readiness = if random(2) == 0 { Readiness::Notify } else { Readiness::None };
        rules.stop.delay = Duration::from_secs(random(2));
        rules.restart.delay = Duration::from_secs(random(2));
        if rules.kind == ServiceKind::Oneshot {
            rules.restart.policy = RestartPolicy::UntilSuccess;
        }
        let mut case = Case::new(rules);
        let mut closing = false;
        let mut open = false;
        let mut alive = false;
        for _ in 0..40 {
            case.now += Duration::from_millis(random(3000));
            case.gate = random(4) != 0;
            let before = case.service.run;
            // An input that the work under way may cause, or one from outside.
            let input = match (random(3), case.work) {
                (0, Work::When) => Input::WhenHolds,
                (0, Work::Open) => {
                    let fails = random(4) == 0;
                    open = true;
                    Input::Opened(if fails { Err(RunnerError::new("e")) } else { Ok(()) })
                }
                (0, Work::Spawn) => {
                    let fails = random(4) == 0;
                    alive |= !fails;
                    Input::Spawned(if fails { Err(RunnerError::new("e")) } else { Ok(7) })
                }
                (0, Work::Stop | Work::Clear) => {
                    alive = false;
                    Input::Cleared { exit: Some(Exit::Status(0)), report: StopReport::default() }
                }
                (0, Work::Close) => {
                    open = false;
                    Input::Closed(Ok(()))
                }
                (1, _) => match random(9) {
                    0 => Input::Begin,
                    1 => Input::Start { request_id: 1 },
                    2 => Input::Restart { request_id: 1 },
                    3 => Input::Stop { request_id: 1, reason: StopReason::Operator },
                    4 if random(10) == 0 => {
                        closing = true;
                        Input::Stop { request_id: 0, reason: StopReason::Shutdown }
                    }
                    5 => Input::Timer(Timer::Backoff),
                    6 => Input::Timer(Timer::StopDelay),
                    7 => Input::Timer(Timer::Start),
                    8 => Input::NewSpec { has_when: false },
                    _ => Input::Report(case.service.run, Report::Ready),
                },
                _ if alive && random(2) == 0 => {
                    Input::Exited { run: case.service.run, exit: Exit::Status(1) }
                }
                _ => Input::GateHolds,
            };
            let text = format!("round {round}: {input:?} in {:?}", case.service);
            let spawned = matches!(input, Input::Spawned(Ok(_)));
            case.feed(input);
            let mut record = kelson_proto::state::v1::ServiceRecord::default();
            case.service.store(&mut record);
            // The missing conditions are asked again.
            let mut stored = case.service.clone();
            if let Phase::Gate(gate) = &mut stored.phase {
                gate.missing.clear();
            }
            assert_eq!(ServiceState::of_stored(&record), (stored, Ok(())), "{text}");
            let service = &case.service;
            assert!(
                !case.service.up(&case.rules) || case.rules.kind == ServiceKind::Oneshot || alive,
                "{text}"
            );
            assert!(!(closing && service.run > before), "a start after the host began to stop: {text}");
            assert!(!spawned || service.run == before, "{text}");
            if case.rests() {
                assert!(!alive, "at rest with a process: {text}");
                assert!(!open, "at rest and not cleaned up: {text}");
            }
            if case.work == Work::Spawn && matches!(service.phase, Phase::Spawning { .. }) {
                assert!(!alive, "two runs at once: {text}");
            }
        }
    }
}

#[test]
fn a_member_that_has_asked_its_group_is_never_down_before_the_restart() {
    let mut rules = rules();
    rules.restart.attempts = 1;
    rules.restart.scope = kelson_spec::service::RestartScope::Group;
    let mut case = Case::new(rules);
    case.feed(Input::Begin);
    for _ in 0..2 {
        assert_eq!(case.work, Work::Open);
        case.feed(Input::Opened(Err(RunnerError::new("no"))));
        case.feed(Input::Closed(Ok(())));
        assert!(!case.service.down(&case.rules), "{:?}", case.told);
        case.feed(Input::Timer(Timer::Backoff));
    }
    assert_eq!((case.rests(), case.service.state(), case.asked.len()), (true, State::Failed, 1));
    case.feed(Input::Stop { request_id: 1, reason: StopReason::Group("why".into()) });
    assert!(!case.service.down(&case.rules), "its group starts it again");
    case.feed(Input::GroupStart { text: "why".into() });
    assert_eq!((case.service.restarts, case.work), (2, Work::Open));
    // An operator who stops it means it.
    case.feed(Input::Stop { request_id: 2, reason: StopReason::Operator });
    case.feed(Input::Closed(Ok(())));
    assert!(case.service.down(&case.rules) && case.service.stopped());
}

/// A member of a group whose check finds it broken.
fn checked(attempts: u32, policy: RestartPolicy) -> Case {
    let mut rules = rules();
    rules.restart.attempts = attempts;
    rules.restart.policy = policy;
    rules.restart.scope = kelson_spec::service::RestartScope::Group;
    let mut case = Case::new(rules);
    case.run();
    case
}

fn broken(case: &mut Case) {
    let run = case.service.run;
    case.feed(Input::Report(
        run,
        Report::Broken { reason: RestartReason::Check, text: "check ping failed".into() },
    ));
}

#[test]
fn a_check_restarts_the_group_until_the_budget_is_used_up() {
    let mut case = checked(2, RestartPolicy::Forever);
    for asked in 1..=2 {
        broken(&mut case);
        // A second wish of the same run is the same one.
        broken(&mut case);
        assert_eq!((case.service.active().is_some(), case.asked.len()), (true, asked));
        assert!(case.asked[asked - 1].ends_with(&format!("({asked} of 2 in 5m)")), "{:?}", case.asked);
        case.feed(Input::Stop { request_id: 0, reason: StopReason::Group("why".into()) });
        case.cleared();
        case.feed(Input::Closed(Ok(())));
        case.feed(Input::GroupStart { text: "why".into() });
        case.run();
    }
    broken(&mut case);
    case.cleared();
    case.feed(Input::Closed(Ok(())));
    assert_eq!((case.rests(), case.service.state(), case.asked.len()), (true, State::Failed, 2));
    assert_eq!(&*case.service.message, "check ping failed; gave up after 3 failures in 5m");
    assert!(case.service.down(&case.rules));
}

#[test]
fn a_check_restarts_nothing_where_the_policy_is_once() {
    let mut case = checked(0, RestartPolicy::Once);
    broken(&mut case);
    case.cleared();
    case.feed(Input::Closed(Ok(())));
    assert_eq!((case.rests(), case.service.state(), case.asked.len()), (true, State::Failed, 0));
    assert_eq!(&*case.service.message, "check ping failed; restart.policy is once");
}

#[test]
fn a_budget_that_is_used_up_restarts_the_group_once() {
    let mut rules = rules();
    rules.restart.attempts = 1;
    rules.restart.scope = kelson_spec::service::RestartScope::Group;
    let mut case = Case::new(rules);
    case.feed(Input::Begin);
    let fail = |case: &mut Case| {
        case.feed(Input::Opened(Err(RunnerError::new("no"))));
        case.feed(Input::Closed(Ok(())));
    };
    fail(&mut case);
    case.feed(Input::Timer(Timer::Backoff));
    fail(&mut case);
    assert_eq!((case.rests(), case.asked.len()), (true, 1));
    for _ in 0..2 {
        case.feed(Input::GroupStart { text: "why".into() });
        fail(&mut case);
        assert_eq!((case.rests(), case.service.state(), case.asked.len()), (true, State::Failed, 1));
        assert!(case.service.down(&case.rules));
    }
    // An operator gives it a new one.
    case.feed(Input::Start { request_id: 1 });
    fail(&mut case);
    case.feed(Input::Timer(Timer::Backoff));
    fail(&mut case);
    assert_eq!(case.asked.len(), 2);
}

#[test]
fn what_cannot_succeed_is_not_tried_again_until_it_has_changed() {
    for (kind, until) in [
        (ErrorKind::Permanent, "it is tried again once its file changes"),
        (ErrorKind::Image { archives: 7 }, "it is tried again once its file or an archive of images changes"),
    ] {
        let mut case = Case::new(rules());
        let refuse = |case: &mut Case| {
            case.feed(Input::Opened(Err(RunnerError::of_kind(kind, "no such image"))));
            case.feed(Input::Closed(Ok(())));
            assert_eq!((case.rests(), case.service.state(), case.service.restarts), (true, State::Failed, 0));
            assert_eq!(&*case.service.message, format!("preparing failed: no such image; {until}"));
            assert!(case.service.down(&case.rules) && case.service.is_refused());
        };
        case.feed(Input::Begin);
        refuse(&mut case);
        let image = kind != ErrorKind::Permanent;
        assert_eq!(case.work, if image { Work::AwaitArchives } else { Work::None });
        if image {
            case.feed(Input::ArchivesChanged);
            assert_eq!(case.work, Work::Open);
            refuse(&mut case);
        }
        case.feed(Input::NewSpec { has_when: false });
        assert_eq!(case.work, Work::Open);
        refuse(&mut case);
        // Somebody does not want it any more.
        case.feed(Input::Stop { request_id: 1, reason: StopReason::Operator });
        case.feed(Input::ArchivesChanged);
        case.feed(Input::NewSpec { has_when: false });
        assert_eq!((case.rests(), case.service.is_refused()), (true, false));
        case.feed(Input::Start { request_id: 2 });
        assert_eq!(case.work, Work::Open);
    }
}

/// Its schedule would start it again.
#[test]
fn who_stops_one_that_rests_between_its_times_ends_that() {
    for exit in [0, 1] {
        let mut case = scheduled();
        case.run();
        case.feed(Input::Exited { run: 1, exit: Exit::Status(exit) });
        case.cleared();
        case.feed(Input::Closed(Ok(())));
        assert_eq!((case.rests(), case.service.stopped()), (true, false));
        case.feed(Input::Stop { request_id: 1, reason: StopReason::Shutdown });
        assert!(!case.service.stopped());
        assert_eq!(case.stop(), Answer::Done);
        assert_eq!((case.service.state(), case.service.stopped()), (State::Stopped, true));
    }
}

#[test]
fn who_stops_one_while_a_run_is_cleaned_up_ends_its_times() {
    for exit in [0, 1] {
        for cleared in [false, true] {
            let mut case = scheduled();
            case.run();
            case.feed(Input::Exited { run: 1, exit: Exit::Status(exit) });
            if cleared {
                case.cleared();
            }
            assert!(!case.rests());
            assert_eq!(case.stop(), Answer::Done);
            if !cleared {
                case.cleared();
            }
            case.feed(Input::Closed(Ok(())));
            assert_eq!((case.rests(), case.service.stopped()), (true, true), "{exit} {cleared}");
            case.feed(Input::Due);
            assert!(case.rests(), "a start that was on its way comes too late");
        }
    }
}

#[test]
fn who_stops_one_for_a_time_leaves_it_to_its_schedule_after_that() {
    for is_slow in [false, true] {
        let mut case = scheduled();
        case.run();
        case.feed(Input::StopFor(Some(Duration::from_secs(60))));
        assert_eq!(case.stop(), Answer::Done);
        if is_slow {
            case.feed(Input::Timer(Timer::StopFor));
            assert!(case.service.stop_for.is_some(), "it is not at rest yet");
        }
        case.cleared();
        case.closed();
        assert!(case.service.stopped());
        case.feed(Input::Due);
        assert!(case.rests());
        case.feed(Input::Timer(Timer::StopFor));
        assert_eq!((case.rests(), case.service.state()), (true, State::Initialized));
        assert_eq!((case.service.stopped(), case.service.stop_for), (false, None));
        case.feed(Input::Due);
        assert!(!case.rests());
    }
}

#[test]
fn a_time_of_its_schedule_starts_one_at_rest_alone() {
    let mut case = scheduled();
    case.feed(Input::Due);
    assert!(!case.rests());
    let state = case.service.state();
    case.feed(Input::Due);
    assert_eq!(case.service.state(), state);
}

fn scheduled() -> Case {
    let mut case = Case::new(Rules { kind: ServiceKind::Oneshot, scheduled: true, ..rules() });
    case.rules.restart.policy = RestartPolicy::Once;
    case
}

#[test]
fn who_stops_one_that_has_failed_keeps_its_group_from_starting_it() {
    let mut rules = rules();
    rules.restart.policy = RestartPolicy::Once;
    let mut case = Case::new(rules);
    case.run();
    case.feed(Input::Exited { run: 1, exit: Exit::Status(1) });
    case.cleared();
    case.feed(Input::Closed(Ok(())));
    assert_eq!((case.service.state(), case.service.stopped()), (State::Failed, false));
    let answer = case.feed(Input::Stop { request_id: 1, reason: StopReason::Operator });
    assert_eq!(answer, Some(Answer::NothingToDo("it is failed already".into())));
    case.feed(Input::Stop { request_id: 2, reason: StopReason::Group("why".into()) });
    case.feed(Input::GroupStart { text: "why".into() });
    assert_eq!((case.rests(), case.service.down(&case.rules)), (true, true));
    case.feed(Input::Restart { request_id: 3 });
    case.feed(Input::Opened(Err(RunnerError::new("no"))));
    assert_eq!(case.service.stage(), Some(Stage::Closing), "it has just failed");
    case.feed(Input::Stop { request_id: 4, reason: StopReason::Group("why".into()) });
    case.feed(Input::Stop { request_id: 5, reason: StopReason::Operator });
    case.feed(Input::Closed(Ok(())));
    case.feed(Input::GroupStart { text: "why".into() });
    assert_eq!((case.rests(), case.service.down(&case.rules)), (true, true));
    case.feed(Input::Start { request_id: 6 });
    assert!(!case.rests());
}

#[test]
fn who_stops_one_that_has_just_ended_by_itself_keeps_its_group_from_starting_it() {
    let mut rules = rules();
    rules.restart.policy = RestartPolicy::Once;
    let mut case = Case::new(rules);
    case.run();
    case.exit(0);
    assert_eq!(case.service.stage(), Some(Stage::Closing));
    case.feed(Input::Stop { request_id: 1, reason: StopReason::Operator });
    case.feed(Input::Stop { request_id: 2, reason: StopReason::Group("why".into()) });
    case.feed(Input::Closed(Ok(())));
    case.feed(Input::GroupStart { text: "why".into() });
    assert_eq!((case.rests(), case.service.state()), (true, State::Finished));
    assert!(case.service.down(&case.rules), "nobody starts it: whoever waits for its end learns of it");
}

#[test]
fn a_stop_for_a_time_ends_by_itself_unless_somebody_was_there_first() {
    const HOUR: Duration = Duration::from_secs(3600);
    let stopped_for = |time: Option<Duration>| {
        let mut case = Case::new(rules());
        case.run();
        case.feed(Input::StopFor(time));
        assert_eq!(case.service.stop_for, time);
        assert_eq!(case.stop(), Answer::Done);
        case
    };
    // At rest, and while it is still stopping.
    let mut case = stopped_for(Some(HOUR));
    case.cleared();
    case.closed();
    assert!(case.service.stopped());
    case.feed(Input::Timer(Timer::StopFor));
    case.opened_and_spawned();
    assert!(case.up() && case.service.run == 2 && !case.service.stopped());
    let mut case = stopped_for(Some(HOUR));
    case.feed(Input::Timer(Timer::StopFor));
    case.cleared();
    case.opened_and_spawned();
    assert!(case.up());
    // Neither what runs again already, nor what leaves, nor a host that is stopping.
    case.feed(Input::Timer(Timer::StopFor));
    assert!(case.service.run == 2 && case.service.active().is_some());
    for input in [Input::Leaving, Input::Closing] {
        let mut case = stopped_for(Some(HOUR));
        case.cleared();
        case.closed();
        case.feed(input);
        case.feed(Input::Timer(Timer::StopFor));
        assert!(case.rests());
    }
    // Another stop, for no time.
    let mut case = stopped_for(Some(HOUR));
    case.feed(Input::StopFor(None));
    assert_eq!(case.service.stop_for, None);
}

#[test]
fn one_that_left_processes_is_asked_whether_it_forks() {
    let mut case = Case::new(rules());
    case.run();
    case.now += Duration::from_millis(3);
    case.feed(Input::Exited { run: 1, exit: Exit::Status(0) });
    case.cleared_with(StopReport { outlived: 3, ..StopReport::default() });
    let told = case.told.last().unwrap();
    let how = "backoff: exited with status 0 after 3 ms and left 3 processes, which were killed: does it fork into the \
               background? Kelson wants it in the foreground, restarting in 1 s";
    assert!(told.starts_with(how), "{told}");
}

#[test]
fn who_is_deaf_to_its_signal_is_told_why_it_was_killed() {
    let mut case = Case::new(rules());
    case.run();
    case.feed(Input::Stop { request_id: 1, reason: StopReason::Operator });
    let deaf = Some(Deaf::Ignores);
    case.cleared_with(StopReport { killed: true, deaf, ..StopReport::default() });
    case.closed();
    let why = "stopped: stopped: asked by an operator; killed after 10 s: it ignores SIGTERM; does another stop.signal end it?";
    assert_eq!(case.told.last().unwrap(), why);
}

#[test]
fn a_start_without_a_limit_has_no_clock() {
    let endless = kelson_spec::units::NEVER;
    let mut case = Case::new(Rules { readiness: Readiness::Notify, start_timeout: endless, ..rules() });
    case.run();
    assert_eq!(case.told.last().unwrap(), "starting: PID 101 started, waiting for READY=1");
    assert_eq!(case.deadlines(), []);
}

#[test]
fn a_service_that_forks_is_ready_once_its_main_process_is_known() {
    let forks = || Case::new(Rules { readiness: Readiness::Forks, ..rules() });
    let exited = |status| Input::Exited { run: 1, exit: Exit::Status(status) };
    let mut case = forks();
    case.run();
    case.feed(exited(0));
    assert_eq!(
        (case.work, case.service.pid(), case.service.state()),
        (Work::FindMain, None, State::Starting)
    );
    case.feed(Input::MainFound(Ok(7)));
    assert_eq!((case.work, case.service.pid(), case.up()), (Work::None, Some(7), true));
    // Its end is the end of the run.
    case.exit(0);
    assert_eq!(case.service.state(), State::Backoff);

    // Not known in time, or not at all.
    for input in [Input::Timer(Timer::Start), Input::MainFound(Err(RunnerError::new("none is left")))] {
        let mut case = forks();
        case.run();
        case.feed(exited(0));
        case.now = secs_until_start(&case);
        case.feed(input);
        assert_eq!((case.work, case.service.state()), (Work::Stop, State::Stopping));
        case.cleared();
        assert_eq!(case.service.state(), State::Backoff);
    }

    // Its command fails.
    let mut case = forks();
    case.run();
    case.exit(3);
    assert_eq!(case.service.state(), State::Backoff);
}

fn secs_until_start(case: &Case) -> Duration {
    case.deadlines().iter().find(|(timer, _)| *timer == Timer::Start).expect("it has to be ready").1
}

#[test]
fn another_incarnation_looks_for_the_main_process_again() {
    let ended = Err(Exit::Lost);
    let attached = |found| Input::Attached { found, closing: false };
    let case = || {
        let mut case = Case::new(Rules { readiness: Readiness::Forks, ..rules() });
        case.run();
        case
    };
    // Its command had ended meanwhile.
    let mut meanwhile = case();
    meanwhile.feed(attached(Err(Exit::Status(0))));
    assert_eq!((meanwhile.work, meanwhile.service.pid()), (Work::FindMain, None));
    let mut failed = case();
    failed.feed(attached(ended));
    assert_eq!(failed.work, Work::Clear);
    // It was being looked for, or there is none.
    for main in [None, Some(0)] {
        let mut looked_for = case();
        looked_for.feed(Input::Exited { run: 1, exit: Exit::Status(0) });
        if let Some(pid) = main {
            looked_for.feed(Input::MainFound(Ok(pid)));
        }
        let was_up = looked_for.up();
        assert_eq!(was_up, main.is_some());
        looked_for.feed(attached(ended));
        assert_eq!((looked_for.work, looked_for.up()), (Work::FindMain, was_up));
        looked_for.feed(Input::MainFound(Ok(9)));
        assert_eq!((looked_for.service.pid(), looked_for.up()), (Some(9), true));
    }
    // It was known, and has ended.
    let mut known = case();
    known.feed(Input::Exited { run: 1, exit: Exit::Status(0) });
    known.feed(Input::MainFound(Ok(9)));
    known.feed(attached(ended));
    assert_eq!(known.work, Work::Clear);
}

#[test]
fn a_pre_hook_skips_the_service_and_its_post_hooks_run() {
    let hooks = HookKinds { pre: true, post: true, ..HookKinds::default() };
    let mut case = Case::new(Rules { hooks, ..rules() });
    case.feed(Input::Begin);
    case.feed(Input::Opened(Ok(())));
    case.feed(Input::Turn);
    case.feed(Input::PreSkips("its hook test exited with status 1".to_owned()));
    assert_eq!(case.work, Work::Post);
    case.feed(Input::PostDone(Vec::new()));
    case.closed();
    assert_eq!(case.service.state(), State::Skipped);
    assert_eq!(&*case.service.message, "skipped: its hook test exited with status 1");
    assert_eq!(case.service.restarts, 0);
}
