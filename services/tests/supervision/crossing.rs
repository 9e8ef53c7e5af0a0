//! Each kind of condition, hook, readiness, policy, scope and workload crossed with each thing that can happen to a
//! service, at each moment. `cases` makes a covering array of them, `model` says what each must come to.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cases::{Case, Condition, End, Moment, Trigger};
use files::files;
use kelson_runner::Exit;
use kelson_services::last_resort;
use kelson_services::model::State;
use kelson_services::state_store::Kind;
use kelson_spec::Loaded;
use model::{ATTEMPTS, Expected, Rest, most_work};
use tokio::time::Instant;

use crate::clocks;
use crate::fate::Fate;
use crate::health_commands::{fails, passes};
use crate::house::*;

mod cases;
mod covering;
mod files;
mod model;

/// Longer than any backoff, delay or check of a case.
const CALM: Duration = Duration::from_secs(60);
/// When and how a `pre` hook ends. Not at once: the clock must advance also where hooks run again and again.
const PREPARED: (Duration, Exit) = (Duration::from_millis(100), Exit::Status(0));

/// A step of a case, one after the other. A step in which PID 1 dies is done again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Brings the service to the moment of the first trigger.
    Begin,
    First,
    /// Nothing holds the service up any more.
    Free,
    JudgeFirst,
    End,
    JudgeEnd,
    Heal,
    Second,
    JudgeSecond,
}

const STEPS: [Step; 9] = {
    use Step::*;
    [Begin, First, Free, JudgeFirst, End, JudgeEnd, Heal, Second, JudgeSecond]
};

struct Play {
    case: Case,
    at: usize,
    /// PID 1 dies in the step that comes.
    dies: bool,
    /// The next incarnation stops everything.
    at_the_limit: bool,
    closing: bool,
}

impl Play {
    fn new(case: Case) -> Play {
        Play { case, at: 0, dies: false, at_the_limit: false, closing: false }
    }

    /// Plays to the end, or until PID 1 dies: then it returns what is left.
    async fn go_on(&mut self, fate: &Arc<Fate>, before: Option<Ruin>) -> Option<Ruin> {
        let house = match before {
            None => self.boot().await,
            Some(mut ruin) => {
                ruin.time_goes_on().await;
                ruin.stage = ruin.stage.another_life(Arc::clone(fate));
                let origin = Instant::now() - ruin.age;
                if self.at_the_limit {
                    last_resort(&ruin, origin).await;
                    return None;
                }
                let (house, _) = House::takes_up(ruin, origin, self.closing, |_| {}).await;
                match self.closing {
                    true => self.stop_all(&house),
                    false => house.manager.begin(),
                }
                house
            }
        };
        while let Some(step) = STEPS.get(self.at) {
            let armed = self.dies;
            let dies = tokio::select! {
                biased;
                () = fate.died() => true,
                dies = self.step(*step, &house, fate) => dies,
            };
            if armed {
                self.dies = false;
            } else {
                self.at += 1;
            }
            if armed || dies {
                if !fate.is_dead() {
                    fate.die("between two of its deeds");
                }
                return Some(house.ruin());
            }
        }
        None
    }

    async fn boot(&self) -> House {
        clocks::begin();
        // No clock of a later incarnation stands behind this one's.
        tokio::time::advance(secs(3600)).await;
        let house = House::new();
        let pre = (self.case.moment != Moment::Preparing).then_some(PREPARED);
        house.manners("one", |one| one.hook("pre", pre));
        house.manager.take_in(loaded(files(&self.case, false))).await;
        house.manager.begin();
        house
    }

    /// True: PID 1 is to die now.
    async fn step(&mut self, step: Step, house: &House, fate: &Arc<Fate>) -> bool {
        let case = self.case;
        match step {
            Step::Begin => begin(&case, house).await,
            Step::First => return self.trigger(case.first, house, fate).await,
            Step::Free => free(&case, house).await,
            Step::JudgeFirst => judge(Expected::after_first(&case), house).await,
            Step::End => end(&case, house).await,
            Step::JudgeEnd => judge(Expected::after_first(&case).after_end(&case), house).await,
            Step::Heal => house.played("one", |one| one.commands.set("check", passes())),
            Step::Second => return self.trigger(case.second, house, fate).await,
            Step::JudgeSecond => {
                judge(Expected::after_first(&case).after_end(&case).after_second(&case), house).await;
            }
        }
        false
    }

    async fn trigger(&mut self, trigger: Trigger, house: &House, fate: &Arc<Fate>) -> bool {
        let one = names(&["one"]);
        match trigger {
            Trigger::None => {}
            Trigger::Start => drop(house.manager.start(&one, false).await),
            Trigger::Stop => drop(house.manager.stop(&one, false, false).await),
            Trigger::Restart => drop(house.manager.restart(&one, false).await),
            Trigger::Reload => drop(house.manager.reload(loaded(files(&self.case, true))).await),
            Trigger::UnreadReload => {
                let diagnostics = vec![fault(None, "/etc/kelson/services", "it cannot be read")];
                let report = house.manager.reload(Loaded { diagnostics, ..Loaded::default() }).await;
                assert!(report.is_err(), "{report:?}");
            }
            Trigger::Reexec => return true,
            Trigger::Segv => {
                self.dies = true;
                fate.dies_after(self.case.number as u64 % 16, 7);
            }
            Trigger::Suspend => clocks::suspend(secs(30 * 24 * 3600)),
            Trigger::CrashLimit => {
                self.at_the_limit = true;
                return true;
            }
            Trigger::Shutdown => {
                house.host_context.store.as_ref().unwrap().write(Kind::Intent, "", &"power off");
                self.closing = true;
                self.stop_all(house);
                house.settle().await;
            }
        }
        false
    }

    fn stop_all(&self, house: &House) {
        let manager = house.manager.clone();
        tokio::spawn(async move { manager.stop_all(Instant::now() + secs(600), &[]).await });
    }
}

async fn begin(case: &Case, house: &House) {
    match case.moment {
        Moment::Waiting => {
            calm(house, false).await;
            assert_eq!(house.state("one"), State::Waiting);
        }
        Moment::Preparing | Moment::Starting => {
            open(case, house).await;
            // As long as it may take until what it waits for is known, and no longer.
            let begun = async {
                let of_main = case.moment == Moment::Starting;
                while !house.played("one", |one| one.lives() && one.main().is_some() == of_main) {
                    house.settle().await;
                }
            };
            tokio::time::timeout(CALM, begun).await.unwrap();
            assert!(!house.now("one").up);
        }
        Moment::Up | Moment::Backoff => {
            free(case, house).await;
            assert!(house.now("one").up, "{:?}", house.now("one"));
            if case.moment == Moment::Backoff {
                house.exit("one", 1).await;
                while house.state("one") != State::Backoff {
                    house.settle().await;
                }
            }
        }
    }
}

/// Makes the condition of the service hold from now on.
async fn open(case: &Case, house: &House) {
    let other = names(&["other"]);
    match case.condition {
        Condition::Nothing
        | Condition::Path
        | Condition::Network
        | Condition::Mount
        | Condition::Device
        | Condition::Interface => {}
        Condition::Up | Condition::Running | Condition::Any => {
            house.manager.start(&other, false).await;
        }
        Condition::Finished if house.now("other").finished => {}
        Condition::Finished => {
            house.manager.start(&other, false).await;
            house.settle().await;
            house.exit("other", 0).await;
        }
        Condition::Down => drop(house.manager.stop(&other, false, false).await),
        Condition::TimeSynced => house.stage.clock.store(true, Ordering::Relaxed),
    }
    house.settle().await;
}

async fn free(case: &Case, house: &House) {
    house.manners("one", |one| one.hook("pre", Some(PREPARED)));
    if house.played("one", |one| one.lives() && one.main().is_none()) {
        house.exit("one", 0).await;
    }
    open(case, house).await;
    calm(house, true).await;
}

/// Lets everything happen that comes by itself; `ready`: the process says that it is.
async fn calm(house: &House, ready: bool) {
    for _ in 0..CALM.as_secs() {
        if ready {
            // One that does not run has no socket, and one that is ready no descriptor.
            let _ = house.sent.send_to(b"READY=1", house.notify_socket("one"));
            let descriptor = house.stage.of("one").lock().unwrap().descriptors.pop();
            let _ = descriptor.map(|(end, _)| std::fs::File::from(end).write_all(b"\n"));
        }
        tokio::time::sleep(secs(1)).await;
    }
}

async fn end(case: &Case, house: &House) {
    match case.end {
        End::Never => {}
        End::Success => house.exit("one", 0).await,
        End::Failure => house.exit("one", 1).await,
        End::Failures => {
            for _ in 0..2 * (ATTEMPTS + 2) {
                house.exit("one", 1).await;
                calm(house, true).await;
            }
        }
        End::Check => house.played("one", |one| one.commands.set("check", fails("no"))),
    }
}

async fn judge(expected: Expected, house: &House) {
    calm(house, true).await;
    let now = house.now("one");
    let as_expected = match expected.rest {
        Rest::Up => now.up,
        Rest::Finished => now.state == State::Finished && now.finished && !now.stopped,
        Rest::Failed => now.state == State::Failed,
        Rest::Stopped => now.state == State::Stopped && now.stopped,
        Rest::Over => now.state.at_rest(),
    };
    let group_restarts = house.manager.group_restarts().get("group").copied().unwrap_or_default();
    let (runs, calls) = house.played("one", |one| (one.runs, one.calls.clone()));
    assert!(as_expected, "{expected:?}: {now:?}");
    assert_eq!((runs, group_restarts), (expected.runs, u64::from(expected.group_restarts)), "{now:?}");
    let (most, told) = (most_work(runs), house.told("one"));
    assert!(calls.len() <= most, "{} calls for {runs} runs: {calls:#?}", calls.len());
    assert!(told.len() <= 2 * most, "{} events for {runs} runs: {told:#?}", told.len());
    house.check();
}

/// PID 1 has crashed too often: everything stops from its records alone.
async fn last_resort(ruin: &Ruin, origin: Instant) {
    let mut past = ruin.past();
    tokio::spawn(ruin.stage.clone().reap(past.store.clone()));
    let main = |name: &str| ruin.stage.of(name).lock().unwrap().main();
    let (ran, began) = (main("one").is_some(), Instant::now());
    let stopped = last_resort::stop(&mut past, &ruin.stage, began - origin, began + secs(3600));
    tokio::time::timeout(secs(600), stopped).await.unwrap();
    ruin.stage.each(|name, played| {
        assert!(
            !played.lives() && played.wrongs.is_empty(),
            "{name}: {:?}, {:?}",
            played.wrongs,
            played.calls
        );
    });
    let said = ruin.stage.of("one").lock().unwrap().said();
    assert!(!ran || said.iter().any(|call| call == "signal 15"), "{said:?}");
}

fn play(case: Case) {
    let mut play = Play::new(case);
    let mut ruin = None;
    loop {
        let fate = Fate::never();
        ruin = fate.play(|| {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_all().start_paused(true).build().unwrap();
            runtime.block_on(play.go_on(&fate, ruin.take()))
        });
        if ruin.is_none() {
            return;
        }
    }
}

#[test]
fn each_case_comes_to_what_the_documents_say() {
    let (all, pairs) = cases::all();
    let chosen = std::env::var("KELSON_CASE").ok().map(|number| number.parse::<usize>().unwrap());
    let mut failed = Vec::new();
    for case in all.iter().filter(|case| chosen.is_none_or(|number| number == case.number)) {
        if catch_unwind(AssertUnwindSafe(|| play(*case))).is_err() {
            eprintln!("KELSON_CASE={} plays it alone: {case:?}", case.number);
            failed.push(case.number);
        }
    }
    assert!(failed.is_empty(), "{} of {} cases failed: {failed:?}", failed.len(), all.len());
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/simulation.md");
    let told = format!("{pairs} pairs in {} cases", all.len());
    assert!(
        std::fs::read_to_string(page).unwrap().contains(&told),
        "docs/simulation.md does not say {told:?}"
    );
}
