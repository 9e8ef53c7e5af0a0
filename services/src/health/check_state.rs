//! One check in one run: its state, its output, and the meaning of one more result.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::prober::{CheckAnswer, Verdict};
use kelson_proto::state::v1 as stored;
use tokio::time::Instant;

use super::asking::after;
use super::history::{History, instant_of};
use super::level::Level;
use super::output::{last_line, with_line};
use super::plan::Plan;
use super::totals::CheckTotals;
use crate::model::{CheckReport, Standing};
use crate::service_runner::words;
use crate::state_store::{CheckRecord, PastCheck};

/// Until a check first passes, and while its grace lasts, it asks at least so often: a start is up soon after it is
/// ready.
const EAGER: Duration = Duration::from_secs(1);
/// A result from elsewhere that is overdue by more than this is reported as late.
const LATE: Duration = Duration::from_secs(3);

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// One check.
pub struct CheckState {
    pub plan: Plan,
    kind: &'static str,
    level: Level,
    since: SystemTime,
    /// The same on the clock that nobody sets.
    entered: Instant,
    history: History,
    /// When it began to be asked in this run; `None`: it waits for the checks that gate the start.
    began: Option<Instant>,
    /// By when its next result is there, at the latest.
    due: Instant,
    /// Somebody asks it.
    asked: bool,
    /// Another process asks, and may be late.
    elsewhere: bool,
    /// Of all runs.
    totals: Option<Arc<CheckTotals>>,
    due_news: Option<CheckNews>,
    /// Where each result is written down, and when PID 1 began.
    record: Option<(CheckRecord, Instant)>,
}

/// The next action for a check.
pub enum Action {
    /// From now on, for the first time after `first`.
    Begin { first: Duration, timeout: Duration },
    /// It is not asked any more.
    End,
}

/// News of a check for the service's task; several results at once make one of these.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CheckNews {
    /// It passes or fails from now on, in words.
    pub change: Option<String>,
    /// It asks for a restart: why.
    pub restart: Option<String>,
}

impl CheckState {
    pub fn new(
        plan: Plan,
        kind: &'static str,
        elsewhere: bool,
        totals: Option<Arc<CheckTotals>>,
    ) -> CheckState {
        CheckState {
            plan,
            kind,
            level: Level::default(),
            since: SystemTime::now(),
            entered: Instant::now(),
            history: History::default(),
            began: None,
            due: Instant::now(),
            asked: false,
            elsewhere,
            totals,
            due_news: None,
            record: None,
        }
    }

    /// Writes its results down from now on, and goes on from what an earlier incarnation of PID 1 knew of it.
    pub fn remember(&mut self, record: CheckRecord, origin: Instant, past: Option<PastCheck>) {
        self.record = Some((record, origin));
        let Some(past) = past else { return };
        let Some(last) = past.last() else { return };
        let since = SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(last.since));
        self.level = Level::of_stored(last);
        self.since = since.unwrap_or_else(SystemTime::now);
        let at = |millis| origin.checked_add(Duration::from_millis(millis));
        self.entered = last.entered.and_then(at).unwrap_or_else(|| instant_of(self.since));
        self.began = origin.checked_add(Duration::from_micros(last.began));
        let heard = last.heard.and_then(at);
        self.history = History::recall(past, heard);
        if let Some(totals) = &self.totals {
            totals.stands(self.level.standing);
        }
    }

    fn write_down(&self) {
        let (Some((record, origin)), Some(began), Some((at, took))) =
            (&self.record, self.began, self.history.times_of_last())
        else {
            return;
        };
        let Some((passed, output)) = self.history.last() else { return };
        let mut written = stored::CheckRecord {
            began: micros(began.saturating_duration_since(*origin)),
            since: micros(self.since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()),
            entered: Some(millis(self.entered.saturating_duration_since(*origin))),
            at,
            heard: Some(millis(origin.elapsed())),
            took,
            passed,
            text: last_line(output),
            ..stored::CheckRecord::default()
        };
        self.level.store(&mut written);
        record.write(written);
    }

    /// Returns the next action for the check; `gated`: checks that gate the start have not passed yet.
    pub fn tend(&mut self, gated: bool, now: Instant) -> Option<Action> {
        if self.is_done() {
            return std::mem::take(&mut self.asked).then_some(Action::End);
        }
        if self.began.is_some() && !self.asked {
            // It was begun in an earlier incarnation of PID 1; when it is due is not written down.
            self.asked = true;
            let pause = self.pause();
            self.is_due_after(pause, now);
            return Some(Action::Begin { first: pause, timeout: self.plan.timeout });
        }
        if self.began.is_some() || (gated && !self.plan.startup) {
            return None;
        }
        (self.since, self.entered) = (SystemTime::now(), now);
        self.began = Some(now);
        self.asked = true;
        self.is_due_after(self.plan.initial_delay, now);
        Some(Action::Begin { first: self.plan.initial_delay, timeout: self.plan.timeout })
    }

    fn is_due_after(&mut self, pause: Duration, now: Instant) {
        let jitter = pause.checked_div(10).unwrap_or_default();
        self.due = after(after(now, pause.saturating_add(jitter)), self.plan.timeout);
    }

    pub fn standing(&self) -> Standing {
        self.level.standing
    }

    /// Since when it stands so.
    pub fn since(&self) -> (SystemTime, Instant) {
        (self.since, self.entered)
    }

    /// It gated the start, and no longer does: it is not asked again in this run.
    fn is_done(&self) -> bool {
        self.plan.startup && self.level.proven
    }

    /// It still keeps the other checks from beginning.
    pub fn gates(&self) -> bool {
        self.plan.startup && !self.level.proven
    }

    /// From one result to the next question, without jitter.
    pub fn pause(&self) -> Duration {
        if self.is_eager() { self.plan.interval.min(EAGER) } else { self.plan.interval }
    }

    fn is_eager(&self) -> bool {
        !self.level.proven && self.in_grace()
    }

    fn in_grace(&self) -> bool {
        self.began.is_some_and(|began| began.elapsed() < self.plan.grace)
    }

    /// Takes in a result. News of it waits in [`CheckState::due_news`]: mostly there is none.
    pub fn take(&mut self, answer: CheckAnswer) {
        let CheckAnswer { at, took, verdict, text } = answer;
        if self.is_done() || self.began.is_none() {
            return;
        }
        let passed = verdict == Verdict::Passes;
        let counts = !self.in_grace();
        let before = self.level.standing;
        // A check that passes and goes on passing tells nobody: that is what nearly all results are.
        let why = (before != Standing::Passing).then(|| self.why());
        let text = match verdict {
            Verdict::Passes | Verdict::Fails => text,
            Verdict::Silent => {
                let silent = format!("no answer within {}", words::duration(self.plan.timeout));
                with_line(text.to_string(), &silent).into()
            }
        };
        self.history.push(at, took, passed, text);
        let change = self.level.take(&self.plan, passed, counts);
        if let Some(totals) = &self.totals {
            totals.add(passed, took, self.level.standing);
        }
        self.is_due_after(self.pause(), Instant::now());

        if change.standing {
            (self.since, self.entered) = (at, Instant::now());
        }
        self.write_down();
        let name = &self.plan.name;
        let changed = change.standing.then(|| match passed {
            true => format!("check {name} passes"),
            false => format!("check {name} fails: {}", self.why()),
        });
        let restart = change.restart.map(|count| {
            let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
            format!("check {name} failed {times}: {}", self.why())
        });
        let reworded = why.is_some_and(|why| why != self.why());
        if changed.is_some() || restart.is_some() || reworded {
            let due_news = self.due_news.get_or_insert_default();
            due_news.change = changed.or(due_news.change.take());
            due_news.restart = restart.or(due_news.restart.take());
        }
    }

    /// Its news; each once.
    pub fn due_news(&mut self) -> Option<CheckNews> {
        self.due_news.take()
    }

    /// There is news of it.
    pub fn has_news(&self) -> bool {
        self.due_news.is_some()
    }

    /// Describes the last result in a line.
    pub fn why(&self) -> String {
        match self.history.last() {
            None => "no result yet".into(),
            Some((true, _)) => {
                format!("passed, but not {} times in a row", self.plan.success_threshold)
            }
            Some((false, output)) => match last_line(output) {
                line if line.is_empty() => "failed without a word".into(),
                line => line,
            },
        }
    }

    /// How long its next result is overdue, where that is worth telling.
    fn late(&self) -> Option<Duration> {
        let asked = self.elsewhere && self.began.is_some() && !self.is_done();
        asked.then(|| Instant::now().saturating_duration_since(self.due)).filter(|late| *late >= LATE)
    }

    pub fn report(&self) -> CheckReport {
        CheckReport {
            name: Arc::clone(&self.plan.name),
            kind: self.kind,
            startup: self.plan.startup,
            registration: self.plan.registration,
            standing: self.level.standing,
            since: self.began.map(|_| self.since),
            lasts: self.began.map(|_| self.entered.elapsed()),
            late: self.late(),
            results: self.history.report(),
        }
    }
}
