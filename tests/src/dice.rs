//! Chance that can be had again: the same seed, the same throws.

/// xorshift64*.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        // Not 0, which would stay 0, and not a small number, whose first throws would be alike.
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d | 1)
    }

    pub fn throw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.throw() % end.max(1)
    }

    pub fn millis(&mut self, end: u64) -> std::time::Duration {
        std::time::Duration::from_millis(self.below(end))
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}
