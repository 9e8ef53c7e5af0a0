//! `kelson-net` and the interfaces of a host: static settings.

use kelson_tests::eventually;

use super::cable::Cable;

#[test]
fn static_settings_are_kept_while_links_come_and_go() {
    let cable = Cable::new();
    let bridge = r#"{"matches":{"Name":"br0"},"kind":{"Bridge":{"members":["eth0","eth1"],"stp":false}},"mtu":1400,
        "addresses":[["192.0.2.7",24],["2001:db8::7",64]],"gateway":"192.0.2.1",
        "routes":[{"to":["198.51.100.0",24],"via":"192.0.2.1","metric":0,"table":1000}],
        "rules":[{"from":["192.0.2.0",24],"to":null,"table":1000,"priority":9}]}"#;
    let (_client, log) = cable.client(&[bridge]);
    let is_set = || {
        let addresses = cable.host.ip("-oneline address show dev br0");
        let routes = cable.host.ip("-4 route show table 1000");
        addresses.contains("192.0.2.7/24")
            && addresses.contains("2001:db8::7/64")
            && cable.host.ip("-4 route show").contains("default via 192.0.2.1 dev br0 proto static")
            && routes.contains("198.51.100.0/24 via 192.0.2.1 dev br0")
    };
    let is_member = |name: &str| cable.host.ip("-oneline link show master br0").contains(name);
    eventually("the bridge", || cable.has_link("br0") && is_set() && is_member("eth0"));
    assert!(cable.host.ip("rule show").contains("9:\tfrom 192.0.2.0/24 lookup 1000"));
    assert!(cable.host.ip("link show br0").contains("mtu 1400"));
    eventually("the log", || log.count("br0: its member eth1 is not there") == 1);

    // A member that comes later.
    cable.host.ip("link add eth1 type veth peer name far1");
    eventually("the member", || is_member("eth1"));
    // The kernel removes routes, and addresses of IPv6, when a link goes down.
    cable.host.ip("link set br0 down");
    eventually("the routes to go", || !is_set());
    cable.host.ip("link set br0 up");
    eventually("the routes to be back", is_set);
    // It stays off: somebody wants it so.
    cable.host.ip("link set eth1 down");
    cable.host.ip("link set br0 mtu 1300");
    eventually("the length of packets", || cable.host.ip("link show br0").contains("mtu 1400"));
    assert!(!cable.host.ip("link show eth1").contains(",UP"));
    cable.host.ip("link del br0");
    eventually("another bridge", || cable.has_link("br0") && is_set() && is_member("eth0"));
}
