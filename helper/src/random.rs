//! Chance for jitter: nobody's secret, only nobody's beat.

use std::time::Duration;

/// A small generator (xorshift) of its own seed.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    pub fn seeded() -> Random {
        let seed = kelson_sys::random::number().unwrap_or_default();
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        // Never zero: from there it does not move.
        Random((seed ^ u64::from(time.subsec_nanos()) ^ u64::from(std::process::id())) | 1)
    }

    fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Anything from nothing to just below `span`, in steps of a 1024th.
    pub fn part_of(&mut self, span: Duration) -> Duration {
        let chance = u32::try_from(self.draw() % 1024).unwrap_or_default();
        span.checked_div(1024).unwrap_or_default().saturating_mul(chance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_less_than_the_whole_and_all_parts_come() {
        let mut random = Random::seeded();
        let span = Duration::from_millis(1024);
        let parts: Vec<u128> = (0..1000).map(|_| random.part_of(span).as_millis()).collect();
        assert!(parts.iter().all(|part| *part < 1024));
        for quarter in 0..4 {
            assert!(parts.iter().filter(|part| **part / 256 == quarter).count() > 150, "{parts:?}");
        }
        assert_eq!(random.part_of(Duration::ZERO), Duration::ZERO);
    }
}
