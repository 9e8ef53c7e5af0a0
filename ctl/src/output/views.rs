//! The output for programs: the stable shape of JSON and YAML, made of the messages of the host.
//! `docs/kelsonctl.md` describes it.
//!
//! A field is never renamed and never changes its type; new ones may be added, except to `services` and `events`, whose
//! fields are a contract of their own. A time is text as of RFC 3339, a duration a number of milliseconds; both are null
//! where they are not known, as is what [`value::some`] finds empty.

pub mod service;
pub mod value;

pub use value::{View, joined, some};
pub(crate) use value::{object, views};
