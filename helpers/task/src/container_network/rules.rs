//! The rules of nft: one table of the host, and one of each service, none of which touches another.

use std::fmt::Write as _;
use std::net::IpAddr;

use kelson_spec::container_network::{ContainerNetworkSpec, Published};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    pub const ALL: [Family; 2] = [Family::V4, Family::V6];

    /// As nft has it before an address.
    fn name(self) -> &'static str {
        match self {
            Family::V4 => "ip",
            Family::V6 => "ip6",
        }
    }

    fn protocol(self) -> &'static str {
        match self {
            Family::V4 => "ipv4",
            Family::V6 => "ipv6",
        }
    }

    /// Of the kernel: whether it passes packets on.
    pub fn parameter(self) -> &'static str {
        match self {
            Family::V4 => "ipv4/ip_forward",
            Family::V6 => "ipv6/conf/all/forwarding",
        }
    }
}

/// Succeeds if the table of the host is there.
pub const LOOK: &str = "list table inet kelson\n";

/// The table of the host. `closed`: of these families it passes on what is of containers alone.
pub fn of_host(network: &ContainerNetworkSpec, closed: &[Family]) -> String {
    let bridge = &network.bridge;
    let mut rules = format!(
        "add table inet kelson\n\
         add chain inet kelson prerouting {{ type filter hook prerouting priority -300; }}\n\
         flush chain inet kelson prerouting\n\
         add rule inet kelson prerouting iifname \"{bridge}\" ip daddr 127.0.0.0/8 drop\n"
    );
    for family in closed {
        let protocol = family.protocol();
        let _ = write!(
            rules,
            "add chain inet kelson forward-{protocol} {{ type filter hook forward priority 0; }}\n\
             flush chain inet kelson forward-{protocol}\n\
             add rule inet kelson forward-{protocol} meta nfproto {protocol} \
             iifname != \"{bridge}\" oifname != \"{bridge}\" drop\n"
        );
    }
    rules
}

fn table(service: &str) -> String {
    format!("inet kelson-{service}")
}

/// Takes the table of a service away, whether it is there or not.
pub fn without(service: &str) -> String {
    let table = table(service);
    format!("add table {table}\ndelete table {table}\n")
}

/// The table of a service in place of the one before.
pub fn of_service(service: &str, network: &ContainerNetworkSpec, place: u32, ports: &[Published]) -> String {
    let bridge = &network.bridge;
    let mut into = String::new();
    let mut out = String::new();
    let mut through = format!("  oifname != \"{bridge}\" accept\n  iifname \"{bridge}\" accept\n");
    through.push_str("  ct state established,related accept\n  ct status dnat accept\n");
    let subnets = [network.subnet, network.subnet6];
    for ((own, subnet), family) in network.addresses(place).into_iter().zip(subnets).zip(Family::ALL) {
        let (address, ip, protocol) = (own.0, family.name(), family.protocol());
        // The kernel sends nothing from the loopback address of IPv6 anywhere else; from that of IPv4 it does.
        let (but, inside) = match address {
            IpAddr::V4(_) => ("", format!("{{ {subnet}, 127.0.0.0/8 }}")),
            IpAddr::V6(_) => (" ip6 daddr != ::1", subnet.to_string()),
        };
        for Published { host, container, protocol: carrier, address: on } in ports {
            let carrier = carrier.name();
            let to = std::net::SocketAddr::new(address, *container);
            let on = match on {
                None => format!("{but} fib daddr type local"),
                Some(on) if on.is_ipv4() == address.is_ipv4() => format!(" {ip} daddr {on}"),
                Some(_) => continue,
            };
            let _ = writeln!(into, "  meta nfproto {protocol}{on} {carrier} dport {host} dnat {ip} to {to}");
        }
        // Who asks from within would get the answer from another address than it asked.
        let _ = write!(
            out,
            "  {ip} daddr {address} ct status dnat {ip} saddr {inside} masquerade\n  \
             {ip} saddr {address} oifname != \"{bridge}\" masquerade\n"
        );
        let _ = writeln!(through, "  {ip} daddr {address} drop");
    }
    let without = without(service);
    let table = table(service);
    format!(
        "{without}table {table} {{\n \
         chain prerouting {{\n  type nat hook prerouting priority -100;\n{into} }}\n \
         chain output {{\n  type nat hook output priority -100;\n{into} }}\n \
         chain postrouting {{\n  type nat hook postrouting priority 100;\n{out} }}\n \
         chain forward {{\n  type filter hook forward priority 0;\n{through} }}\n}}\n"
    )
}
