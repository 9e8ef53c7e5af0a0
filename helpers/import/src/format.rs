//! Kinds of YAML files whose services become containers.

use std::fmt::Debug;

/// A kind of YAML files whose services become containers.
pub trait Format: 'static {
    /// For messages: `compose files`.
    const FILES: &'static str;
    /// How keys begin that are for other programs.
    const OF_OTHERS: Option<&'static str>;
    /// What the services of a file share.
    type Context<'c>: Debug;
}
