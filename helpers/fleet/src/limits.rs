//! The deadlines and pauses of the helper.

use std::time::Duration;

use kelson_spec::fleet::FleetSpec;

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The store removes all keys of the host this long after the last renewal. Whole seconds.
    pub ttl: Duration,
    /// A member that owes an answer and sends nothing for this time is down.
    pub silence: Duration,
    /// Of each call, while its member sends something. A store that many hosts ask at once is late, and to ask it again
    /// makes it later.
    pub call: Duration,
    /// Until PID 1 gets an answer about a removal.
    pub removal: Duration,
    /// A host whose lease has expired while it was cut off registers again within this time, at random: hosts that were
    /// cut off together do not return together.
    pub spread: Duration,
    /// The longest pause after the first failure. It doubles with each failure.
    pub first_retry: Duration,
    /// The longest pause after many failures.
    pub last_retry: Duration,
    /// Between two puts of the host's key for its causes alone.
    pub causes: Duration,
    /// The helper reads its keys from the store again this often, even when nothing has failed.
    pub look: Duration,
    /// A template is rendered when its data have not changed for this time,
    pub quiet: Duration,
    /// or this long after the first change.
    pub gathered: Duration,
    /// How often the helper looks for changes of the files of templates.
    pub sources: Duration,
}

impl Limits {
    /// The longest pause before the next attempt after this number of failures in a row.
    pub fn longest_pause(&self, failures: u32) -> Duration {
        self.first_retry.saturating_mul(1 << failures.min(8)).min(self.last_retry)
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            ttl: FleetSpec::TTL,
            silence: Duration::from_secs(5),
            call: Duration::from_secs(10),
            removal: Duration::from_secs(5),
            spread: Duration::from_secs(20),
            first_retry: Duration::from_secs(1),
            last_retry: Duration::from_secs(15),
            causes: Duration::from_secs(10),
            look: Duration::from_secs(300),
            quiet: Duration::from_secs(1),
            gathered: Duration::from_secs(10),
            sources: Duration::from_secs(5),
        }
    }
}
