//! A task that follows something for as long as somebody listens, and is gone otherwise.

use std::future::Future;
use std::sync::{Arc, Mutex};

use kelson_sys::lock;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A value that a task keeps up to date while there are receivers. Without any, the value is `T::default()`, which
/// must mean "not known", and there is no task.
#[derive(Default)]
pub(crate) struct OnDemand<T> {
    sender: watch::Sender<T>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl<T: Default + Send + Sync + 'static> OnDemand<T> {
    /// A receiver of the value. The first one starts `follow`, which publishes what it learns through the sender that
    /// it is given; it is dropped when the last receiver is gone.
    pub(crate) fn subscribe<F, U>(self: &Arc<Self>, follow: F) -> watch::Receiver<T>
    where
        F: FnOnce(watch::Sender<T>) -> U,
        U: Future<Output = ()> + Send + 'static,
    {
        let mut task = lock(&self.task);
        let receiver = self.sender.subscribe();
        // One that has finished was ended by the end of its runtime.
        if task.as_ref().is_none_or(JoinHandle::is_finished) {
            *task = Some(kelson_sys::spawn(Arc::clone(self).run(follow(self.sender.clone()))));
        }
        receiver
    }

    async fn run(self: Arc<Self>, work: impl Future<Output = ()> + Send) {
        let mut work = Box::pin(async move {
            work.await;
            std::future::pending::<()>().await;
        });
        loop {
            tokio::select! {
                () = &mut work => {}
                () = self.sender.closed() => {
                    let mut task = lock(&self.task);
                    if self.sender.receiver_count() == 0 {
                        *task = None;
                        self.sender.send_replace(T::default());
                        return;
                    }
                }
            }
        }
    }

    /// Publishes a value that somebody else has learned, if there is a task.
    pub(crate) fn offer(&self, value: T)
    where
        T: PartialEq,
    {
        if lock(&self.task).is_some() {
            publish(&self.sender, value);
        }
    }

    /// Ends the task: nobody learns of a change any more.
    pub(crate) async fn end(&self) {
        let task = lock(&self.task).take();
        if let Some(task) = task {
            task.abort();
            let _ = task.await;
        }
    }

    #[cfg(test)]
    pub(crate) fn is_running(&self) -> bool {
        lock(&self.task).is_some()
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
