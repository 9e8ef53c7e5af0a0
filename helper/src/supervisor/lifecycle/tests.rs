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
