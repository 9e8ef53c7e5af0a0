//! A service that wants an argument on the kernel's command line. A host in a container sees that of its host.

use kelson_tests::Host;
use serde_json::Value;

#[test]
fn a_service_runs_where_the_kernel_has_the_argument() {
    let line = std::fs::read_to_string("/proc/cmdline").expect("proc is mounted");
    let given = line.split_whitespace().find(|word| !word.contains('"')).expect("an argument");
    let name = given.split_once('=').map_or(given, |(name, _)| name);
    let mut host = Host::builder()
        .runs_with(
            "given",
            "serve",
            &format!("depends: [{{kernelArgument: '{given}'}}, {{kernelArgument: '{name}'}}]"),
        )
        .runs_with("either", "serve", "when: [{any: [{kernelArgument: kelson.never}, {path: $DIR}]}]")
        .runs_with("skipped", "serve", "when: [{kernelArgument: kelson.never}]")
        .runs_with("waits", "serve", "depends: [{kernelArgument: kelson.never=1}]")
        .start();
    host.wait_all_up(&["given", "either"]);
    let skipped = host.wait_state("skipped", "skipped");
    assert!(skipped.message.ends_with("kernel argument \"kelson.never\""), "{skipped:?}");
    host.wait_state("waits", "waiting");
    let why: Value = host.ctl(&["-o", "json", "why", "waits"]).ok().json();
    let missing = &why["causes"][0]["missing"];
    assert_eq!(
        (&missing["kind"], &missing["name"]),
        (&"kernel-argument".into(), &"kelson.never=1".into()),
        "{why:#}"
    );
    assert_eq!(why["causes"][0]["subject"], "kernel argument \"kelson.never=1\"");
    host.poweroff();
}
