//! An action on many hosts of a fleet, in waves: the next wave begins once all hosts of the one before have been healthy for
//! long enough.
//!
//! The [`plan`] says which host is in which wave and how each stands; it is pure. The [`runner`] carries it out, with
//! [`members`] that reach the hosts and a [`record`] that keeps the plan in the store of the fleet. Whatever is written there
//! before an action tells the next coordinator whether the action was done.

pub mod configuration;
pub mod members;
pub mod plan;
pub mod record;
pub mod restart;
pub mod runner;
pub mod waves;
