//! The static settings of interfaces: links that are to be made, their members, addresses, routes and rules.
//!
//! [`settle`] compares what the machine file says with what the kernel has, and does what is missing. It removes nothing, and
//! a second call does nothing: `kelson-task` calls it at boot, and `kelson-net` whenever a link changes.

pub mod choice;
mod error;
pub mod plan;

use std::collections::BTreeSet;
use std::io;

use kelson_spec::network::{InterfaceSpec, Prefixed};
use kelson_sys::netlink::{self, Content, NewLink};
use kelson_sys::ordered;

use choice::Found;
pub use error::LinkError;
use plan::{State, Step, plan};

/// What became of one mapping.
#[derive(Debug)]
pub struct Outcome {
    /// As the machine file names it.
    pub name: String,
    /// What the interface has, in words; empty without an interface.
    pub has: String,
    pub errors: Vec<LinkError>,
}

/// Loads the module for links of a kind, or says why not.
pub type LoadModule = dyn Fn(&str) -> Result<(), String>;

/// Does what is missing of these mappings; there is an outcome for each that has static settings.
///
/// # Errors
/// When the kernel does not say what is there.
pub fn settle(
    specs: &[InterfaceSpec],
    is_new: &dyn Fn(u32) -> bool,
    load: &LoadModule,
) -> io::Result<Vec<Outcome>> {
    let mut errors: Vec<(usize, LinkError)> = Vec::new();
    let mut given_up: BTreeSet<usize> = BTreeSet::new();
    // Each round makes a link or gives one up, or is the last.
    loop {
        let state = read()?;
        let plan = plan(specs, &state, is_new, &given_up);
        let mut again = false;
        for (place, step) in plan.steps {
            let is_link = matches!(step, Step::Create(..));
            again |= is_link;
            if let Err(error) = perform(&step, load) {
                errors.push((place, error));
                if is_link {
                    given_up.insert(place);
                }
            }
        }
        if !again {
            errors.extend(plan.troubles);
            return Ok(outcomes(specs, &plan.names, errors));
        }
    }
}

fn outcomes(
    specs: &[InterfaceSpec],
    names: &[(usize, String)],
    errors: Vec<(usize, LinkError)>,
) -> Vec<Outcome> {
    let of =
        |place: usize| names.iter().filter(move |(other, _)| *other == place).map(|(_, name)| name.as_str());
    let places = specs.iter().enumerate().filter(|(_, spec)| spec.is_static());
    let mut all: Vec<(usize, Outcome)> = places
        .map(|(place, spec)| {
            let names: Vec<&str> = of(place).collect();
            let has = described(spec, &names.join(", "));
            (place, Outcome { name: spec.matches.to_string(), has, errors: Vec::new() })
        })
        .collect();
    for (place, error) in errors {
        if let Some((_, outcome)) = all.iter_mut().find(|(other, _)| *other == place) {
            outcome.errors.push(error);
        }
    }
    all.into_iter().map(|(_, outcome)| outcome).collect()
}

/// `eth0 has 192.0.2.7/24, default route by 192.0.2.1`.
fn described(spec: &InterfaceSpec, names: &str) -> String {
    let addresses: Vec<String> = spec.addresses.iter().map(Prefixed::to_string).collect();
    let has =
        if addresses.is_empty() { " is up".to_owned() } else { format!(" has {}", addresses.join(", ")) };
    let by = spec.gateway.map(|gateway| format!(", default route by {gateway}")).unwrap_or_default();
    if names.is_empty() { String::new() } else { format!("{names}{has}{by}") }
}

/// Links, addresses and routes as the kernel has them.
fn read() -> io::Result<State> {
    let mut state = State { links: found()?, ..State::default() };
    for content in netlink::dump(libc::RTM_GETADDR)? {
        if let Content::Address { address, .. } = content {
            state.addresses.push(address);
        }
    }
    for content in netlink::dump(libc::RTM_GETROUTE)? {
        if let Content::DefaultRoute { route, .. } | Content::Route { route, .. } = content {
            state.routes.push(route);
        }
    }
    Ok(state)
}

/// All links, in the order of their numbers.
///
/// # Errors
/// When the kernel does not say it.
pub fn found() -> io::Result<Vec<Found>> {
    let contents = netlink::dump(libc::RTM_GETLINK)?.into_iter();
    let links = contents.filter_map(|content| match content {
        Content::Link { link, .. } => Some(Found::of(link)),
        _ => None,
    });
    let mut links: Vec<Found> = links.collect();
    ordered::sort_by_key(&mut links, |found| found.link.index);
    Ok(links)
}

fn perform(step: &Step, load: &LoadModule) -> Result<(), LinkError> {
    let doing = |done: io::Result<()>, doing: &dyn Fn() -> String| {
        done.map_err(|error| LinkError::Refused { doing: doing(), error })
    };
    match step {
        Step::Create(name, new) => create(name, *new, load),
        Step::Mtu(index, mtu) => doing(netlink::set_mtu(*index, *mtu), &|| format!("mtu {mtu}")),
        Step::Down(index) => doing(netlink::set_down(*index), &|| "switching a member off".to_owned()),
        Step::Master(index, master) => {
            doing(netlink::set_master(*index, *master), &|| format!("taking link {index} as a member"))
        }
        Step::Advertisements(name, takes) => {
            doing(set_advertisements(name, *takes), &|| "router advertisements".to_owned())
        }
        Step::Up(index) => doing(netlink::set_up(*index), &|| "switching it on".to_owned()),
        Step::Address(index, address) => {
            doing(netlink::add_address(*index, address.0, address.1), &|| format!("address {address}"))
        }
        Step::Route(index, route) => doing(netlink::set_route(*index, route), &|| {
            let via = route.gateway.map(|gateway| format!(" by {gateway}")).unwrap_or_default();
            format!("route to {}/{}{via}", route.destination, route.prefix)
        }),
        Step::Rule(rule) => doing(netlink::add_rule(rule), &|| format!("rule of priority {}", rule.priority)),
    }
}

/// With 2 the kernel takes them in on a router, too.
fn set_advertisements(name: &str, takes: bool) -> io::Result<()> {
    let path = format!("/proc/sys/net/ipv6/conf/{name}/accept_ra");
    std::fs::write(path, if takes { "2" } else { "0" })
}

fn create(name: &str, new: NewLink, load: &LoadModule) -> Result<(), LinkError> {
    let kind = new.kind();
    let refused = |error| LinkError::Refused { doing: format!("making a {kind}"), error };
    match netlink::create_link(name, new) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            load(&format!("rtnl-link-{kind}")).map_err(|reason| LinkError::NoModule { kind, reason })?;
            netlink::create_link(name, new).map_err(refused)
        }
        done => done.map_err(refused),
    }
}

#[cfg(test)]
mod tests {
    use super::choice::testing::named;
    use super::*;
    use kelson_spec::network::{BridgeSpec, LinkKind};

    #[test]
    fn a_second_call_finds_nothing_to_do() {
        let done = std::thread::spawn(|| {
            // SAFETY: it changes this thread alone.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "run it as root");
            let bridge = LinkKind::Bridge(BridgeSpec { members: vec!["gone".to_owned()], stp: false });
            let specs = [
                InterfaceSpec {
                    kind: Some(bridge),
                    addresses: vec!["192.0.2.7/24".parse().unwrap(), "2001:db8::7/64".parse().unwrap()],
                    gateway: Some("192.0.2.1".parse().unwrap()),
                    ..named("br0")
                },
                InterfaceSpec { mtu: Some(1280), ..named("lo") },
                InterfaceSpec { mtu: Some(1), ..named("eth7") },
            ];
            let no_module: &LoadModule = &|name| Err(format!("{name} is not here"));
            for _ in 0..2 {
                let outcomes = settle(&specs, &|_| true, no_module).unwrap();
                let texts: Vec<&str> = outcomes.iter().map(|outcome| outcome.has.as_str()).collect();
                let both = "br0 has 192.0.2.7/24, 2001:db8::7/64, default route by 192.0.2.1";
                assert_eq!(texts, [both, "lo is up", ""]);
                let errors = outcomes.iter().flat_map(|outcome| &outcome.errors);
                let errors: Vec<String> = errors.map(ToString::to_string).collect();
                assert_eq!(errors, ["its member gone is not there", "eth7 is not there"]);
                assert!(outcomes.iter().flat_map(|outcome| &outcome.errors).all(LinkError::is_absence));
            }
            assert_eq!(plan(&specs, &read().unwrap(), &|_| true, &BTreeSet::new()).steps, []);
        });
        done.join().unwrap();
    }
}
