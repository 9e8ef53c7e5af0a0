//! Health checks: whether a run passes them now.
//!
//! [`Checks`] minds the checks of one run and is dropped with it: nothing that an earlier run passed or
//! failed counts for the next. A check asks through [`Probe`]; `level`, which is pure, decides when results
//! add up to passing and failing. The task of the service polls [`Checks::next`] as one more source of what
//! happens to it.
//!
//! An exec check is one future at a time: it waits until the check is due, asks, and is replaced. So no check runs twice
//! at the same time, nothing wakes up between two results, and dropping the checks ends all that they began.
//!
//! A network check is asked by `kelson-probe` ([`network`]). Its results are written where the check stands as they come,
//! and the task is woken only where something follows from one: a thousand checks a second that pass cost PID 1 next to
//! nothing. Whichever way a result came, what it means stands in one place, `check_state`.

pub use crate::prober::Verdict;

mod asking;
mod asks;
mod check_state;
mod engine;
mod exec;
mod history;
mod level;
pub mod network;
mod output;
mod plan;
mod reader;
mod totals;

pub use asks::{Asks, asks};
pub use engine::{Checks, MissingCheck, News, Recall, ToMind};
pub use level::Level;
pub use plan::{Answer, OwnCheck, Plan, Probe};
pub use totals::{CheckFigures, CheckTotals, NamedTotals, Totals};
