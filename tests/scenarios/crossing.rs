//! The cases of the covering array (docs/simulation.md) on real hosts, several side by side, judged by the same model as
//! in the simulation.
//!
//! Left out is what no PID namespace has: a suspend, and a clock that the test sets. A container is played as a process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::Duration;
use std::{fs, thread};

use cases::{Case, Condition, End, Moment, Trigger};
use files::{HEALTH_DEADLINE, delay};
use kelson_tests::{Host, PATIENCE, until};
use model::{Expected, Rest, most_work};

#[path = "../../services/tests/supervision/crossing/cases.rs"]
#[allow(dead_code, reason = "no workload: a container is played as a process")]
mod cases;
#[path = "../../services/tests/supervision/crossing/covering.rs"]
mod covering;
mod files;
#[path = "../../services/tests/supervision/crossing/model.rs"]
mod model;

/// Hosts that run at the same time.
const HOSTS: usize = 8;
/// Longer than any check or hook of a case, and than each delay but the longest.
const CALM: Duration = Duration::from_millis(300);
/// Runs that a case can have at most.
const RUNS: u32 = 12;

struct Play {
    case: Case,
    host: Host,
}

impl Play {
    fn new(case: Case) -> Play {
        let crashes = [case.first, case.second].iter().filter(|trigger| **trigger == Trigger::Segv).count();
        let builder = Host::builder().argument("--crash-limit").argument(&format!("{}/1h", crashes + 1));
        Play { case, host: files::of(&case, builder).start() }
    }

    fn play(mut self) {
        let (case, first) = (self.case, Expected::after_first(&self.case));
        self.begin();
        self.trigger(case.first, Play::free);
        self.judge(first);
        if case.first.ends_the_host() {
            return;
        }
        self.end();
        let ended = first.after_end(&case);
        self.judge(ended);
        for run in 1..=RUNS {
            let _ = fs::remove_file(self.host.path(&format!("end.{run}")));
        }
        self.touch("well");
        self.trigger(case.second, |_| ());
        self.judge(ended.after_second(&case));
    }

    fn touch(&self, name: &str) {
        self.host.touch(name);
    }

    /// How often the process has been started.
    fn runs(&self) -> u32 {
        let runs = fs::read_to_string(self.host.path("runs")).unwrap_or_default();
        u32::try_from(runs.lines().count()).expect("few")
    }

    /// Brings the service to the moment of the first trigger.
    fn begin(&self) {
        let host = &self.host;
        self.touch("well");
        if self.case.moment != Moment::Preparing {
            self.touch("go");
        }
        match self.case.moment {
            Moment::Waiting => drop(host.wait_state("one", "waiting")),
            Moment::Preparing | Moment::Starting => {
                self.open();
                let begun = if self.case.moment == Moment::Preparing { "calls" } else { "runs" };
                host.wait_file(begun);
                assert!(!host.service("one").up);
            }
            Moment::Up | Moment::Backoff => {
                self.free();
                host.wait_up("one");
                if self.case.moment == Moment::Backoff {
                    self.touch("end.1");
                    host.wait_state("one", "backoff");
                }
            }
        }
    }

    /// Makes the condition of the service hold from now on. PID 1 may crash meanwhile.
    fn open(&self) {
        let ask = |action: &str| {
            let done = || (self.host.ctl(&[action, "other"]).status == 0).then_some(());
            until(&format!("an answer to {action}"), PATIENCE, done);
        };
        match self.case.condition {
            Condition::Nothing
            | Condition::Path
            | Condition::Network
            | Condition::TimeSynced
            | Condition::Mount
            | Condition::Device
            | Condition::Interface => {}
            Condition::Up | Condition::Running | Condition::Any => ask("start"),
            Condition::Finished if self.host.path("finished").exists() => {}
            Condition::Finished => ask("start"),
            Condition::Down => ask("stop"),
        }
    }

    /// Nothing holds the service up any more.
    fn free(&self) {
        self.touch("go");
        self.touch("ready");
        self.open();
    }

    /// Performs the trigger, and `next` after it. PID 1 crashes in the middle of that.
    fn trigger(&self, trigger: Trigger, next: fn(&Play)) {
        let host = &self.host;
        // Whether it was done or refused is for the model.
        let ask = |action: &str| drop(host.ctl(&[action, "one"]));
        match trigger {
            Trigger::None => {}
            Trigger::Start => ask("start"),
            Trigger::Stop => ask("stop"),
            Trigger::Restart => ask("restart"),
            Trigger::Reload => {
                self.files_are_there(true);
                self.host.write_service("one", &files::one(&self.case, true));
                self.host.ctl(&["reload"]).ok();
            }
            Trigger::UnreadReload => {
                self.files_are_there(false);
                let said = self.host.ctl(&["reload"]);
                assert_ne!(said.status, 0, "{said:?}");
            }
            Trigger::Reexec => drop(host.ctl(&["reexec"]).ok()),
            Trigger::Segv => {
                let soon = Duration::from_millis(self.case.number as u64 % 16);
                host.crash(|| {
                    thread::scope(|scope| {
                        scope.spawn(|| {
                            thread::sleep(soon);
                            host.signal(libc::SIGSEGV);
                        });
                        next(self);
                    });
                });
                return;
            }
            Trigger::CrashLimit => return host.signal(libc::SIGSEGV),
            Trigger::Shutdown => return drop(host.ctl(&["poweroff", "--no-wait"]).ok()),
            Trigger::Suspend => unreachable!("left out"),
        }
        next(self);
    }

    /// The next reload finds the files, or finds none.
    fn files_are_there(&self, there: bool) {
        let (config, away) = (self.host.path("config"), self.host.path("away"));
        let (from, to) = if there { (away, config) } else { (config, away) };
        if from.exists() {
            fs::rename(from, to).expect("the test's folder is writable");
        }
    }

    fn end(&self) {
        let run = self.runs();
        match self.case.end {
            End::Never => {}
            End::Success => {
                self.touch(&format!("success.{run}"));
                self.touch(&format!("end.{run}"));
            }
            End::Failure => self.touch(&format!("end.{run}")),
            End::Failures => (run..=RUNS).for_each(|run| self.touch(&format!("end.{run}"))),
            End::Check => fs::remove_file(self.host.path("well")).expect("it is ours"),
        }
    }

    fn judge(&mut self, expected: Expected) {
        if expected.rest == Rest::Over {
            self.host.wait_exit();
            assert_eq!(self.runs(), expected.runs, "{expected:?}\n{}", self.host.console());
            return;
        }
        let is_so = |one: &kelson_tests::Service| {
            let as_expected = match expected.rest {
                Rest::Up => one.up,
                Rest::Finished => one.state == "finished" && !one.stopped,
                Rest::Failed => one.state == "failed",
                Rest::Stopped => one.state == "stopped" && one.stopped,
                Rest::Over => false,
            };
            as_expected && self.runs() == expected.runs
        };
        self.host.wait_for("one", &format!("{expected:?}"), is_so);
        // It stays so.
        thread::sleep(CALM + delay(&self.case) * 3 / 2);
        let one = self.host.service("one");
        assert!(is_so(&one), "{expected:?}, {} runs: {one:?}", self.runs());
        let events = self.host.events();
        let restarts = events.iter().filter(|event| event.message.starts_with("group group restarts: "));
        assert_eq!(restarts.count(), expected.group_restarts as usize, "{expected:?}");
        let calls = fs::read_to_string(self.host.path("calls")).unwrap_or_default().lines().count();
        let own = events.iter().filter(|event| event.service == "one").count();
        let most = most_work(expected.runs);
        assert!(calls <= most && own <= 2 * most, "{calls} hooks, {own} events: {expected:?}");
        let health: serde_json::Value =
            serde_json::from_str(&self.host.ctl(&["health", "-o", "json"]).stdout).expect("health in JSON");
        assert_eq!(health["deadlineMs"], HEALTH_DEADLINE, "what the boot read is forgotten");
    }
}

fn can_be_played(case: &Case) -> bool {
    case.condition != Condition::TimeSynced && ![case.first, case.second].contains(&Trigger::Suspend)
}

#[test]
fn long_each_case_comes_to_the_same_on_a_host() {
    let (mut all, _) = cases::all();
    let chosen = std::env::var("KELSON_CASE").ok().map(|number| number.parse::<usize>().expect("a number"));
    all.retain(|case| can_be_played(case) && chosen.is_none_or(|number| number == case.number));
    let (count, left, failed) = (all.len(), Mutex::new(all.into_iter()), Mutex::new(Vec::new()));
    let next = || left.lock().expect("nobody panics with it").next();
    thread::scope(|scope| {
        for _ in 0..HOSTS {
            scope.spawn(|| {
                while let Some(case) = next() {
                    if catch_unwind(AssertUnwindSafe(|| Play::new(case).play())).is_err() {
                        eprintln!("KELSON_CASE={} plays it alone: {case:?}", case.number);
                        failed.lock().expect("nobody panics with it").push(case.number);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("nobody panics with it");
    assert!(failed.is_empty(), "{} of {count} cases failed: {failed:?}", failed.len());
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/simulation.md");
    let told = format!("plays {count} of the cases");
    let is_told = fs::read_to_string(page).expect("the page is there").contains(&told);
    assert!(chosen.is_some() || is_told, "docs/simulation.md does not say {told:?}");
}
