//! The proof that a blob is what its digest says.

use kelson_image::Digest;
use ring::digest::{Context, SHA256};

/// Makes a [`Digest`] of bytes that pass by.
#[derive(Clone)]
pub struct Hasher(Context);

impl Hasher {
    /// The digest of bytes that are all there.
    pub fn of(bytes: &[u8]) -> Digest {
        let mut hasher = Self::default();
        hasher.update(bytes);
        hasher.finish()
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finish(self) -> Digest {
        let mut bytes = [0; 32];
        for (to, from) in bytes.iter_mut().zip(self.0.finish().as_ref()) {
            *to = *from;
        }
        Digest::new(bytes)
    }
}

impl Default for Hasher {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_the_specification() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Hasher::of(b"").to_string(), empty);
    }
}
