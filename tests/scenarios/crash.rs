//! PID 1 crashes: it goes on with the same PID and the same services, or ends the run in order.

mod calls;
mod limit;
pub mod shutdown;
mod survives;
