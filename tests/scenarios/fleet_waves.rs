//! Actions on many hosts of a fleet in waves, against a real etcd.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use kelson_tests::ctl::Ctl;
use kelson_tests::{Etcd, Host, eventually, paths};
use serde_json::Value;

const NAMES: [&str; 4] = ["edge-1", "edge-2", "edge-3", "edge-4"];

/// Four hosts with the service `web`, in one fleet, and an operator who has a context for each.
struct Edge {
    hosts: Vec<Host>,
    operator: Ctl,
}

impl Edge {
    fn start(etcd: &Etcd) -> Edge {
        let machine = |name: &str| {
            let endpoint = etcd.endpoint();
            format!(
                "fleet: {{endpoints: ['{endpoint}'], name: {name}, labels: {{role: edge}}}}\nhealth: {{minimum: 0s}}"
            )
        };
        let hosts: Vec<Host> = NAMES
            .map(|name| Host::builder().machine(&machine(name)).runs("web", "serve").up(&["web"]))
            .into();
        let first = hosts.first().expect("there are four");
        let mut contexts = "current: edge-1\ncontexts:\n".to_owned();
        for (name, host) in NAMES.iter().zip(&hosts) {
            let socket = host.path("run/init.sock");
            contexts += &format!("  {name}: {{endpoint: 'unix:{}'}}\n", socket.display());
        }
        let file = first.path("contexts");
        fs::write(&file, contexts).expect("the test's folder is writable");
        let edge = Edge { operator: Ctl::with_config(file), hosts };
        eventually("all hosts to be registered as healthy", || {
            let health = edge.operator.run(&["fleet", "health", "-o", "json"]);
            health.status == 0 && health.json::<Value>()["hosts"] == 4
        });
        edge
    }

    /// How often `web` was started on each host.
    fn starts(&self) -> Vec<usize> {
        let started =
            |host: &Host| host.events_of("web").iter().filter(|event| event.state == "running").count();
        self.hosts.iter().map(started).collect()
    }

    /// When `web` was started last on each host.
    fn started(&self) -> Vec<Duration> {
        let last = |host: &Host| {
            let events = host.events_of("web");
            events.iter().rfind(|event| event.state == "running").expect("it was started").at()
        };
        self.hosts.iter().map(last).collect()
    }

    fn plan(&self, name: &str) -> Value {
        self.operator.run(&["fleet", "plans", name, "-o", "json"]).ok().json()
    }

    /// The states of the hosts of a plan.
    fn states(&self, name: &str) -> Vec<String> {
        let plan = self.plan(name);
        let waves = plan["waves"].as_array().expect("waves").iter();
        let hosts = waves.flat_map(|wave| wave.as_array().expect("hosts"));
        hosts.map(|host| host["state"].as_str().expect("a word").to_owned()).collect()
    }

    fn end(mut self) {
        self.hosts.iter_mut().for_each(Host::poweroff);
    }
}

/// A folder with a configuration in which `web` has these lines, too.
fn configuration(host: &Host, name: &str, more: &str) -> PathBuf {
    let folder = host.path(name);
    fs::create_dir_all(folder.join("services")).expect("the test's folder is writable");
    let program = paths::binary("kelson-test-program").display().to_string();
    let web = format!("name: web\nprocess: {{command: [{program}, serve]}}\n{more}\n");
    fs::write(folder.join("services/web.yaml"), web.replace("$PROGRAM", &program)).expect("writable");
    folder
}

#[test]
fn a_rolling_restart_touches_one_host_at_a_time() {
    let Some(etcd) = Etcd::start() else { return };
    let edge = Edge::start(&etcd);
    let dry = edge.operator.run(&["fleet", "restart", "web", "--waves", "1,50%", "--dry-run"]).ok();
    assert_eq!(
        dry.stdout,
        "WAVE  HOSTS  NAMES\n   1      1  edge-1\n   2      2  edge-2, edge-3\n   3      1  edge-4\n"
    );
    let words = ["fleet", "restart", "web", "--waves", "1", "--healthy-for", "1s", "-l", "role=edge"];
    let done = edge.operator.run(&[&words[..], &["--plan", "roll"]].concat()).ok();
    assert!(
        done.stdout.contains("wave 4 of 4: edge-4\nedge-4: done\ndone: 4 of 4 hosts\n"),
        "{}",
        done.stdout
    );
    assert_eq!(edge.starts(), [2; 4]);
    let started = edge.started();
    for pair in started.windows(2) {
        // The one before was healthy for a second before the next one was restarted.
        assert!(pair[1] >= pair[0] + Duration::from_secs(1), "{started:?}");
    }
    let plans: Value = edge.operator.run(&["fleet", "plans", "-o", "json"]).ok().json();
    assert_eq!(
        (&plans[0]["name"], &plans[0]["state"], &plans[0]["done"]),
        (&"roll".into(), &"done".into(), &4.into())
    );
    let again = edge.operator.run(&[&words[..], &["--plan", "roll"]].concat()).expect(1);
    assert!(again.stderr.contains("there is a plan roll already"), "{}", again.stderr);
    edge.operator.run(&["fleet", "plans", "roll", "--remove"]).ok();
    assert_eq!(
        edge.operator.run(&["fleet", "plans", "-o", "json"]).ok().json::<Value>(),
        Value::Array(Vec::new())
    );
    assert!(!etcd.keys("/").iter().any(|key| key.contains("/plans/")));
    edge.end();
}

/// F7
#[test]
fn f7_a_bad_configuration_stops_after_the_first_wave_and_is_taken_back() {
    let Some(etcd) = Etcd::start() else { return };
    let edge = Edge::start(&etcd);
    let desk = &edge.hosts[0];
    let check = "health: [{exec: {command: [$PROGRAM, exit=1]}, interval: 50ms, timeout: 5s}]";
    let bad = configuration(desk, "bad", check).join("services/web.yaml");
    let words = ["--waves", "1,all", "--healthy-for", "1s", "--plan", "bad"];
    let bad = bad.display().to_string();
    let stopped =
        edge.operator.run(&[&["fleet", "apply", &bad, "--deadline", "4s"], &words[..]].concat()).expect(1);
    assert!(
        stopped.stderr.contains("edge-1: failed: not healthy for 1s within 4s: web"),
        "{}",
        stopped.stderr
    );
    assert!(stopped.stderr.contains("it has returned to generation 0"), "{}", stopped.stderr);
    assert!(stopped.stderr.contains("3 are as they were"), "{}", stopped.stderr);
    assert_eq!(edge.states("bad"), ["failed", "pending", "pending", "pending"]);
    assert_eq!(edge.starts()[1..], [1; 3], "the others are untouched");
    edge.hosts[0].wait_up("web");
    eventually("the first host to be healthy again", || edge.operator.run(&["fleet", "health"]).status == 0);

    // One that is well goes through, and stays.
    let good = configuration(desk, "good", "stop: {timeout: 3s}").join("services/web.yaml");
    let good = good.display().to_string();
    let words = ["--waves", "1,all", "--healthy-for", "1s", "--plan", "good"];
    edge.operator.run(&[&["fleet", "apply", &good], &words[..]].concat()).ok();
    assert_eq!(edge.states("good"), ["done"; 4]);
    for host in &edge.hosts {
        let history: Value = host.ctl(&["history", "-o", "json"]).ok().json();
        let newest = &history[0];
        assert_eq!((&newest["current"], &newest["reverted"]), (&true.into(), &false.into()), "{history}");
        assert_eq!(newest["message"], "plan good of the fleet");
        // Nothing waits for that.
        host.ctl(&["confirm"]).expect(1);
    }
    let before = edge.starts();
    let words = ["fleet", "apply", &good, "--waves", "all", "--healthy-for", "1s"];
    edge.operator.run(&words).ok();
    assert_eq!(edge.starts(), before, "who has it already is not touched");
    edge.end();
}

#[test]
fn a_plan_has_one_coordinator_and_can_be_interrupted() {
    let Some(etcd) = Etcd::start() else { return };
    let edge = Edge::start(&etcd);
    let words = ["fleet", "restart", "web", "--waves", "1", "--healthy-for", "15s", "--plan", "roll"];
    let mut coordinator = edge.operator.command(&words).spawn().expect("kelsonctl runs");
    eventually("the first wave to have begun", || {
        let plans = edge.operator.run(&["fleet", "plans", "-o", "json"]).ok();
        plans.json::<Value>()[0]["name"] == "roll" && edge.states("roll")[0] == "running"
    });
    // It renews its claim, so the second one is refused after a while.
    let second = edge.operator.run(&["fleet", "resume", "roll"]).expect(1);
    assert!(second.stderr.contains("the plan roll is being carried out by"), "{}", second.stderr);
    kelson_tests::host::send(i32::try_from(coordinator.id()).expect("a PID"), libc::SIGINT);
    assert_eq!(coordinator.wait().expect("it is a child").code(), Some(130));
    let plans: Value = edge.operator.run(&["fleet", "plans", "-o", "json"]).ok().json();
    assert_eq!(
        (&plans[0]["state"], &plans[0]["coordinator"]),
        (&"interrupted".into(), &Value::Null),
        "{plans}"
    );

    // The events of all hosts, with their names.
    let events = edge.operator.run(&["fleet", "events", "--host", "edge-[23]", "web"]).ok().stdout;
    assert!(events.contains("edge-2") && events.contains("edge-3") && !events.contains("edge-1"), "{events}");
    edge.end();
}

/// F7
#[test]
fn f7_a_plan_is_resumed_after_its_coordinator_was_killed() {
    let Some(etcd) = Etcd::start() else { return };
    let edge = Edge::start(&etcd);
    let words = ["fleet", "restart", "web", "--waves", "1,2,1", "--healthy-for", "3s", "--plan", "roll"];
    let mut coordinator = edge.operator.command(&words).spawn().expect("kelsonctl runs");
    eventually("the second wave to have begun", || {
        let plans = edge.operator.run(&["fleet", "plans", "-o", "json"]).ok();
        plans.json::<Value>()[0]["name"] == "roll" && edge.states("roll")[1..3] == ["running", "running"]
    });
    let removed = edge.operator.run(&["fleet", "plans", "roll", "--remove"]).expect(1);
    assert!(removed.stderr.contains("the plan roll is being carried out by"), "{}", removed.stderr);
    coordinator.kill().expect("it is a child");
    coordinator.wait().expect("it is a child");
    let killed = edge.states("roll");
    assert_eq!((killed[0].as_str(), killed[3].as_str()), ("done", "pending"), "{killed:?}");
    let resumed = edge.operator.run(&["-n", "edge-3", "fleet", "resume", "roll"]).ok();
    assert!(resumed.stderr.contains("is certainly gone"), "{}", resumed.stderr);
    assert!(resumed.stdout.contains("done: 4 of 4 hosts"), "{}", resumed.stdout);
    assert_eq!(edge.starts(), [2; 4], "each was restarted once");
    let done = edge.operator.run(&["fleet", "resume", "roll"]).expect(1);
    assert!(done.stderr.contains("the plan roll is done"), "{}", done.stderr);
    edge.end();
}
