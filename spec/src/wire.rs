//! How `kelson-load` hands its findings to PID 1: Kelson's own bytes, written and read by the same binary.

use crate::loaded::Loaded;

/// Why a hand-over could not be read.
#[derive(Debug, thiserror::Error)]
#[error("the hand-over of kelson-load is damaged: {0}")]
pub struct WireError(#[from] postcard::Error);

/// # Errors
/// When memory is short.
pub fn encode(loaded: &Loaded) -> Result<Vec<u8>, WireError> {
    Ok(postcard::to_allocvec(loaded)?)
}

/// # Errors
/// When the bytes are not what [`encode`] wrote.
pub fn decode(bytes: &[u8]) -> Result<Loaded, WireError> {
    Ok(postcard::from_bytes(bytes)?)
}
