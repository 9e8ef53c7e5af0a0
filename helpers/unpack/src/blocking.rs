//! Work on threads beside the one that speaks with containerd and PID 1.

use crate::error::UnpackError;

/// Work that may wait for a disk, on a thread of its own: PID 1 hears signs of life meanwhile.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, UnpackError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| UnpackError::Thread)
}
