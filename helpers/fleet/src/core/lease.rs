//! The lease of the host: when it is renewed, and when the store may have removed it.

use std::time::{Duration, UNIX_EPOCH};

use super::Core;
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

impl Core {
    /// The store has confirmed it to a request of this time.
    pub(super) fn confirm_lease(&mut self, began: Now) {
        let renew = self.renewal_after(began);
        if let Some(lease) = &mut self.lease {
            (lease.confirmed, lease.renew) = (Some(began), renew);
        }
    }

    /// The store has removed it with all its keys.
    pub(super) fn forget_lease(&mut self) {
        let Some(lease) = self.lease.take() else { return };
        let looked = &mut self.store.looked;
        looked.entries.retain(|_, stored| stored.lease != lease.id);
        if looked.host.as_ref().is_some_and(|(stored, _)| stored.lease == lease.id) {
            looked.host = None;
        }
        self.store.is_read = false;
    }

    /// When the store may have removed the keys of the host, unless it confirms the lease before.
    pub(super) fn lost_at(&self) -> Option<Moment> {
        let lease = self.lease?;
        Some(lease.confirmed?.at.saturating_add(lease.ttl))
    }

    /// When a lease that was confirmed by a request of this time is renewed: about a third of the TTL later, at a mark of the
    /// time of day. The marks are those of all hosts, so the store wakes up once for many of them.
    pub(super) fn renewal_after(&mut self, began: Now) -> Moment {
        let third = self.third();
        let mark = self.ttl().checked_div(MARKS).unwrap_or_default();
        let wall = began.wall.duration_since(UNIX_EPOCH).unwrap_or_default().saturating_add(third);
        let early = wall.as_nanos().checked_rem(mark.as_nanos()).unwrap_or_default();
        let early = Duration::from_nanos(u64::try_from(early).unwrap_or_default());
        began.at.saturating_add(third.saturating_sub(early))
    }

    /// A third of the TTL, with 10 % more or less.
    pub(super) fn third(&mut self) -> Duration {
        let third = self.ttl().checked_div(3).unwrap_or_default();
        let tenth = third.checked_div(10).unwrap_or_default();
        third.saturating_sub(tenth).saturating_add(self.random.part_of(tenth.saturating_mul(2)))
    }

    fn ttl(&self) -> Duration {
        self.lease.map_or(self.limits.ttl, |lease| lease.ttl)
    }
}
