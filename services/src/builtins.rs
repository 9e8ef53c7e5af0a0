//! The services that Kelson brings along, one file each.

pub mod apid;
pub mod containerd;
pub mod fleet;
mod helper;
pub mod logd;
pub mod probe;
pub mod program;
pub mod timers;
pub mod volumes;
