//! A service that wants a fact about the host to have a value.

use kelson_tests::{Host, eventually};
use serde_json::Value;

/// Whether PID 1 listens to what the kernel says of devices.
fn follows_devices(host: &Host) -> bool {
    const UEVENTS: &str = "15";
    let process = format!("/proc/{}", host.init_pid());
    let sockets = std::fs::read_to_string(format!("{process}/net/netlink")).expect("the kernel has netlink");
    let of_devices = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        (columns[1] == UEVENTS).then(|| format!("socket:[{}]", columns[columns.len() - 1]))
    };
    let sockets: Vec<String> = sockets.lines().filter_map(of_devices).collect();
    let descriptors = std::fs::read_dir(format!("{process}/fd")).expect("init runs").flatten();
    let mut links = descriptors.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.any(|link| sockets.iter().any(|socket| link.as_os_str() == socket.as_str()))
}

#[test]
fn a_host_follows_its_devices_where_a_file_asks_for_a_fact() {
    let mut host = Host::builder().runs("web", "serve").start();
    host.wait_up("web");
    host.ctl(&["reload"]).ok();
    assert!(!follows_devices(&host), "no file asks for a fact");
    let asks = "process: {command: [/bin/true]}\ntype: oneshot\n\
        when: [{any: [{not: {fact: disk.no-such-disk.size}}, {path: /no-such-path}]}]";
    host.write_service("asks", asks);
    host.ctl(&["reload"]).ok();
    host.wait_state("asks", "finished");
    eventually("devices to be followed", || follows_devices(&host));
    host.ctl(&["reexec"]).ok();
    eventually("devices to be followed again", || follows_devices(&host));
    let changes = host.events().into_iter().filter(|event| event.message.starts_with("the fact "));
    assert_eq!(changes.count(), 0);
    host.poweroff();
}

#[test]
fn a_service_runs_where_the_host_is_as_it_asks() {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("proc is mounted");
    let release = release.trim();
    let mut host = Host::builder()
        .runs_with(
            "right",
            "serve",
            &format!(
                "depends: [{{fact: {{name: kernel.release, is: '{release}'}}}}, {{fact: {{name: memory.total, atLeast: 16Mi}}}}]\n\
                 when: [{{fact: {{name: architecture, is: [x86_64, 'aarch*']}}}}, {{not: {{fact: {{name: kernel.release, is: '1.*'}}}}}}]"
            ),
        )
        .runs_with("other", "serve", "when: [{fact: {name: architecture, is: [riscv64, 's390*']}}]")
        .runs_with("large", "serve", "depends: [{fact: {name: memory.total, atLeast: 512Ti}}]")
        .runs_with("absent", "serve", "when: [{fact: disk.no-such-disk.size}]")
        .start();
    host.wait_up("right");
    let skipped = host.wait_state("other", "skipped");
    let text = "fact architecture to be riscv64 or s390* (it is x86_64)";
    assert!(skipped.message.ends_with(text), "{skipped:?}");
    let absent = host.wait_state("absent", "skipped");
    assert!(
        absent.message.ends_with("fact disk.no-such-disk.size (this host does not have it)"),
        "{absent:?}"
    );
    host.wait_state("large", "waiting");
    let why: Value = host.ctl(&["-o", "json", "why", "large"]).ok().json();
    let missing = &why["causes"][0]["missing"];
    assert_eq!((&missing["kind"], &missing["name"]), (&"fact".into(), &"memory.total".into()), "{why:#}");
    // A new PID 1 asks again, and changes nothing of what runs.
    let before = host.service("right").pid;
    host.ctl(&["reexec"]).ok();
    host.wait_state("large", "waiting");
    assert_eq!(host.service("right").pid, before);
    host.poweroff();
}
