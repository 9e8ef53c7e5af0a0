//! Things that become true: a path exists, a file system is mounted, the network is there, the clock is right, and
//! `all` or `any` of them.
//!
//! A condition is a level, not an edge: it is asked whether it holds *now*. What held once and holds no longer
//! counts for nothing.
//!
//! - `condition`: the trait [`Condition`]. `compose`: [`All`], [`Any`] and [`Not`] of other conditions.
//! - `sources`: [`Sources`], which makes the condition that a requirement of a service file stands for. Each file
//!   below it follows one subject.
//! - `answers`: [`Answers`], what is known of the registry of a fleet.
//! - `missing`: [`Missing`], what a condition lacks, as data and as text.
//!
//! The hubs open nothing until the first condition wants it, and close it after the last. Conditions are made inside
//! a tokio runtime, which runs what follows their subject.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

mod answers;
mod compose;
mod condition;
mod kernel_file;
mod missing;
mod on_demand;
mod sources;

pub use answers::{Answer, Answers, Count};
pub use compose::{All, Any, Not};
pub use condition::{BoxFuture, Condition, Level};
pub use missing::{Missing, Reason, Subject, sentence};
pub use sources::{
    Clock, ClockSource, FactSource, Facts, FactsAnswer, Network, PathCondition, Paths, Registered,
    RegisteredCondition, Sources, TemplateStates, Templates, path_helper,
};
