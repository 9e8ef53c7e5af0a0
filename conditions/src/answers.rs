//! What is known of the registry of the fleet.

use std::collections::BTreeMap;
use std::time::SystemTime;

use kelson_spec::fleet::Instances;

/// What is known of all that services wait for. Of what is not in it nothing is known yet.
pub type Answers = BTreeMap<Instances, Answer>;

/// What is known of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Registered(Count),
    /// The store has not answered for longer than its last answer counts.
    Silent,
}

/// How many are registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    /// With the tag, where one is asked for.
    pub count: u32,
    /// With the tag or without it.
    pub all: u32,
    /// When this was so, if the store does not answer now.
    pub as_of: Option<SystemTime>,
}
