//! A container with an address of its own, on a machine whose kernel has bridges and NAT as modules.

use kelson_tests::{Vm, eventually};

#[test]
fn a_port_of_the_machine_leads_into_a_container() {
    let mut vm = Vm::builder("container-network")
        .without_containerd()
        .nft()
        .program_image("test/program:1")
        .service(
            "web",
            "container:\n  image: test/program:1\n  network: bridge\n  \
             ports: [{name: mirror, container: 80, host: 8080}]\n  \
             command: [/kelson-test-program, mirror=80]\n",
        )
        .forward(8080)
        .boot();
    vm.wait_up(&["web"]);
    // The container sees who asks, which is QEMU's side of the network. Its program listens a moment after its start.
    let answered = || vm.first_line(8080).is_ok_and(|line| line == "10.0.2.2");
    eventually("an answer of the container", answered);
    vm.ctl(&["restart", "web", "--wait"]).ok();
    eventually("an answer of the container's next run", answered);
    vm.ctl(&["stop", "web", "--wait"]).ok();
    // QEMU takes the connection, and has nobody to pass it on to.
    assert_eq!(vm.first_line(8080).unwrap_or_default(), "");
    vm.poweroff();
}
