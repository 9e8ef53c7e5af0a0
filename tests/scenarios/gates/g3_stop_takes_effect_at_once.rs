//! G3: a stop while waiting, preparing, starting or in backoff takes effect at once, ends as finished, says that it was
//! asked for, and leaves nothing of the start.

use std::time::{Duration, Instant};

use kelson_tests::cgroup::{Freezer, Stray};
use kelson_tests::{Host, PATIENCE, eventually, until};

/// Far below every timeout of these services.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Stops it, and looks at what is left. `during` is what the text says it was doing.
#[track_caller]
fn stops_at_once(host: &Host, name: &str, during: &str) {
    let newest = host.newest_event();
    let asked = Instant::now();
    let answer = host.client().act(&["stop", name, "--wait"]);
    assert!(asked.elapsed() < AT_ONCE, "the stop of {name} took {:?}", asked.elapsed());
    assert_eq!((answer.outcome.as_str(), answer.state.as_str()), ("done", "stopped"), "{answer:?}");

    let service = host.service(name);
    assert_eq!(
        (service.state.as_str(), service.stopped, service.up),
        ("stopped", true, false),
        "{service:?}"
    );
    assert!(service.waiting_for.is_empty(), "{service:?}");
    assert!(service.message.contains("asked by an operator"), "{service:?}");
    assert!(service.message.contains(during), "{service:?}");
    host.assert_nothing_left(name, &format!("print={name}"));
    host.wait_down(name);
    // Stopped is not finished.
    host.ctl(&["wait", name, "--for", "finished", "--timeout", "1ms"]).expect(5);

    let last = host.events_of(name).pop().expect("events of it");
    assert!(last.seq > newest && last.state == "stopped", "{last:?}");
    assert_eq!(last.message, service.message);
}

#[test]
fn g3_stop_while_waiting() {
    let mut host = Host::builder()
        .runs_with("gone", "serve", "start: manual")
        .runs_with("web", "print=web, serve", "depends: [{service: gone}, {path: $DIR/flag}]")
        .start();
    host.wait_state("web", "waiting");
    stops_at_once(&host, "web", "while waiting for service \"gone\" to be up");
    // The gate is not watched any more: what opens it starts nothing.
    host.ctl(&["start", "gone", "--wait"]).ok();
    host.touch("flag");
    host.ctl(&["restart", "gone", "--wait"]).ok();
    assert_eq!(host.states_of("web"), ["waiting", "stopped"]);
    // Nor is the stop remembered against the next start.
    host.ctl(&["start", "web", "--wait"]).ok();
    assert!(host.service("web").up);
    host.poweroff();
}

#[test]
fn g3_stop_while_starting() {
    let mut host = Host::builder()
        .runs_with(
            "notify",
            "print=notify, 'orphan=print=notify,setsid,ignore=TERM,hang', hang",
            "readiness: notify\nstartTimeout: 90s\nstop: {timeout: 60s}",
        )
        .runs_with("descriptor", "print=descriptor, hang", "readiness: {fd: 3}\nstop: {timeout: 60s}")
        .runs_with("web", "serve", "depends: [{service: notify}]")
        .start();
    eventually("the orphan", || host.processes_with("print=notify").len() == 2);
    for name in ["notify", "descriptor"] {
        let service = host.wait_for(name, "to have its process", |service| service.pid.is_some());
        assert_eq!((service.state.as_str(), service.up), ("starting", false), "{service:?}");
        stops_at_once(&host, name, "stopped");
        assert_eq!(host.states_of(name), ["preparing", "starting", "stopping", "stopped"]);
    }
    // It was never up, so its dependant never ran, and knows why.
    let web = host.wait_for("web", "to know of the stop", |web| web.message.contains("it was stopped"));
    assert_eq!(web.state, "waiting");
    assert_eq!(host.states_of("web"), ["waiting"]);
    host.poweroff();
}

#[test]
fn g3_stop_in_backoff() {
    let mut host = Host::builder()
        .runs_with("web", "print=web, 'append=$DIR/runs', exit=3", "restart: {delay: 5m, maxDelay: 5m}")
        .runs_with("quick", "print=quick, exit=3", "restart: {delay: 1ms, maxDelay: 1ms}")
        .start();
    host.wait_state("web", "backoff");
    stops_at_once(&host, "web", "before its restart");
    assert_eq!(host.wait_file("runs").lines().count(), 1);
    // The preparations for all its runs are undone.
    let states = ["preparing", "starting", "running", "backoff", "stopping", "stopped"];
    assert_eq!(host.states_of("web"), states);

    // One that restarts all the time is stopped wherever it is.
    for round in 0..20 {
        host.wait_for("quick", "to have failed some times", |quick| quick.restarts > 2);
        stops_at_once(&host, "quick", "stopped");
        let after = host.newest_event();
        let start = host.client().act(&["start", "quick"]);
        assert_eq!(start.outcome, "done", "round {round}: {start:?}");
        let between = host.events_of("quick").into_iter().find(|event| event.seq > after).expect("its start");
        assert_eq!(between.state, "preparing", "nothing came between: {between:?}");
    }
    host.poweroff();
}

#[test]
fn g3_stop_while_preparing() {
    let mut host =
        Host::builder().runs_with("web", "print=web, 'touch=$DIR/ran', serve", "start: manual").start();
    // Processes of an earlier incarnation in its cgroup must end before the service can be prepared, and
    // cannot.
    let mut stray = Stray::of(&host, "web");
    let Some(freezer) = Freezer::new() else { return };
    freezer.freeze(stray.0.id().cast_signed());
    let before = host.newest_event();
    let start = host.client().act(&["start", "web"]);
    assert_eq!((start.outcome.as_str(), start.state.as_str()), ("done", "preparing"), "{start:?}");
    let stop = host.client().act(&["stop", "web"]);
    assert_eq!((stop.outcome.as_str(), stop.state.as_str()), ("done", "stopping"), "{stop:?}");
    assert!(stop.message.contains("undoing what was prepared"), "{stop:?}");
    freezer.thaw();
    host.wait_down("web");
    let web = host.service("web");
    assert_eq!((web.state.as_str(), web.stopped), ("stopped", true), "{web:?}");
    assert_eq!(web.message, "stopped while preparing: asked by an operator");
    host.assert_nothing_left("web", "print=web");
    assert!(!host.path("ran").exists());
    // The stray has been killed with it.
    until("the end of the stray", PATIENCE, || stray.0.try_wait().expect("it is our child"));
    let states: Vec<String> = host
        .events_of("web")
        .into_iter()
        .filter(|event| event.seq > before)
        .map(|event| event.state)
        .collect();
    assert_eq!(states, ["preparing", "stopping", "stopped"]);
    host.poweroff();
}

#[test]
fn g3_stop_right_after_the_start_leaves_nothing() {
    let mut host = Host::builder().runs_with("web", "print=web, serve", "start: manual").start();
    for round in 0..30 {
        let client = host.client().clone();
        // Side by side: the stop meets the start in one of its steps, or comes before it.
        let start = std::thread::spawn(move || client.act(&["start", "web"]));
        let stop = host.client().act(&["stop", "web", "--wait"]);
        let start = start.join().unwrap();
        assert_eq!(start.outcome, "done", "round {round}: {start:?}");
        match stop.outcome.as_str() {
            "done" | "nothing-to-do" | "superseded" => {}
            _ => panic!("round {round}: {stop:?}"),
        }
        if !host.service("web").stopped {
            // The start was the later one.
            host.wait_up("web");
            host.ctl(&["stop", "web", "--wait"]).ok();
        }
        let web = host.service("web");
        assert_eq!((web.state.as_str(), web.stopped), ("stopped", true), "round {round}: {web:?}");
        host.assert_nothing_left("web", "print=web");
    }
    host.poweroff();
}
