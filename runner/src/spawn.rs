//! Making one child: what is prepared before the clone, the clone itself, and the steps of the child up to its exec.
//!
//! The child shares the memory of PID 1 until it executes its program (`CLONE_VM | CLONE_VFORK`), so that a start
//! costs the same however large PID 1 is. The price: between clone and exec nothing may allocate, lock or call into
//! libc. Therefore [`plan`] makes everything ready beforehand as plain pointers, [`child`] only walks through it with
//! the raw calls of [`sys`], and says in [`control`] which step it is in and why that failed.

pub(crate) mod child;
pub(crate) mod clone;
pub(crate) mod control;
mod error;
pub(crate) mod plan;
pub(crate) mod stack;
pub(crate) mod sys;
pub(crate) mod window;

pub(crate) use error::Subject;
pub use error::{SpawnError, Step, errno_text};
pub use plan::search_path;
pub use sys::SET_IO_FLUSHER;
