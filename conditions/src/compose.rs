//! `All`, `Any` and `Not`: conditions made of conditions.
//!
//! None remembers anything: each question is passed on, so that they are as level-triggered as their parts. A part
//! that held once and holds no longer counts for nothing (scenario G1).

use std::future::{pending, poll_fn};
use std::task::Poll;

use crate::condition::{BoxFuture, Condition, Level};
use kelson_spec::service::Requirement;

use crate::missing::{Missing, Subject};

/// Holds while every part holds; without parts it always holds.
#[derive(Default)]
pub struct All {
    parts: Vec<Box<dyn Condition>>,
}

impl All {
    pub fn new(parts: Vec<Box<dyn Condition>>) -> Self {
        All { parts }
    }

    /// Adds one more part.
    pub fn push(&mut self, part: Box<dyn Condition>) {
        self.parts.push(part);
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

impl Condition for All {
    fn level(&self) -> Level {
        // One part that is known not to hold decides, whatever the others are going to answer.
        strongest(&self.parts, [Level::DoesNotHold, Level::Unknown, Level::Holds])
    }

    fn missing(&self) -> Vec<Missing> {
        self.parts.iter().flat_map(|part| part.missing()).collect()
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        first_changed(&mut self.parts)
    }
}

/// Holds while at least one part holds; without parts it never does.
#[derive(Default)]
pub struct Any {
    parts: Vec<Box<dyn Condition>>,
}

impl Any {
    pub fn new(parts: Vec<Box<dyn Condition>>) -> Self {
        Any { parts }
    }
}

impl Condition for Any {
    fn level(&self) -> Level {
        strongest(&self.parts, [Level::Holds, Level::Unknown, Level::DoesNotHold])
    }

    fn missing(&self) -> Vec<Missing> {
        let alternatives: Vec<Vec<Missing>> = self.parts.iter().map(|part| part.missing()).collect();
        // One alternative that lacks nothing is enough.
        if alternatives.iter().any(Vec::is_empty) {
            Vec::new()
        } else {
            vec![Subject::Any(alternatives).into()]
        }
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        first_changed(&mut self.parts)
    }
}

/// Holds while its part is known not to hold.
pub struct Not {
    part: Box<dyn Condition>,
    /// The part, for the text of a wait.
    requirement: Requirement,
}

impl Not {
    pub fn new(part: Box<dyn Condition>, requirement: Requirement) -> Self {
        Not { part, requirement }
    }
}

impl Condition for Not {
    fn level(&self) -> Level {
        match self.part.level() {
            Level::Holds => Level::DoesNotHold,
            Level::DoesNotHold => Level::Holds,
            Level::Unknown => Level::Unknown,
        }
    }

    fn missing(&self) -> Vec<Missing> {
        match self.level() {
            Level::Holds => Vec::new(),
            Level::DoesNotHold | Level::Unknown => {
                vec![Subject::Not(Box::new(self.requirement.clone())).into()]
            }
        }
    }

    fn changed(&mut self) -> BoxFuture<'_, ()> {
        self.part.changed()
    }
}

/// The first of `order` that any part answers; without parts its last.
fn strongest(parts: &[Box<dyn Condition>], order: [Level; 3]) -> Level {
    let [first, second, last] = order;
    let mut strongest = last;
    for part in parts {
        let level = part.level();
        if level == first {
            return first;
        }
        if level == second {
            strongest = second;
        }
    }
    strongest
}

/// Returns once a part has changed, and takes note of all that have: who waits for thousands that change together looks
/// at them once. The others lose nothing: `changed` takes note of a change only when it returns, so the next call finds
/// what this one left.
fn first_changed(parts: &mut [Box<dyn Condition>]) -> BoxFuture<'_, ()> {
    if parts.is_empty() {
        return Box::pin(pending());
    }
    let mut changes: Vec<BoxFuture<'_, ()>> = parts.iter_mut().map(|part| part.changed()).collect();
    Box::pin(poll_fn(move |context| {
        let mut changed = false;
        for change in &mut changes {
            changed |= change.as_mut().poll(context).is_ready();
        }
        if changed { Poll::Ready(()) } else { Poll::Pending }
    }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kelson_spec::service::ServiceEvent;
    use tokio::sync::watch;
    use tokio::time::{Instant, timeout};

    use super::Level::{DoesNotHold, Holds, Unknown};
    use super::*;

    struct Part(watch::Receiver<Level>, Missing);

    impl Condition for Part {
        fn level(&self) -> Level {
            *self.0.borrow()
        }

        fn missing(&self) -> Vec<Missing> {
            if self.holds() { Vec::new() } else { vec![self.1.clone()] }
        }

        fn changed(&mut self) -> BoxFuture<'_, ()> {
            crate::condition::changed(&mut self.0)
        }
    }

    fn up(name: &str) -> Missing {
        Subject::Service { name: name.into(), event: ServiceEvent::Up }.into()
    }

    fn part(name: &str) -> (watch::Sender<Level>, Box<dyn Condition>) {
        let (sender, receiver) = watch::channel(DoesNotHold);
        (sender, Box::new(Part(receiver, up(name))))
    }

    async fn still_waits(gate: &mut All) {
        assert!(timeout(Duration::from_secs(60), gate.wait()).await.is_err(), "the gate opened");
    }

    #[tokio::test(start_paused = true)]
    async fn g1_a_part_that_held_once_counts_for_nothing() {
        let (a, of_a) = part("a");
        let (b, of_b) = part("b");
        let mut gate = All::new(vec![of_a, of_b]);
        a.send_replace(Holds);
        still_waits(&mut gate).await;
        a.send_replace(DoesNotHold);
        still_waits(&mut gate).await;
        b.send_replace(Holds);
        still_waits(&mut gate).await;
        assert_eq!(gate.missing(), [up("a")]);
        a.send_replace(Holds);
        timeout(Duration::from_secs(60), gate.wait()).await.expect("both are up");
    }

    #[tokio::test(start_paused = true)]
    async fn g1_within_one_wait() {
        let (a, of_a) = part("a");
        let (b, of_b) = part("b");
        let mut gate = All::new(vec![of_a, of_b]);
        let waiting = tokio::spawn(async move { gate.wait().await });
        for (sender, level) in [(&a, Holds), (&a, DoesNotHold), (&b, Holds)] {
            sender.send_replace(level);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(!waiting.is_finished());
        a.send_replace(Holds);
        timeout(Duration::from_secs(60), waiting).await.expect("both are up").expect("joins");
    }

    #[tokio::test(start_paused = true)]
    async fn g2_only_what_is_missing_is_named() {
        let (a, of_a) = part("a");
        let (b, of_b) = part("b");
        let mut gate = All::new(vec![of_a, of_b]);
        assert_eq!(gate.missing(), [up("a"), up("b")]);
        a.send_replace(Holds);
        timeout(Duration::from_secs(1), gate.changed()).await.expect("the text changed");
        assert_eq!(gate.missing(), [up("b")]);
        b.send_replace(Holds);
        timeout(Duration::from_secs(1), gate.changed()).await.expect("the text changed");
        assert!(gate.holds() && gate.missing().is_empty());
        a.send_replace(DoesNotHold);
        timeout(Duration::from_secs(1), gate.changed()).await.expect("it ended to hold");
        assert!(!gate.holds());
    }

    #[tokio::test(start_paused = true)]
    async fn two_changes_at_once_are_seen_together_and_each_later_one_again() {
        let (a, of_a) = part("a");
        let (b, of_b) = part("b");
        let mut gate = All::new(vec![of_a, of_b]);
        a.send_replace(Holds);
        b.send_replace(Holds);
        timeout(Duration::from_secs(1), gate.changed()).await.expect("of both");
        assert!(gate.holds());
        assert!(timeout(Duration::from_secs(1), gate.changed()).await.is_err(), "nothing else changed");
        b.send_replace(DoesNotHold);
        timeout(Duration::from_secs(1), gate.changed()).await.expect("of b");
        assert!(!gate.holds());
        assert!(timeout(Duration::from_secs(1), gate.changed()).await.is_err(), "nothing else changed");
        drop((a, b));
        assert!(timeout(Duration::from_secs(1), gate.changed()).await.is_err(), "an end is no change");
    }

    #[tokio::test(start_paused = true)]
    async fn any_holds_with_one_part_and_names_all_otherwise() {
        let (a, of_a) = part("a");
        let (_b, of_b) = part("b");
        let mut either = Any::new(vec![of_a, of_b]);
        assert_eq!(either.missing(), [Subject::Any(vec![vec![up("a")], vec![up("b")]]).into()]);
        a.send_replace(Holds);
        timeout(Duration::from_secs(1), either.wait()).await.expect("a is up");
        assert_eq!(either.missing(), []);
        a.send_replace(DoesNotHold);
        assert!(!either.holds());
    }

    #[tokio::test(start_paused = true)]
    async fn nesting_keeps_the_alternatives_apart() {
        let (_a, of_a) = part("a");
        let (_b, of_b) = part("b");
        let (_c, of_c) = part("c");
        let either = Any::new(vec![Box::new(All::new(vec![of_a, of_b])), of_c]);
        let missing = Missing::from(Subject::Any(vec![vec![up("a"), up("b")], vec![up("c")]]));
        assert_eq!(either.missing(), std::slice::from_ref(&missing));
        let all = All::new(vec![Box::new(either)]);
        assert_eq!(all.missing(), [missing]);
    }

    #[tokio::test(start_paused = true)]
    async fn without_parts_all_holds_and_any_does_not() {
        let mut all = All::default();
        assert!(all.holds() && all.missing().is_empty());
        all.wait().await;
        assert!(timeout(Duration::from_secs(1), all.changed()).await.is_err());
        assert!(!Any::default().holds());
        assert_eq!(Any::default().missing(), [Subject::Any(Vec::new()).into()]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_is_not_there_yet_decides_only_where_the_others_do_not() {
        for (one, other, all, any) in [
            (Unknown, Unknown, Unknown, Unknown),
            (Unknown, Holds, Unknown, Holds),
            (Unknown, DoesNotHold, DoesNotHold, Unknown),
            (Holds, DoesNotHold, DoesNotHold, Holds),
        ] {
            let parts = || {
                let ((a, of_a), (b, of_b)) = (part("a"), part("b"));
                a.send_replace(one);
                b.send_replace(other);
                vec![of_a, of_b]
            };
            assert_eq!(
                (All::new(parts()).level(), Any::new(parts()).level()),
                (all, any),
                "{one:?}, {other:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_waits_until_the_answer_is_known_and_no_longer_than_the_deadline() {
        let (a, of_a) = part("a");
        a.send_replace(Unknown);
        let mut gate = All::new(vec![of_a]);
        let begun = Instant::now();
        let deadline = begun + Duration::from_secs(5);
        assert_eq!(gate.known(deadline).await, Unknown);
        assert_eq!(begun.elapsed(), Duration::from_secs(5));
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            a.send_replace(DoesNotHold);
            std::future::pending::<()>().await;
        });
        let deadline = Instant::now() + Duration::from_secs(5);
        assert_eq!(gate.known(deadline).await, DoesNotHold);
        assert_eq!(begun.elapsed(), Duration::from_secs(6));
    }
}
