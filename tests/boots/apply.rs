//! A configuration that is applied to a machine: it survives a power cut and wins over that of the image.

use std::fs;

use kelson_tests::{Cache, Dice, Drive, Vm, VmBuilder};

/// The program of steps, on the machine.
const STEPS: &str = "/etc/kelson/kelson-test-program";

#[test]
fn a3_an_applied_configuration_survives_a_power_cut_and_a_trial_does_not() {
    let drive = Drive::new("apply", "KELSON");
    let (mut dice, folder) = (Dice::new(1), tempfile::tempdir().expect("a folder"));
    let start = || -> VmBuilder {
        drive.keep();
        Vm::builder("apply").disk(drive.file()).disk_log(&drive.log()).runs("image", "serve")
    };
    let mut vm = start().boot();
    vm.wait_up(&["image"]);
    // As it is, so that the network and the API stay; with one service more each time.
    let desk = folder.path().join("desk");
    let desk = desk.to_str().expect("a path in UTF-8");
    vm.ctl(&["get", desk]).ok();
    let add = |name: &str| {
        let text = format!("name: {name}\nprocess: {{command: [{STEPS}, serve]}}\n");
        fs::write(format!("{desk}/services/{name}.yaml"), text).expect("the test's folder is writable");
    };
    add("kept");
    fs::remove_file(format!("{desk}/services/image.yaml")).expect("the image has it");
    let said = vm.ctl(&["apply", desk]).ok().stdout;
    assert!(said.ends_with("generation 1 is in force, generation 0 was before\n"), "{said}");
    vm.wait_up(&["kept"]);
    add("tried");
    vm.ctl(&["apply", desk, "--auto-rollback", "1h"]).ok();
    vm.wait_up(&["tried"]);
    // Whatever was not flushed may be lost: what was called applied was.
    assert!(vm.cut());
    let loss = drive.cut(Cache::Volatile, &mut dice);
    drop(vm);

    let mut vm = start().boot();
    vm.wait_up(&["kept"]);
    let names: Vec<String> = vm.services().into_iter().map(|service| service.name).collect();
    assert!(!names.iter().any(|name| name == "tried" || name == "image"), "{names:?}, {loss:?}");
    let history = vm.ctl(&["history"]).ok().stdout;
    assert!(history.contains("not confirmed") && history.contains("in force"), "{history}");
    assert!(
        vm.ctl(&["cat", "kept"]).ok().stdout.contains("name: kept"),
        "its path is that of the running host"
    );
    vm.ctl(&["reload"]).ok();
    vm.poweroff();
}
