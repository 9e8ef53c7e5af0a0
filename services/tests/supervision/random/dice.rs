//! Chance that can be thrown again.

/// One seed, one row of throws.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // Small seeds differ in few bits; a few throws spread them.
        for _ in 0..8 {
            dice.roll(2);
        }
        dice
    }

    /// Below the bound.
    pub fn roll(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    /// One time in `bound`.
    pub fn one_in(&mut self, bound: u64) -> bool {
        self.roll(bound) == 0
    }

    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.roll(of.len() as u64)).unwrap()].clone()
    }
}
