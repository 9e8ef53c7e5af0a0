//! What PID 1 and `kelson-task` say to each other.

#[path = "../../../init/src/task/request.rs"]
mod request;
#[path = "../../../init/src/task/run.rs"]
mod run;

pub use request::Request;
pub use run::{Launcher, TaskError, run};
