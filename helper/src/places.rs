//! The connected clients: a bounded number, and one that asks for nothing gives its place to a new one.
//!
//! Without that, a program that connects and never speaks, or forgets to hang up, would keep the operator out. logd and
//! PID 1 do it alike.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// All places of a socket.
pub struct Places {
    most: usize,
    taken: Mutex<Vec<Arc<Client>>>,
}

struct Client {
    /// Calls under way.
    calls: AtomicUsize,
    /// When it began to ask for nothing.
    idle_since: Mutex<Instant>,
    given_away: Notify,
}

/// The place of one connection; free when dropped.
pub struct Place {
    places: Arc<Places>,
    client: Arc<Client>,
}

/// A call that is under way until this is dropped.
pub struct Call(Arc<Client>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Places {
    pub fn new(most: usize) -> Arc<Places> {
        Arc::new(Places { most, taken: Mutex::default() })
    }

    /// A place, be it that of who has asked for nothing for longest. `None`: all that are connected are being served.
    pub fn take(self: &Arc<Self>) -> Option<Place> {
        let full = lock(&self.taken).len() >= self.most;
        if full && !self.make_room(Duration::ZERO) {
            return None;
        }
        let client = Arc::new(Client {
            calls: AtomicUsize::new(0),
            idle_since: Mutex::new(Instant::now()),
            given_away: Notify::new(),
        });
        lock(&self.taken).push(Arc::clone(&client));
        Some(Place { places: Arc::clone(self), client })
    }

    /// Has the one leave that has asked for nothing for longest, and at least for so long. False: there is none.
    pub fn make_room(&self, least: Duration) -> bool {
        let mut taken = lock(&self.taken);
        let idle = |client: &&Arc<Client>| {
            client.calls.load(Ordering::SeqCst) == 0 && lock(&client.idle_since).elapsed() >= least
        };
        let longest = taken.iter().filter(idle).min_by_key(|client| *lock(&client.idle_since)).cloned();
        let Some(longest) = longest else { return false };
        taken.retain(|client| !Arc::ptr_eq(client, &longest));
        longest.given_away.notify_one();
        true
    }
}

impl Place {
    /// A call begins.
    pub fn call(&self) -> Call {
        self.client.calls.fetch_add(1, Ordering::SeqCst);
        Call(Arc::clone(&self.client))
    }

    /// Returns when another has the place. Cancelled by dropping.
    pub fn given_away(&self) -> impl Future<Output = ()> + Send + Sync + use<> {
        let client = Arc::clone(&self.client);
        async move { client.given_away.notified().await }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.places.taken).retain(|client| !Arc::ptr_eq(client, &self.client));
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        *lock(&self.0.idle_since) = Instant::now();
        self.0.calls.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn left(place: &Place) -> bool {
        tokio::time::timeout(Duration::from_millis(1), place.given_away()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_asked_for_nothing_for_longest_goes_first_and_who_is_served_stays() {
        let places = Places::new(3);
        let (busy, first, second) = (places.take().unwrap(), places.take().unwrap(), places.take().unwrap());
        let under_way = busy.call();
        tokio::time::advance(Duration::from_secs(1)).await;
        drop(first.call());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(!places.make_room(Duration::from_secs(3)), "nobody has been idle for so long");
        let third = places.take().unwrap();
        assert!(left(&second).await && !left(&first).await && !left(&busy).await);
        let fourth = places.take().unwrap();
        assert!(left(&first).await);
        let calls = (third.call(), fourth.call());
        assert!(places.take().is_none() && !places.make_room(Duration::ZERO), "all three are being served");
        drop(under_way);
        assert!(places.take().is_some());
        assert!(left(&busy).await);
        drop(calls);
    }

    #[tokio::test]
    async fn who_leaves_frees_the_place() {
        let places = Places::new(1);
        for _ in 0..3 {
            let place = places.take().unwrap();
            let _under_way = place.call();
        }
        assert!(places.take().is_some());
    }
}
