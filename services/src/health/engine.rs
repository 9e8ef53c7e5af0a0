//! Runs the checks of one run when they are due, and tells what comes of it.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use crate::prober::CheckAnswer;
use kelson_runner::BoxFuture;
use tokio::time::Instant;

use super::asking::{Asked, after, ask, with_jitter};
use super::asks::Asks;
use super::check_state::{Action, CheckNews, CheckState};
use super::level;
use super::network::Watched;
use super::plan::{Plan, Probe};
use super::totals::CheckTotals;
use crate::model::{CheckReport, Standing};
use crate::service_runner::random::Random;
use crate::state_store::{CheckRecord, PastCheck};

/// How many of the checks that keep a service from being up are named.
const NAMED: usize = 3;

/// All checks of one run.
pub struct Checks {
    table: Arc<StatusTable>,
    /// In the order of the table.
    askers: Vec<Asker>,
    random: Random,
    /// The service is ready.
    ready: bool,
}

/// A check as a run begins with it.
pub struct ToMind {
    pub plan: Plan,
    pub asks: Asks,
    /// Where its results are counted over all runs.
    pub totals: Option<Arc<CheckTotals>>,
    /// Where they are written down.
    pub recall: Option<Recall>,
}

/// The part of a check that outlives PID 1.
pub struct Recall {
    pub record: CheckRecord,
    /// When PID 1 began.
    pub origin: Instant,
    /// The results of this run that an earlier incarnation recorded.
    pub past: Option<PastCheck>,
}

/// How a check is asked at present.
enum Asker {
    /// Not yet: it waits for the checks that gate the start.
    Later(Asks),
    /// Waits until it is due, then asks.
    Here(Arc<dyn Probe>, BoxFuture<'static, Asked>),
    Elsewhere(#[expect(dead_code, reason = "dropping it ends the asking")] Box<dyn Watched>),
    Done,
}

/// How the checks of a run stand. The task of the service reads it, and results from elsewhere are written to it as
/// they come; the lock is held for a moment, never over an await.
struct StatusTable {
    state: Mutex<State>,
}

struct State {
    checks: Vec<CheckState>,
    /// Wakes the service's task.
    waker: Option<Waker>,
}

/// A check that does not pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingCheck {
    pub name: Arc<str>,
    pub why: Arc<str>,
    /// Since when it stands so.
    pub since: (SystemTime, Instant),
}

/// The meaning of new results for the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// Which checks pass or fail from now on, in words.
    pub changes: Vec<String>,
    pub healthy: Option<bool>,
    /// Which checks it waits for, and why; empty where each passes.
    pub missing: String,
    /// The service is to be restarted, and why.
    pub restart: Option<String>,
}

impl Checks {
    /// Begins the checks of a run that is ready: those that gate its start, or all where there are none such.
    pub fn begin(checks: impl IntoIterator<Item = ToMind>, random: Random) -> Checks {
        let (check_state, askers) = checks
            .into_iter()
            .map(|ToMind { plan, asks, totals, recall }| {
                let elsewhere = matches!(asks, Asks::Elsewhere(..));
                let mut check_state = CheckState::new(plan, asks.kind(), elsewhere, totals);
                if let Some(Recall { record, origin, past }) = recall {
                    check_state.remember(record, origin, past);
                }
                (check_state, Asker::Later(asks))
            })
            .unzip();
        let table = StatusTable { state: Mutex::new(State { checks: check_state, waker: None }) };
        let mut checks = Checks { table: Arc::new(table), askers, random, ready: true };
        checks.tend();
        checks
    }

    /// Waits for the next result that changes something, and returns its meaning. Cancelled by dropping;
    /// loses nothing then.
    pub async fn next(&mut self) -> News {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<News> {
        for (place, asker) in self.askers.iter_mut().enumerate() {
            let Asker::Here(probe, asking) = asker else { continue };
            let Poll::Ready(Asked { answer, ending }) = asking.as_mut().poll(context) else { continue };
            let Some((pause, timeout)) = self.table.take(place, answer) else { continue };
            let due = after(Instant::now(), with_jitter(pause, self.random.draw()));
            *asking = ask(Arc::clone(probe), due, timeout, ending);
            // It has to be polled to be woken; another turn does that, after those of others.
            context.waker().wake_by_ref();
        }
        if self.table.has_news(context.waker()) {
            self.tend();
        }
        match self.table.due_news() {
            Some(news) => Poll::Ready(news),
            None => Poll::Pending,
        }
    }

    /// Begins the checks whose time has come, and ends those that are done.
    fn tend(&mut self) {
        let now = Instant::now();
        let gated = self.table.lock().is_gated();
        for (place, asker) in self.askers.iter_mut().enumerate() {
            // Not under the lock: the asker may have an answer at once.
            match self.table.tend(place, gated, now) {
                Some(Action::Begin { first, timeout }) => {
                    let asks = std::mem::replace(asker, Asker::Done);
                    let sink = Sink { table: Arc::downgrade(&self.table), place };
                    *asker = match asks {
                        Asker::Later(Asks::Here(probe)) => {
                            let asking = ask(Arc::clone(&probe), after(now, first), timeout, None);
                            Asker::Here(probe, asking)
                        }
                        Asker::Later(Asks::Elsewhere(network, schedule)) => {
                            Asker::Elsewhere(network.watch(*schedule, Arc::new(sink)))
                        }
                        begun => begun,
                    };
                }
                Some(Action::End) => *asker = Asker::Done,
                None => {}
            }
        }
    }

    /// Whether the service has become ready again since this was last asked.
    pub fn turns_ready(&mut self, ready: bool) -> bool {
        let before = std::mem::replace(&mut self.ready, ready);
        ready && !before
    }

    /// All checks of its health together: each passes, one fails, or not each has shown either.
    pub fn healthy(&self) -> Option<bool> {
        self.table.lock().healthy()
    }

    /// `check http: connection refused; check db: no result yet`.
    pub fn missing(&self) -> String {
        self.table.lock().missing(false)
    }

    /// The same of the checks of its registration; empty where each passes.
    pub fn missing_of_registration(&self) -> String {
        self.table.lock().missing(true)
    }

    /// Each check that does not pass.
    pub fn missing_ones(&self) -> Vec<MissingCheck> {
        let state = self.table.lock();
        let missing = state.checks.iter().filter(|check| check.standing() != Standing::Passing);
        missing
            .map(|check| MissingCheck {
                name: Arc::clone(&check.plan.name),
                why: Arc::from(check.why()),
                since: check.since(),
            })
            .collect()
    }

    pub fn reports(&self) -> Vec<CheckReport> {
        self.table.lock().checks.iter().map(CheckState::report).collect()
    }
}

impl StatusTable {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a result, and wakes the service's task where something follows from it. After which pause the check is
    /// asked next, and how long an answer may take.
    fn take(&self, place: usize, answer: CheckAnswer) -> Option<(Duration, Duration)> {
        let mut state = self.lock();
        let check = state.checks.get_mut(place)?;
        check.take(answer);
        let next = (check.pause(), check.plan.timeout);
        if check.has_news()
            && let Some(waker) = state.waker.take()
        {
            drop(state);
            waker.wake();
        }
        Some(next)
    }

    /// Whether there is news of a check; if not, `waker` is woken once there is.
    fn has_news(&self, waker: &Waker) -> bool {
        let mut state = self.lock();
        match &mut state.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
        state.checks.iter().any(CheckState::has_news)
    }

    fn tend(&self, place: usize, gated: bool, now: Instant) -> Option<Action> {
        self.lock().checks.get_mut(place)?.tend(gated, now)
    }

    /// The news of all checks, and their sum now: answers come many at once.
    fn due_news(&self) -> Option<News> {
        let mut state = self.lock();
        let due_news: Vec<CheckNews> = state.checks.iter_mut().filter_map(CheckState::due_news).collect();
        if due_news.is_empty() {
            return None;
        }
        let missing = state.missing(false);
        let mut news = News { changes: Vec::new(), healthy: state.healthy(), missing, restart: None };
        for CheckNews { change, restart } in due_news {
            news.changes.extend(change);
            // One restart, however many ask for it.
            news.restart = news.restart.or(restart);
        }
        Some(news)
    }
}

/// Where the answers to one check of one run go. Answers after the end of the run go nowhere.
struct Sink {
    table: Weak<StatusTable>,
    /// The check's place in the table.
    place: usize,
}

impl crate::prober::Sink for Sink {
    fn take(&self, answer: CheckAnswer) {
        if let Some(table) = self.table.upgrade() {
            table.take(self.place, answer);
        }
    }
}

impl State {
    /// The checks that gate the start have not all passed.
    fn is_gated(&self) -> bool {
        self.checks.iter().any(CheckState::gates)
    }

    fn healthy(&self) -> Option<bool> {
        let of_health = self.checks.iter().filter(|check| !check.plan.registration);
        level::health(of_health.map(CheckState::standing))
    }

    /// Those that do not pass, of its registration or of its health.
    fn missing(&self, registration: bool) -> String {
        let gated = self.is_gated();
        let awaited = |check: &&CheckState| {
            let Plan { startup, registration: is_of_registration, .. } = check.plan;
            check.standing() != Standing::Passing
                && is_of_registration == registration
                && (registration || startup == gated)
        };
        let missing = self.checks.iter().filter(awaited);
        let mut texts: Vec<String> = missing
            .clone()
            .take(NAMED)
            .map(|check| format!("check {}: {}", check.plan.name, check.why()))
            .collect();
        let more = missing.count().saturating_sub(texts.len());
        if more > 0 {
            texts.push(format!("{more} more"));
        }
        texts.join("; ")
    }
}
