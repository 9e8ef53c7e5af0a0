//! `kelson-task`: one call that may hang, made by a process of its own.
//!
//! A dead disk puts whoever touches it into a sleep that no signal ends. So PID 1 touches none: it starts this
//! personality with the request as arguments, and waits for its answer no longer than a deadline. After that the
//! process is left behind, and that is said.
//!
//! The request is in the arguments, so that `ps` shows what hangs (`kelson-task mount /dev/vdb /var ext4`). The
//! answer is one line on standard output, `done` or `failed` and a text; an end without it is a failure.

mod clock;
mod identity;
mod network;
mod parameters;
mod perform;
mod read_only;
mod request;
mod run;

pub use clock::is_set as clock_is_set;
pub use perform::{RESTART_NEEDED, main, perform};
pub use request::Request;
pub use run::{Launcher, TaskError, run};

#[cfg(test)]
pub use run::testing;
