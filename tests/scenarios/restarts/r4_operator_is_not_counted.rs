//! R4: an operator's restart is immediate and is not counted.

use std::time::{Duration, Instant};

use kelson_tests::{Host, eventually};

/// Far below the delays of these services.
const AT_ONCE: Duration = Duration::from_secs(10);

#[test]
fn r4_an_operators_restart_of_a_running_service_is_not_counted() {
    let mut host = Host::builder()
        .service(
            "web",
            // It fails on a stop: that is not held against it.
            "process: {command: [$PROGRAM, 'append=$DIR/runs', serve=3]}
restart: {attempts: 1, interval: 5m, exhausted: fail, delay: 10ms, maxDelay: 10ms}",
        )
        .runs_with("slow", "serve=3", "restart: {delay: 5m, maxDelay: 5m}")
        .up(&["web", "slow"]);
    for round in 1..=5 {
        let before = host.pid_of("web");
        let answer = host.client().act(&["restart", "web", "--wait"]);
        assert_eq!((answer.outcome.as_str(), answer.up), ("done", true), "round {round}: {answer:?}");
        assert_ne!(host.pid_of("web"), before);
        assert_eq!(host.service("web").restarts, 0, "round {round}");
    }
    assert!(!host.states_of("web").iter().any(|state| state == "backoff"), "{:?}", host.states_of("web"));
    let asked = Instant::now();
    host.ctl(&["restart", "slow", "--wait"]).ok();
    assert!(asked.elapsed() < AT_ONCE, "its delay was kept: {:?}", asked.elapsed());

    // The whole budget is there: one failure is restarted, the next one not.
    host.kill(host.pid_of("web"), libc::SIGKILL);
    let first = host.wait_event(0, "of the backoff of web", |e| e.service == "web" && e.state == "backoff");
    assert!(first.message.ends_with(" (1 of 1 in 5m)"), "{first:?}");
    host.wait_for("web", "to run again", |web| web.restarts == 1 && web.state == "running");
    host.ctl(&["restart", "web", "--wait"]).ok();
    assert_eq!(host.service("web").restarts, 1, "only its own failure is counted");
    // The restart has given it a new budget.
    host.kill(host.pid_of("web"), libc::SIGKILL);
    host.wait_for("web", "to run again", |web| web.restarts == 2 && web.state == "running");
    host.kill(host.pid_of("web"), libc::SIGKILL);
    let web = host.wait_state("web", "failed");
    assert!(web.message.contains("gave up after 2 failures in 5m"), "{web:?}");
    host.poweroff();
}

#[test]
fn r4_an_operators_restart_and_start_end_a_backoff_at_once() {
    for command in ["restart", "start"] {
        let mut host = Host::builder()
            .runs_with("web", "'fail-until=2:$DIR/runs', serve", "restart: {delay: 5m, maxDelay: 5m}")
            .start();
        let web = host.wait_state("web", "backoff");
        let asked = Instant::now();
        let answer = host.client().act(&[command, "web", "--wait"]);
        assert!(asked.elapsed() < AT_ONCE, "{command} took {:?}", asked.elapsed());
        assert_eq!((answer.outcome.as_str(), answer.up), ("done", true), "{answer:?}");
        assert_eq!(host.service("web").restarts, web.restarts, "{command} is not counted");
        // It runs before the program has written that down.
        eventually("it is its second run", || host.wait_file("runs").len() == 2);
        host.poweroff();
    }
}
