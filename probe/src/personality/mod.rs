//! The personality `kelson-probe`: asks, and tells PID 1 what came of it.

pub(crate) mod timing;
