//! All the services of the host: the state machine of one, the Manager of all, events, recovery state.

pub mod host;
pub mod manager;
pub mod model;

pub use manager::Manager;
pub use model::{Event, Snapshot, State};
