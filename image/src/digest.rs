//! Digests: what a blob is called.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// The sha256 of some bytes, written `sha256:` and 64 hex digits. Other algorithms are refused: nobody writes them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is not a digest: sha256: and 64 of 0-9a-f would be right")]
pub struct DigestError(String);

impl Digest {
    pub const fn new(sha256: [u8; 32]) -> Self {
        Self(sha256)
    }

    /// Reads `sha256:…`, lower case as the specification has it.
    pub fn parse(text: &str) -> Result<Self, DigestError> {
        text.strip_prefix("sha256:")
            .and_then(Self::from_hex)
            .ok_or_else(|| DigestError(text.chars().take(100).collect()))
    }

    /// Reads the 64 digits alone, as blobs are named.
    pub fn from_hex(hex: &str) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte.wrapping_sub(b'0')),
            b'a'..=b'f' => Some(byte.wrapping_sub(b'a').wrapping_add(10)),
            _ => None,
        };
        let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
        let mut bytes = [0; 32];
        if pairs.len() != bytes.len() || !rest.is_empty() {
            return None;
        }
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(Self(bytes))
    }

    pub fn hex(&self) -> String {
        let digit = |n: u8| char::from_digit(u32::from(n), 16).unwrap_or('0');
        self.0.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn a_digest_is_read_and_written_the_same() {
        let digest = Digest::parse(EMPTY).unwrap();
        assert_eq!(digest.to_string(), EMPTY);
        assert_eq!(Digest::from_hex(&digest.hex()), Some(digest));
        assert!(Digest::new([0; 32]).to_string().ends_with(&"0".repeat(64)));
    }

    #[test]
    fn what_is_no_sha256_is_refused() {
        for wrong in [
            "",
            "sha256:",
            "sha512:00",
            &EMPTY[..70],
            &format!("{EMPTY}0"),
            &format!("{EMPTY}00"),
            &EMPTY.to_uppercase(),
            &EMPTY.replace('e', "g"),
            "sha256:é3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b85",
        ] {
            assert!(Digest::parse(wrong).is_err(), "{wrong}");
        }
    }
}
