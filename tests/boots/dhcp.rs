//! A machine that gets its address from the DHCP server in QEMU's network. The boot does not wait for it, and no crash of
//! the client or of PID 1 touches it.

use kelson_tests::vm::BOOT_PATIENCE;
use kelson_tests::{Vm, until};
use serde_json::Value;

/// The interface as `kelsonctl network` shows it.
fn eth0(vm: &Vm) -> Value {
    let links: Value = vm.ctl(&["network", "eth0", "-o", "json"]).ok().json();
    links[0].clone()
}

#[test]
fn n3_an_address_by_dhcp_outlives_its_client_and_a_crash_of_pid_1() {
    let mut vm = Vm::builder("dhcp")
        .machine(
            "hostname: first\nnetwork: [{interface: \"*\", dhcp: {hostname: true}}]\nnftables: /etc/rules\n",
        )
        .runs_with("early", "serve", "")
        .runs_with("online", "serve", "depends: [{network: [addresses, connectivity]}]")
        .runs_with("wired", "serve", "depends: [{interface: eth0}]")
        .boot();
    vm.wait_up(&["early", "net", "online", "wired"]);
    let first = eth0(&vm);
    let (lease, address) = (&first["lease"], &first["addresses"][0]);
    assert_eq!(
        (&address["address"], &address["origin"]),
        (&"10.0.2.15/24".into(), &"dhcp".into()),
        "{first}"
    );
    assert_eq!(lease["server"], "10.0.2.2");
    let default =
        first["routes"].as_array().and_then(|all| all.iter().find(|one| one["destination"] == "default"));
    assert_eq!(default.map(|route| &route["gateway"]), Some(&"10.0.2.2".into()), "{first}");
    let servers = vm.ctl(&["read", "/etc/resolv.conf"]).ok().stdout;
    assert!(servers.contains("nameserver 10.0.2.3\n"), "{servers}");
    let log = vm.ctl(&["logs", "net"]).ok().stdout;
    assert!(log.contains("10.0.2.15/24 for 23h59m"), "{log}");
    assert!(log.contains(" from 10.0.2.2, default route by 10.0.2.2"), "{log}");
    let events = vm.ctl(&["events", "net"]).ok().stdout;
    assert!(events.contains("eth0: 10.0.2.15/24 for 23h59m"), "{events}");
    // The image has no nft.
    let boot = vm.ctl(&["boot"]).ok().stdout;
    let line = boot.lines().find(|line| line.trim_start().starts_with("nftables")).unwrap_or_default();
    assert!(line.contains("/etc/rules is not loaded: there is no nft; install nftables"), "{boot}");
    // The server of QEMU gives the machine this name.
    until("the name of the host", BOOT_PATIENCE, || {
        (vm.ctl(&["read", "/proc/sys/kernel/hostname"]).ok().stdout == "by-dhcp\n").then_some(())
    });
    let events = vm.ctl(&["events", "net"]).ok().stdout;
    assert!(events.contains("the host name is by-dhcp, by DHCP"), "{events}");
    // The image has an /etc/hosts of its own, which stays.
    let hosts = vm.ctl(&["read", "/run/kelson/hosts"]).ok().stdout;
    assert!(hosts.ends_with("\n127.0.1.1 by-dhcp\n"), "{hosts}");
    let table = vm.ctl(&["network"]).ok().stdout;
    assert!(table.lines().any(|line| line.contains("eth0") && line.contains("dhcp")), "{table}");

    vm.ctl(&["signal", "net", "KILL"]).ok();
    until("the next client to have asked", BOOT_PATIENCE, || {
        let log = vm.ctl(&["logs", "net"]).ok().stdout;
        (log.matches("10.0.2.15/24 for ").count() == 2).then_some(())
    });
    vm.ctl(&["reexec"]).ok();
    vm.wait_up(&["early", "net", "online"]);
    assert_eq!(eth0(&vm)["addresses"][0]["address"], "10.0.2.15/24");
    let online = vm.ctl(&["status", "online", "-o", "json"]).ok().json::<Value>();
    assert_eq!(online["restarts"], 0, "{online}");
    vm.poweroff();
}
