//! How `kelson-load` hands its findings to PID 1, and PID 1 a check to `kelson-probe`: Kelson's own bytes, written and
//! read by the same binary.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why a hand-over could not be read.
#[derive(Debug, thiserror::Error)]
#[error("what was handed over is damaged: {0}")]
pub struct WireError(#[from] postcard::Error);

/// # Errors
/// When memory is short.
pub fn encode(value: &impl Serialize) -> Result<Vec<u8>, WireError> {
    Ok(postcard::to_allocvec(value)?)
}

/// # Errors
/// When the bytes are not what [`encode`] wrote.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, WireError> {
    Ok(postcard::from_bytes(bytes)?)
}
