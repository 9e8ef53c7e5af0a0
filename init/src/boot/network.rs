//! The network: the loopback, interfaces with a static address, and the name servers. `kelson-task` makes the calls, which
//! may wait for a card, a driver or a disk.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::Launcher;
use kelson_helper::task::{Prefixed, Request};
use kelson_spec::machine::InterfaceSpec;

use super::{Order, Phase, Task};
use crate::kernel_words::IpWord;

/// How long an interface may take to appear: a driver is loaded, the card is not found yet.
const APPEAR: Duration = Duration::from_secs(5);
/// How long an interface may take to come up: its driver may load firmware from the disk.
const SET_UP: Duration = Duration::from_secs(30);
/// How long the disk may take to keep the name servers.
const RESOLVER: Duration = Duration::from_secs(10);

/// The network phase. An interface of the machine file wins over an `ip=` for the same one.
pub fn phase(
    launcher: &Arc<dyn Launcher>,
    configured: &[InterfaceSpec],
    from_kernel: &[IpWord],
    runtime: &Path,
) -> Phase {
    let servers = name_servers(configured, from_kernel);
    let named = !servers.is_empty();
    let resolver = Request::WriteResolver { resolver: runtime.join("resolv.conf"), servers };
    Phase::new("network", Order::SideBySide)
        .task(Task::request("loopback", launcher, Request::SetUpLoopback, SET_UP))
        .tasks(interfaces(configured, from_kernel).into_iter().map(|interface| {
            let Interface { name, address, gateway } = interface;
            let task = if name.is_empty() { "first network card".to_owned() } else { name.clone() };
            let request = Request::SetUpInterface { name, patience: APPEAR, address, gateway };
            Task::request(task, launcher, request, APPEAR.saturating_add(SET_UP))
        }))
        .task(Task::request("name servers", launcher, resolver, RESOLVER).when(named, "none are named"))
}

/// One interface to set up.
struct Interface {
    /// Empty: the first network card.
    name: String,
    address: Prefixed,
    gateway: Option<IpAddr>,
}

fn interfaces(configured: &[InterfaceSpec], from_kernel: &[IpWord]) -> Vec<Interface> {
    let free = |word: &&IpWord| match &word.device {
        Some(device) => configured.iter().all(|spec| spec.interface != *device),
        None => configured.is_empty(),
    };
    let words = from_kernel.iter().filter(free).map(|word| Interface {
        name: word.device.clone().unwrap_or_default(),
        address: Prefixed(word.address, word.prefix),
        gateway: word.gateway,
    });
    let specs = configured.iter().map(|spec| Interface {
        name: spec.interface.clone(),
        address: Prefixed(spec.address, spec.prefix),
        gateway: spec.gateway,
    });
    specs.chain(words).collect()
}

/// The name servers of the machine file, else those of `ip=`; each once.
fn name_servers(configured: &[InterfaceSpec], from_kernel: &[IpWord]) -> Vec<IpAddr> {
    let mut servers: Vec<IpAddr> = Vec::new();
    let configured = configured.iter().flat_map(|spec| spec.dns.iter());
    for server in configured.chain(from_kernel.iter().flat_map(|word| word.dns.iter())) {
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
            address: address.parse().unwrap(),
            prefix: 24,
            gateway: None,
            dns: dns.iter().map(|server| server.parse().unwrap()).collect(),
        }
    }

    fn word(device: Option<&str>, address: &str) -> IpWord {
        IpWord {
            address: address.parse().unwrap(),
            prefix: 24,
            gateway: None,
            hostname: None,
            device: device.map(str::to_owned),
            dns: vec!["1.1.1.1".parse().unwrap()],
        }
    }

    #[test]
    fn the_machine_file_wins_over_the_kernel_command_line() {
        let names =
            |all: Vec<Interface>| all.into_iter().map(|one| one.address.0.to_string()).collect::<Vec<_>>();
        let configured = [spec("eth0", "10.0.0.1", &[])];
        assert_eq!(names(interfaces(&configured, &[word(Some("eth0"), "10.0.0.9")])), ["10.0.0.1"]);
        assert_eq!(names(interfaces(&configured, &[word(None, "10.0.0.9")])), ["10.0.0.1"]);
        assert_eq!(
            names(interfaces(&configured, &[word(Some("eth1"), "10.0.0.9")])),
            ["10.0.0.1", "10.0.0.9"]
        );
        assert_eq!(names(interfaces(&[], &[word(None, "10.0.0.9")])), ["10.0.0.9"]);
    }

    #[test]
    fn name_servers_are_named_once() {
        let configured =
            [spec("a", "10.0.0.1", &["9.9.9.9", "1.1.1.1"]), spec("b", "10.0.0.2", &["9.9.9.9"])];
        assert_eq!(name_servers(&configured, &[word(None, "10.0.0.9")]).len(), 2);
    }
}
