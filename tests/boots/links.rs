//! Links that Kelson makes at boot, and network cards that come later.

use kelson_tests::vm::BOOT_PATIENCE;
use kelson_tests::{Vm, paths, until};
use serde_json::Value;

/// How many VLANs stand on the bond.
const VLANS: usize = 40;
/// Of the card that is plugged in.
const LATE: &str = "52:54:00:00:00:09";

fn links(vm: &Vm) -> Vec<Value> {
    vm.ctl(&["network", "-o", "json"]).ok().json::<Vec<Value>>()
}

fn link(vm: &Vm, name: &str) -> Option<Value> {
    links(vm).into_iter().find(|link| link["name"] == name)
}

fn has(link: &Value, address: &str) -> bool {
    link["addresses"].as_array().is_some_and(|all| all.iter().any(|one| one["address"] == address))
}

/// The cards of a machine, besides its first: both are on one cable.
fn card(number: u8) -> String {
    format!(
        "-netdev hubport,id=hub{number},hubid=1 -device virtio-net-pci,netdev=hub{number},mac=52:54:00:00:00:0{number},romfile="
    )
}

#[test]
fn n5_forty_vlans_on_a_bond_and_a_card_that_comes_later() {
    let monitor = paths::test_logs().join("links.monitor");
    let vlans: String = (1..=VLANS)
        .map(|id| {
            format!("  - {{interface: lan{id}, vlan: {{id: {id}, on: bond0}}, address: 10.9.{id}.1/24}}\n")
        })
        .collect();
    let machine = format!(
        "network:\n{vlans}  - {{interface: bond0, bond: {{members: [eth1, eth2]}}, mtu: 1400}}\n  \
         - {{interface: br0, bridge: {{members: [eth3]}}, address: 192.0.2.7/24, gateway: 192.0.2.1}}\n  \
         - {{interface: local, dummy: {{}}, addresses: [198.51.100.1/32, \"2001:db8::1/128\"]}}\n  \
         - {{mac: \"{LATE}\", address: 203.0.113.7/24}}\n  - {{interface: \"*\", dhcp: true}}\n"
    );
    let mut vm = Vm::builder("links")
        .monitor(&monitor)
        .qemu("-device pcie-root-port,id=port1,chassis=1")
        .qemu(&card(2))
        .qemu(&card(3))
        .qemu(&card(4))
        .machine(&machine)
        .runs_with("wired", "serve", "depends: [{interface: lan40}]")
        .boot();
    vm.wait_up(&["net", "wired"]);
    let all = links(&vm);
    let named = |name: &str| all.iter().find(|link| link["name"] == name).unwrap_or(&Value::Null);
    for id in 1..=VLANS {
        let vlan = named(&format!("lan{id}"));
        assert!(has(vlan, &format!("10.9.{id}.1/24")), "{id}: {vlan}");
        assert_eq!((&vlan["running"], &vlan["mtu"]), (&true.into(), &1400.into()), "{vlan}");
    }
    // Both have the address of the bond.
    assert_eq!(named("eth1")["hardware"], named("eth2")["hardware"]);
    assert_eq!(named("eth1")["hardware"], named("bond0")["hardware"]);
    assert!(has(named("br0"), "192.0.2.7/24") && named("eth3")["lease"].is_null());
    assert!(has(named("local"), "198.51.100.1/32") && has(named("local"), "2001:db8::1/128"));
    assert!(has(named("eth0"), "10.0.2.15/24"));
    let boot = vm.ctl(&["boot"]).ok().stdout;
    let line = boot.lines().find(|line| line.trim_start().starts_with("interfaces")).unwrap_or_default();
    assert!(line.contains(&format!("{LATE} is not there")), "{boot}");

    vm.tell(&monitor, "netdev_add hubport,id=late,hubid=2");
    vm.tell(&monitor, &format!("device_add virtio-net-pci,netdev=late,id=late,bus=port1,mac={LATE}"));
    until("the address of the card", BOOT_PATIENCE, || {
        link(&vm, "eth4").filter(|link| has(link, "203.0.113.7/24"))
    });
    let log = vm.ctl(&["logs", "net"]).ok().stdout;
    assert!(log.contains("eth4 has 203.0.113.7/24"), "{log}");
    vm.tell(&monitor, "device_del late");
    until("the card to go", BOOT_PATIENCE, || link(&vm, "eth4").is_none().then_some(()));
    vm.ctl(&["reexec"]).ok();
    vm.wait_up(&["net", "wired"]);
    assert_eq!(links(&vm).len(), all.len());
    vm.poweroff();
}
