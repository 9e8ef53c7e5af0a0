//! The restart policy: how a run ended, what went before and the time lead to another run after a delay, or to the end.
//!
//! Pure: no clock, no dice, no process; those are arguments. It serves any [`Runner`](crate::Runner). An
//! operator's request never comes here: it is immediate and not counted.
//!
//! - Only failures count against `attempts`. A success under `forever` starts again without being counted.
//! - Every restart that follows a short run waits twice as long as the one before, up to `maxDelay`, also after a
//!   success: a program that exits at once with 0 must not spin either.

use std::collections::VecDeque;
use std::time::Duration;

use kelson_spec::duration_text;
use kelson_spec::service::{Exhausted, ExitMatch, RestartPolicy, RestartSpec};
use kelson_sys::units;

use crate::runner::Exit;

/// After a run at least this long the backoff is forgotten, however small `maxDelay` is.
pub const STABLE: Duration = Duration::from_secs(10);
/// Failures remembered at most; a larger `attempts` counts as this.
const MOST: usize = 10_000;

/// How a run came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself.
    Exited { exit: Exit, ran: Duration },
    /// Kelson ended it because it had failed: not ready in time, a health check, a watchdog. A failure, whatever its
    /// exit status.
    GivenUp { ran: Duration, watchdog: bool },
    /// It was not started at all.
    NotStarted,
}

impl Ended {
    fn success(self, spec: &RestartSpec) -> bool {
        matches!(self, Ended::Exited { exit, .. } if is_success(spec, exit))
    }

    fn is_among(self, ends: &[ExitMatch]) -> bool {
        matches!(self, Ended::Exited { exit, .. } if exit.is_among(ends))
    }

    fn ran(self) -> Duration {
        match self {
            Ended::Exited { ran, .. } | Ended::GivenUp { ran, .. } => ran,
            Ended::NotStarted => Duration::ZERO,
        }
    }
}

/// The next step after an exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Run again. The budget is for [`restarting`]: `(2 of 5 in 5m)`, or empty.
    Again { after: Duration, budget: String },
    /// That was it.
    End { success: bool },
    /// The budget is used up: the service ends as failed. The text: `gave up after 3 failures in 5m`.
    Exhausted { text: String },
}

/// The history of one service that the policy needs. Nothing is allocated for one that never fails.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestartHistory {
    /// The oldest first; together never more than `attempts`.
    failures: VecDeque<Failures>,
    /// How many that are.
    count: u32,
    /// Restarts since the last long run.
    doublings: u16,
    /// Its budget is used up, and its group was restarted for that.
    pub escalated: bool,
}

/// Failures that count from the same time: one, as long as there is room for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failures {
    /// When the newest of them happened.
    pub at: Duration,
    pub count: u32,
}

impl RestartHistory {
    /// The history that [`RestartHistory::entries`] and [`RestartHistory::doublings`] tell.
    pub fn of(entries: impl IntoIterator<Item = Failures>, doublings: u32) -> RestartHistory {
        let failures: VecDeque<Failures> = entries.into_iter().collect();
        let count = failures.iter().fold(0_u32, |sum, failures| sum.saturating_add(failures.count));
        let doublings = u16::try_from(doublings).unwrap_or(u16::MAX);
        RestartHistory { failures, count, doublings, escalated: false }
    }

    /// The failures that are remembered, the oldest first.
    pub fn entries(&self) -> impl Iterator<Item = Failures> + '_ {
        self.failures.iter().copied()
    }

    /// Restarts since the last long run.
    pub fn doublings(&self) -> u32 {
        self.doublings.into()
    }

    /// Forgets the runs that were too short: the next pause is the shortest one.
    pub fn rested(&mut self) {
        self.doublings = 0;
    }

    /// Forgets everything: an operator started the service.
    pub fn reset(&mut self) {
        *self = RestartHistory::default();
    }

    /// Holds the same failures in at most `most` entries: neighbours become one, which counts from the newer of them.
    /// So no failure is forgotten early.
    pub fn coarsen(&mut self, most: usize) {
        while self.failures.len() > most.max(1) {
            let failures = self.failures.make_contiguous();
            let merged = failures.chunks(2).filter_map(|pair| {
                let count = pair.iter().fold(0_u32, |sum, failures| sum.saturating_add(failures.count));
                pair.last().map(|newer| Failures { at: newer.at, count })
            });
            self.failures = merged.collect();
        }
    }

    /// Failures that count now.
    pub fn failures(&self) -> usize {
        usize::try_from(self.count).unwrap_or(usize::MAX)
    }
}

/// Whether the end of a process is what its service is there for.
pub fn is_success(spec: &RestartSpec, exit: Exit) -> bool {
    exit.success() || exit.is_among(&spec.success)
}

/// Whether `preventOn` keeps it from another run.
pub fn is_prevented(spec: &RestartSpec, ended: Ended) -> bool {
    ended.is_among(&spec.prevent_on)
}

/// Whether there is to be another run, if the budget permits.
fn goes_on(spec: &RestartSpec, ended: Ended, success: bool) -> bool {
    if is_prevented(spec, ended) {
        return false;
    }
    if ended.is_among(&spec.force_on) {
        return true;
    }
    match spec.policy {
        RestartPolicy::Once => false,
        RestartPolicy::UntilSuccess => !success,
        RestartPolicy::Forever => true,
        RestartPolicy::OnSuccess => success,
        RestartPolicy::OnAbnormal => {
            !success && !matches!(ended, Ended::Exited { exit: Exit::Status(_), .. })
        }
        RestartPolicy::OnAbort => {
            !success && matches!(ended, Ended::Exited { exit: Exit::Signal { .. }, .. })
        }
        RestartPolicy::OnWatchdog => matches!(ended, Ended::GivenUp { watchdog: true, .. }),
    }
}

/// Decides about the next run. `now` is a monotonic time since any fixed start; `random` is any number, for the jitter.
pub fn decide(
    spec: &RestartSpec,
    history: &mut RestartHistory,
    ended: Ended,
    now: Duration,
    random: u32,
) -> Decision {
    let success = ended.success(spec);
    if !goes_on(spec, ended, success) {
        return Decision::End { success };
    }
    if ended.ran() > spec.max_delay.max(STABLE) {
        history.doublings = 0;
    }
    if !success && spec.attempts > 0 && !count(spec, history, now) {
        return exhausted(spec, history, now);
    }
    let after = backoff(spec, history, random);
    let budget = match (success, spec.attempts) {
        (true, _) | (_, 0) => String::new(),
        (false, attempts) => {
            format!("({} of {attempts} in {})", history.failures(), duration_text(spec.interval))
        }
    };
    Decision::Again { after, budget }
}

/// Announces the restart, for the event: `restarting in 2 s (2 of 5 in 5m)`.
pub fn restarting(after: Duration, budget: &str) -> String {
    let space = if budget.is_empty() { "" } else { " " };
    match after {
        Duration::ZERO => format!("restarting at once{space}{budget}"),
        _ => format!("restarting in {}{space}{budget}", units::duration(after)),
    }
}

/// Counts a failure; `false` when the budget was used up before it.
fn count(spec: &RestartSpec, history: &mut RestartHistory, now: Duration) -> bool {
    let start = now.saturating_sub(spec.interval);
    while let Some(oldest) = history.failures.front().copied()
        && (oldest.at < start || spec.interval.is_zero())
    {
        history.failures.pop_front();
        history.count = history.count.saturating_sub(oldest.count);
    }
    let budget = usize::try_from(spec.attempts).unwrap_or(MOST).min(MOST);
    if history.failures() >= budget {
        return false;
    }
    history.failures.push_back(Failures { at: now, count: 1 });
    history.count = history.count.saturating_add(1);
    true
}

fn exhausted(spec: &RestartSpec, history: &mut RestartHistory, now: Duration) -> Decision {
    let failures = history.failures().saturating_add(1);
    let failed = format!("{failures} failures in {}", duration_text(spec.interval));
    match spec.exhausted {
        Exhausted::Fail => Decision::Exhausted { text: format!("gave up after {failed}") },
        Exhausted::Delay => {
            let oldest = history.failures.front().map_or(now, |failures| failures.at);
            let after = oldest.saturating_add(spec.interval).saturating_sub(now).max(spec.delay);
            history.reset();
            Decision::Again { after, budget: format!("after {failed}") }
        }
    }
}

/// `delay`, doubled for each restart before it up to `maxDelay`, and up to a quarter more by chance, so that services
/// that failed together do not come back together.
fn backoff(spec: &RestartSpec, history: &mut RestartHistory, random: u32) -> Duration {
    let factor = 1u32.checked_shl(history.doublings.into()).unwrap_or(u32::MAX);
    let base = spec.delay.saturating_mul(factor).min(spec.max_delay.max(spec.delay));
    history.doublings = history.doublings.saturating_add(1);
    let jitter = base.mul_f64(0.25 * f64::from(random) / f64::from(u32::MAX));
    base.saturating_add(jitter)
}

#[cfg(test)]
mod tests {
    use kelson_spec::service::RestartScope;

    use super::*;

    const FOREVER: RestartSpec = RestartSpec {
        policy: RestartPolicy::Forever,
        delay: Duration::from_secs(1),
        max_delay: Duration::from_secs(30),
        attempts: 0,
        interval: Duration::from_secs(300),
        exhausted: Exhausted::Fail,
        scope: RestartScope::Service,
        success: Vec::new(),
        prevent_on: Vec::new(),
        force_on: Vec::new(),
    };
    const FAILED: Ended = exited(3);

    const fn exited(status: i32) -> Ended {
        Ended::Exited { exit: Exit::Status(status), ran: Duration::from_millis(100) }
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn after(decision: &Decision) -> Duration {
        match decision {
            Decision::Again { after, .. } => *after,
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn r1_each_policy_with_each_end() {
        let signal =
            Ended::Exited { exit: Exit::Signal { signal: 11, core: true }, ran: Duration::from_millis(100) };
        let lost = Ended::Exited { exit: Exit::Lost, ran: secs(100) };
        let given_up = Ended::GivenUp { ran: secs(5), watchdog: false };
        let watchdog = Ended::GivenUp { ran: secs(5), watchdog: true };
        // Some(success): it ends; None: again.
        let table = [
            (RestartPolicy::Once, exited(0), Some(true)),
            (RestartPolicy::Once, exited(3), Some(false)),
            (RestartPolicy::Once, signal, Some(false)),
            (RestartPolicy::Once, lost, Some(false)),
            (RestartPolicy::Once, given_up, Some(false)),
            (RestartPolicy::Once, Ended::NotStarted, Some(false)),
            (RestartPolicy::UntilSuccess, exited(0), Some(true)),
            (RestartPolicy::UntilSuccess, exited(3), None),
            (RestartPolicy::UntilSuccess, signal, None),
            (RestartPolicy::UntilSuccess, lost, None),
            (RestartPolicy::UntilSuccess, given_up, None),
            (RestartPolicy::UntilSuccess, Ended::NotStarted, None),
            (RestartPolicy::Forever, exited(0), None),
            (RestartPolicy::Forever, exited(3), None),
            (RestartPolicy::Forever, signal, None),
            (RestartPolicy::Forever, lost, None),
            (RestartPolicy::Forever, given_up, None),
            (RestartPolicy::Forever, Ended::NotStarted, None),
            (RestartPolicy::OnSuccess, exited(0), None),
            (RestartPolicy::OnSuccess, exited(3), Some(false)),
            (RestartPolicy::OnSuccess, signal, Some(false)),
            (RestartPolicy::OnSuccess, lost, Some(false)),
            (RestartPolicy::OnSuccess, watchdog, Some(false)),
            (RestartPolicy::OnSuccess, Ended::NotStarted, Some(false)),
            (RestartPolicy::OnAbnormal, exited(0), Some(true)),
            (RestartPolicy::OnAbnormal, exited(3), Some(false)),
            (RestartPolicy::OnAbnormal, signal, None),
            (RestartPolicy::OnAbnormal, lost, None),
            (RestartPolicy::OnAbnormal, given_up, None),
            (RestartPolicy::OnAbnormal, watchdog, None),
            (RestartPolicy::OnAbnormal, Ended::NotStarted, None),
            (RestartPolicy::OnAbort, exited(0), Some(true)),
            (RestartPolicy::OnAbort, exited(3), Some(false)),
            (RestartPolicy::OnAbort, signal, None),
            (RestartPolicy::OnAbort, lost, Some(false)),
            (RestartPolicy::OnAbort, watchdog, Some(false)),
            (RestartPolicy::OnAbort, Ended::NotStarted, Some(false)),
            (RestartPolicy::OnWatchdog, exited(0), Some(true)),
            (RestartPolicy::OnWatchdog, signal, Some(false)),
            (RestartPolicy::OnWatchdog, given_up, Some(false)),
            (RestartPolicy::OnWatchdog, watchdog, None),
        ];
        for (policy, ended, expected) in table {
            let spec = RestartSpec { policy, ..FOREVER };
            let decision = decide(&spec, &mut RestartHistory::default(), ended, secs(1), 0);
            match expected {
                Some(success) => assert_eq!(decision, Decision::End { success }, "{policy:?} {ended:?}"),
                None => assert_eq!(after(&decision), secs(1), "{policy:?} {ended:?}"),
            }
        }
    }

    #[test]
    fn r1_some_ends_are_judged_by_themselves() {
        let killed = |signal| Ended::Exited { exit: Exit::Signal { signal, core: false }, ran: secs(1) };
        let spec = |policy| RestartSpec {
            policy,
            success: vec![ExitMatch::Status(3), ExitMatch::Signal(15)],
            prevent_on: vec![ExitMatch::Status(4), ExitMatch::Status(5)],
            force_on: vec![ExitMatch::Status(5), ExitMatch::Signal(9), ExitMatch::Status(0)],
            ..FOREVER
        };
        let decided =
            |policy, ended| match decide(&spec(policy), &mut RestartHistory::default(), ended, secs(1), 0) {
                Decision::End { success } => Some(success),
                _ => None,
            };
        for (policy, ended, expected) in [
            (RestartPolicy::UntilSuccess, exited(3), Some(true)),
            (RestartPolicy::UntilSuccess, killed(15), Some(true)),
            (RestartPolicy::UntilSuccess, exited(15), None),
            (RestartPolicy::UntilSuccess, killed(3), None),
            (RestartPolicy::Once, exited(3), Some(true)),
            (RestartPolicy::OnSuccess, exited(3), None),
            (RestartPolicy::OnAbort, killed(15), Some(true)),
            (RestartPolicy::Forever, exited(4), Some(false)),
            (RestartPolicy::Forever, exited(5), Some(false)),
            (RestartPolicy::Once, killed(9), None),
            (RestartPolicy::Once, exited(0), None),
            (RestartPolicy::Once, killed(4), Some(false)),
        ] {
            assert_eq!(decided(policy, ended), expected, "{policy:?} {ended:?}");
        }
        // No failure is counted for a success.
        let spec = RestartSpec { attempts: 1, ..spec(RestartPolicy::Forever) };
        let mut history = RestartHistory::default();
        for _ in 0..5 {
            assert!(matches!(decide(&spec, &mut history, exited(3), secs(1), 0), Decision::Again { .. }));
        }
        assert_eq!(history.failures(), 0);
    }

    #[test]
    fn r2_the_third_failure_of_two_attempts_gives_up() {
        let spec = RestartSpec { attempts: 2, ..FOREVER };
        let mut history = RestartHistory::default();
        let texts: Vec<Decision> =
            (1..=3).map(|n| decide(&spec, &mut history, FAILED, secs(10 * n), 0)).collect();
        assert_eq!(
            texts,
            [
                Decision::Again { after: secs(1), budget: "(1 of 2 in 5m)".into() },
                Decision::Again { after: secs(2), budget: "(2 of 2 in 5m)".into() },
                Decision::Exhausted { text: "gave up after 3 failures in 5m".into() },
            ]
        );
    }

    #[test]
    fn r2_delay_waits_for_the_end_of_the_window_and_has_a_fresh_budget() {
        let spec = RestartSpec { attempts: 2, exhausted: Exhausted::Delay, ..FOREVER };
        let mut history = RestartHistory::default();
        decide(&spec, &mut history, FAILED, secs(10), 0);
        decide(&spec, &mut history, FAILED, secs(20), 0);
        let third = decide(&spec, &mut history, FAILED, secs(30), 0);
        let budget = "after 3 failures in 5m".to_owned();
        assert_eq!(restarting(secs(280), &budget), "restarting in 4m40s after 3 failures in 5m");
        assert_eq!(third, Decision::Again { after: secs(280), budget });
        let fourth = decide(&spec, &mut history, FAILED, secs(311), 0);
        let budget = "(1 of 2 in 5m)".to_owned();
        assert_eq!(restarting(secs(1), &budget), "restarting in 1 s (1 of 2 in 5m)");
        assert_eq!(fourth, Decision::Again { after: secs(1), budget });
    }

    #[test]
    fn r2_failures_outside_the_window_and_successes_do_not_count() {
        let spec = RestartSpec { attempts: 2, ..FOREVER };
        let mut history = RestartHistory::default();
        for n in 0..20 {
            let failed = decide(&spec, &mut history, FAILED, secs(200 * n), 0);
            assert!(matches!(failed, Decision::Again { .. }), "{n}: {failed:?}");
            let success = decide(&spec, &mut history, exited(0), secs(200 * n + 1), 0);
            assert!(matches!(success, Decision::Again { .. }), "{n}: {success:?}");
        }
        assert!(history.failures() <= 2);
    }

    #[test]
    fn r3_backoff_doubles_up_to_its_bound_with_jitter_and_is_forgotten_after_a_long_run() {
        let mut history = RestartHistory::default();
        let run = |history: &mut RestartHistory, ran, random| {
            let ended = Ended::Exited { exit: Exit::Status(1), ran };
            after(&decide(&FOREVER, history, ended, secs(0), random))
        };
        let waits: Vec<u64> = (0..7).map(|_| run(&mut history, secs(0), 0).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        for _ in 0..100 {
            assert_eq!(run(&mut history, secs(0), u32::MAX), Duration::from_millis(37_500));
        }
        let some = run(&mut history, secs(0), u32::MAX / 2);
        assert!(some > secs(30) && some < Duration::from_millis(37_500));
        assert_eq!(run(&mut history, secs(30), 0), secs(30), "as long as maxDelay is not longer");
        assert_eq!(run(&mut history, secs(31), 0), secs(1));
    }

    #[test]
    fn r3_a_small_bound_still_asks_for_ten_seconds() {
        let spec = RestartSpec { max_delay: secs(2), ..FOREVER };
        let mut history = RestartHistory { doublings: 5, ..RestartHistory::default() };
        let mut run = |ran| {
            let ended = Ended::Exited { exit: Exit::Status(0), ran };
            after(&decide(&spec, &mut history, ended, secs(0), 0))
        };
        assert_eq!(run(secs(9)), secs(2));
        assert_eq!(run(secs(11)), secs(1));
    }

    #[test]
    fn coarse_failures_count_until_the_newest_of_them_is_too_old() {
        let spec = RestartSpec { attempts: 1000, interval: secs(1000), ..FOREVER };
        let mut exact = RestartHistory::default();
        for time in 1..=999 {
            decide(&spec, &mut exact, FAILED, secs(time), 0);
        }
        for most in [0, 1, 16, 64, 2000] {
            let mut coarse = exact.clone();
            coarse.coarsen(most);
            assert!(coarse.entries().count() <= most.max(1));
            let mut coarse = RestartHistory::of(coarse.entries(), coarse.doublings());
            assert_eq!((coarse.failures(), coarse.doublings()), (999, exact.doublings()));
            // One more is allowed, the next is not; with time all of them are forgotten.
            assert!(count(&spec, &mut coarse, secs(1000)) && !count(&spec, &mut coarse, secs(1000)));
            assert!(count(&spec, &mut coarse, secs(2000)), "{most}");
        }
    }

    #[test]
    fn no_delay_is_at_once_for_ever() {
        let spec = RestartSpec { delay: Duration::ZERO, attempts: 5, ..FOREVER };
        let mut history = RestartHistory::default();
        let first = decide(&spec, &mut history, FAILED, secs(0), u32::MAX);
        let budget = "(1 of 5 in 5m)".to_owned();
        assert_eq!(restarting(Duration::ZERO, &budget), "restarting at once (1 of 5 in 5m)");
        assert_eq!(restarting(secs(2), ""), "restarting in 2 s");
        assert_eq!(first, Decision::Again { after: Duration::ZERO, budget });
        assert_eq!(after(&decide(&spec, &mut history, FAILED, secs(0), 7)), Duration::ZERO);
    }

    #[test]
    fn a_service_that_never_fails_costs_no_memory() {
        let mut history = RestartHistory::default();
        for _ in 0..10 {
            decide(&FOREVER, &mut history, FAILED, secs(1), 0);
        }
        assert_eq!(history.failures.capacity(), 0, "without a budget nothing is kept");
        let mut huge = RestartHistory::default();
        let spec = RestartSpec { attempts: u32::MAX, ..FOREVER };
        let last = (0..=MOST).map(|_| decide(&spec, &mut huge, FAILED, secs(1), 0)).last();
        assert!(matches!(last, Some(Decision::Exhausted { .. })));
    }
}
