//! The network: the loopback, interfaces with a static address, and the name servers. `kelson-task` makes the calls, which
//! may wait for a card, a driver or a disk.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::Launcher;
use kelson_helper::task::Request;
use kelson_spec::network::InterfaceSpec;

use super::{Order, Phase, Task};
use crate::kernel_words::IpWord;

/// How long an interface may take to appear: a driver is loaded, the card is not found yet.
const APPEAR: Duration = Duration::from_secs(5);
/// How long an interface may take to come up: its driver may load firmware from the disk.
const SET_UP: Duration = Duration::from_secs(30);
/// How long the rules of the firewall may take: nft and its file may be on a slow disk.
const FIREWALL: Duration = Duration::from_secs(30);
/// How long the disk may take to keep the name servers.
const RESOLVER: Duration = Duration::from_secs(10);

/// The network phase. The service `net` does what is left of it: addresses by DHCP, and what comes later.
pub fn phase(launcher: &Arc<dyn Launcher>, interfaces: &[InterfaceSpec], runtime: &Path) -> Phase {
    let servers = name_servers(interfaces);
    let named = !servers.is_empty() || interfaces.iter().any(|spec| spec.dhcp.is_some());
    let resolver = Request::WriteResolver { resolver: runtime.join("resolv.conf"), servers };
    let is_static = interfaces.iter().any(InterfaceSpec::is_static);
    // All of them: which one is meant depends on the others.
    let set_up = Request::SetUpInterfaces { patience: APPEAR, interfaces: interfaces.to_vec() };
    Phase::new("network", Order::SideBySide)
        .task(Task::request("loopback", launcher, Request::SetUpLoopback, SET_UP))
        .task(
            Task::request("interfaces", launcher, set_up, APPEAR.saturating_add(SET_UP))
                .when(is_static, "none has static settings"),
        )
        .task(Task::request("name servers", launcher, resolver, RESOLVER).when(named, "none are named"))
}

/// The rules of the firewall, before an interface has an address.
pub fn firewall(launcher: &Arc<dyn Launcher>, file: &Path) -> Phase {
    let load = Request::LoadFirewall { file: file.to_owned() };
    Phase::new("firewall", Order::InTurn).task(Task::request("nftables", launcher, load, FIREWALL))
}

/// Adds the interfaces of the kernel's command line. One of the machine file wins over an `ip=` for the same one.
pub fn add(configured: &mut Vec<InterfaceSpec>, from_kernel: &[IpWord]) {
    let is_free = |word: &&IpWord| match word.interface.matches.name() {
        None => configured.is_empty(),
        name => configured.iter().all(|spec| spec.matches.name() != name),
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
    use kelson_spec::network::{ANY, Matches, Prefixed};

    use super::*;

    fn spec(name: &str, address: &str, dns: &[&str]) -> InterfaceSpec {
        InterfaceSpec {
            addresses: vec![Prefixed(address.parse().unwrap(), 24)],
            dns: dns.iter().map(|server| server.parse().unwrap()).collect(),
            ..InterfaceSpec::new(Matches::Name(name.to_owned()))
        }
    }

    #[test]
    fn the_machine_file_wins_over_the_kernel_command_line() {
        let added = |configured: &[InterfaceSpec], device: &str| {
            let mut all = configured.to_vec();
            add(&mut all, &[IpWord { interface: spec(device, "10.0.0.9", &[]), hostname: None }]);
            all.iter().flat_map(|one| &one.addresses).map(|one| one.0.to_string()).collect::<Vec<_>>()
        };
        let configured = [spec("eth0", "10.0.0.1", &[])];
        assert_eq!(added(&configured, "eth0"), ["10.0.0.1"]);
        assert_eq!(added(&configured, ANY), ["10.0.0.1"]);
        assert_eq!(added(&configured, "eth1"), ["10.0.0.1", "10.0.0.9"]);
        assert_eq!(added(&[], ANY), ["10.0.0.9"]);
    }

    #[test]
    fn name_servers_are_named_once() {
        let configured =
            [spec("a", "10.0.0.1", &["9.9.9.9", "1.1.1.1"]), spec("b", "10.0.0.2", &["9.9.9.9"])];
        assert_eq!(name_servers(&configured).len(), 2);
    }
}
