//! The way into a service: a queue that costs nothing while it is empty (a channel of tokio holds a block of 32).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// More than this is never waiting: each sender sends a handful and waits for the answer.
const BOUND: usize = 1024;

/// Both ends of the queue; the task keeps one, each sender clones another.
pub struct Mailbox<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    /// `None`: nobody receives any more.
    queue: Mutex<Option<VecDeque<T>>>,
    filled: Notify,
}

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Self {
        Mailbox { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Mailbox {
            shared: Arc::new(Shared { queue: Mutex::new(Some(VecDeque::new())), filled: Notify::new() }),
        }
    }
}

impl<T> Mailbox<T> {
    fn queue(&self) -> std::sync::MutexGuard<'_, Option<VecDeque<T>>> {
        self.shared.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a message in. `Err` gives it back when the queue is full or nobody receives any more.
    pub fn send(&self, message: T) -> Result<(), T> {
        match self.queue().as_mut() {
            Some(queue) if queue.len() < BOUND => {
                if queue.capacity() == 0 {
                    // One message waits as a rule, and this stays with each service: room for no more.
                    queue.reserve_exact(1);
                }
                queue.push_back(message);
            }
            _ => return Err(message),
        }
        self.shared.filled.notify_one();
        Ok(())
    }

    /// The next message. Cancelled by dropping; loses nothing then.
    pub async fn receive(&self) -> T {
        loop {
            if let Some(message) = self.take() {
                return message;
            }
            self.shared.filled.notified().await;
        }
    }

    /// Nobody receives any more; what still was in it.
    pub fn close(&self) -> VecDeque<T> {
        self.queue().take().unwrap_or_default()
    }

    fn take(&self) -> Option<T> {
        let mut queue = self.queue();
        let queue = queue.as_mut()?;
        let message = queue.pop_front();
        if queue.is_empty() && queue.capacity() > 16 {
            queue.shrink_to_fit();
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_come_in_order_and_a_dropped_receive_loses_none() {
        let mailbox = Mailbox::default();
        let other = mailbox.clone();
        {
            let receive = mailbox.receive();
            tokio::pin!(receive);
            assert!(futures_poll(receive.as_mut()).await.is_none());
        }
        for n in 0..3 {
            other.send(n).unwrap();
        }
        for n in 0..3 {
            assert_eq!(mailbox.receive().await, n);
        }
    }

    #[tokio::test]
    async fn a_full_mailbox_gives_the_message_back() {
        let mailbox = Mailbox::default();
        for n in 0..BOUND {
            mailbox.send(n).unwrap();
        }
        assert_eq!(mailbox.send(9), Err(9));
        assert_eq!(mailbox.close().len(), BOUND);
        assert_eq!(mailbox.send(9), Err(9));
    }

    async fn futures_poll<F: std::future::Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(match future.as_mut().poll(context) {
                std::task::Poll::Ready(out) => Some(out),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }
}
