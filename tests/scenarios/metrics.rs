//! Metrics, read through the front door by a stock scraper and on the host, and what a reading costs PID 1.

mod cost;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Command, Stdio};

use kelson_tests::{Host, eventually, paths, remote};

#[derive(Debug, serde::Deserialize)]
struct Sample {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// Samples as the strict parser reads them.
struct Samples(Vec<Sample>);

fn parser() -> Command {
    let python = paths::top().join("out/venv/bin/python");
    assert!(python.exists(), "{} is missing: run hack/deps", python.display());
    let mut command = Command::new(python);
    command.arg(paths::top().join("tests/scenarios/metrics/read.py"));
    command
}

impl Samples {
    fn of(output: &std::process::Output) -> Samples {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = std::str::from_utf8(&output.stdout).expect("JSON");
        Samples(lines.lines().map(|line| serde_json::from_str(line).expect(line)).collect())
    }

    /// Runs `kelsonctl metrics` and reads its output.
    fn on(host: &Host, words: &[&str]) -> Samples {
        let text = host.ctl(&[&["metrics"], words].concat()).ok().stdout;
        let mut child = parser()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("python can be started");
        child.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("the parser reads all");
        Samples::of(&child.wait_with_output().expect("it is our child"))
    }

    fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let fits = |sample: &&Sample| {
            let same = |(label, value): &(&str, &str)| sample.labels.get(*label).is_some_and(|l| l == value);
            sample.name == name && labels.iter().all(same)
        };
        self.0.iter().find(fits).map(|sample| sample.value)
    }

    #[track_caller]
    fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.get(name, labels).unwrap_or_else(|| panic!("there is no {name} {labels:?}"))
    }
}

/// Certificates that openssl makes, and the lines of a machine file for them.
/// As docs/metrics.md has them: name and type.
fn documented() -> BTreeSet<(String, String)> {
    let page = std::fs::read_to_string(paths::top().join("docs/metrics.md")).expect("docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `kelson_"));
    rows.map(|row| {
        let mut cells = row.split(" |").map(|cell| cell.trim().replace('`', ""));
        let mut next = || cells.next().expect("a cell");
        (format!("kelson_{}", next()), next())
    })
    .collect()
}

/// The families that this host does not have: a kernel that it saw start, a controller that the test's cgroup
/// may lack, a group, a file with a mistake, volumes of plugins.
const NOT_HERE: [&str; 14] = [
    "kelson_boot_kernel_duration_seconds",
    "kelson_fleet_connected",
    "kelson_fleet_last_confirmed_seconds",
    "kelson_group_restarts_total",
    "kelson_registered",
    "kelson_service_file_mistake",
    "kelson_service_memory_bytes",
    "kelson_volume_abnormal",
    "kelson_volume_available_bytes",
    "kelson_volume_inodes",
    "kelson_volume_inodes_used",
    "kelson_volume_size_bytes",
    "kelson_volume_step_failures_total",
    "kelson_volume_used_bytes",
];

#[test]
fn metrics_through_the_front_door() {
    let (pki, machine) = remote::door();
    let mut host = Host::builder()
        .machine(&machine)
        .service(
            "web",
            "process: {command: [/usr/bin/busybox, sleep, '1000000']}\n\
             restart: {delay: 10ms}\n\
             health:\n\
             - name: file\n\
             \x20 exec: {command: [/usr/bin/busybox, test, '!', -e, $DIR/broken]}\n\
             \x20 initialDelay: 0s\n\
             \x20 interval: 100ms\n\
             \x20 failureThreshold: 1",
        )
        .service("job", "process: {command: [/usr/bin/busybox, 'false']}\nrestart: {policy: once}")
        .service("shy", "process: {command: [/usr/bin/busybox, 'true']}\nstart: manual\ngroup: few")
        .start();
    host.wait_all_up(&["web", "apid"]);
    host.wait_state("job", "failed");
    host.kill(host.pid_of("web"), libc::SIGKILL);
    host.wait_for("web", "to run again", |service| service.restarts == 1 && service.up);
    eventually("the boot to be over", || {
        host.ctl(&["boot", "-o", "json"]).ok().json::<serde_json::Value>()["totalMs"].is_number()
    });
    let port = remote::port(&host);

    let read_as = |words: &[&str]| {
        let output = parser()
            .args(words)
            .arg(format!("https://127.0.0.1:{port}/metrics"))
            .args(["ca.pem", "client.pem", "client.key"].map(|file| pki.join(file)))
            .output();
        Samples::of(&output.expect("python can be started"))
    };
    let read = || read_as(&[]);
    let samples = read();
    // The older format has the same of all that does not change.
    let rows = |samples: &Samples| {
        let row = |sample: &Sample| (sample.name.clone(), sample.kind.clone(), sample.labels.clone());
        samples.0.iter().map(row).collect::<BTreeSet<_>>()
    };
    assert_eq!(rows(&read_as(&["--classic"])), rows(&samples));
    assert_eq!(samples.value("kelson_build_info", &[("mode", "container")]), 1.0);
    for (service, state, up) in [
        ("web", "running", 1.0),
        ("job", "failed", 0.0),
        ("shy", "initialized", 0.0),
        ("logd", "running", 1.0),
    ] {
        assert_eq!(samples.value("kelson_service_state", &[("service", service), ("state", state)]), 1.0);
        assert_eq!(samples.value("kelson_service_up", &[("service", service)]), up, "{service}");
    }
    let web = [("service", "web")];
    assert_eq!(samples.value("kelson_service_healthy", &web), 1.0);
    assert_eq!(samples.get("kelson_service_healthy", &[("service", "job")]), None);
    assert_eq!(samples.value("kelson_service_runs_total", &web), 2.0);
    let killed = [("service", "web"), ("reason", "signal")];
    assert_eq!(samples.value("kelson_service_restarts_total", &killed), 1.0);
    assert_eq!(samples.value("kelson_service_start_duration_seconds_count", &web), 2.0);
    assert!(samples.value("kelson_service_start_duration_seconds_sum", &web) > 0.0);
    assert!(samples.value("kelson_service_processes", &web) >= 1.0);
    assert!(samples.value("kelson_service_cpu_seconds_total", &web) > 0.0);
    assert_eq!(samples.value("kelson_services", &[("state", "failed")]), 1.0);
    assert_eq!(samples.value("kelson_node_healthy", &[]), 0.0, "one has failed");
    assert!(samples.get("kelson_group_healthy", &[("group", "few")]).is_some());
    let check = [("service", "web"), ("check", "file")];
    assert_eq!(samples.value("kelson_check_passing", &check), 1.0);
    let asked = samples.value("kelson_check_duration_seconds_count", &check);
    assert!(asked >= 2.0, "the checks of both runs count: {asked}");
    assert_eq!(samples.value("kelson_check_failures_total", &check), 0.0);
    assert!(samples.value("kelson_check_last_duration_seconds", &check) > 0.0);
    assert!(samples.value("kelson_boot_duration_seconds", &[]) > 0.0);
    assert!(samples.value("kelson_boot_phase_duration_seconds", &[]) >= 0.0);
    assert!(samples.value("kelson_events_total", &[]) >= 10.0);
    assert!(samples.value("kelson_init_memory_bytes", &[]) > 1e6);

    let told: BTreeSet<(String, String)> = samples
        .0
        .iter()
        .map(|Sample { name, kind, .. }| {
            let summary = name.strip_suffix("_count").or(name.strip_suffix("_sum"));
            (summary.filter(|_| kind == "summary").unwrap_or(name).to_owned(), kind.clone())
        })
        .collect();
    let mut documented = documented();
    assert!(told.is_subset(&documented), "not in docs/metrics.md: {:?}", told.difference(&documented));
    documented.retain(|row| !told.contains(row) && !NOT_HERE.contains(&row.0.as_str()));
    assert!(documented.is_empty(), "in docs/metrics.md, and not told: {documented:?}");

    // On the host it is the same, and of one service only what is its own.
    let names =
        |samples: &Samples| samples.0.iter().map(|sample| sample.name.clone()).collect::<BTreeSet<_>>();
    assert_eq!(names(&Samples::on(&host, &[])), names(&samples));
    let own = Samples::on(&host, &["web"]);
    assert!(own.0.iter().all(|sample| sample.labels.get("service").is_some_and(|name| name == "web")));

    // The next reading but one reports a check that fails.
    host.touch("broken");
    eventually("the failing check to be told", || {
        let samples = read();
        samples.get("kelson_check_passing", &check) == Some(0.0)
            && samples.value("kelson_check_failures_total", &check) >= 1.0
            && samples.get("kelson_service_healthy", &web) == Some(0.0)
    });

    // The counts of a service go on after a re-exec; those of its checks begin at 0.
    std::fs::remove_file(host.path("broken")).expect("it is there");
    eventually("the check to pass again", || read().get("kelson_check_passing", &check) == Some(1.0));
    let events = read().value("kelson_events_total", &[]);
    host.ctl(&["reexec"]).ok();
    let samples = Samples::on(&host, &[]);
    assert_eq!(samples.value("kelson_check_failures_total", &check), 0.0);
    assert_eq!(samples.value("kelson_service_restarts_total", &killed), 1.0);
    assert_eq!(samples.value("kelson_service_runs_total", &web), 2.0);
    assert!(samples.value("kelson_events_total", &[]) >= events);
    host.poweroff();
}
