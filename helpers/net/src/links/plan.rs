//! What is missing of the machine file's static settings: a comparison alone, without a call of the kernel.

use std::collections::BTreeSet;
use std::net::IpAddr;

use kelson_spec::network::{InterfaceSpec, LinkKind, Matches, Prefixed, RouteSpec};
use kelson_sys::ipv4::same_network;
use kelson_sys::netlink::{Address, NewLink, NewRoute, NewRule, Route};

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
    order.sort_by_key(|(_, spec)| matches!(spec.kind, Some(LinkKind::Vlan(_))));
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
mod tests {
    use super::*;
    use crate::links::choice::testing::{card, named};
    use kelson_spec::network::{BondMode, BondSpec, BridgeSpec, RuleSpec, VlanSpec};
    use kelson_sys::netlink::MAIN;

    const UP: u32 = 1;

    fn state(links: &[Found]) -> State {
        State { links: links.to_vec(), ..State::default() }
    }

    fn up(found: Found) -> Found {
        let mut found = found;
        found.link.flags = UP;
        found
    }

    fn made(index: u32, name: &str, kind: &str) -> Found {
        let mut found = card(index, name);
        (found.is_device, found.driver) = (false, None);
        found.link.made_as = kind.to_owned();
        found
    }

    fn steps(specs: &[InterfaceSpec], state: &State) -> Vec<Step> {
        plan(specs, state, &|_| true, &BTreeSet::new()).steps.into_iter().map(|(_, step)| step).collect()
    }

    fn troubles(specs: &[InterfaceSpec], state: &State) -> Vec<String> {
        plan(specs, state, &|_| true, &BTreeSet::new())
            .troubles
            .iter()
            .map(|(_, trouble)| trouble.to_string())
            .collect()
    }

    fn vlan(name: &str, id: u16, on: &str) -> InterfaceSpec {
        InterfaceSpec { kind: Some(LinkKind::Vlan(VlanSpec { id, on: on.to_owned() })), ..named(name) }
    }

    fn bond(members: &[&str]) -> InterfaceSpec {
        let members = members.iter().map(|name| (*name).to_owned()).collect();
        let bond = LinkKind::Bond(BondSpec { mode: BondMode::ActiveBackup, members });
        InterfaceSpec { kind: Some(bond), ..named("bond0") }
    }

    fn static_one() -> InterfaceSpec {
        InterfaceSpec {
            addresses: vec!["192.0.2.7/24".parse().unwrap()],
            gateway: Some("192.0.2.1".parse().unwrap()),
            ..named("eth0")
        }
    }

    #[test]
    fn an_address_comes_before_its_route_and_neither_is_set_twice() {
        let mut state = state(&[card(2, "eth0")]);
        let default = NewRoute::default_by("192.0.2.1".parse().unwrap());
        let address: Prefixed = "192.0.2.7/24".parse().unwrap();
        let all = [Step::Up(2), Step::Address(2, address), Step::Route(2, default)];
        assert_eq!(steps(&[static_one()], &state), all);
        state.links[0].link.flags = UP;
        state.addresses.push(Address {
            index: 2,
            family: 2,
            prefix: 24,
            scope: 0,
            flags: 0,
            bytes: vec![192, 0, 2, 7],
            valid: u32::MAX,
        });
        assert_eq!(steps(&[static_one()], &state), [Step::Route(2, default)]);
        state.routes.push(Route {
            family: 2,
            table: MAIN,
            destination: None,
            prefix: 0,
            gateway: default.gateway,
            metric: 0,
            protocol: 4,
            interfaces: vec![2],
        });
        assert_eq!(steps(&[static_one()], &state), []);
    }

    #[test]
    fn what_an_operator_switched_off_stays_off() {
        let state = state(&[card(2, "eth0")]);
        assert_eq!(plan(&[static_one()], &state, &|_| false, &BTreeSet::new()).steps, []);
    }

    #[test]
    fn links_are_made_before_anything_else_and_stand_on_each_other() {
        let specs = [vlan("lan5", 5, "bond0"), bond(&["eth0", "eth1"])];
        let cards = [up(card(2, "eth0")), card(3, "eth1")];
        let create = Step::Create("bond0".to_owned(), NewLink::Bond { mode: 1 });
        assert_eq!(steps(&specs, &state(&cards)), [create]);
        let bond = made(4, "bond0", "bond");
        let with_bond = [cards[0].clone(), cards[1].clone(), bond.clone()];
        let create = Step::Create("lan5".to_owned(), NewLink::Vlan { parent: 4, id: 5 });
        assert_eq!(steps(&specs, &state(&with_bond)), [create]);
        let all = [with_bond.as_slice(), &[made(5, "lan5", "vlan")]].concat();
        assert_eq!(
            steps(&specs, &state(&all)),
            [
                Step::Down(2),
                Step::Master(2, 4),
                Step::Up(2),
                Step::Master(3, 4),
                Step::Up(3),
                Step::Up(4),
                Step::Up(5),
            ]
        );
        assert_eq!(troubles(&specs, &state(&all)), [""; 0]);
        // All as it should be.
        let done = all.into_iter().map(up).map(|mut found| {
            found.link.master = if found.is_device { 4 } else { 0 };
            found
        });
        assert_eq!(steps(&specs, &state(&done.collect::<Vec<_>>())), []);
    }

    #[test]
    fn what_is_not_there_is_named() {
        assert_eq!(troubles(&[static_one()], &state(&[])), ["eth0 is not there"]);
        let routed = InterfaceSpec { router_advertisements: Some(true), ..named("eth0") };
        let advertisements = Step::Advertisements("eth0".to_owned(), true);
        assert_eq!(steps(&[routed], &state(&[card(2, "eth0")])), [advertisements, Step::Up(2)]);
        let pattern = InterfaceSpec { mtu: Some(9000), ..named("*") };
        assert_eq!(troubles(&[pattern], &state(&[])), [""; 0], "a pattern may match nothing");
        let mac = InterfaceSpec { mtu: Some(9000), ..InterfaceSpec::new(Matches::Mac([2, 0, 0, 0, 0, 7])) };
        assert_eq!(troubles(&[mac], &state(&[])), ["02:00:00:00:00:07 is not there"]);
        assert_eq!(troubles(&[vlan("lan5", 5, "eth9")], &state(&[])), ["eth9, which it is on, is not there"]);
        let with_bond = state(&[made(4, "bond0", "bond")]);
        assert_eq!(troubles(&[bond(&["eth9"])], &with_bond), ["its member eth9 is not there"]);
        let taken = state(&[card(2, "bond0")]);
        assert_eq!(troubles(&[bond(&[])], &taken), ["bond0 is there already, and is no bond"]);
    }

    #[test]
    fn a_longer_packet_is_set_below_first() {
        let mut above = vlan("lan5", 5, "eth0");
        above.mtu = Some(9000);
        let below = InterfaceSpec { mtu: Some(9000), ..named("eth0") };
        let state = state(&[up(made(2, "lan5", "vlan")), up(card(3, "eth0"))]);
        assert_eq!(steps(&[above, below], &state), [Step::Mtu(3, 9000), Step::Mtu(2, 9000)]);
    }

    #[test]
    fn a_bridge_takes_members_that_are_on_and_routes_reach_other_tables() {
        let bridge = LinkKind::Bridge(BridgeSpec { members: vec!["eth0".to_owned()], stp: true });
        let route = |via: &str, table| RouteSpec {
            to: "198.51.100.0/24".parse().unwrap(),
            via: Some(via.parse().unwrap()),
            metric: 5,
            table,
        };
        let rule =
            RuleSpec { from: Some("192.0.2.0/24".parse().unwrap()), to: None, table: 1000, priority: 9 };
        let spec = InterfaceSpec {
            kind: Some(bridge),
            addresses: vec!["192.0.2.7/24".parse().unwrap()],
            routes: vec![route("192.0.2.1", MAIN), route("203.0.113.1", 1000)],
            rules: vec![rule],
            ..named("br0")
        };
        let state = state(&[up(card(2, "eth0")), up(made(3, "br0", "bridge"))]);
        let all = steps(&[spec], &state);
        assert_eq!(
            all[..3],
            [Step::Master(2, 3), Step::Up(2), Step::Address(3, "192.0.2.7/24".parse().unwrap())]
        );
        let on_link = |step: &Step| match step {
            Step::Route(3, route) => Some((route.gateway_on_link, route.table, route.metric)),
            _ => None,
        };
        let routes: Vec<_> = all.iter().filter_map(on_link).collect();
        assert_eq!(routes, [(false, MAIN, 5), (true, 1000, 5)]);
        assert!(matches!(all.last(), Some(Step::Rule(NewRule { table: 1000, priority: 9, to: None, .. }))));
    }
}
