//! Containers with user namespaces on Debian's kernel, which can have them on ext4 and not in memory.

use kelson_tests::vm::BOOT_PATIENCE;
use kelson_tests::{Vm, VmBuilder, until};

use super::disks::ext4;

fn builder(name: &str) -> VmBuilder {
    Vm::builder(name).without_containerd().program_image("test/program:1")
}

fn container(more: &str, steps: &str) -> String {
    format!(
        "container:\n  image: test/program:1\n  runtime: kelson\n  userNamespace: true\n  \
         mounts: [{more}]\n  command: [/kelson-test-program, {steps}]\n"
    )
}

const STEPS: &str = "'touch=/made', 'chown=/made:33', 'owner=/made', 'owner=/', 'owner=/dev/null', \
                     'owner=/dev/pts/ptmx', report, print=over, serve";

#[test]
fn containers_have_users_of_their_own_on_a_disk_and_not_in_memory() {
    let disk = ext4("user-namespace", "STATE");
    // Root of the container alone may write there.
    let volume = "{source: /var/lib/kelson/lost+found, target: /volume, options: [rw, rbind]}";
    let in_memory = "{source: /run/kelson, target: /volume}";
    let once = "restart: {policy: once}\n";
    let mut vm = builder("user-namespace")
        .second_disk(disk.0.to_str().expect("UTF-8"))
        .machine("mounts: [{source: LABEL=STATE, target: /var/lib/kelson, type: ext4}]")
        .service("web", &(container(volume, &format!("'touch=/volume/new', {STEPS}")) + "user: '0'\n"))
        .service(
            "other",
            &(container("", "report-of=status, print=over, serve")
                + "user: '1000'\nsecurity: {capabilities: {add: [sys_admin]}}\n"),
        )
        .service("memory", &(container(in_memory, "serve") + once))
        .boot();
    vm.wait_up(&["web", "other"]);
    let log = vm.ctl(&["logs", "web"]).ok().stdout;
    for line in ["owner /made 33:33", "owner / 0:0", "owner /dev/null 0:0", "owner /dev/pts/ptmx 0:0"] {
        assert!(log.contains(line), "{line}: {log}");
    }
    let why = vm.ctl(&["why", "memory"]).stdout;
    assert!(
        why.contains("cannot map the owners of files in /run/kelson") && why.contains("(tmpfs, Linux 6.1"),
        "{why}"
    );
    vm.ctl(&["exec", "web", "--", "/kelson-test-program", "wait-path=/volume/new"]).ok();
    vm.poweroff();
    drop(vm);
    // Without a disk, what Kelson unpacks is in memory.
    let name = "user-namespace-in-memory";
    let mut vm = builder(name).service("web", &(container("", "serve") + once)).runs("look", "serve").boot();
    vm.wait_up(&["look"]);
    until("the failure", BOOT_PATIENCE, || {
        let why = vm.ctl(&["why", "web"]).stdout;
        (why.contains("(tmpfs, Linux 6.1") && why.contains("write userNamespace: false")).then_some(())
    });
    vm.poweroff();
}
