//! Chance, for jitter.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

/// A small generator for jitter; nobody's secret depends on it.
pub struct Random(u64);

impl Random {
    /// Drawn from what tells its owner from others, and from the moment: on a host no two are alike, and where a clock
    /// stands still (a test that is played again) each comes out the same.
    pub fn of(owner: &str, moment: Duration) -> Random {
        let mut hasher = DefaultHasher::new();
        (owner, moment).hash(&mut hasher);
        Random(hasher.finish() | 1)
    }

    /// Another one, for a part of the same owner.
    pub fn branch(&mut self) -> Random {
        self.draw();
        Random(self.0.rotate_left(17) | 1)
    }

    /// Any number (xorshift).
    pub fn draw(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from(self.0 >> 32).unwrap_or_default()
    }
}
