//! Units of systemd and a project of Docker Compose in the configuration folder of a machine.

use std::fs;

use kelson_tests::{Image, Vm, archive};

/// The program of steps, on the machine.
const STEPS: &str = "/etc/kelson/kelson-test-program";
const MULTI_USER: &str = "[Install]\nWantedBy=multi-user.target\n";

#[test]
fn units_and_projects_in_the_configuration_folder_are_services() {
    let unit = |words: &str, more: &str| {
        format!("[Service]\nExecStart={STEPS} {words} serve\nKillMode=mixed\n{more}{MULTI_USER}")
    };
    let compose = "services:
  page: {image: 'test:1', command: [serve], network_mode: none, restart: always}
";
    let mut vm = Vm::builder("other-programs")
        .without_containerd()
        .archive("test.tar", archive(&[Image::new("docker.io/library/test:1", &["serve"])]))
        .service("last", "process: {command: [$PROGRAM, serve]}\ndepends: [{service: web}, {service: page}]")
        .file("units/web.service", 0o644, unit("", ""))
        .file("units/web.service.d/name.conf", 0o644, "[Service]\nEnvironment=NAME=drop-in\n")
        .file("units/queue@a.service", 0o644, unit("print=%i", ""))
        .file("units/lossy.service", 0o644, unit("", "SecureBits=keep-caps\n"))
        .file("compose/shop/compose.yaml", 0o644, compose)
        .boot();
    vm.wait_up(&["last", "web", "queue-a", "page"]);
    assert!(vm.ctl(&["logs", "queue-a"]).ok().stdout.ends_with("a\n"));
    assert!(vm.ctl(&["status", "web"]).ok().stdout.contains("NAME: drop-in"));
    assert!(vm.ctl(&["cat", "web"]).ok().stdout.starts_with("[Service]\nExecStart="));
    let lossy = vm.ctl(&["status", "lossy"]).ok().stdout;
    assert!(lossy.contains("units/lossy.service:4:1: SecureBits: "), "{lossy}");

    // They are part of what is applied from outside, and of what the host gives.
    let folder = tempfile::tempdir().expect("a folder");
    let desk = folder.path().join("desk");
    vm.ctl(&["get", desk.to_str().expect("a path in UTF-8")]).ok();
    assert_eq!(fs::read_to_string(desk.join("compose/shop/compose.yaml")).expect("it is there"), compose);
    fs::remove_file(desk.join("units/lossy.service")).expect("it is there");
    fs::write(desk.join("units/new.service"), unit("", "")).expect("the test's folder is writable");
    fs::remove_file(desk.join("units/queue@a.service")).expect("it is there");
    let pid = vm.client().service("web").pid;
    let said = vm.ctl(&["apply", desk.to_str().expect("a path in UTF-8")]).ok().stdout;
    assert!(said.ends_with("generation 1 is in force, generation 0 was before\n"), "{said}");
    vm.wait_up(&["new", "web"]);
    assert_eq!(vm.client().service("web").pid, pid, "its file is the same");
    assert!(vm.services().iter().all(|service| !["queue-a", "lossy"].contains(&service.name.as_str())));
    vm.poweroff();
}
