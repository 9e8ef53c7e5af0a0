//! How long all members of a group have been up together. Pure: time comes in as an argument.

use std::time::Duration;

use tokio::time::Instant;

/// Followed from the first restart of a group on.
#[derive(Debug, Default)]
pub struct Stability {
    /// The group has been restarted.
    followed: bool,
    /// Since when all its members are up.
    since: Option<Instant>,
    /// The longest time for which they were, since the last restart.
    longest: Duration,
}

impl Stability {
    pub fn is_followed(&self) -> bool {
        self.followed
    }

    /// Its members are all up, or not.
    pub fn see(&mut self, well: bool, now: Instant) {
        match (well, self.since) {
            (true, None) => self.since = Some(now),
            (false, Some(since)) => {
                self.longest = self.longest.max(now.saturating_duration_since(since));
                self.since = None;
            }
            _ => {}
        }
    }

    /// The group restarts. Returns the longest time for which all were up since the last restart.
    pub fn restart(&mut self, now: Instant) -> Duration {
        self.see(false, now);
        self.followed = true;
        std::mem::take(&mut self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_time_since_the_last_restart_counts() {
        let secs = Duration::from_secs;
        let begun = Instant::now();
        let mut stability = Stability::default();
        assert!(!stability.is_followed());
        assert_eq!(stability.restart(begun), Duration::ZERO);
        assert!(stability.is_followed());
        for (up, down) in [(0, 8), (10, 21), (30, 33)] {
            stability.see(true, begun + secs(up));
            stability.see(true, begun + secs(up + 1));
            stability.see(false, begun + secs(down));
            stability.see(false, begun + secs(down + 1));
        }
        assert_eq!(stability.restart(begun + secs(40)), secs(11));
        // The restart itself may be the first to see that they are not up.
        stability.see(true, begun + secs(50));
        assert_eq!(stability.restart(begun + secs(65)), secs(15));
        assert_eq!(stability.restart(begun + secs(66)), Duration::ZERO);
    }
}
