//! R3: the backoff doubles from `delay` to `maxDelay` with jitter up to 25 %, and is forgotten after a run longer than
//! `maxDelay`, at least 10 s.

use std::time::Duration;

use kelson_tests::{Event, Host};

/// The time that a loaded machine may add to a delay.
const LATE: Duration = Duration::from_secs(5);

/// The delay that the text of a backoff says: `…, restarting in 120 ms` or `1.2 s`, and how exactly it says it.
#[track_caller]
fn said(event: &Event) -> (Duration, Duration) {
    let (_, text) = event.message.split_once(", restarting in ").unwrap_or_else(|| panic!("{event:?}"));
    let mut words = text.split(' ');
    let (number, unit) = (words.next().unwrap(), words.next().unwrap());
    let number: f64 = number.parse().unwrap_or_else(|_| panic!("{event:?}"));
    match unit {
        "ms" => (Duration::from_secs_f64(number / 1000.0), Duration::from_millis(1)),
        "s" => (Duration::from_secs_f64(number), Duration::from_millis(100)),
        _ => panic!("{event:?}"),
    }
}

/// Asserts that the delay after this failure has this base and its jitter, both in the message and in fact.
#[track_caller]
fn assert_base(backoff: &Event, next: &Event, base: Duration) {
    let (delay, unit) = said(backoff);
    // The reported time is cut off, never rounded up.
    assert!(delay + unit > base && delay <= base.mul_f64(1.25), "{base:?}: {backoff:?}");
    let waited = next.at() - backoff.at();
    // Event times are whole milliseconds.
    assert!(waited + Duration::from_millis(2) >= base.max(delay), "{base:?}: {backoff:?}, {next:?}");
    assert!(waited <= base.mul_f64(1.25) + LATE, "{base:?}: {backoff:?}, {next:?}");
}

/// Each backoff with the start that follows it, as they come.
fn pairs(host: &Host, name: &str, count: usize) -> Vec<(Event, Event)> {
    let mut events = host.follow_events(0);
    let mut next = |what: &str, is_so: &dyn Fn(&Event) -> bool| {
        events.find(what, Duration::from_secs(60), |event| event.service == name && is_so(event))
    };
    (0..count)
        .map(|n| {
            let backoff = next(&format!("backoff {n} of {name}"), &|event| event.state == "backoff");
            (backoff, next(&format!("start {n} of {name}"), &|event| event.state == "starting"))
        })
        .collect()
}

#[test]
fn r3_backoff_doubles_up_to_its_bound_with_jitter() {
    let mut host = Host::builder()
        .runs_with("web", "exit=3", "restart: {delay: 100ms, maxDelay: 700ms}")
        // Also after a success: what ends at once must not spin.
        .runs_with("calm", "exit=0", "restart: {delay: 100ms, maxDelay: 700ms}")
        .service(
            "missing",
            "process: {command: [/no-such-program]}\nrestart: {delay: 100ms, maxDelay: 700ms}",
        )
        .runs_with("at-once", "'fail-until=4:$DIR/count', serve", "restart: {delay: 0s}")
        .start();
    host.wait_for("at-once", "to run in its fourth run", |s| s.restarts == 3 && s.state == "running");
    for event in host.events_of("at-once").iter().filter(|event| event.state == "backoff") {
        assert!(event.message.ends_with(", restarting at once"), "{event:?}");
    }
    let mut delays = Vec::new();
    for name in ["web", "calm", "missing"] {
        for ((backoff, next), base) in pairs(&host, name, 6).iter().zip([100, 200, 400, 700, 700, 700]) {
            assert_base(backoff, next, Duration::from_millis(base));
            delays.push((base, said(backoff).0));
        }
    }
    // Eighteen throws of the dice: not all the same, nor all without any.
    let jitter: Vec<f64> =
        delays.iter().map(|(base, delay)| delay.as_secs_f64() * 1000.0 / *base as f64).collect();
    let (least, most) = jitter.iter().fold((f64::MAX, f64::MIN), |(a, b), j| (a.min(*j), b.max(*j)));
    assert!(most - least > 0.02, "there is no jitter: {delays:?}");
    host.poweroff();
}

#[test]
fn r3_backoff_is_forgotten_after_a_run_longer_than_its_bound_and_ten_seconds() {
    let web = |run: &str, max: &str| {
        format!(
            "process: {{command: [$PROGRAM, 'fail-until=4:$DIR/NAME', sleep={run}, exit=1]}}
restart: {{delay: 20ms, maxDelay: {max}}}"
        )
    };
    let mut host = Host::builder()
        .service("long", &web("10200ms", "2s").replace("NAME", "long"))
        // Longer than maxDelay, but not than ten seconds.
        .service("short", &web("2500ms", "2s").replace("NAME", "short"))
        // Longer than ten seconds, but not than maxDelay.
        .service("bounded", &web("10200ms", "30s").replace("NAME", "bounded"))
        .start();
    let names = ["long", "short", "bounded"];
    let found: Vec<_> = std::thread::scope(|scope| {
        let host = &host;
        let threads = names.map(|name| scope.spawn(move || pairs(host, name, 4)));
        threads.map(|thread| thread.join().expect("its events")).into()
    });
    for (name, pairs) in names.iter().zip(&found) {
        let fourth = if *name == "long" { 20 } else { 160 };
        for ((backoff, next), base) in pairs.iter().zip([20, 40, 80, fourth]) {
            assert_base(backoff, next, Duration::from_millis(base));
        }
    }
    host.poweroff();
}
