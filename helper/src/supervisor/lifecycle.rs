//! The state machine of one supervised helper: absent, launching or running. Pure.
//!
//! [`Lifecycle::step`] takes an event, [`Lifecycle::tick`] the time; both give the actions that the
//! [`Supervisor`](super::Supervisor) performs. After the end of a helper the next one follows: after a pause
//! that grows while they keep ending, and at once where it was asked to end.

#[cfg(test)]
mod tests;

use std::time::Duration;

use tokio::time::Instant;

use super::heartbeat::{AnswerTimes, Expectations, Heartbeat, Step, after};

/// The shortest pause that is one, and the longest.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A helper that answered and lived so long was sound.
const SOUND: Duration = Duration::from_secs(5);
/// To make a process takes no longer.
const LAUNCH: Duration = Duration::from_secs(5);
/// A helper that an earlier release has started may hold much; it may take so long to end.
const OTHER_VERSION: Duration = Duration::from_secs(5);
/// The end of a process shows at its socket first; so long its exit may take to tell how it ended.
const EXIT: Duration = Duration::from_millis(50);

/// The policy that differs from one kind of helper to another.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    pub answer: AnswerTimes,
    /// From the end of a sound helper to the start of the next.
    pub pause: Duration,
    /// How many helpers in a row may answer and soon end before the pauses grow.
    pub tolerated: u32,
    /// The longest pause between those.
    pub longest_alive: Duration,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// None runs. The next is launched then; `None`: once it is wanted.
    Absent {
        retry: Option<Instant>,
    },
    /// The launch is given up then.
    Launching {
        by: Instant,
    },
    Running(Run),
}

#[derive(Debug, Clone, Copy)]
struct Run {
    born: Instant,
    /// An earlier incarnation of PID 1 has started it.
    attached: bool,
    answered: bool,
    heartbeat: Heartbeat,
    /// It was asked to end, and is killed then.
    stop_by: Option<Instant>,
    /// Its socket is closed: its exit is awaited until then.
    exit_by: Option<Instant>,
}

/// An event in the life of a helper.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// There is something to do for it.
    Wanted,
    /// There is nothing to do for it: one that ends is not replaced.
    Unwanted,
    Launched,
    NotLaunched(&'a str),
    /// An earlier incarnation of PID 1 has started it.
    Attached,
    /// It has sent something.
    Received,
    /// It has closed its socket.
    Closed,
    Exited(&'a str),
    /// It has sent what is no message.
    Broken(&'a str),
    /// It has answered as a helper of another release.
    OtherVersion(&'a str),
    /// It is to end within this time; another follows if it is wanted.
    Stop(Duration),
    /// It is to end by then, and none follows.
    Shutdown(Instant),
}

/// An action of the supervisor.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    Launch,
    Ping,
    Stop {
        within: Duration,
    },
    /// It has sent its first message.
    Up,
    /// Kill what is left of it, and close its socket.
    Ended(End),
}

/// The end of a helper, or of the attempt to start one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// How it ended (`killed by SIGKILL`), or why it could not be started.
    pub how: String,
    /// It was asked to end, and did so in time.
    pub in_order: bool,
    /// It was killed since it did not answer.
    pub silent: bool,
    pub next: Next,
}

/// The step after an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// None is started any more: the host stops.
    Stopped,
    /// One once there is something to do for it.
    Idle,
    /// One at once, as it was asked to end.
    AtOnce,
    /// One after this pause.
    After(Duration),
    /// Another attempt after this pause, as it could not be started.
    Retry(Duration),
}

impl End {
    /// For the status; `idle` where nothing is to be done.
    pub fn message(&self, idle: &str) -> String {
        let how = &self.how;
        match self.next {
            Next::Stopped => how.clone(),
            Next::Idle => idle.to_owned(),
            Next::AtOnce => "it has ended as it was asked to, the next one is started".to_owned(),
            Next::After(Duration::ZERO) => format!("{how}; the next is started at once"),
            Next::After(pause) => format!("{how}; the next is started in {} ms", pause.as_millis()),
            Next::Retry(pause) => format!("{how}; trying again in {} ms", pause.as_millis()),
        }
    }
}

/// Where one helper is.
#[derive(Debug)]
pub struct Lifecycle {
    policy: Policy,
    state: State,
    wanted: bool,
    /// The pause before the next one, and how many in a row were not sound.
    pause: Duration,
    unsound: u32,
    shutdown: Option<Instant>,
}

impl Lifecycle {
    pub fn new(policy: Policy) -> Lifecycle {
        let state = State::Absent { retry: None };
        Lifecycle { policy, state, wanted: false, pause: policy.pause, unsound: 0, shutdown: None }
    }

    /// None runs, and none is about to be started.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Absent { retry: None })
    }

    /// One runs that has answered.
    pub fn is_up(&self) -> bool {
        matches!(self.state, State::Running(Run { answered: true, .. }))
    }

    /// One runs whose socket is open.
    pub fn is_open(&self) -> bool {
        matches!(self.state, State::Running(Run { exit_by: None, .. }))
    }

    pub fn heartbeat(&mut self) -> Option<&mut Heartbeat> {
        match &mut self.state {
            State::Running(run) => Some(&mut run.heartbeat),
            State::Absent { .. } | State::Launching { .. } => None,
        }
    }

    /// When [`Lifecycle::tick`] is to be called.
    pub fn deadline(&self, expectations: &impl Expectations) -> Option<Instant> {
        match &self.state {
            State::Absent { retry } => *retry,
            State::Launching { by } => Some(self.shutdown.map_or(*by, |shutdown| shutdown.min(*by))),
            State::Running(run) => {
                let heartbeat = run.heartbeat.next(expectations);
                [heartbeat, run.stop_by, run.exit_by, self.shutdown].into_iter().flatten().min()
            }
        }
    }

    pub fn step(&mut self, event: Event<'_>, now: Instant) -> Vec<Action> {
        match event {
            Event::Wanted => self.wanted = true,
            Event::Unwanted => self.wanted = false,
            Event::Shutdown(deadline) => self.shutdown = Some(deadline),
            _ => {}
        }
        match (&mut self.state, event) {
            (State::Absent { retry: None }, Event::Wanted) if self.shutdown.is_none() => self.launch(now),
            (State::Absent { .. }, Event::Attached) | (State::Launching { .. }, Event::Launched) => {
                self.run(matches!(event, Event::Attached), now)
            }
            (State::Absent { .. } | State::Launching { .. }, Event::NotLaunched(why)) => {
                self.not_launched(why, now)
            }
            (State::Absent { retry: Some(retry) }, Event::Stop(_)) => {
                *retry = now;
                Vec::new()
            }
            (State::Absent { .. }, Event::Shutdown(_)) => self.end("stopped", Next::Stopped),
            (State::Running(run), Event::Received) => {
                run.heartbeat.received(now);
                let first = !std::mem::replace(&mut run.answered, true);
                first.then_some(Action::Up).into_iter().collect()
            }
            (State::Running(run), Event::Closed) => {
                run.exit_by.get_or_insert(run.stop_by.unwrap_or_else(|| after(now, EXIT)));
                Vec::new()
            }
            (State::Running(_), Event::Exited(how)) => self.gone(how, false, now),
            (State::Running(run), Event::OtherVersion(_)) if run.attached => run.stop(OTHER_VERSION, now),
            // The next one would be the same, so it waits its pause.
            (State::Running(run), Event::Broken(how) | Event::OtherVersion(how)) => {
                // That is no orderly end, whatever it was asked for: the next one waits its pause.
                run.stop_by = None;
                self.gone(how, false, now)
            }
            (State::Running(run), Event::Stop(within)) if run.stop_by.is_none() => run.stop(within, now),
            (State::Running(run), Event::Shutdown(by)) => run.stop(by.saturating_duration_since(now), now),
            (State::Launching { .. }, Event::Stop(_)) if !self.wanted => self.end("", Next::Idle),
            // The launch continues: the new process takes over the work of the last one, and is asked to end.
            (State::Launching { .. }, Event::Shutdown(_)) => Vec::new(),
            // Nothing follows: a helper that runs, or is about to, gets all orders; and one that is gone is gone.
            (_, Event::Wanted | Event::Unwanted | Event::Stop(_)) => Vec::new(),
            (State::Absent { .. } | State::Running(_), Event::Launched) => Vec::new(),
            (State::Launching { .. } | State::Running(_), Event::Attached) => Vec::new(),
            (State::Running(_), Event::NotLaunched(_)) => Vec::new(),
            (
                State::Absent { .. } | State::Launching { .. },
                Event::Received
                | Event::Closed
                | Event::Exited(_)
                | Event::Broken(_)
                | Event::OtherVersion(_),
            ) => Vec::new(),
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, expectations: &mut impl Expectations, now: Instant) -> Vec<Action> {
        if self.shutdown.is_some_and(|by| now >= by) && !self.is_idle() {
            return self.end("killed: it did not end in time", Next::Stopped);
        }
        match &mut self.state {
            State::Absent { retry: Some(retry) } if now >= *retry && self.wanted => self.launch(now),
            State::Absent { retry: Some(retry) } if now >= *retry => self.end("", Next::Idle),
            State::Launching { by } if now >= *by => {
                self.not_launched(&format!("could not be started in {} s", LAUNCH.as_secs()), now)
            }
            State::Absent { .. } | State::Launching { .. } => Vec::new(),
            State::Running(run) if run.stop_by.is_some_and(|by| now >= by) => {
                self.gone("did not end in time and was killed", false, now)
            }
            State::Running(run) if run.exit_by.is_some_and(|by| now >= by) => {
                self.gone("closed its socket and was killed", false, now)
            }
            State::Running(run) => match run.heartbeat.tick(self.policy.answer, expectations, now) {
                Step::Nothing => Vec::new(),
                Step::Ping => vec![Action::Ping],
                Step::Dead => self.gone("did not answer its ping and was killed", true, now),
            },
        }
    }

    fn launch(&mut self, now: Instant) -> Vec<Action> {
        self.state = State::Launching { by: after(now, LAUNCH) };
        vec![Action::Launch]
    }

    fn run(&mut self, attached: bool, now: Instant) -> Vec<Action> {
        let heartbeat = Heartbeat::new(self.policy.answer, now);
        let mut run =
            Run { born: now, attached, answered: attached, heartbeat, stop_by: None, exit_by: None };
        let mut actions = vec![Action::Ping];
        if let Some(by) = self.shutdown {
            actions.extend(run.stop(by.saturating_duration_since(now), now));
        }
        self.state = State::Running(run);
        actions
    }

    fn not_launched(&mut self, why: &str, now: Instant) -> Vec<Action> {
        if self.shutdown.is_some() {
            return self.end("stopped", Next::Stopped);
        }
        let pause = self.pause.max(PAUSE);
        self.pause = longer(pause, LONGEST_PAUSE);
        let ended = self.end(why, Next::Retry(pause));
        self.state = State::Absent { retry: Some(after(now, pause)) };
        ended
    }

    /// The running one has ended, or is given up.
    fn gone(&mut self, how: &str, silent: bool, now: Instant) -> Vec<Action> {
        let State::Running(run) = self.state else { return Vec::new() };
        if run.answered && now.duration_since(run.born) >= SOUND {
            (self.pause, self.unsound) = (self.policy.pause, 0);
        }
        let next = match run.stop_by {
            _ if self.shutdown.is_some() => Next::Stopped,
            _ if !self.wanted => Next::Idle,
            Some(_) => Next::AtOnce,
            None => Next::After(self.pause),
        };
        let how = if next == Next::Stopped { "stopped" } else { how };
        let end = End { how: how.to_owned(), in_order: run.stop_by.is_some_and(|by| now < by), silent, next };
        self.state = State::Absent { retry: None };
        let mut actions = vec![Action::Ended(end)];
        match next {
            Next::AtOnce => actions.extend(self.launch(now)),
            Next::After(pause) => {
                self.state = State::Absent { retry: Some(after(now, pause)) };
                self.unsound = self.unsound.saturating_add(1);
                if !run.answered || self.unsound > self.policy.tolerated {
                    let longest = if run.answered { self.policy.longest_alive } else { LONGEST_PAUSE };
                    self.pause = longer(pause, longest);
                }
            }
            Next::Stopped | Next::Idle | Next::Retry(_) => {}
        }
        actions
    }

    fn end(&mut self, how: &str, next: Next) -> Vec<Action> {
        self.state = State::Absent { retry: None };
        vec![Action::Ended(End { how: how.to_owned(), in_order: false, silent: false, next })]
    }
}

impl Run {
    fn stop(&mut self, within: Duration, now: Instant) -> Vec<Action> {
        self.stop_by = Some(after(now, within));
        vec![Action::Stop { within }]
    }
}

fn longer(pause: Duration, longest: Duration) -> Duration {
    pause.saturating_mul(2).clamp(PAUSE, longest)
}
