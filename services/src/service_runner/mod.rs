//! One service from its file to its end: the state machine around it and the task that owns it.
//!
//! Read [`table`] for what follows what: it is pure, gets an input and the time, and answers with effects.
//! [`task`] carries the effects out and turns what they bring back into inputs. Nothing else changes a state.
//!
//! One service does one piece of work at a time ([`table::Work`]): asking `when`, preparing, spawning, stopping,
//! cleaning up. The work is a future in the task; a new piece of work drops the old one, and that is how everything
//! that waits is cancelled.

pub mod gate;
pub mod hooks;
pub mod host_context;
pub mod mailbox;
pub mod notify;
pub mod random;
pub mod readiness;
pub mod registry;
pub mod table;
pub mod task;
pub mod words;

#[cfg(test)]
pub(crate) mod table_tests;
