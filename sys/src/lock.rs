//! Locks that a panic does not close.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock also after a thread panicked while it held it. For what is whole between any two statements.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
