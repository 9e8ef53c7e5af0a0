//! Three machines in one fleet, whose store is on this computer: one with a clock that is ten years off, and a
//! configuration that reaches them in waves.

use kelson_tests::vm::BOOT_PATIENCE;
use kelson_tests::{Etcd, Output, Vm, VmBuilder, paths, remote, until};

const NAMES: [&str; 3] = ["edge-1", "edge-2", "edge-3"];
const STEPS: &str = "/etc/kelson/kelson-test-program";
/// In seconds.
const TEN_YEARS: i64 = 315_576_000;

fn machine(name: &str, etcd: &Etcd) -> VmBuilder {
    // Longer than a lease, each time.
    let (forward, back) = (format!("clock={TEN_YEARS}"), format!("clock={}", -2 * TEN_YEARS));
    let steps = format!(
        "wait-path=/run/go, {forward}, sleep=40s, {back}, sleep=40s, {forward}, touch=/run/done, serve"
    );
    // QEMU's network hands on what is sent to 10.0.2.2.
    let endpoint = etcd.endpoint().replace("127.0.0.1", "10.0.2.2");
    Vm::builder(&format!("fleet-{name}"))
        .machine(&format!("hostname: {name}\nfleet: {{endpoints: ['{endpoint}'], labels: {{role: edge}}}}\n"))
        .runs_with("web", "serve", "register: {port: 80}")
        .runs("clock", &steps)
}

/// The names in a list of JSON.
fn names(output: &Output, key: &str) -> Vec<String> {
    let list: Vec<serde_json::Value> = output.json();
    list.iter().map(|one| one[key].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn long_three_machines_are_one_fleet_and_take_a_configuration_in_waves() {
    let Some(etcd) = Etcd::start() else { return };
    let mut machines = Vm::together(NAMES.map(|name| machine(name, &etcd)));
    for machine in &machines {
        machine.wait_up(&["web", "clock"]);
    }
    until("all to be registered and healthy", BOOT_PATIENCE, || {
        let healthy = |name| etcd.value(&format!("/kelson/v1/hosts/{name}")).contains("\"healthy\"");
        (etcd.keys("/kelson/v1/").len() == 6 && NAMES.iter().all(healthy)).then_some(())
    });
    for machine in &machines {
        assert_eq!(names(&machine.ctl(&["fleet", "hosts", "-o", "json"]).ok(), "name"), NAMES);
        assert_eq!(names(&machine.ctl(&["fleet", "services", "web", "-o", "json"]).ok(), "host"), NAMES);
    }

    let before = etcd.revision();
    machines[1].ctl(&["exec", "clock", "--", STEPS, "touch=/run/go"]).ok();
    // Certificates of the API are not good meanwhile.
    until("the clock to be right again", BOOT_PATIENCE, || {
        let files = machines[1].ctl(&["ls", "/run"]);
        (files.status == 0 && files.stdout.contains("done")).then_some(())
    });
    assert_eq!(etcd.revision(), before);
    assert_eq!(etcd.keys("/kelson/v1/").len(), 6);

    let doors = [0, 1, 2].map(|place| (NAMES[place], machines[place].port()));
    let away = remote::clients(&doors, paths::test_logs().join("fleet.contexts"));
    let folder = paths::test_logs().join("fleet");
    std::fs::create_dir_all(&folder).expect("the folder of logs is writable");
    let file = folder.join("web.yaml");
    let apply = |steps: &str, tag: &str| {
        let text = format!(
            "name: web\nprocess: {{command: [{STEPS}, {steps}]}}\nregister: {{port: 80, tags: [{tag}]}}\n"
        );
        std::fs::write(&file, text).expect("the folder of logs is writable");
        let file = file.display().to_string();
        let words = [
            "-n",
            "edge-2",
            "fleet",
            "apply",
            &file,
            "--waves",
            "1,all",
            "--healthy-for",
            "12s",
            "--deadline",
            "60s",
            "-y",
        ];
        away.run(&words)
    };
    let tagged =
        |tag: &str| names(&machines[0].ctl(&["fleet", "services", "--tag", tag, "-o", "json"]).ok(), "host");
    let done = apply("serve", "second").ok();
    assert!(done.stdout.contains("wave 2 of 2: edge-2, edge-3"), "{done:?}");
    assert_eq!(tagged("second"), NAMES);
    // One that fails on the first host goes no further, and this host returns to the one before.
    let failed = apply("exit=1", "third").expect(1);
    assert!(!failed.stdout.contains("wave 2"), "{failed:?}");
    until("the first host to be as before", BOOT_PATIENCE, || (tagged("second") == NAMES).then_some(()));
    away.run(&["-n", "all", "poweroff"]).ok();
    assert!(machines.iter_mut().all(Vm::wait_end));
    // They leave in order, and not with their leases. Plans stay.
    for prefix in ["/kelson/v1/hosts/", "/kelson/v1/services/"] {
        assert_eq!(etcd.keys(prefix), [""; 0]);
    }
}
