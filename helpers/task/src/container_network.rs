//! The network of a container: a namespace of its own, a cable to the bridge, and the rules that let it out and others in.
//!
//! What is there is never looked at, but made again: a crash in the midst of one call is mended by the next.

mod host;
mod names;
mod namespace;
mod rules;

use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::path::Path;

use kelson_helper::task::ContainerNetworkRequest;
use kelson_spec::container_network::{ContainerNetworkSpec, Published};
use kelson_spec::quote::quoted;
use kelson_sys::netlink;

use crate::firewall;

/// Makes the call of a [`ContainerNetworkRequest`]; the last part of `namespace` is the name of the service.
pub fn perform(namespace: &Path, words: &[OsString]) -> Result<String, String> {
    let service = namespace.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let done = match ContainerNetworkRequest::from_arguments(words)? {
        ContainerNetworkRequest::Join { place, network, ports } => {
            let joined = join(namespace, service, place, &network, &ports);
            if joined.is_err() {
                // The first failure is the reason.
                let _ = leave(namespace, service, place);
            }
            joined
        }
        ContainerNetworkRequest::Leave { place } => leave(namespace, service, place),
    };
    match done {
        Ok(()) => Ok(String::new()),
        Err(why) => Err(format!("the network of container {}: {why}", quoted(service))),
    }
}

fn join(
    namespace: &Path,
    service: &str,
    place: u32,
    network: &ContainerNetworkSpec,
    ports: &[Published],
) -> Result<(), String> {
    let nft = firewall::find().ok_or("there is no nft; install nftables, or write network: host")?;
    take_away(namespace, place)?;
    let bridge = host::make_bridge(network)?;
    host::forward(&nft, network)?;
    let rules = rules::of_service(service, network, place, ports);
    firewall::take_in(&nft, &rules)?.map_err(|why| format!("nft refuses its rules: {why}"))?;
    let far = namespace::make(namespace)?;
    let cable = ContainerNetworkSpec::cable(place);
    netlink::create_cable(&cable, bridge, (namespace::INTERFACE, far.as_fd()))
        .map_err(|error| format!("cannot make its cable {cable}: {error}"))?;
    namespace::set_up(far, network, place)?;
    // The folder of namespaces lies in that of the run.
    if let Some(runtime_dir) = namespace.parent().and_then(Path::parent) {
        names::publish(runtime_dir, network)?;
    }
    let index = netlink::index_of(&cable).ok_or_else(|| format!("its cable {cable} is gone"))?;
    netlink::set_up(index).map_err(|error| format!("cannot switch on {cable}: {error}"))
}

fn leave(namespace: &Path, service: &str, place: u32) -> Result<(), String> {
    let removed = match firewall::find() {
        Some(nft) => firewall::take_in(&nft, &rules::without(service))
            .and_then(|done| done.map_err(|why| format!("nft does not remove its rules: {why}"))),
        None => Ok(()),
    };
    // The file goes last: as long as it is there, there is something to take away.
    removed.and(take_away(namespace, place))
}

/// Removes the cable and the namespace. Something may be left in that as long as a process is: the cable is not.
fn take_away(namespace: &Path, place: u32) -> Result<(), String> {
    let cable = ContainerNetworkSpec::cable(place);
    if let Some(index) = netlink::index_of(&cable) {
        netlink::remove_link(index).map_err(|error| format!("cannot remove {cable}: {error}"))?;
    }
    namespace::remove(namespace)
}

#[cfg(test)]
mod tests;
