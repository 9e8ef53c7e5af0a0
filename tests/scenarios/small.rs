//! An `init` without the parts that a build may leave out (`make small`).

use std::path::Path;
use std::process::Command;

use kelson_tests::{Host, HostBuilder, paths};

fn small() -> HostBuilder {
    Host::builder().copy_of(paths::small_init())
}

/// What `init --version` prints.
fn version(init: &Path) -> String {
    let done = Command::new(init).arg("--version").output().expect("it is a program");
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).expect("it prints text")
}

#[test]
fn an_init_lists_its_features() {
    let text = version(&paths::binary("init"));
    assert_eq!(
        text.lines().nth(1),
        Some(
            "features: apid, containerd, devices, disks, fleet, inspect, kexec, net, probes, pull, reflection, secrets, sources, timesync, units, volumes"
        ),
        "{text}"
    );
    let mut host = Host::builder().runs("web", "serve").up(&["web"]);
    let text = host.ctl(&["version"]).ok().stdout;
    assert!(!text.contains("without"), "{text}");
    host.poweroff();
}

#[test]
fn long_a_small_init_runs_services_and_goes_on_after_a_reexec() {
    let mut host = small()
        .runs_with(
            "web",
            "print=hello, serve",
            "health: [{name: a, exec: {command: [$PROGRAM]}, interval: 100ms}]",
        )
        .runs_with("db", "serve", "start: manual")
        .up(&["web"]);
    host.wait_for("web", "healthy", |web| web.healthy == Some(true));
    host.wait_log("web", "hello");
    host.ctl(&["start", "--wait", "db"]).ok();
    let (web, db) = (host.pid_of("web"), host.pid_of("db"));
    host.ctl(&["reexec"]).ok();
    assert_eq!((host.pid_of("web"), host.pid_of("db")), (web, db));
    host.ctl(&["stop", "--wait", "db"]).ok();
    host.wait_down("db");
    host.ctl(&["restart", "--wait", "web"]).ok();
    assert_ne!(host.pid_of("web"), web);
    host.wait_for("web", "healthy", |web| web.healthy == Some(true));
    host.poweroff();
}

#[test]
fn long_a_small_init_rejects_by_name_what_needs_a_missing_feature() {
    let text = version(&paths::small_init());
    assert_eq!(text.lines().nth(1), Some("features: none"), "{text}");
    let mut host = small()
        .machine("api: {listen: [\"127.0.0.1:1\"], ca: /a, certificate: /b, key: /c}\nimages: [/images]\n")
        .service("box", "container: {image: web}")
        .runs_with("asked", "serve", "health: [{tcp: {port: 80}}]")
        .runs("web", "serve")
        .up(&["web"]);
    let without = |what: &str, feature: &str| {
        format!(
            "{what}: this init was built without the feature {feature}; use the full init, or build one with FEATURES={feature}"
        )
    };
    for (what, feature) in [("api", "apid"), ("images", "containerd"), ("--images", "containerd")] {
        let text = without(what, feature);
        host.wait_event(0, &text, |event| event.message.contains(&text));
    }
    for (service, key, feature) in [("box", "container", "containerd"), ("asked", "health[0].tcp", "probes")]
    {
        let said = host.ctl(&["why", service]).stdout;
        assert!(said.contains(&without(key, feature)), "{said}");
    }
    for (command, method, feature) in [
        (["images"].as_slice(), "Images.List", "containerd"),
        (&["processes"], "Inspect.Processes", "inspect"),
        (&["memory"], "Inspect.Memory", "inspect"),
        (&["read", "/etc/passwd"], "Inspect.ReadFile", "inspect"),
    ] {
        let refused = host.ctl(command);
        assert_eq!(refused.status, 1, "{command:?}");
        let text = format!("the host does not know this command: {}", without(method, feature));
        assert!(refused.stderr.contains(&text), "{}", refused.stderr);
    }
    let text = host.ctl(&["version"]).ok().stdout;
    assert!(
        text.contains("\nwithout    apid, containerd, devices, disks, fleet, inspect, kexec, net, probes, pull, reflection, secrets, sources, timesync, units, volumes\n"),
        "{text}"
    );
    host.poweroff();
}
