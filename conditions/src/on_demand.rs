//! A task that follows something for as long as somebody listens, and is gone otherwise.

use std::future::Future;
use std::sync::{Arc, Mutex};

use kelson_sys::lock;
use tokio::sync::watch;

/// A value that a task keeps up to date while there are receivers. Without any, the value is `T::default()`, which
/// must mean "not known", and there is no task.
#[derive(Default)]
pub(crate) struct OnDemand<T> {
    sender: watch::Sender<T>,
    running: Mutex<bool>,
}

impl<T: Default + Send + Sync + 'static> OnDemand<T> {
    /// A receiver of the value. The first one starts `follow`, which publishes what it learns through the sender that
    /// it is given; it is dropped when the last receiver is gone.
    pub(crate) fn subscribe<F, U>(self: &Arc<Self>, follow: F) -> watch::Receiver<T>
    where
        F: FnOnce(watch::Sender<T>) -> U,
        U: Future<Output = ()> + Send + 'static,
    {
        let mut running = lock(&self.running);
        let receiver = self.sender.subscribe();
        if !*running {
            *running = true;
            let work = follow(self.sender.clone());
            tokio::spawn(Arc::clone(self).run(work));
        }
        receiver
    }

    async fn run(self: Arc<Self>, work: impl Future<Output = ()> + Send) {
        // Also when the runtime ends first, so that the next runtime starts another.
        let mut ended = Ended { hub: &self, early: true };
        let mut work = Box::pin(async move {
            work.await;
            std::future::pending::<()>().await;
        });
        loop {
            tokio::select! {
                () = &mut work => {}
                () = self.sender.closed() => {
                    let mut running = lock(&self.running);
                    if self.sender.receiver_count() == 0 {
                        *running = false;
                        self.sender.send_replace(T::default());
                        ended.early = false;
                        return;
                    }
                }
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn is_running(&self) -> bool {
        *lock(&self.running)
    }
}

struct Ended<'a, T: Default + Send + Sync + 'static> {
    hub: &'a OnDemand<T>,
    early: bool,
}

impl<T: Default + Send + Sync + 'static> Drop for Ended<'_, T> {
    fn drop(&mut self) {
        if self.early {
            *lock(&self.hub.running) = false;
        }
    }
}

/// Sends a value if it is another than the last.
pub(crate) fn publish<T: PartialEq>(sender: &watch::Sender<T>, value: T) {
    sender.send_if_modified(|last| {
        let differs = *last != value;
        if differs {
            *last = value;
        }
        differs
    });
}
