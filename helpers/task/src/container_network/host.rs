//! The host's side of all containers: the bridge, and that packets pass through it.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use kelson_devices::modules;
use kelson_spec::container_network::ContainerNetworkSpec;
use kelson_sys::netlink::{self, Content, NewLink};

use super::rules::{self, Family};
use crate::firewall;

/// Of kernels that have these as modules. One that has no program to load them finds nft's own only if they are loaded.
const MODULES: [&str; 7] =
    ["bridge", "veth", "nft_chain_nat", "nft_nat", "nft_masq", "nft_ct", "nft_fib_inet"];

/// Makes the bridge if it is not there. Returns its number.
pub fn make_bridge(network: &ContainerNetworkSpec) -> Result<u32, String> {
    let name = network.bridge.as_str();
    let failed = |error| format!("cannot make the bridge {name}: {error}");
    if netlink::index_of(name).is_none() {
        for module in MODULES {
            // A kernel that has it built in does not know the name.
            let _ = modules::load(&[module.to_owned()]);
        }
        match netlink::create_link(name, NewLink::Bridge { stp: false }) {
            // For another container.
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
            made => made.map_err(failed)?,
        }
    }
    let index = netlink::index_of(name).ok_or_else(|| format!("the bridge {name} is gone"))?;
    refuse_others(network, index)?;
    // Its own, or it had that of a member, and another one with the next.
    let gateways = network.gateways();
    if let IpAddr::V4(first) = gateways[0].0 {
        let [a, b, c, d] = first.octets();
        netlink::set_hardware(index, [0x02, 0x6b, a, b, c, d]).map_err(failed)?;
    }
    // Containers announce no routers to the host.
    set(&format!("ipv6/conf/{name}/accept_ra"), "0")?;
    // Nobody else makes addresses there. The kernel asks containers for theirs by its own, which is to be good at once.
    set(&format!("ipv6/conf/{name}/accept_dad"), "0")?;
    // A port of the host leads into a container also by the loopback address. The rules let no packet of a container get to
    // such an address.
    set(&format!("ipv4/conf/{name}/route_localnet"), "1")?;
    netlink::set_up(index).map_err(failed)?;
    for gateway in gateways {
        netlink::add_sure_address(index, gateway.0, gateway.1).map_err(failed)?;
    }
    Ok(index)
}

/// An address of the host in the network of its containers would be unreachable, or they would.
fn refuse_others(network: &ContainerNetworkSpec, bridge: u32) -> Result<(), String> {
    let known =
        netlink::dump(libc::RTM_GETADDR).map_err(|error| format!("the addresses of the host: {error}"))?;
    let other = known.into_iter().find_map(|content| match content {
        Content::Address { address, .. } if address.index != bridge => {
            address.ip().filter(|address| network.holds(*address))
        }
        _ => None,
    });
    match other {
        None => Ok(()),
        Some(address) => Err(format!(
            "the host has the address {address} in the network of its containers; write another subnet in containerNetwork of machine.yaml"
        )),
    }
}

/// Has the kernel pass packets on. Where it did not do so before, no others than those of containers.
pub fn forward(nft: &Path, network: &ContainerNetworkSpec) -> Result<(), String> {
    let off: Vec<Family> = Family::ALL.into_iter().filter(|family| !is_on(*family)).collect();
    // The rules come first. So they are there where it is on, unless somebody took them away.
    if !off.is_empty() || firewall::take_in(nft, rules::LOOK)?.is_err() {
        let rules = rules::of_host(network, &off);
        firewall::take_in(nft, &rules)?.map_err(|why| format!("nft refuses the rules of the host: {why}"))?;
    }
    for family in off {
        if family == Family::V6 {
            keep_advertisements()?;
        }
        set(family.parameter(), "1")?;
    }
    Ok(())
}

fn is_on(family: Family) -> bool {
    fs::read_to_string(parameter(family.parameter())).is_ok_and(|text| text.trim() != "0")
}

/// A host that passes packets of IPv6 on would no longer listen to routers: its interfaces that do shall continue.
fn keep_advertisements() -> Result<(), String> {
    let folder = parameter("ipv6/conf");
    for entry in fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let accepts = format!("ipv6/conf/{name}/accept_ra");
        if name != "all" && fs::read_to_string(parameter(&accepts)).is_ok_and(|text| text.trim() == "1") {
            set(&accepts, "2")?;
        }
    }
    Ok(())
}

fn parameter(name: &str) -> String {
    format!("/proc/sys/net/{name}")
}

fn set(name: &str, value: &str) -> Result<(), String> {
    let path = parameter(name);
    fs::write(&path, value).map_err(|error| format!("{path}: {error}"))
}
