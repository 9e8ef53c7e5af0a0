//! Tasks of tokio, with one copy of its code for all.

use std::future::Future;
use std::pin::Pin;

use tokio::task::JoinHandle;

/// A future of any type.
pub type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// As [`tokio::spawn`]. That one compiles a kilobyte of its own code for each type of future, of which Kelson has sixty;
/// here there is one type of future for each type of output, for an allocation and an indirect call.
pub fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(boxed(work))
}

/// For a [`tokio::task::JoinSet`], as [`spawn`].
pub fn boxed<T>(work: impl Future<Output = T> + Send + 'static) -> Boxed<T> {
    Box::pin(work)
}
