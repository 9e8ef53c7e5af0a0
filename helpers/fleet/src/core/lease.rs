//! The lease of the host: when it is renewed, and when the store may have removed it.

use std::time::{Duration, UNIX_EPOCH};

use kelson_helper::random::Random;

use crate::clock::{Moment, Now};

/// Of one TTL: the moments at which hosts renew their leases are 250 ms apart.
const MARKS: u32 = 120;

#[derive(Debug, Clone, Copy)]
pub struct Lease {
    pub id: i64,
    pub ttl: Duration,
    /// The last request that the store has confirmed it to.
    pub confirmed: Option<Now>,
    pub renew: Moment,
    /// All has been registered with it by this process.
    pub is_used: bool,
}

impl Lease {
    /// Renewed at once, and confirmed to nobody.
    pub fn new(id: i64, ttl: Duration, now: Moment) -> Lease {
        Lease { id, ttl, confirmed: None, renew: now, is_used: false }
    }

    /// The store has confirmed it to a request of this time.
    pub fn confirm(&mut self, began: Now, random: &mut Random) {
        (self.confirmed, self.renew) = (Some(began), renewal_after(began, self.ttl, random));
    }

    /// When the store may have removed the keys of the host, unless it confirms the lease before.
    pub fn lost_at(self) -> Option<Moment> {
        Some(self.confirmed?.at.saturating_add(self.ttl))
    }
}

/// When a lease that was confirmed by a request of this time is renewed: about a third of the TTL later, at a mark of the
/// time of day. The marks are those of all hosts, so the store wakes up once for many of them.
fn renewal_after(began: Now, ttl: Duration, random: &mut Random) -> Moment {
    let third = third(ttl, random);
    let mark = ttl.checked_div(MARKS).unwrap_or_default();
    let wall = began.wall.duration_since(UNIX_EPOCH).unwrap_or_default().saturating_add(third);
    let early = wall.as_nanos().checked_rem(mark.as_nanos()).unwrap_or_default();
    let early = Duration::from_nanos(u64::try_from(early).unwrap_or_default());
    began.at.saturating_add(third.saturating_sub(early))
}

/// A third of the TTL, with 10 % more or less.
pub fn third(ttl: Duration, random: &mut Random) -> Duration {
    let third = ttl.checked_div(3).unwrap_or_default();
    let tenth = third.checked_div(10).unwrap_or_default();
    third.saturating_sub(tenth).saturating_add(random.part_of(tenth.saturating_mul(2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn hosts_renew_their_leases_at_the_same_moments() {
        let (ttl, mut random) = (30 * SECOND, Random::seeded());
        // The host was started at any time, and its clock may be set at any time.
        for wall in [0, 1, 249_999, 250_000, 1_795_000_000_123_456] {
            let began = Now { at: 77 * SECOND, wall: UNIX_EPOCH + Duration::from_micros(wall) };
            let later = renewal_after(began, ttl, &mut random) - began.at;
            assert!((8_750..=11_000).contains(&later.as_millis()), "{later:?}");
            let mark = (Duration::from_micros(wall) + later).as_nanos() % 250_000_000;
            assert_eq!(mark, 0, "{wall}");
        }
        let before = Now { at: SECOND, wall: UNIX_EPOCH - SECOND };
        assert!(renewal_after(before, ttl, &mut random) > SECOND, "before 1970");
    }
}
