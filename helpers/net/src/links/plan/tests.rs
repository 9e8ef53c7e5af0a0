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
    let rule = RuleSpec { from: Some("192.0.2.0/24".parse().unwrap()), to: None, table: 1000, priority: 9 };
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
