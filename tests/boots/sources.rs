//! The configuration of a machine from outside: a disk, credentials of the hypervisor, the kernel's command line.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::Command;

use kelson_tests::vm::BOOT_PATIENCE;
use kelson_tests::{Vm, paths, until};

use super::{Disk, assert_clean, iso};

/// The program of steps, on the machine.
pub const STEPS: &str = "/etc/kelson/kelson-test-program";

fn service(name: &str) -> String {
    format!("name: {name}\nprocess: {{command: [{STEPS}, serve]}}\n")
}

/// A disk with this label that holds these files.
pub fn disk(name: &str, label: &str, files: &[(&str, &str)]) -> Disk {
    let (disk, tree) = (Disk::new(name), tempfile::tempdir().expect("a folder"));
    for (name, text) in files {
        let path = tree.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("the test's folder is writable");
        fs::write(path, text).expect("the test's folder is writable");
    }
    let made = Command::new("mke2fs")
        .args(["-q", "-t", "ext4", "-L", label, "-d"])
        .arg(tree.path())
        .arg(&disk.0)
        .arg("16m")
        .status();
    assert!(made.expect("mke2fs is installed").success());
    disk
}

pub fn drive(disk: &Disk) -> String {
    format!("-drive if=virtio,format=raw,file={}", disk.0.display())
}

pub fn credential(name: &str, text: &str) -> String {
    let file = paths::test_logs().join(format!("credential-{name}"));
    fs::write(&file, text).expect("the folder of the logs is writable");
    format!("-fw_cfg name=opt/io.systemd.credentials/{name},file={}", file.display())
}

/// The error of a task of the boot and what it did.
fn task(vm: &Vm, name: &str) -> (String, String) {
    let report: serde_json::Value = vm.ctl(&["boot", "-o", "json"]).ok().json();
    let phases = report["phases"].as_array().into_iter().flatten();
    let mut tasks = phases.flat_map(|phase| phase["tasks"].as_array().into_iter().flatten());
    // The last one: a source may come after the boot.
    let task = tasks.rfind(|task| task["name"] == name);
    let task = task.unwrap_or_else(|| panic!("no {name} in {report:#}"));
    let text = |key: &str| task[key].as_str().unwrap_or_default().to_owned();
    (text("error"), text("message"))
}

fn host_name(vm: &Vm) -> String {
    vm.ctl(&["read", "/proc/sys/kernel/hostname"]).ok().stdout.trim().to_owned()
}

#[test]
fn each_source_overrides_those_before_it() {
    let given = disk(
        "sources-disk",
        "KELSON",
        &[
            ("machine.yaml", "hostname: of-disk\nsysctl: {kernel.panic: \"17\"}\nmodules: [dummy]\n"),
            ("services/given.yaml", &service("given")),
            ("services/image.yaml", &(service("image") + "depends: [{service: given}]\n")),
        ],
    );
    // `kernel.panic: 18`, as SMBIOS strings have no line breaks and QEMU's words no spaces here.
    let smbios = "-smbios type=11,value=io.systemd.credential.binary:kelson.machine=c3lzY3RsOiB7a2VybmVsLnBhbmljOiAiMTgifQo=";
    let mut vm = Vm::builder("sources")
        .machine("sources: {from: [commandLine, credentials, disk], wait: 20s}\nhostname: of-image\n")
        .runs("image", "serve")
        .qemu(&drive(&given))
        .qemu(smbios)
        .qemu(&credential("kelson.config", &format!("--- # services/fw-cfg.yaml\n{}", service("fw-cfg"))))
        .append("kelson.machine.hostname=of-line")
        .boot();
    vm.wait_up(&["image", "given", "fw-cfg"]);
    assert_eq!(host_name(&vm), "of-line");
    assert_eq!(vm.ctl(&["read", "/proc/sys/kernel/panic"]).ok().stdout.trim(), "18");
    assert_eq!(
        task(&vm, "source disk"),
        (String::new(), "/dev/vda: machine.yaml, services/given.yaml, services/image.yaml".to_owned())
    );
    // A reload and a later incarnation of PID 1 read the same.
    vm.ctl(&["reload"]).ok();
    vm.ctl(&["reexec"]).ok();
    vm.wait_up(&["image", "given", "fw-cfg"]);
    vm.poweroff();
    assert_clean(&given.0);
}

#[test]
fn a_source_with_a_mistake_is_skipped_and_the_machine_answers() {
    let given = disk("sources-wrong", "KELSON", &[("machine.yaml", "hostname: of-disk\nmodule: [dummy]\n")]);
    let mut vm = Vm::builder("sources-wrong")
        .machine("sources: {from: [commandLine, credentials, disk], wait: 20s}\nhostname: of-image\n")
        .runs("image", "serve")
        .qemu(&drive(&given))
        .qemu(&credential("kelson.hostname", "of-credential"))
        .boot();
    vm.wait_up(&["image"]);
    assert_eq!(host_name(&vm), "of-image");
    let (error, _) = task(&vm, "use source disk");
    assert!(
        error.starts_with(
            "/run/kelson/sources/disk/machine.yaml:2:1: module: this key is not known; did you mean modules?"
        ),
        "{error}"
    );
    assert!(error.ends_with("; the source disk is skipped as a whole"), "{error}");
    let (error, _) = task(&vm, "source credentials");
    assert!(
        error.starts_with("credential kelson.hostname: this name is not known; known are kelson.config"),
        "{error}"
    );
    let (error, message) = task(&vm, "source commandLine");
    assert_eq!((error.as_str(), message.as_str()), ("", "there is no word kelson.machine.KEY=VALUE"));
    vm.poweroff();
}

#[test]
fn a_seed_that_comes_late_is_used_and_remembered_without_its_disk() {
    let (state, seed) = (Disk::new("no-cloud-state"), Disk::new("no-cloud-seed"));
    let monitor = paths::test_logs().join("no-cloud.monitor");
    let user_data = format!("--- # services/given.yaml\n{}", service("given"));
    iso::write(
        &seed.0,
        "cidata",
        &[("meta-data", "instance-id: i-1\nlocal-hostname: edge-1\n"), ("user-data", &user_data)],
    );
    let builder = |wait: &str| {
        Vm::builder("no-cloud")
            .disk(&state.0)
            .machine(&format!("sources: {{from: [noCloud], wait: {wait}}}\nhostname: of-image\n"))
            .runs("image", "serve")
    };
    let mut vm = builder("60s").monitor(&monitor).qemu("-device pcie-root-port,id=port1,chassis=1").start();
    // The boot waits.
    vm.wait_console("boot: source noCloud: has not ended after 3 s");
    vm.tell(
        &monitor,
        &format!("drive_add 0 if=none,format=raw,readonly=on,id=hot,file={}", seed.0.display()),
    );
    vm.tell(&monitor, "device_add virtio-blk-pci,drive=hot,id=seed,bus=port1,serial=SEED");
    vm.wait_answer();
    vm.wait_up(&["image", "given"]);
    assert_eq!(host_name(&vm), "edge-1");
    let (error, message) = task(&vm, "source noCloud");
    assert!(
        error.is_empty() && message.contains(", instance i-1: services/given.yaml, machine.yaml"),
        "{error} {message}"
    );
    assert_eq!(task(&vm, "remember source noCloud").1, "instance i-1 is remembered");
    let shown = vm.ctl(&["config", "show", "--origin"]).ok().stdout;
    let lines: Vec<String> =
        shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in
        ["hostname noCloud machine.yaml:1 edge-1", "services/given.yaml noCloud services/given.yaml -"]
    {
        assert!(lines.iter().any(|found| found == line), "{shown}");
    }
    vm.poweroff();
    drop(vm);

    let mut vm = builder("1s").boot();
    vm.wait_up(&["image", "given"]);
    assert_eq!(host_name(&vm), "edge-1");
    let (error, message) = task(&vm, "source noCloud");
    assert!(
        error.is_empty() && message.starts_with("no disk LABEL=cidata or CIDATA has come within 1 s"),
        "{error} {message}"
    );
    assert_eq!(task(&vm, "remember source noCloud").1, "instance i-1, as remembered");
    vm.poweroff();
}

/// A server of metadata as EC2 has them, at a port of this computer.
fn cloud() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("a port").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut stream = stream;
            let lines =
                BufReader::new(stream.try_clone().expect("a descriptor")).lines().map_while(Result::ok);
            let lines: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let has = |start: &str| lines.iter().any(|line| line.starts_with(start));
            let (status, body) =
                if has("PUT /latest/api/token ") && has("X-aws-ec2-metadata-token-ttl-seconds: ") {
                    (200, "token".to_owned())
                } else if !has("X-aws-ec2-metadata-token: token") {
                    (401, String::new())
                } else if has("GET /latest/meta-data/instance-id ") {
                    (200, "i-7".to_owned())
                } else if has("GET /latest/user-data ") {
                    (200, format!("--- # services/given.yaml\n{}", service("given")))
                } else {
                    (404, String::new())
                };
            let _ = write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        }
    });
    port
}

#[test]
fn the_metadata_of_a_cloud_are_taken_up_while_the_machine_runs() {
    let mut vm = Vm::builder("cloud-metadata")
        .machine(&format!("sources: {{from: [metadata], server: \"10.0.2.2:{}\"}}\n", cloud()))
        .runs("image", "serve")
        .boot();
    // The host answers before it has the metadata.
    until("the service that is given", BOOT_PATIENCE, || {
        vm.services().iter().any(|service| service.name == "given").then_some(())
    });
    vm.wait_up(&["image", "given"]);
    let (error, message) = task(&vm, "source metadata");
    assert!(
        error.is_empty() && message.ends_with(", instance i-7: services/given.yaml"),
        "{error} {message}"
    );
    assert_eq!(task(&vm, "remember source metadata").1, "instance i-7 is remembered");
    // The metadata alone make it no machine of that cloud.
    let facts: Vec<serde_json::Value> = vm.ctl(&["facts", "-o", "json"]).ok().json();
    let value =
        |name: &str| facts.iter().find(|fact| fact["name"] == name).and_then(|fact| fact["value"].as_str());
    assert_eq!((value("virtualization"), value("platform")), (Some("qemu"), Some("qemu")), "{facts:?}");
    vm.poweroff();
}
