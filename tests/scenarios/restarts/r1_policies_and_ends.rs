//! R1: each policy with exits 0, 3, a signal, a failed spawn: all combinations.

use kelson_tests::Host;

/// How a run ends: name, command, what the text says of it.
const ENDS: [(&str, &str, &str); 5] = [
    ("zero", "[$PROGRAM, 'append=$DIR/runs-NAME', exit=0]", "exited with status 0 after "),
    ("three", "[$PROGRAM, 'append=$DIR/runs-NAME', exit=3]", "exited with status 3 after "),
    ("signal", "[$PROGRAM, 'append=$DIR/runs-NAME', raise=SEGV, hang]", "killed by SIGSEGV"),
    ("missing", "[$DIR/no-such-program]", "could not start: $DIR/no-such-program: no such file or directory"),
    // A file that nobody may execute, not even root.
    (
        "denied",
        "[$DIR/config/services/NAME.yaml]",
        "could not start: $DIR/config/services/NAME.yaml: permission denied",
    ),
];

/// The policy, and what follows each of the ends: again, or the state in which it stays.
const TABLE: [(&str, [&str; 5]); 7] = [
    ("once", ["finished", "failed", "failed", "failed", "failed"]),
    ("untilSuccess", ["finished", "again", "again", "again", "again"]),
    ("onAbnormal", ["finished", "failed", "again", "again", "again"]),
    ("onAbort", ["finished", "failed", "again", "failed", "failed"]),
    ("onWatchdog", ["finished", "failed", "failed", "failed", "failed"]),
    // Not for one-shots.
    ("onSuccess", ["again", "failed", "failed", "failed", "failed"]),
    ("forever", ["again", "again", "again", "again", "again"]),
];

fn table(kind: &str, policies: &[(&str, [&str; 5])]) {
    let cases: Vec<(String, String, &str, String)> = policies
        .iter()
        .flat_map(|(policy, outcomes)| {
            ENDS.iter().zip(outcomes).map(move |((end, command, text), outcome)| {
                let name = format!("{}-{end}", policy.to_lowercase());
                let yaml = format!(
                    "process: {{command: {command}}}\ntype: {kind}\nrestart: {{policy: {policy}, delay: 20ms, maxDelay: 20ms}}"
                );
                (name.clone(), yaml.replace("NAME", &name), *outcome, text.replace("NAME", &name))
            })
        })
        .collect();
    let mut builder = Host::builder();
    for (name, yaml, ..) in &cases {
        builder = builder.service(name, yaml);
    }
    let mut host = builder.start();
    for (name, _, outcome, text) in &cases {
        let text = text.replace("$DIR", &host.dir().display().to_string());
        if *outcome == "again" {
            host.wait_for(name, "to have been started again three times", |s| s.restarts >= 3);
            let events = host.events_of(name);
            let backoff = events.iter().find(|event| event.state == "backoff").expect("a backoff");
            assert!(backoff.message.contains(&text), "{name}: {backoff:?}");
            assert!(backoff.message.contains(", restarting in 2"), "{name}: {backoff:?}");
            assert!(
                !events.iter().any(|e| ["finished", "failed"].contains(&e.state.as_str())),
                "{name}: {events:?}"
            );
        } else {
            let service = host.wait_state(name, outcome);
            assert_eq!((service.restarts, service.stopped, service.pid), (0, false, None), "{service:?}");
            assert!(service.message.contains(&text), "{name}: {service:?}");
            assert_eq!(service.up, kind == "oneshot" && *outcome == "finished", "{service:?}");
            host.wait_down_or_finished(name, kind, outcome);
        }
    }
    // Those that ended have stayed so, while the others have been started many times.
    for (name, _, outcome, _) in cases.iter().filter(|case| case.2 != "again") {
        let states = host.states_of(name);
        assert_eq!(states.last().map(String::as_str), Some(*outcome), "{name}");
        assert_eq!(states.iter().filter(|state| *state == "starting").count(), 1, "{name}: {states:?}");
        assert!(!states.iter().any(|state| state == "backoff"), "{name}: {states:?}");
        if let Ok(runs) = std::fs::read_to_string(host.path(&format!("runs-{name}"))) {
            assert_eq!(runs.lines().count(), 1, "{name}");
        }
    }
    host.poweroff();
}

trait Ends {
    fn wait_down_or_finished(&self, name: &str, kind: &str, outcome: &str);
}

impl Ends for Host {
    /// A one-shot that succeeded is finished and up, everything else that has ended is down.
    #[track_caller]
    fn wait_down_or_finished(&self, name: &str, kind: &str, outcome: &str) {
        if kind == "oneshot" && outcome == "finished" {
            self.ctl(&["wait", name, "--for", "finished", "--timeout", "1ms"]).ok();
            self.ctl(&["wait", name, "--for", "down", "--timeout", "1ms"]).expect(5);
        } else {
            self.ctl(&["wait", name, "--for", "down", "--timeout", "1ms"]).ok();
        }
    }
}

#[test]
fn r1_every_policy_with_every_end_of_a_service() {
    table("service", &TABLE);
}

#[test]
fn r1_every_policy_with_every_end_of_a_one_shot() {
    table("oneshot", &TABLE[..5]);
}

#[test]
fn r1_the_policy_is_forever_for_services_and_once_for_one_shots() {
    let mut host = Host::builder()
        .runs_with("service", "exit=0", "restart: {delay: 10ms, maxDelay: 10ms}")
        .runs_with("migrate", "exit=3", "type: oneshot\nrestart: {delay: 10ms}")
        .service("refused", "process: {command: [$PROGRAM]}\ntype: oneshot\nrestart: {policy: forever}")
        .start();
    host.wait_for("service", "to have been started again", |service| service.restarts >= 2);
    let migrate = host.wait_state("migrate", "failed");
    assert_eq!(migrate.restarts, 0, "{migrate:?}");
    let refused = host.service("refused");
    assert_eq!((refused.state.as_str(), refused.pid), ("failed", None), "{refused:?}");
    assert!(
        refused.message.contains("refused.yaml:4:") && refused.message.contains("forever"),
        "{refused:?}"
    );
    host.poweroff();
}

#[test]
fn r1_a_service_that_left_processes_behind_is_started_again() {
    let mut host = Host::builder()
        .runs_with(
            "web",
            "'orphan=setsid,ignore=TERM,hang', 'append=$DIR/runs', exit=3",
            "restart: {delay: 10ms, maxDelay: 10ms}",
        )
        .start();
    host.wait_for("web", "to have been started again five times", |web| web.restarts >= 5);
    let ends: Vec<String> = host
        .events_of("web")
        .into_iter()
        .filter(|event| event.state == "backoff")
        .map(|event| event.message)
        .collect();
    assert!(ends.iter().all(|end| end.starts_with("exited with status 3 after ")), "{ends:#?}");
    assert!(host.processes_with("orphan=").len() <= 3, "each run's own alone: {:?}", host.processes());
    host.poweroff();
}
