//! The state machine of one supervised helper: absent, launching or running. Pure.
//!
//! [`Lifecycle::step`] takes an event, [`Lifecycle::tick`] the time; both give the actions that the
//! [`Supervisor`](super::Supervisor) performs. What ends a helper is followed by the next one: after a pause that grows
//! while they keep ending, and at once where it was asked to end.

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
/// The end of a process shows at its socket first; so long its exit may take to tell how it ended.
const EXIT: Duration = Duration::from_millis(50);

/// What differs from one kind of helper to another.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    pub answer: AnswerTimes,
    /// From the end of a sound helper to the start of the next.
    pub pause: Duration,
    /// So many helpers in a row may answer and soon end before the pauses grow.
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
    answered: bool,
    heartbeat: Heartbeat,
    /// It was asked to end, and is killed then.
    stop_by: Option<Instant>,
    /// Its socket is closed: its exit is awaited until then.
    exit_by: Option<Instant>,
}

/// What happens to a helper.
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
    /// It is to end within this time; another follows if it is wanted.
    Stop(Duration),
    /// It is to end by then, and none follows.
    Shutdown(Instant),
}

/// What is to be done.
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

/// What follows an end.
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
            (State::Running(run), Event::Broken(how)) => {
                // That is no orderly end, whatever it was asked for: the next one waits its pause.
                run.stop_by = None;
                self.gone(how, false, now)
            }
            (State::Running(run), Event::Stop(within)) if run.stop_by.is_none() => run.stop(within, now),
            (State::Running(run), Event::Shutdown(by)) => run.stop(by.saturating_duration_since(now), now),
            (State::Launching { .. }, Event::Stop(_)) if !self.wanted => self.end("", Next::Idle),
            // The launch goes on: the new one takes up what the last has left, and is told to end.
            (State::Launching { .. }, Event::Shutdown(_)) => Vec::new(),
            // Nothing follows: what runs, or is about to, is told all; and what is gone is gone.
            (_, Event::Wanted | Event::Unwanted | Event::Stop(_)) => Vec::new(),
            (State::Absent { .. } | State::Running(_), Event::Launched) => Vec::new(),
            (State::Launching { .. } | State::Running(_), Event::Attached) => Vec::new(),
            (State::Running(_), Event::NotLaunched(_)) => Vec::new(),
            (
                State::Absent { .. } | State::Launching { .. },
                Event::Received | Event::Closed | Event::Exited(_) | Event::Broken(_),
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

    fn run(&mut self, answered: bool, now: Instant) -> Vec<Action> {
        let heartbeat = Heartbeat::new(self.policy.answer, now);
        let mut run = Run { born: now, answered, heartbeat, stop_by: None, exit_by: None };
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const POLICY: Policy = Policy {
        answer: AnswerTimes { usual: SECOND, first: Duration::from_secs(3) },
        pause: Duration::ZERO,
        tolerated: 2,
        longest_alive: Duration::from_millis(200),
    };

    /// Nothing depends on the helper.
    struct Quiet;

    impl Expectations for Quiet {
        fn silence(&self) -> Option<Duration> {
            None
        }
    }

    fn end(how: &str, next: Next) -> Vec<Action> {
        vec![Action::Ended(End { how: how.into(), in_order: false, silent: false, next })]
    }

    /// A lifecycle whose helper runs and has answered.
    fn up(now: Instant) -> Lifecycle {
        let mut lifecycle = Lifecycle::new(POLICY);
        assert_eq!(lifecycle.step(Event::Wanted, now), [Action::Launch]);
        answers(&mut lifecycle, now);
        lifecycle
    }

    fn answers(lifecycle: &mut Lifecycle, now: Instant) {
        assert_eq!(lifecycle.step(Event::Launched, now), [Action::Ping]);
        assert_eq!(lifecycle.step(Event::Received, now), [Action::Up]);
        assert!(lifecycle.is_up() && lifecycle.step(Event::Received, now).is_empty());
    }

    #[test]
    fn it_is_started_once_it_is_wanted_and_while_all_is_quiet_there_is_no_timer() {
        let (now, mut lifecycle) = (Instant::now(), Lifecycle::new(POLICY));
        assert!(lifecycle.is_idle() && lifecycle.deadline(&Quiet).is_none());
        assert_eq!(lifecycle.step(Event::Wanted, now), [Action::Launch]);
        assert_eq!(lifecycle.step(Event::Wanted, now), []);
        assert_eq!(lifecycle.deadline(&Quiet), Some(now + LAUNCH));
        answers(&mut lifecycle, now);
        assert_eq!(lifecycle.deadline(&Quiet), None);
        assert_eq!(lifecycle.tick(&mut Quiet, now + SECOND * 3600), []);
    }

    #[test]
    fn the_pauses_between_helpers_that_keep_ending_grow_and_a_sound_one_ends_that() {
        let mut now = Instant::now();
        let mut lifecycle = up(now);
        let mut pauses = Vec::new();
        for life in [0, 0, 0, 0, 0, 5, 0] {
            now += SECOND * life;
            let actions = lifecycle.step(Event::Exited("x"), now);
            let [Action::Ended(End { next: Next::After(pause), .. })] = actions[..] else {
                panic!("{actions:?}")
            };
            pauses.push(pause.as_millis());
            now = lifecycle.deadline(&Quiet).unwrap();
            assert_eq!(lifecycle.tick(&mut Quiet, now), [Action::Launch]);
            answers(&mut lifecycle, now);
        }
        // Two are tolerated; those that answer wait no longer than `longest_alive`.
        assert_eq!(pauses, [0, 0, 0, 100, 200, 0, 0]);
    }

    #[test]
    fn one_that_cannot_be_started_is_tried_again_after_longer_and_longer_pauses() {
        let (mut now, mut lifecycle) = (Instant::now(), Lifecycle::new(POLICY));
        lifecycle.step(Event::Wanted, now);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let actions = lifecycle.step(Event::NotLaunched("x"), now);
            let [Action::Ended(End { next: Next::Retry(pause), .. })] = actions[..] else {
                panic!("{actions:?}")
            };
            pauses.push(pause.as_millis());
            now += pause;
            assert_eq!(lifecycle.tick(&mut Quiet, now), [Action::Launch]);
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        let late = now + LAUNCH;
        assert_eq!(
            lifecycle.tick(&mut Quiet, late),
            end("could not be started in 5 s", Next::Retry(LONGEST_PAUSE))
        );
    }

    #[test]
    fn one_that_sends_what_is_no_message_has_not_ended_in_order_though_it_was_asked_to() {
        let now = Instant::now();
        let mut lifecycle = up(now);
        for pause in [0, 0, 0, 100, 200] {
            lifecycle.step(Event::Stop(SECOND), now);
            let pause = Duration::from_millis(pause);
            assert_eq!(lifecycle.step(Event::Broken("x"), now), end("x", Next::After(pause)));
            let now = lifecycle.deadline(&Quiet).unwrap();
            assert_eq!(lifecycle.tick(&mut Quiet, now), [Action::Launch]);
            answers(&mut lifecycle, now);
        }
    }

    #[test]
    fn one_that_is_asked_to_end_is_followed_at_once_and_killed_if_it_does_not() {
        let now = Instant::now();
        let mut lifecycle = up(now);
        assert_eq!(lifecycle.step(Event::Stop(SECOND), now), [Action::Stop { within: SECOND }]);
        assert_eq!(lifecycle.step(Event::Stop(SECOND), now), [], "once");
        let ended = Action::Ended(End { how: "x".into(), in_order: true, silent: false, next: Next::AtOnce });
        assert_eq!(lifecycle.step(Event::Exited("x"), now), [ended, Action::Launch]);
        answers(&mut lifecycle, now);
        lifecycle.step(Event::Stop(SECOND), now);
        let [Action::Ended(end), Action::Launch] = &lifecycle.tick(&mut Quiet, now + SECOND)[..] else {
            panic!()
        };
        assert_eq!((&*end.how, end.in_order), ("did not end in time and was killed", false));
    }

    #[test]
    fn one_that_closes_its_socket_has_a_moment_to_exit() {
        let now = Instant::now();
        let mut lifecycle = up(now);
        assert_eq!(lifecycle.step(Event::Closed, now), []);
        assert!(!lifecycle.is_open());
        assert_eq!(lifecycle.deadline(&Quiet), Some(now + EXIT));
        let ended = end("closed its socket and was killed", Next::After(Duration::ZERO));
        assert_eq!(lifecycle.tick(&mut Quiet, now + EXIT), ended);
    }

    #[test]
    fn one_that_nobody_wants_is_not_replaced() {
        let now = Instant::now();
        let mut lifecycle = up(now);
        assert_eq!(lifecycle.step(Event::Unwanted, now), []);
        assert_eq!(lifecycle.step(Event::Exited("x"), now), end("x", Next::Idle));
        // Neither is one that was about to be started.
        assert_eq!(lifecycle.step(Event::Wanted, now), [Action::Launch]);
        lifecycle.step(Event::Unwanted, now);
        assert_eq!(lifecycle.step(Event::Stop(SECOND), now), end("", Next::Idle));
        lifecycle.step(Event::Wanted, now);
        lifecycle.step(Event::NotLaunched("x"), now);
        lifecycle.step(Event::Unwanted, now);
        assert_eq!(lifecycle.tick(&mut Quiet, now + PAUSE), end("", Next::Idle));
    }

    #[test]
    fn a_shutdown_is_the_last_thing_in_every_state() {
        let (now, by) = (Instant::now(), Instant::now() + SECOND);
        let stopped = end("stopped", Next::Stopped);
        let mut absent = Lifecycle::new(POLICY);
        assert_eq!(absent.step(Event::Shutdown(by), now), stopped);
        assert_eq!(absent.step(Event::Wanted, now), []);

        let mut launching = Lifecycle::new(POLICY);
        launching.step(Event::Wanted, now);
        assert_eq!(launching.step(Event::Shutdown(by), now), []);
        let within = by - now;
        assert_eq!(launching.step(Event::Launched, now), [Action::Ping, Action::Stop { within }]);
        assert_eq!(launching.deadline(&Quiet), Some(by));
        assert_eq!(launching.tick(&mut Quiet, by), end("killed: it did not end in time", Next::Stopped));
        assert!(launching.is_idle() && launching.deadline(&Quiet).is_none());

        let mut running = up(now);
        assert_eq!(running.step(Event::Shutdown(by), now), [Action::Stop { within }]);
        let ended =
            Action::Ended(End { how: "stopped".into(), in_order: true, silent: false, next: Next::Stopped });
        assert_eq!(running.step(Event::Exited("x"), now), [ended]);
    }
}
