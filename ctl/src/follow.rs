//! Streams that outlive a connection: PID 1 executes itself anew, logd is replaced, and the stream goes on.

use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::output::note_of;

/// For so long a new connection is tried for.
const PATIENCE: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The pauses between attempts at a new connection, and the end of patience.
#[derive(Debug, Default)]
pub struct Reconnect {
    broken: Option<Instant>,
    pause: Duration,
    quiet: bool,
    /// The host it goes to, where there are several.
    node: Option<String>,
}

impl Reconnect {
    /// One that tells of breaks, with the host's name where it has one.
    pub fn new(node: Option<&str>) -> Reconnect {
        Reconnect { node: node.map(str::to_owned), ..Reconnect::default() }
    }

    /// One that tells nobody of breaks that pass.
    pub fn quiet() -> Reconnect {
        Reconnect { quiet: true, ..Reconnect::default() }
    }

    /// To be called with everything that arrives: the connection works.
    pub fn works(&mut self) {
        if self.broken.take().is_some() && !self.quiet {
            note_of(self.node.as_deref(), "connected again");
        }
    }

    /// Waits a little after a break, longer each time.
    ///
    /// # Errors
    /// The reason of the break, where it is none that passes, or no connection came in 30 seconds.
    pub async fn pause(&mut self, reason: Failure) -> Result<(), Failure> {
        if !reason.is_passing() {
            return Err(reason);
        }
        match self.broken {
            None => {
                if !self.quiet {
                    note_of(self.node.as_deref(), &format!("{reason}; connecting again"));
                }
                self.broken = Some(Instant::now());
                self.pause = FIRST_PAUSE;
            }
            Some(since) if since.elapsed() + self.pause > PATIENCE => {
                return Err(Failure::NotReachable(format!(
                    "no connection for {} s: {reason}",
                    PATIENCE.as_secs()
                )));
            }
            Some(_) => {}
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_does_not_pass_is_told_at_once() {
        let mut reconnect = Reconnect::default();
        assert!(matches!(
            reconnect.pause(Failure::Denied("denied".to_owned())).await,
            Err(Failure::Denied(_))
        ));
    }

    #[tokio::test]
    async fn patience_ends_and_says_why() {
        let mut reconnect = Reconnect {
            broken: Instant::now().checked_sub(PATIENCE),
            pause: FIRST_PAUSE,
            ..Reconnect::default()
        };
        let Err(failure) = reconnect.pause(Failure::NotReachable("gone".to_owned())).await else {
            panic!("it ends")
        };
        assert_eq!(failure.to_string(), "no connection for 30 s: gone");
        assert_eq!(failure.exit_status(), 3);
    }
}
