//! The API on vsock. No computer with these tests has to lend vsock to its machines: each machine calls itself, over
//! the kernel's loopback, where its CID is 1.

use std::time::Duration;

use kelson_tests::{Output, Vm, VmBuilder, on_terminal, until};

/// Calls from within the machine. The usual seccomp profile of services forbids vsock.
const LOOK: &str =
    "process: {command: [$PROGRAM, 'print=here I am', serve]}\nsecurity: {seccomp: unconfined}";
/// The program of steps, on the machine.
const STEPS: &str = "/etc/kelson/kelson-test-program";

/// Runs kelsonctl on the machine itself.
fn inside(vm: &Vm, endpoint: &str, words: &[&str]) -> Output {
    vm.ctl(&[&["exec", "look", "--", "/usr/bin/kelsonctl", "-e", endpoint], words].concat())
}

/// The same on a terminal, and all that is printed there.
fn inside_on_terminal(vm: &Vm, endpoint: &str, words: &[&str]) -> String {
    let outer = ["exec", "-t", "look", "--", "/usr/bin/kelsonctl", "-e", endpoint];
    let (status, printed) = on_terminal(vm.client().command(&[&outer, words].concat()), "");
    assert_eq!(status, 0, "{printed}");
    printed
}

fn machine(name: &str, append: &str, modules: &str) -> VmBuilder {
    Vm::builder(name).append(append).machine(&format!("modules: [{modules}]\n")).service("look", LOOK)
}

#[test]
fn the_api_answers_one_cid_over_vsock_and_refuses_others_with_the_reason() {
    let [mut open, mut shut] = Vm::together([
        machine("vsock-open", "kelson.api=vsock:5000,cid=1", "vsock_loopback"),
        machine("vsock-shut", "kelson.api=vsock:5000", "vsock_loopback"),
    ]);
    open.wait_up(&["look"]);
    shut.wait_up(&["look"]);
    let here = "vsock://1:5000";

    let whoami = inside(&open, here, &["whoami"]).ok().stdout;
    assert!(whoami.contains("over vsock") && whoami.contains("os:admin"), "{whoami}");
    assert!(inside(&open, here, &["services"]).ok().stdout.contains("look"));
    let ran = inside(&open, here, &["exec", "look", "--", STEPS, "print=inner", "exit=7"]);
    assert_eq!((ran.status, ran.stdout.trim()), (7, "inner"), "{ran:?}");
    let report = inside_on_terminal(&open, here, &["exec", "-t", "look", "--", STEPS, "report-of=tty"]);
    assert!(report.contains("tty true"), "{report:?}");
    let without = inside(&open, here, &["exec", "look", "--", STEPS, "report-of=tty"]).ok().stdout;
    assert!(without.contains("tty false"), "{without:?}");
    let logs = inside(&open, here, &["logs", "look"]).ok().stdout;
    assert!(logs.contains("here I am"), "{logs}");
    // More than the buffers of the sockets, both ways.
    inside(&open, here, &["cp", ":/usr/bin/kelsonctl", "/tmp/copy"]).ok();
    inside(&open, here, &["cp", "/tmp/copy", ":/tmp/back"]).ok();
    let sizes = sizes(&open);
    assert!(sizes[0] > 1 << 20 && sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");

    for (endpoint, status, why) in [
        ("vsock://1:6000", 3, "nobody listens on vsock://1:6000"),
        ("vsock://77:5000", 3, "no machine has CID 77"),
        ("vsock://host:5000", 2, "the CID must be a number"),
        ("vsock://1:0", 2, "the port must be a number"),
    ] {
        let failed = inside(&open, endpoint, &["services"]).expect(status);
        assert!(failed.stderr.contains(why), "{endpoint}: {failed:?}");
    }

    // PID 1 listens again as the program that it has become.
    open.ctl(&["reexec"]).ok();
    until("the API on vsock after the re-exec", Duration::from_secs(60), || {
        (inside(&open, here, &["services"]).status == 0).then_some(())
    });
    open.poweroff();

    // Only CID 2, the host, may connect; the machine's own processes have CID 1.
    for words in [["services"].as_slice(), &["logs", "look"]] {
        let refused = inside(&shut, here, words).expect(4);
        assert!(refused.stderr.contains("CID 1 may not connect"), "{refused:?}");
    }
    shut.poweroff();
}

/// The sizes of the original and of both copies.
fn sizes(vm: &Vm) -> Vec<u64> {
    let paths = ["/usr/bin/kelsonctl", "/tmp/copy", "/tmp/back"];
    let read = |path: &&str| {
        let listed: serde_json::Value = vm.ctl(&["-o", "json", "ls", path]).ok().json();
        listed[0]["size"].as_u64().unwrap_or_default()
    };
    paths.iter().map(read).collect()
}

#[test]
fn a_kernel_without_vsock_is_named_in_an_event_and_the_machine_runs() {
    let mut vm = Vm::builder("vsock-none").append("kelson.api=vsock:5000").service("look", LOOK).boot();
    vm.wait_up(&["look"]);
    let events = vm.ctl(&["events"]).ok().stdout;
    assert!(events.contains("the API is not served at vsock:5000: the kernel has no vsock"), "{events}");
    let failed = inside(&vm, "vsock://1:5000", &["services"]).expect(3);
    assert!(failed.stderr.contains("modprobe vsock_loopback"), "{failed:?}");
    vm.poweroff();
}
