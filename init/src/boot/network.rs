//! The network: the loopback, interfaces with a static address, and the name servers. `kelson-task` makes the calls, which
//! may wait for a card, a driver or a disk.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::Launcher;
use kelson_helper::task::{Prefixed, Request};
use kelson_spec::machine::{HARDWARE, InterfaceSpec};

use super::{Order, Phase, Task};
use crate::kernel_words::IpWord;

/// How long an interface may take to appear: a driver is loaded, the card is not found yet.
const APPEAR: Duration = Duration::from_secs(5);
/// How long an interface may take to come up: its driver may load firmware from the disk.
const SET_UP: Duration = Duration::from_secs(30);
/// How long the disk may take to keep the name servers.
const RESOLVER: Duration = Duration::from_secs(10);

/// The network phase. The service `net` does what is left of it: addresses by DHCP.
pub fn phase(launcher: &Arc<dyn Launcher>, interfaces: &[InterfaceSpec], runtime: &Path) -> Phase {
    let servers = name_servers(interfaces);
    let named = !servers.is_empty() || interfaces.iter().any(|spec| spec.dhcp.is_some());
    let resolver = Request::WriteResolver { resolver: runtime.join("resolv.conf"), servers };
    let set_up = |spec: &InterfaceSpec| {
        let name = spec.interface.clone();
        let task = if name.is_empty() { "first network card".to_owned() } else { name.clone() };
        let address = Prefixed(spec.address?, spec.prefix);
        let request = Request::SetUpInterface { name, patience: APPEAR, address, gateway: spec.gateway };
        Some(Task::request(task, launcher, request, APPEAR.saturating_add(SET_UP)))
    };
    Phase::new("network", Order::SideBySide)
        .task(Task::request("loopback", launcher, Request::SetUpLoopback, SET_UP))
        .tasks(interfaces.iter().filter_map(set_up))
        .task(Task::request("name servers", launcher, resolver, RESOLVER).when(named, "none are named"))
}

/// Adds the interfaces of the kernel's command line. One of the machine file wins over an `ip=` for the same one.
pub fn add(configured: &mut Vec<InterfaceSpec>, from_kernel: &[IpWord]) {
    let is_free = |word: &&IpWord| match word.interface.interface.as_str() {
        "" | HARDWARE => configured.is_empty(),
        name => configured.iter().all(|spec| spec.interface != name),
    };
    let words: Vec<InterfaceSpec> =
        from_kernel.iter().filter(is_free).map(|word| word.interface.clone()).collect();
    configured.extend(words);
}

/// Each once.
fn name_servers(interfaces: &[InterfaceSpec]) -> Vec<IpAddr> {
    let mut servers: Vec<IpAddr> = Vec::new();
    for server in interfaces.iter().flat_map(|spec| &spec.dns) {
        if !servers.contains(server) {
            servers.push(*server);
        }
    }
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(interface: &str, address: &str, dns: &[&str]) -> InterfaceSpec {
        InterfaceSpec {
            interface: interface.to_owned(),
            address: Some(address.parse().unwrap()),
            prefix: 24,
            gateway: None,
            dns: dns.iter().map(|server| server.parse().unwrap()).collect(),
            dhcp: None,
        }
    }

    #[test]
    fn the_machine_file_wins_over_the_kernel_command_line() {
        let added = |configured: &[InterfaceSpec], device: &str| {
            let mut all = configured.to_vec();
            add(&mut all, &[IpWord { interface: spec(device, "10.0.0.9", &[]), hostname: None }]);
            all.iter().filter_map(|one| one.address).map(|address| address.to_string()).collect::<Vec<_>>()
        };
        let configured = [spec("eth0", "10.0.0.1", &[])];
        assert_eq!(added(&configured, "eth0"), ["10.0.0.1"]);
        assert_eq!(added(&configured, ""), ["10.0.0.1"]);
        assert_eq!(added(&configured, HARDWARE), ["10.0.0.1"]);
        assert_eq!(added(&configured, "eth1"), ["10.0.0.1", "10.0.0.9"]);
        assert_eq!(added(&[], ""), ["10.0.0.9"]);
    }

    #[test]
    fn name_servers_are_named_once() {
        let configured =
            [spec("a", "10.0.0.1", &["9.9.9.9", "1.1.1.1"]), spec("b", "10.0.0.2", &["9.9.9.9"])];
        assert_eq!(name_servers(&configured).len(), 2);
    }
}
