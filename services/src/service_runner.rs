//! One service: its state machine, and the task that owns it.
//!
//! [`table`] is the state machine. It is pure: it takes an input and the time, and returns effects.
//! [`task`] carries the effects out and turns their results into inputs. Nothing else changes a state.
//!
//! A service does one piece of work at a time ([`table::Work`]): asking `when`, preparing, spawning, stopping, cleaning
//! up. The work is a future in the task. A new piece of work replaces it, and dropping the future cancels every wait.

pub mod gate;
pub mod hooks;
pub mod host_context;
pub mod mailbox;
pub mod notify;
pub mod paths;
pub mod random;
pub mod readiness;
pub mod registry;
pub mod sockets;
pub mod table;
pub mod task;
pub mod words;

#[cfg(test)]
pub(crate) mod table_tests;
