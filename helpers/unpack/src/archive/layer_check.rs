//! A layer, checked while its bytes pass on their way to containerd or into a folder.
//!
//! containerd unpacks the layer with root's power, and guards itself against most of what is refused here. This is the
//! second lock, and it speaks plainly: what is wrong is known before anything of the layer is unpacked.

mod checked;
mod entries;
mod paths;
#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, clippy::cast_possible_truncation)]
mod tests;
mod unpacking;

use std::io::Write;

pub use checked::{Checked, LayerError};
use entries::Entries;
use unpacking::Unpacking;

/// Checks a layer that is fed to it in pieces, compressed as it is in the archive. Its memory is bounded whatever the
/// layer holds. After an error every further call gives the same error.
pub struct LayerCheck(Unpacking);

impl LayerCheck {
    /// `space`: bytes that the disk has; a layer that unpacks to more is refused as soon as that is known.
    pub fn new(space: u64) -> Self {
        Self(Unpacking::new(Entries::new(space)))
    }

    /// Passes the uncompressed bytes on, as soon as they are checked.
    #[must_use]
    pub fn passing_to(mut self, taker: impl Write + Send + 'static) -> Self {
        self.0.pass_to(Box::new(taker));
        self
    }

    /// Takes the next bytes of the layer.
    pub fn update(&mut self, bytes: &[u8]) -> Result<(), LayerError> {
        self.0.update(bytes)
    }

    /// All bytes of the layer have passed.
    pub fn finish(self) -> Result<Checked, LayerError> {
        self.0.finish()?.finish()
    }
}
