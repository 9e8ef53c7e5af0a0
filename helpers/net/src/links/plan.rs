//! What is missing of the machine file's static settings: a comparison alone, without a call of the kernel.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kelson_spec::network::{InterfaceSpec, LinkKind, Matches, Prefixed, RouteSpec};
use kelson_sys::ipv4::same_network;
use kelson_sys::netlink::{Address, NewLink, NewRoute, NewRule, Route};
use kelson_sys::ordered;

use crate::links::choice::{Found, choose};
use crate::links::error::LinkError;

/// The metric that the kernel gives a route of IPv6 that has none.
const IPV6_METRIC: u32 = 1024;

/// Links, addresses and routes as the kernel has them.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// In the order of their numbers.
    pub links: Vec<Found>,
    pub addresses: Vec<Address>,
    pub routes: Vec<Route>,
}

impl State {
    fn named(&self, name: &str) -> Option<&Found> {
        self.links.iter().find(|found| found.link.name == name)
    }
}

/// One call of the kernel. Links are named by their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Create(String, NewLink),
    Mtu(u32, u32),
    Down(u32),
    Master(u32, u32),
    /// Whether the interface of this name takes in router advertisements.
    Advertisements(String, bool),
    Up(u32),
    Address(u32, Prefixed),
    Route(u32, NewRoute),
    Rule(NewRule),
}

/// What is to be done, each with the place of its mapping, and what cannot be done.
#[derive(Debug, Default)]
pub struct Plan {
    pub steps: Vec<(usize, Step)>,
    pub troubles: Vec<(usize, LinkError)>,
    /// The names of the interfaces of each mapping.
    pub names: Vec<(usize, String)>,
}

/// `is_new`: whether the link of this number has not been seen before. Only such a link is switched on: an operator may have
/// switched off another. `given_up`: mappings whose links the kernel does not make.
pub fn plan(
    specs: &[InterfaceSpec],
    state: &State,
    is_new: &dyn Fn(u32) -> bool,
    given_up: &BTreeSet<usize>,
) -> Plan {
    let mut plan = Plan::default();
    for (place, spec) in specs.iter().enumerate().filter(|(place, _)| !given_up.contains(place)) {
        plan.create(place, spec, state);
    }
    if !plan.steps.is_empty() {
        // What stands on new links follows once they are there.
        return plan;
    }
    let chosen = choose(specs, &state.links);
    let own = |place: usize| {
        let pairs = state.links.iter().zip(&chosen);
        pairs.filter(move |(_, chosen)| **chosen == Some(place)).map(|(found, _)| found)
    };
    // A longer packet must fit through the link below.
    let mut order: Vec<(usize, &InterfaceSpec)> = specs.iter().enumerate().collect();
    ordered::sort_by_key(&mut order, |(_, spec)| matches!(spec.kind, Some(LinkKind::Vlan(_))));
    for (place, spec) in &order {
        for found in own(*place) {
            plan.names.push((*place, found.link.name.clone()));
            plan.mtu(*place, spec, found);
        }
        plan.members(*place, spec, state, is_new);
    }
    for (place, spec) in order.iter().filter(|(_, spec)| spec.is_static()) {
        if let Some(LinkKind::Vlan(vlan)) = &spec.kind
            && let Some(below) = state.named(&vlan.on)
        {
            plan.up(*place, below, is_new);
        }
        for found in own(*place) {
            plan.advertisements(*place, spec, found, is_new);
            plan.up(*place, found, is_new);
            if found.is_up() || is_new(found.link.index) {
                plan.contents(*place, spec, found.link.index, state);
            }
        }
        plan.rules(*place, spec);
        let is_single = spec.matches.name().is_some() || matches!(spec.matches, Matches::Mac(_));
        let is_expected = is_single || spec.is_for_one();
        if is_expected && own(*place).next().is_none() && spec.kind.is_none() {
            plan.troubles.push((*place, LinkError::Missing(spec.matches.clone())));
        }
    }
    plan
}

impl Plan {
    fn create(&mut self, place: usize, spec: &InterfaceSpec, state: &State) {
        let (Some(kind), Some(name)) = (&spec.kind, spec.matches.name()) else { return };
        let new = match kind {
            LinkKind::Vlan(vlan) => match state.named(&vlan.on) {
                Some(below) => NewLink::Vlan { parent: below.link.index, id: vlan.id },
                None => return self.troubles.push((place, LinkError::NoParent(vlan.on.clone()))),
            },
            LinkKind::Bond(bond) => NewLink::Bond { mode: bond.mode as u8 },
            LinkKind::Bridge(bridge) => NewLink::Bridge { stp: bridge.stp },
            LinkKind::Dummy => NewLink::Dummy,
        };
        match state.named(name) {
            None => self.steps.push((place, Step::Create(name.to_owned(), new))),
            Some(found) if found.link.made_as == new.kind() => {}
            Some(_) => {
                self.troubles.push((place, LinkError::Taken { name: name.to_owned(), kind: new.kind() }));
            }
        }
    }

    fn mtu(&mut self, place: usize, spec: &InterfaceSpec, found: &Found) {
        let wanted = spec.mtu.filter(|mtu| *mtu != found.link.mtu);
        self.steps.extend(wanted.map(|mtu| (place, Step::Mtu(found.link.index, mtu))));
    }

    /// Before the link is switched on, since the kernel asks for an advertisement then.
    fn advertisements(
        &mut self,
        place: usize,
        spec: &InterfaceSpec,
        found: &Found,
        is_new: &dyn Fn(u32) -> bool,
    ) {
        let wanted = spec.router_advertisements.filter(|_| is_new(found.link.index));
        let name = &found.link.name;
        self.steps.extend(wanted.map(|takes| (place, Step::Advertisements(name.clone(), takes))));
    }

    fn members(&mut self, place: usize, spec: &InterfaceSpec, state: &State, is_new: &dyn Fn(u32) -> bool) {
        let master = spec.matches.name().and_then(|name| state.named(name)).map(|found| found.link.index);
        let Some(master) = master else { return };
        for name in spec.members() {
            let Some(member) = state.named(name) else {
                self.troubles.push((place, LinkError::NoMember(name.clone())));
                continue;
            };
            let index = member.link.index;
            if member.link.master == master {
                self.up(place, member, is_new);
                continue;
            }
            // A bond takes only what is switched off, and switches it on itself.
            if matches!(spec.kind, Some(LinkKind::Bond(_))) && member.is_up() {
                self.steps.push((place, Step::Down(index)));
            }
            self.steps.push((place, Step::Master(index, master)));
            self.steps.push((place, Step::Up(index)));
        }
    }

    fn up(&mut self, place: usize, found: &Found, is_new: &dyn Fn(u32) -> bool) {
        let step = Step::Up(found.link.index);
        let is_planned = self.steps.iter().any(|(_, known)| *known == step);
        if !found.is_up() && is_new(found.link.index) && !is_planned {
            self.steps.push((place, step));
        }
    }

    /// Addresses, then the routes, which need them.
    fn contents(&mut self, place: usize, spec: &InterfaceSpec, index: u32, state: &State) {
        for address in &spec.addresses {
            let is_there = state
                .addresses
                .iter()
                .any(|known| (known.index, known.ip(), known.prefix) == (index, Some(address.0), address.1));
            if !is_there {
                self.steps.push((place, Step::Address(index, *address)));
            }
        }
        let default = spec.gateway.map(NewRoute::default_by);
        for route in default.into_iter().chain(spec.routes.iter().map(|route| new_route(spec, route))) {
            if !state.routes.iter().any(|known| is_same(known, index, &route)) {
                self.steps.push((place, Step::Route(index, route)));
            }
        }
    }

    fn rules(&mut self, place: usize, spec: &InterfaceSpec) {
        let network = |network: Prefixed| (network.0, network.1);
        self.steps.extend(spec.rules.iter().map(|rule| {
            let (from, to) = (rule.from.map(network), rule.to.map(network));
            (place, Step::Rule(NewRule { from, to, table: rule.table, priority: rule.priority }))
        }));
    }
}

impl Found {
    /// An operator, or this program, has switched it on.
    fn is_up(&self) -> bool {
        self.link.flags & libc::IFF_UP.cast_unsigned() != 0
    }
}

fn new_route(spec: &InterfaceSpec, route: &RouteSpec) -> NewRoute {
    let is_near = |gateway: IpAddr| {
        spec.addresses.iter().any(|address| match (address.0, gateway) {
            (IpAddr::V4(own), IpAddr::V4(gateway)) => same_network(own, gateway, address.1),
            // Of IPv6 a router has a link-local address; the kernel judges others.
            (IpAddr::V6(_), IpAddr::V6(_)) => true,
            _ => false,
        })
    };
    let is_link_local = |gateway: IpAddr| matches!(gateway, IpAddr::V6(v6) if v6.is_unicast_link_local());
    NewRoute {
        destination: route.to.0,
        prefix: route.to.1,
        gateway: route.via,
        // The address that reaches the gateway may come by DHCP, after the route.
        gateway_on_link: route.via.is_some_and(|gateway| !is_near(gateway) && !is_link_local(gateway)),
        metric: route.metric,
        table: route.table,
        protocol: libc::RTPROT_STATIC,
    }
}

fn is_same(known: &Route, index: u32, wanted: &NewRoute) -> bool {
    let is_ipv6 = wanted.destination.is_ipv6();
    let metric = if is_ipv6 && wanted.metric == 0 { IPV6_METRIC } else { wanted.metric };
    let destination = Some(wanted.destination).filter(|_| wanted.prefix > 0);
    let family = i32::from(known.family) == if is_ipv6 { libc::AF_INET6 } else { libc::AF_INET };
    family
        && known.interfaces.contains(&index)
        && (known.destination, known.prefix, known.gateway, known.table, known.metric)
            == (destination, wanted.prefix, wanted.gateway, wanted.table, metric)
}

#[cfg(test)]
mod tests;
