//! Secrets over boots: those that an operator has set are sealed on the disk, and those of sources are not on it, or sealed.

use std::path::Path;
use std::process::Command;

use kelson_tests::{Vm, until, vm::BOOT_PATIENCE};

use super::sources::{STEPS, credential, disk, drive};
use super::{Disk, assert_clean};

/// A disk for the state of the machine, which is not a source itself.
fn state(name: &str) -> Disk {
    let disk = Disk::new(name);
    let made =
        Command::new("mke2fs").args(["-q", "-t", "ext4", "-L", "STATE"]).arg(&disk.0).arg("256m").status();
    assert!(made.expect("mke2fs is installed").success());
    disk
}

/// Whether these bytes are anywhere on a disk.
fn holds(disk: &Path, marker: &str) -> bool {
    let found = Command::new("grep").args(["-qaF", marker]).arg(disk).status().expect("grep is installed");
    found.success()
}

/// What a running service reads in the file of a secret.
#[track_caller]
fn value(vm: &Vm, service: &str, name: &str) -> String {
    let cat = format!("cat=/run/kelson/secrets/{service}/{name}");
    vm.ctl(&["exec", service, "--", STEPS, &cat]).ok().stdout
}

#[track_caller]
fn set(vm: &Vm, name: &str, value: &str) -> kelson_tests::Output {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(&file, value).expect("it is ours");
    vm.ctl(&["secret", "set", name, file.path().to_str().expect("UTF-8")])
}

#[test]
fn a_secret_is_sealed_on_the_disk_and_there_at_the_next_boot() {
    let state = state("secrets-state");
    let builder = || Vm::builder("secrets").disk(&state.0).runs_with("web", "serve", "secrets: [db]");
    let mut vm = builder().boot();
    let service = until("the service to wait", BOOT_PATIENCE, || {
        Some(vm.client().service("web")).filter(|web| web.state == "waiting")
    });
    assert_eq!(service.waiting_for, ["secret \"db\" to be set (set it with kelsonctl secret set db)"]);
    set(&vm, "db", "marker-of-an-operator").ok();
    vm.wait_up(&["web"]);
    assert_eq!(value(&vm, "web", "db"), "marker-of-an-operator");
    vm.poweroff();
    drop(vm);
    assert_clean(&state.0);
    assert!(!holds(&state.0, "marker-of-an-operator"));

    let mut vm = builder().boot();
    vm.wait_up(&["web"]);
    assert_eq!(value(&vm, "web", "db"), "marker-of-an-operator");
    vm.poweroff();
    assert!(!holds(&state.0, "marker-of-an-operator"));
    // The search finds what is there.
    assert!(holds(&state.0, "secrets.key"));
}

#[test]
fn secrets_of_sources_are_there_while_their_source_is_or_is_remembered() {
    let state = state("secrets-sources-state");
    let given = disk("secrets-disk", "KELSON", &[("secrets/tls-key", "marker-of-a-disk")]);
    let seed = disk(
        "secrets-seed",
        "cidata",
        &[("meta-data", "instance-id: i-1\n"), ("secrets/token", "marker-of-a-seed")],
    );
    let builder = |wait: &str| {
        Vm::builder("secrets-sources")
            .disk(&state.0)
            .machine(&format!("sources: {{from: [disk, credentials, noCloud], wait: {wait}}}\n"))
            .runs_with("web", "serve", "secrets: [db, tls-key]")
            .runs_with("seeded", "serve", "secrets: [token]")
    };
    let mut vm = builder("20s")
        .qemu(&drive(&given))
        .qemu(&drive(&seed))
        .qemu("-smbios type=11,value=io.systemd.credential:kelson.secret.db=marker-of-firmware")
        .qemu(&credential("kelson.secret.more", "marker-of-fw-cfg"))
        .boot();
    vm.wait_up(&["web", "seeded"]);
    let read = |vm: &Vm| {
        [("web", "db"), ("web", "tls-key"), ("seeded", "token")]
            .map(|(service, name)| value(vm, service, name))
    };
    assert_eq!(read(&vm), ["marker-of-firmware", "marker-of-a-disk", "marker-of-a-seed"]);
    let listed: serde_json::Value = vm.ctl(&["secret", "list", "-o", "json"]).ok().json();
    let sources =
        listed.as_array().into_iter().flatten().map(|one| format!("{} {}", one["name"], one["source"]));
    assert_eq!(
        sources.collect::<Vec<_>>(),
        [r#""db" "credentials""#, r#""more" "credentials""#, r#""tls-key" "disk""#, r#""token" "noCloud""#]
    );
    let refused = set(&vm, "db", "marker-of-an-operator");
    assert!(refused.stderr.contains("secret db comes from the source credentials"), "{}", refused.stderr);
    vm.ctl(&["reexec"]).ok();
    vm.ctl(&["restart", "web", "--wait"]).ok();
    vm.wait_up(&["web", "seeded"]);
    assert_eq!(value(&vm, "web", "db"), "marker-of-firmware");
    let boot = vm.ctl(&["boot", "-o", "json"]).ok().stdout;
    assert!(boot.contains("secret tls-key") && !boot.contains("marker-of"), "{boot}");
    vm.poweroff();
    drop(vm);
    assert_clean(&state.0);
    assert_clean(&given.0);
    assert!(!holds(&state.0, "marker-of-"));

    let mut vm = builder("1s").boot();
    vm.wait_up(&["seeded"]);
    assert_eq!(value(&vm, "seeded", "token"), "marker-of-a-seed");
    let web = vm.client().service("web");
    assert_eq!((web.state.as_str(), web.waiting_for.len()), ("waiting", 2), "{:?}", web.waiting_for);
    set(&vm, "db", "marker-of-an-operator").ok();
    set(&vm, "tls-key", "x").ok();
    vm.wait_up(&["web"]);
    assert_eq!(value(&vm, "web", "db"), "marker-of-an-operator");
    vm.poweroff();
    assert!(!holds(&state.0, "marker-of-"));
}
