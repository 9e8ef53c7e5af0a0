//! Chance, for jitter.

/// A small generator for jitter; nobody's secret depends on it.
pub struct Random(u64);

impl Default for Random {
    fn default() -> Random {
        Random::new()
    }
}

impl Random {
    pub fn new() -> Random {
        use std::hash::{BuildHasher as _, Hasher as _};
        Random(std::collections::hash_map::RandomState::new().build_hasher().finish() | 1)
    }

    /// Any number (xorshift).
    pub fn draw(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from(self.0 >> 32).unwrap_or_default()
    }
}
