//! What PID 1 wants to be registered.

use std::collections::BTreeMap;

use kelson_proto::v1::{FleetHealth, FleetRegister};

#[derive(Default)]
pub struct Truth {
    pub services: BTreeMap<String, FleetRegister>,
    /// All of them have been sent.
    pub is_complete: bool,
    pub health: Option<FleetHealth>,
    pub facts: Option<BTreeMap<String, String>>,
}
