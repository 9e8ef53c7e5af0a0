//! Runs the checks of one run when they are due, and tells what comes of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use kelson_runner::BoxFuture;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::level::{self, Level};
use super::output::{last_line, with_line};
use super::{Answer, Plan, Probe, Verdict};
use crate::model::{CheckReport, CheckResult, Standing};
use crate::service_runner::random::Random;
use crate::service_runner::words;

/// So many results of each check are kept.
const RESULTS: usize = 10;
/// Until a check first passes, and while its grace lasts, it asks at least so often: a start is up soon after it is ready.
const EAGER: Duration = Duration::from_secs(1);
/// So many checks are named that keep a service from being up.
const NAMED: usize = 3;

/// All checks of one run.
pub struct Checks {
    began: Instant,
    checks: Vec<Minded>,
    random: Random,
}

/// One check.
struct Minded {
    plan: Plan,
    probe: Arc<dyn Probe>,
    level: Level,
    since: SystemTime,
    /// Oldest first. Only the last has its whole output.
    results: VecDeque<CheckResult>,
    /// Waits until it is due, then asks.
    asking: BoxFuture<'static, Asked>,
}

struct Asked {
    at: SystemTime,
    took: Duration,
    answer: Answer,
}

/// What one more result means for the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// The check passes or fails from now on, in words.
    pub change: Option<String>,
    pub healthy: Option<bool>,
    /// Which checks it waits for, and why; empty where each passes.
    pub missing: String,
    /// The service is to be restarted, and why.
    pub restart: Option<String>,
}

impl Checks {
    /// Begins the checks of a run that is ready.
    pub fn begin(checks: impl IntoIterator<Item = (Plan, Arc<dyn Probe>)>) -> Checks {
        let (began, since) = (Instant::now(), SystemTime::now());
        let checks = checks
            .into_iter()
            .map(|(plan, probe)| Minded {
                asking: ask(Arc::clone(&probe), after(began, plan.initial_delay), plan.timeout, None),
                level: Level::default(),
                since,
                results: VecDeque::new(),
                plan,
                probe,
            })
            .collect();
        Checks { began, checks, random: Random::new() }
    }

    /// The next result. Cancelled by dropping; loses nothing then.
    pub async fn next(&mut self) -> News {
        std::future::poll_fn(|context| {
            let (began, random) = (self.began, &mut self.random);
            for check in &mut self.checks {
                if let Poll::Ready(asked) = check.asking.as_mut().poll(context) {
                    let (change, restart) = check.take(asked, began, random);
                    let (healthy, missing) = (self.healthy(), self.missing());
                    return Poll::Ready(News { change, healthy, missing, restart });
                }
            }
            Poll::Pending
        })
        .await
    }

    fn healthy(&self) -> Option<bool> {
        level::health(self.checks.iter().map(|check| check.level.standing))
    }

    /// `check http: connection refused; check db: no result yet`.
    pub fn missing(&self) -> String {
        let missing = self.checks.iter().filter(|check| check.level.standing != Standing::Passing);
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

    pub fn reports(&self) -> Vec<CheckReport> {
        self.checks.iter().map(Minded::report).collect()
    }
}

impl Minded {
    /// Takes in a result and waits for the next. What it means: the change in words, the reason for a restart.
    fn take(
        &mut self,
        asked: Asked,
        began: Instant,
        random: &mut Random,
    ) -> (Option<String>, Option<String>) {
        let Asked { at, took, answer: Answer { verdict, output, ending } } = asked;
        let output = match verdict {
            Verdict::Passes | Verdict::Fails => output,
            Verdict::Silent => {
                with_line(output, &format!("no answer within {}", words::duration(self.plan.timeout)))
            }
        };
        // Old outputs are worth a line each: a hundred checks must not hold ten times their output.
        if let Some(last) = self.results.back_mut() {
            last.output = last_line(&last.output);
        }
        if self.results.len() >= RESULTS {
            self.results.pop_front();
        }
        let passed = verdict == Verdict::Passes;
        self.results.push_back(CheckResult { at, took, passed, output });

        let in_grace = began.elapsed() < self.plan.grace;
        let change = self.level.take(&self.plan, passed, !in_grace);
        let eager = in_grace && !self.level.proven;
        let pause = if eager { self.plan.interval.min(EAGER) } else { self.plan.interval };
        let due = after(Instant::now(), with_jitter(pause, random.draw()));
        self.asking = ask(Arc::clone(&self.probe), due, self.plan.timeout, ending);

        let name = &self.plan.name;
        if change.standing {
            self.since = at;
        }
        let told = change.standing.then(|| match passed {
            true => format!("check {name} passes"),
            false => format!("check {name} fails: {}", self.why()),
        });
        let restart = change.restart.map(|count| {
            let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
            format!("check {name} failed {times}: {}", self.why())
        });
        (told, restart)
    }

    /// What the last result says, in a line.
    fn why(&self) -> String {
        match self.results.back() {
            None => "no result yet".into(),
            Some(result) if result.passed => {
                format!("passed, but not {} times in a row", self.plan.success_threshold)
            }
            Some(result) => match last_line(&result.output) {
                line if line.is_empty() => "failed without a word".into(),
                line => line,
            },
        }
    }

    fn report(&self) -> CheckReport {
        CheckReport {
            name: Arc::clone(&self.plan.name),
            kind: self.probe.kind(),
            standing: self.level.standing,
            since: Some(self.since),
            results: self.results.iter().cloned().collect(),
        }
    }
}

/// Waits until the check is due, then asks. `ending` is what is left of the time before.
fn ask(
    probe: Arc<dyn Probe>,
    due: Instant,
    timeout: Duration,
    ending: Option<BoxFuture<'static, ()>>,
) -> BoxFuture<'static, Asked> {
    Box::pin(async move {
        sleep_until(due).await;
        let at = SystemTime::now();
        let begun = Instant::now();
        let answer = match outlived(ending, after(begun, timeout)).await {
            Some(ending) => Answer {
                verdict: Verdict::Fails,
                output: "the last one was killed and has not ended yet".into(),
                ending: Some(ending),
            },
            None => {
                let deadline = after(Instant::now(), timeout);
                timeout_at(deadline, probe.ask(deadline)).await.unwrap_or_else(|_| Answer {
                    verdict: Verdict::Silent,
                    output: String::new(),
                    ending: None,
                })
            }
        };
        Asked { at, took: begun.elapsed(), answer }
    })
}

/// What has not ended by the deadline.
async fn outlived(
    ending: Option<BoxFuture<'static, ()>>,
    deadline: Instant,
) -> Option<BoxFuture<'static, ()>> {
    let mut ending = ending?;
    match timeout_at(deadline, ending.as_mut()).await {
        Ok(()) => None,
        Err(_) => Some(ending),
    }
}

fn after(from: Instant, pause: Duration) -> Instant {
    // A year is the longest that a file can ask for; what does not fit is as good as never.
    from.checked_add(pause).or_else(|| from.checked_add(Duration::from_secs(365 * 86_400))).unwrap_or(from)
}

/// Up to a tenth longer: checks that began together do not beat together.
fn with_jitter(pause: Duration, chance: u32) -> Duration {
    let part = pause.checked_div(10_230).unwrap_or_default();
    pause.saturating_add(part.saturating_mul(chance % 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_a_tenth_at_most() {
        let pause = Duration::from_secs(5);
        for chance in [0, 1, 1023, 1024, u32::MAX] {
            let with = with_jitter(pause, chance);
            assert!(with >= pause && with <= pause + pause / 10, "{chance}: {with:?}");
        }
        assert!(with_jitter(pause, 1023) > pause + pause / 11);
        assert!(with_jitter(Duration::MAX, 7) == Duration::MAX);
    }
}
