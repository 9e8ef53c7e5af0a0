//! A machine for one job: it powers off when its main service ends, and the status of that reaches the hypervisor.

use kelson_tests::{Vm, VmBuilder, paths};

use crate::{Disk, assert_clean, assert_order};

/// A machine whose main service ends with this status, once another service is up.
fn job(name: &str, status: u8, exit: &str) -> VmBuilder {
    Vm::builder(name)
        .append(&format!("kelson.exit={exit}"))
        .machine("main: job\nmodules: [virtio_console]\n")
        .runs_with("web", "serve", "")
        .runs_with("job", &format!("exit={status}"), "restart: {policy: once}\ndepends: [{service: web}]")
}

/// The lines of an end in order, but for the last.
const END: [&str; 4] = [
    "power off: asked for by the end of job",
    "web: stopping",
    "all services are down",
    "file systems are unmounted",
];

/// The end is in order, and its last line names the status.
#[track_caller]
fn assert_end(console: &str, status: u8, exit: &str) {
    assert_order(console, &END);
    assert_order(console, &[END[3], &format!("powering off, with exit status {status} for {exit}")]);
}

#[test]
fn the_status_of_the_main_service_is_that_of_qemu() {
    let disk = Disk::new("exit-port");
    let mut vm = job("exit-port", 7, "isa-debug-exit:0xf4")
        .disk(&disk.0)
        .qemu("-device isa-debug-exit,iobase=0xf4,iosize=0x04")
        .start();
    // QEMU makes (status << 1) | 1 of it.
    assert_eq!(vm.wait_status(), Some(15), "{}", vm.said());
    // The kernel prints with a delay, and QEMU ends before the last line.
    assert_order(&vm.console(), &END);
    assert_clean(&disk.0);
}

#[test]
fn the_status_of_the_main_service_is_a_line_of_a_virtio_port_before_the_power_off() {
    let file = paths::test_logs().join("exit-virtio.status");
    let mut vm = job("exit-virtio", 143, "virtio-port:org.kelson.exit")
        .qemu(&format!(
            "-device virtio-serial-pci -chardev file,id=status,path={} \
             -device virtserialport,chardev=status,name=org.kelson.exit",
            file.display()
        ))
        .start();
    assert!(vm.wait_end(), "{}", vm.said());
    assert_end(&vm.console(), 143, "virtio-port:org.kelson.exit");
    assert_eq!(std::fs::read_to_string(&file).expect("QEMU has made the file"), "143\n");
    let _ = std::fs::remove_file(file);
}

#[test]
fn a_machine_without_the_device_says_so_and_powers_off() {
    let mut vm = job("exit-none", 7, "isa-debug-exit:0xf4").start();
    assert!(vm.wait_end(), "{}", vm.said());
    let console = vm.console();
    assert_end(&console, 7, "isa-debug-exit:0xf4");
    let lost =
        "the status 7 has not left: isa-debug-exit:0xf4: the machine has no such device at this I/O port";
    assert!(console.contains(lost), "{console}");
}
