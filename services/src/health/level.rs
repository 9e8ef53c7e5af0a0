//! How the results of one check add up: from passes and failures in a row to passing, failing, restart. Pure.

use kelson_proto::state::v1 as stored;

use super::plan::Plan;
use crate::model::{Numbered as _, Standing};

/// How one check stands in one run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Level {
    pub standing: Standing,
    passes: u32,
    failures: u32,
    /// Failures in a row that count for `restartAfter`.
    counted: u32,
    /// It has been passing in this run.
    pub proven: bool,
}

/// The change that one more result makes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Change {
    /// It stands otherwise than before.
    pub standing: bool,
    /// This many failures in a row ask for a restart.
    pub restart: Option<u32>,
}

impl Level {
    /// Fills in how it stands.
    pub(crate) fn store(&self, record: &mut stored::CheckRecord) {
        record.standing = self.standing.number();
        record.passes = self.passes;
        record.failures = self.failures;
        record.counted = self.counted;
        record.proven = self.proven;
    }

    pub(crate) fn of_stored(record: &stored::CheckRecord) -> Level {
        Level {
            standing: Standing::of_number(record.standing).unwrap_or_default(),
            passes: record.passes,
            failures: record.failures,
            counted: record.counted,
            proven: record.proven,
        }
    }

    /// Takes in a result; `counts`: it is no longer in its grace.
    pub fn take(&mut self, plan: &Plan, passed: bool, counts: bool) -> Change {
        let before = self.standing;
        if passed {
            self.failures = 0;
            self.counted = 0;
            self.passes = self.passes.saturating_add(1);
            if self.passes >= plan.success_threshold {
                self.standing = Standing::Passing;
                self.proven = true;
            }
        } else {
            self.passes = 0;
            self.failures = self.failures.saturating_add(1);
            if counts {
                self.counted = self.counted.saturating_add(1);
            }
            if self.failures >= plan.failure_threshold {
                self.standing = Standing::Failing;
            }
        }
        let restarts = plan.restart_after > 0 && self.counted >= plan.restart_after;
        Change { standing: self.standing != before, restart: restarts.then_some(self.counted) }
    }
}

/// All checks together: `true` where each passes, `false` where one fails, `None` where one has not shown either.
pub fn health(all: impl Iterator<Item = Standing>) -> Option<bool> {
    let mut health = Some(true);
    for standing in all {
        match standing {
            Standing::Failing => return Some(false),
            Standing::Pending => health = None,
            Standing::Passing => {}
        }
    }
    health
}

#[cfg(test)]
mod tests {
    use kelson_spec::service::{Check, Probe};

    use super::*;

    /// Results as they come: `+` a pass, `-` a failure, `g` a failure in grace. Returns the standing after
    /// each: `?` pending, `+` passing, `-` failing, `R` asks for a restart.
    fn play(success: u32, failure: u32, restart: u32, results: &str) -> String {
        let check = Check {
            success_threshold: success,
            failure_threshold: failure,
            restart_after: restart,
            ..Check::new("a", Probe::tcp(1))
        };
        let plan = Plan::from(&check);
        let mut level = Level::default();
        results
            .chars()
            .map(|result| {
                let before = level.standing;
                let change = level.take(&plan, result == '+', result != 'g');
                assert_eq!(change.standing, before != level.standing);
                match (change.restart, level.standing) {
                    (Some(_), _) => 'R',
                    (None, Standing::Pending) => '?',
                    (None, Standing::Passing) => '+',
                    (None, Standing::Failing) => '-',
                }
            })
            .collect()
    }

    #[test]
    fn h3_results_add_up() {
        for (success, failure, restart, results, expected) in [
            (1, 3, 0, "+", "+"),
            (1, 3, 0, "+--+--+", "+++++++"),
            (1, 3, 0, "+---", "+++-"),
            (1, 3, 0, "+---+", "+++-+"),
            (1, 3, 0, "--", "??"),
            (1, 3, 0, "---+", "??-+"),
            (1, 1, 0, "+-+-", "+-+-"),
            (3, 1, 0, "++", "??"),
            (3, 1, 0, "+++-++-+++", "??+------+"),
            (2, 2, 0, "+-+-", "????"),
            // Restarts: failures in a row, outside grace.
            (1, 3, 3, "+---", "+++R"),
            (1, 3, 3, "+--+--", "++++++"),
            (1, 1, 3, "+---", "+--R"),
            (1, 5, 2, "+--", "++R"),
            (1, 3, 3, "ggggg--", "??-----"),
            (1, 3, 3, "ggggg---", "??-----R"),
            (1, 3, 3, "gg+---", "??+++R"),
            (1, 3, 0, "----------", "??--------"),
        ] {
            assert_eq!(
                play(success, failure, restart, results),
                expected,
                "{success} {failure} {restart} {results}"
            );
        }
    }

    #[test]
    fn one_that_fails_outweighs_one_that_is_not_known() {
        use Standing::{Failing, Passing, Pending};
        for (all, expected) in [
            (&[Passing, Passing][..], Some(true)),
            (&[Passing, Pending], None),
            (&[Pending, Failing], Some(false)),
            (&[Failing, Passing], Some(false)),
            (&[Pending], None),
        ] {
            assert_eq!(health(all.iter().copied()), expected, "{all:?}");
        }
    }
}
