//! Clones of one snapshot: each becomes a machine of its own by one call.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kelson_tests::{Vm, VmBuilder, paths, until};

const UUID: &str = "/proc/sys/kernel/random/uuid";

/// From the signal to `by-itself` until it draws. The snapshot is made in this time.
const UNTIL_DRAWN: Duration = Duration::from_secs(8);

/// The machine and its clones are built alike. A processor with a source of randomness would hide equal states.
fn machine(name: &str) -> VmBuilder {
    Vm::builder(name)
        .qemu("-cpu max,-rdrand,-rdseed")
        .machine("hostname: golden\n")
        .runs_with(
            "by-itself",
            &format!(
                "notify=READY=1, await=USR1, sleep={}s, cat={UUID}, cat={UUID}, print=drawn, serve",
                UNTIL_DRAWN.as_secs()
            ),
            "readiness: notify\nlogs: {stdout: true}",
        )
        .runs_with(
            "by-signal",
            &format!("notify=READY=1, await=USR1, cat={UUID}, serve"),
            "readiness: notify\nresumed: {signal: USR1}",
        )
        .runs_with("by-hook", "serve", &format!("resumed: {{hooks: {{command: [$PROGRAM, 'cat={UUID}']}}}}"))
        .runs_with("restarted", &format!("cat={UUID}, serve"), "resumed: {restart: true}")
}

/// Boots the machine, does something with it, and saves it.
#[track_caller]
fn snapshot(name: &str, file: &Path, prepare: impl FnOnce(&Vm)) {
    let monitor = file.with_extension("monitor");
    let mut vm = machine(name).monitor(&monitor).boot();
    vm.wait_up(&["by-itself", "by-signal", "by-hook", "restarted"]);
    prepare(&vm);
    vm.snapshot(&monitor, file);
}

/// A folder for the snapshot.
fn folder(name: &str) -> PathBuf {
    let folder = paths::test_logs().join(name);
    std::fs::create_dir_all(&folder).expect("the logs can be written");
    folder
}

/// The UUIDs in the log of a service.
fn drawn(vm: &Vm, service: &str) -> BTreeSet<String> {
    let log = vm.ctl(&["logs", service]).ok().stdout;
    log.split_whitespace().filter(|word| word.len() == 36 && word.contains('-')).map(str::to_owned).collect()
}

/// The line of a file on the machine.
fn line(vm: &Vm, path: &str) -> String {
    vm.ctl(&["read", path]).ok().stdout
}

/// The outcomes of the steps, by their names.
fn renew(vm: &Vm, name: &str) -> BTreeMap<String, String> {
    let steps: Vec<Step> = vm.ctl(&["-o", "json", "resumed", "--hostname", name]).ok().json();
    steps.into_iter().map(|step| (step.name, step.outcome)).collect()
}

#[derive(serde::Deserialize)]
struct Step {
    name: String,
    outcome: String,
}

#[test]
fn each_clone_of_a_snapshot_is_renewed_by_one_call() {
    let folder = folder("clones");
    let file = folder.join("snapshot");
    snapshot("clones", &file, |_| ());
    let clones = [1, 2].map(|number| machine(&format!("clones-{number}")).incoming(&file));
    let clones = Vm::together(clones);
    let id = line(&clones[0], "/etc/machine-id");
    assert_eq!(line(&clones[1], "/etc/machine-id"), id);
    let mut seen = BTreeSet::from([id]);
    for (vm, hostname) in clones.iter().zip(["worker-1", "worker-2"]) {
        let expected = [
            ("by-hook", "done"),
            ("by-itself", "not-declared"),
            ("by-signal", "done"),
            ("host name", "done"),
            ("machine id", "done"),
            ("random generator", "done"),
            ("random seed", "done"),
            ("restarted", "done"),
        ];
        let expected = expected.map(|(name, outcome)| (name.to_owned(), outcome.to_owned()));
        assert_eq!(renew(vm, hostname), BTreeMap::from(expected));
        assert_eq!(line(vm, "/proc/sys/kernel/hostname").trim_end(), hostname);
        assert!(seen.insert(line(vm, "/etc/machine-id")), "the machine id is not new");
        until("the signal to be answered", Duration::from_secs(60), || {
            (!drawn(vm, "by-signal").is_empty()).then_some(())
        });
        // One from the hook, one from the process that got the signal, and one more from the service that was restarted.
        for (service, count) in [("by-hook", 1), ("by-signal", 1), ("restarted", 2)] {
            let uuids = drawn(vm, service);
            assert_eq!(uuids.len(), count, "{service}: {uuids:?}");
            let new = uuids.into_iter().filter(|uuid| seen.insert(uuid.clone())).count();
            // The first of the service that was restarted is from before the snapshot, and is in both clones.
            assert!(new >= 1, "{service} has drawn what the other clone has");
        }
    }
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn long_a_thousand_clones_draw_no_equal_uuid_once_they_are_renewed() {
    let folder = folder("thousand-clones");
    let file = folder.join("snapshot");
    let begun = Cell::new(Instant::now());
    snapshot("thousand-clones", &file, |vm| {
        // The kernel seeds its generator again after half of its uptime, counted from here.
        until("the machine to be older", Duration::from_secs(120), || {
            let uptime = line(vm, "/proc/uptime");
            uptime.split('.').next()?.parse().ok().filter(|seconds: &u32| *seconds > 30)
        });
        renew(vm, "golden");
        begun.set(Instant::now());
        vm.ctl(&["signal", "by-itself", "USR1"]).ok();
    });
    let took = begun.get().elapsed();
    assert!(took < UNTIL_DRAWN, "the snapshot took {took:?}: it may hold what is to be drawn after it");
    let clone = |number: usize| machine(&format!("thousand-clones-{}", number % 2)).incoming(&file);

    // Without the call: what two clones draw by themselves is equal. This is what the call is for.
    let by_itself = [0, 1].map(|number| {
        let vm = clone(number).start();
        vm.wait_console("drawn");
        drawn(&vm, "by-itself")
    });
    assert_eq!(by_itself[0].len(), 2, "{by_itself:?}");
    assert!(!by_itself[0].is_disjoint(&by_itself[1]), "equal clones have drawn {by_itself:?}");

    let mut seen = BTreeSet::new();
    for pair in 0..500 {
        for vm in Vm::together([clone(2 * pair), clone(2 * pair + 1)]) {
            // The snapshot holds what the call before it has left.
            let before = drawn(&vm, "by-hook");
            renew(&vm, "worker");
            let new: Vec<String> = drawn(&vm, "by-hook").difference(&before).cloned().collect();
            assert_eq!(new.len(), 1, "{new:?}");
            assert!(
                seen.insert(new[0].clone()),
                "clone {} of a pair {pair} has drawn {new:?} again",
                vm.port()
            );
            assert!(seen.insert(line(&vm, "/etc/machine-id")), "a machine id has come again");
        }
    }
    assert_eq!(seen.len(), 2000);
    let _ = std::fs::remove_dir_all(folder);
}
