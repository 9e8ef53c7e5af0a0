//! A helper of PID 1 that ends with its driver.

use std::sync::Arc;
use std::time::Duration;

use kelson_helper::Launcher;
use kelson_helper::supervisor::{AnswerTimes, Duty, Policy, Status, Supervisor};

/// It is replaced at once, whatever it has done.
const POLICY: Policy = Policy {
    answer: AnswerTimes { usual: Duration::from_secs(10), first: Duration::from_secs(10) },
    pause: Duration::ZERO,
    tolerated: 0,
    longest_alive: Duration::from_secs(5),
};

/// The supervisor of a helper that is killed when this is dropped.
pub struct OwnedHelper<D: Duty>(pub Supervisor<D>);

impl<D: Duty> OwnedHelper<D> {
    /// `idle`: why none runs where there is nothing to do.
    pub fn new(launcher: Arc<dyn Launcher>, idle: &'static str) -> OwnedHelper<D> {
        OwnedHelper(Supervisor::new(launcher, POLICY, Status::new(idle), idle))
    }
}

impl<D: Duty> Drop for OwnedHelper<D> {
    fn drop(&mut self) {
        self.0.kill();
    }
}
