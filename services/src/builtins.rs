//! The services that Kelson brings along, one file each.

pub mod apid;
pub mod containerd;
pub mod logd;
pub mod probe;
