//! A runtime whose clock jumps: what would wait for minutes is over at once.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime")
}

/// Runs `work` for at most so long, by a clock that jumps. Tasks that it has left running end with it.
pub fn within<F: Future>(limit: Duration, work: F) -> Option<F::Output> {
    runtime().block_on(async { tokio::time::timeout(limit, work).await.ok() })
}
