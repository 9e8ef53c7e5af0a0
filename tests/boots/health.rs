//! Health in a real boot: a database in a container that no longer answers, those that need it, and a service that eats
//! more memory than it may.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use kelson_tests::{Event, Vm, paths};

/// A command in a container takes seconds on a busy computer that emulates one.
const LONG: Duration = Duration::from_secs(120);
/// Runs steps on the machine.
const LOOK: &str = "process: {command: [$PROGRAM, serve]}";
/// The program of steps, on the machine.
const STEPS: &str = "/etc/kelson/kelson-test-program";

const REDIS: &str = "
container: {image: 'demo/redis:7', network: host, mounts: [{source: /var/lib/redis, target: /data, options: [rw, rbind]}]}
health:
  - {name: port, tcp: {port: 6379}, interval: 1s, timeout: 5s}
  - name: ping
    exec: {command: [redis-cli, -e, ping]}
    interval: 1s
    timeout: 5s
    failureThreshold: 2
    restartAfter: 3
    grace: 5s
restart: {delay: 1s}
stop: {timeout: 5s}
";

/// One that needs redis and follows this rule when it goes down.
fn web(rule: &str) -> String {
    format!(
        "process: {{command: [$PROGRAM, ignore=HUP, hang]}}
depends: [{{service: redis, whenDown: {rule}}}]
"
    )
}

#[test]
fn long_a_database_that_is_paused_is_restarted_and_its_users_do_as_they_are_told() {
    let mut vm = Vm::builder("health")
        .images(&paths::top().join("out/image/images"))
        .service("redis", REDIS)
        .service("ignores", &web("ignore"))
        .service("stops", &web("stop"))
        .service("restarts", &web("restart"))
        .runs_with(
            "hog",
            "hog=64, hang",
            "resources: {memoryMax: 32Mi}
restart: {attempts: 1, delay: 1ms}
",
        )
        .service("look", LOOK)
        .boot();
    vm.wait_up(&["look", "redis", "ignores", "stops", "restarts"]);
    let before = ["redis", "ignores", "restarts"].map(|name| vm.client().service(name));
    let newest = vm.client().events().last().map_or(0, |event| event.seq);
    let pid = before[0].pid.expect("it runs");
    vm.ctl(&["exec", "look", "--", STEPS, &format!("kill=STOP:{pid}")]).ok();

    // Unhealthy first, with nobody minding; then its check has it restarted.
    let unhealthy = vm.client().wait_for("redis", "unhealthy", LONG, |now| now.healthy == Some(false));
    assert_eq!((unhealthy.pid, unhealthy.up), (Some(pid), false), "{unhealthy:?}");
    assert!(vm.client().service("stops").up);
    let again = vm.client().wait_for("redis", "up again", LONG, |now| now.up && now.pid != Some(pid));
    assert_eq!((again.restarts, again.healthy), (1, Some(true)), "{again:?}");
    let restarted =
        vm.client().wait_for("restarts", "up again", LONG, |now| now.up && now.pid != before[2].pid);
    assert_eq!(restarted.restarts, 0, "{restarted:?}");
    let ignores = vm.client().service("ignores");
    assert_eq!((ignores.pid, ignores.up), (before[1].pid, true), "{ignores:?}");
    let stops = vm.client().service("stops");
    assert_eq!((stops.state.as_str(), stops.up), ("stopped", false), "{stops:?}");

    let events: Vec<Event> = vm
        .client()
        .events()
        .into_iter()
        .filter(|event| event.seq > newest && event.service != "look")
        .collect();
    assert_follow(
        &events,
        &[
            ("redis", "running", "check ping fails: no answer within 5 s"),
            ("redis", "running", "waits for check ping: no answer within 5 s"),
            ("redis", "stopping", "check ping failed 3 times: no answer within 5 s, stopping it"),
            ("redis", "backoff", "check ping failed 3 times"),
            ("redis", "starting", "run 2"),
            ("redis", "running", "healthy after"),
            ("restarts", "starting", "run 2"),
        ],
    );
    let down = "service \"redis\", which it needs, went down";
    assert_follow(&events, &[("stops", "stopping", down), ("stops", "stopped", down)]);
    assert_follow(
        &events,
        &[
            ("restarts", "stopping", down),
            ("restarts", "waiting", "waiting for service \"redis\" to be up"),
            ("restarts", "running", "running (PID"),
        ],
    );
    assert!(!events.iter().any(|event| event.service == "ignores"), "{events:#?}");
    keep(&events);
    what_eats_more_than_it_may_is_told_as_that(&vm);
    vm.poweroff();
}

fn what_eats_more_than_it_may_is_told_as_that(vm: &Vm) {
    let hog = vm.client().wait_for("hog", "failed", LONG, |hog| hog.state == "failed");
    let told = "killed by SIGKILL after";
    assert!(hog.message.starts_with(told), "{hog:?}");
    assert!(
        hog.message.contains("out of memory (its memoryMax is 32Mi); gave up after 2 failures"),
        "{hog:?}"
    );
}

/// Each of these events is there, in this order.
#[track_caller]
fn assert_follow(events: &[Event], wanted: &[(&str, &str, &str)]) {
    let mut rest = events.iter();
    for (service, state, text) in wanted {
        let is = |event: &Event| {
            event.service == *service && event.state == *state && event.message.contains(text)
        };
        assert!(rest.any(is), "{service} {state} {text:?} does not follow: {events:#?}");
    }
}

/// The whole sequence with its times, for who wants to see it.
fn keep(events: &[Event]) {
    let mut text = String::new();
    for event in events {
        let time = event.time.as_str().unwrap_or_default();
        writeln!(text, "{}  {:10} {:9} {}", time, event.service, event.state, event.message)
            .expect("a String takes it");
    }
    let file: &Path = &paths::test_logs().join("health.events");
    std::fs::write(file, text).expect("the folder of test logs is writable");
}
