//! A service that wants a fact about the host to have a value.

use kelson_tests::Host;
use serde_json::Value;

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
