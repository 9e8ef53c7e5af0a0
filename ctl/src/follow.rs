//! Streams that outlive a connection: PID 1 re-executes itself, logd is replaced, and the stream continues.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use kelson_proto::v1::{EventsRequest, Line, ReadRequest};

use crate::failure::Failure;
use crate::output::{note_of, time};

/// For so long a new connection is tried for.
const TIMEOUT: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// After a break, log lines that are this much older than the last one are asked for again; doubles are dropped.
const OVERLAP: Duration = Duration::from_secs(5);

/// Asks for what happens from now on, to these services or to all.
pub fn from_now(names: &[String]) -> EventsRequest {
    let last = Some(time::to_wire(Duration::from_millis(1)));
    EventsRequest { follow: true, names: names.to_vec(), last, ..EventsRequest::default() }
}

/// The pauses between attempts, each twice as long as the last.
#[derive(Debug)]
pub struct Pauses(Duration);

impl Default for Pauses {
    fn default() -> Pauses {
        Pauses(FIRST_PAUSE)
    }
}

impl Pauses {
    /// The next pause.
    pub fn take(&mut self) -> Duration {
        let next = (self.0 * 2).min(LONGEST_PAUSE);
        std::mem::replace(&mut self.0, next)
    }
}

/// The pauses between attempts at a new connection, and the end of the attempts.
#[derive(Debug, Default)]
pub struct Reconnect {
    broken: Option<Instant>,
    /// The host was there once.
    pub reached: bool,
    pauses: Pauses,
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
        self.reached = true;
        if self.broken.take().is_some() && !self.quiet {
            note_of(self.node.as_deref(), "connected again");
        }
    }

    /// [`Reconnect::pause`] for a stream that may be one that does not follow. Only a host that was reached is asked
    /// again.
    ///
    /// # Errors
    /// The failure of the stream, or that of [`Reconnect::pause`].
    pub async fn follow(&mut self, follows: bool, failure: Failure) -> Result<(), Failure> {
        self.reached |= failure.is_lost();
        if follows && self.reached { self.pause(failure).await } else { Err(failure) }
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
                self.pauses = Pauses::default();
            }
            Some(since) if since.elapsed() + self.pauses.0 > TIMEOUT => {
                return Err(Failure::NotReachable(format!(
                    "no connection for {} s: {reason}",
                    TIMEOUT.as_secs()
                )));
            }
            Some(_) => {}
        }
        tokio::time::sleep(self.pauses.take()).await;
        Ok(())
    }
}

/// A log that is read over breaks: what is asked for, and which lines came already.
#[derive(Debug)]
pub struct Log {
    pub request: ReadRequest,
    resume: Resume,
    /// When the last lines came, or the first connection stood.
    arrived: Option<Instant>,
}

impl Log {
    pub fn new(request: ReadRequest) -> Log {
        Log { request, resume: Resume::default(), arrived: None }
    }

    /// To be called once a connection stands.
    pub fn connected(&mut self) {
        self.arrived.get_or_insert_with(Instant::now);
    }

    /// Those of the lines that did not come yet.
    pub fn news(&mut self, lines: Vec<Line>) -> Vec<Line> {
        self.arrived = Some(Instant::now());
        lines.into_iter().filter(|line| self.resume.is_new(line)).collect()
    }

    /// To be called before each further stream, which asks for what came since, and a little more.
    pub fn begin_again(&mut self) {
        if let Some(arrived) = self.arrived {
            self.resume.begin_again();
            self.request.tail = None;
            self.request.last = Some(time::to_wire(arrived.elapsed() + OVERLAP));
        }
    }

    /// True where no line came.
    pub fn is_empty(&self) -> bool {
        self.resume.last.is_empty()
    }
}

/// Which lines came already, when a new stream begins a little before the old one's end.
#[derive(Debug, Default)]
struct Resume {
    /// The last time of each service, and how many lines of that very time came.
    last: HashMap<String, ((i64, i32), u32)>,
    /// How many lines of the last time are still to be passed over in this stream.
    again: HashMap<String, u32>,
}

impl Resume {
    fn begin_again(&mut self) {
        self.again = self.last.iter().map(|(name, (_, count))| (name.clone(), *count)).collect();
    }

    /// False for a line of an earlier stream.
    fn is_new(&mut self, line: &Line) -> bool {
        let time = line.time.as_ref().map_or((0, 0), |time| (time.seconds, time.nanos));
        let Some((last, count)) = self.last.get_mut(&line.service) else {
            self.last.insert(line.service.clone(), (time, 1));
            return true;
        };
        let again = self.again.get_mut(&line.service);
        if time == *last {
            if let Some(left @ 1..) = again {
                *left -= 1;
                return false;
            }
            *count += 1;
            return true;
        }
        if time < *last && again.is_some() {
            // Older than what came: the new stream's overlap. A clock set back looks the same until it has
            // caught up, but only after a break.
            return false;
        }
        self.again.remove(&line.service);
        (*last, *count) = (time, 1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{self, at};

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
        let mut reconnect = Reconnect { broken: Instant::now().checked_sub(TIMEOUT), ..Reconnect::default() };
        let Err(failure) = reconnect.pause(Failure::NotReachable("gone".to_owned())).await else {
            panic!("it ends")
        };
        assert_eq!(failure.to_string(), "no connection for 30 s: gone");
        assert_eq!(failure.exit_status(), 3);
    }

    fn line(service: &str, seconds: i64) -> Line {
        Line { time: at(seconds), ..samples::line(service, b"") }
    }

    #[test]
    fn after_a_break_no_line_is_lost_or_doubled() {
        let mut resume = Resume::default();
        let first = [("web", 1), ("web", 2), ("db", 2), ("web", 3), ("web", 3)];
        assert!(first.iter().all(|(name, at)| resume.is_new(&line(name, *at))));
        assert!(!resume.last.is_empty());
        resume.begin_again();
        let again =
            [("web", 2), ("db", 2), ("web", 3), ("web", 3), ("web", 3), ("db", 2), ("db", 4), ("web", 4)];
        let new: Vec<bool> = again.iter().map(|(name, at)| resume.is_new(&line(name, *at))).collect();
        assert_eq!(new, [false, false, false, false, true, true, true, true]);
    }

    #[test]
    fn a_clock_that_was_set_back_hides_nothing() {
        let mut resume = Resume::default();
        assert!(resume.is_new(&line("web", 100)));
        assert!(resume.is_new(&line("web", 50)));
    }
}
