//! `kelson-net` and servers of DHCPv6 on the ends of a cable.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv6Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use kelson_tests::{PATIENCE, eventually, until};

use super::cable::Cable;
use super::servers::{Gift, are_installed, deleted_v6};

const ALWAYS: &str = r#"{"matches":{"Name":"eth0"},"dhcp6":{"always":true}}"#;
const AUTO: &str = r#"{"matches":{"Name":"eth0"},"dhcp6":{"always":false}}"#;
const DELEGATE: &str =
    r#"{"matches":{"Name":"eth0"},"dhcp6":{"always":true,"delegate":["lan0","lan1"],"prefix_length":56}}"#;
const FIRST: &str = "2001:db8:5::50/128";

fn wait_for(cable: &Cable, address: &str) {
    until(address, PATIENCE, || (cable.v6("eth0") == [address]).then_some(()));
}

/// Waits until the kernel knows that no other host of the link has an address.
fn has_asked(cable: &Cable) {
    eventually("the kernel to have asked", || {
        !cable.host.ip("-6 address show dev eth0").contains("tentative")
    });
}

/// The routes for what no interface has of prefixes.
fn rest_of_prefixes(cable: &Cable) -> String {
    let routes = cable.host.ip("-6 route show type unreachable");
    let of_prefixes = routes.lines().filter(|line| line.starts_with("unreachable 2001:db8:100:"));
    of_prefixes.collect()
}

fn survives_renewals(count: usize) {
    if !are_installed(&["kea-dhcp6"]) {
        return;
    }
    let cable = Cable::new().with_v6();
    cable.host.ip("link add lan0 type veth peer name far0");
    cable.host.ip("link set lan0 up");
    let (_server, requests) = cable.kea6(Gift::of(50, 2, 20));
    let (_client, log) = cable.client(&[DELEGATE]);
    wait_for(&cable, FIRST);
    eventually("the network of the prefix", || cable.v6("lan0").iter().any(|one| one.ends_with("::1/64")));
    let prefix = cable.v6("lan0");
    assert_eq!(rest_of_prefixes(&cable).matches("/56").count(), 1, "{}", rest_of_prefixes(&cable));
    let resolver = || fs::read_to_string(cable.folder.join("resolv.conf")).unwrap_or_default();
    until("the names", PATIENCE, || {
        resolver().ends_with("nameserver 2001:db8:5::53\nsearch example.test\n").then_some(())
    });
    // Routers tell of the network; this cable has none.
    cable.host.ip("-6 route add 2001:db8:5::/64 dev eth0");
    let listener = cable.server.socket(|| TcpListener::bind("[2001:db8:5::1]:7000").expect("a port"));
    has_asked(&cable);
    let mut near = cable.host.socket(|| TcpStream::connect("[2001:db8:5::1]:7000").expect("a connection"));
    assert_eq!(near.local_addr().expect("connected").ip().to_string(), "2001:db8:5::50");
    let (mut far, _) = listener.accept().expect("it has connected");
    let (_monitor, changes) = cable.monitor_v6();
    let renewals = || requests.count("DHCP6_PACKET_RECEIVED").min(requests.count("RENEW"));
    let before = renewals();
    let patience = PATIENCE + Duration::from_secs(3) * u32::try_from(count).expect("few");
    until("the renewals", patience, || (renewals() >= before + count).then_some(()));
    near.write_all(b"x").expect("it is connected");
    let mut byte = [0];
    far.read_exact(&mut byte).expect("it is connected");
    assert_eq!(deleted_v6(&changes), [""; 0]);
    assert_eq!(cable.v6("lan0"), prefix);
    assert_eq!(log.count("eth0: 2001:db8:5::50 for "), 1, "{:?}", log.all());

    // An interface that comes later gets the next network.
    cable.host.ip("link add lan1 type veth peer name far1");
    cable.host.ip("link set lan1 up");
    let first: Ipv6Addr = prefix[0].trim_end_matches("/64").parse().expect("an address");
    let second = format!("{}/64", Ipv6Addr::from_bits(first.to_bits() + (1 << 64)));
    eventually("the second network", || cable.v6("lan1") == [second.as_str()]);
}

#[test]
fn n1_an_address_and_a_prefix_by_dhcpv6_survive_renewals() {
    survives_renewals(3);
}

#[test]
fn long_n1_an_address_and_a_prefix_by_dhcpv6_survive_a_hundred_renewals() {
    survives_renewals(100);
}

#[test]
fn n2_without_its_server_an_address_of_dhcpv6_lasts_to_its_end() {
    if !are_installed(&["kea-dhcp6"]) {
        return;
    }
    let cable = Cable::new().with_v6();
    let (server, _) = cable.kea6(Gift::of(50, 4, 8));
    let (_client, log) = cable.client(&[DELEGATE]);
    wait_for(&cable, FIRST);
    eventually("the prefix", || !rest_of_prefixes(&cable).is_empty());
    let began = Instant::now();
    drop(server);
    eventually("the address to go", || cable.v6("eth0").is_empty());
    assert!(began.elapsed() >= Duration::from_secs(5), "{:?}", began.elapsed());
    eventually("its reason", || log.count("eth0: 2001:db8:5::50 is removed: no server has extended it") == 1);
    eventually("the prefix to go", || rest_of_prefixes(&cable).is_empty());
    let (_server, _) = cable.kea6(Gift::of(70, 60, 600));
    wait_for(&cable, "2001:db8:5::70/128");
}

#[test]
fn n2_another_address_of_dhcpv6_is_there_before_the_last_one_goes() {
    if !are_installed(&["kea-dhcp6"]) {
        return;
    }
    let cable = Cable::new().with_v6();
    let (server, _) = cable.kea6(Gift::of(50, 3, 60));
    let (_client, log) = cable.client(&[ALWAYS]);
    wait_for(&cable, FIRST);
    let (_monitor, changes) = cable.monitor_v6();
    drop(server);
    let (_server, _) = cable.kea6(Gift::of(70, 60, 600));
    wait_for(&cable, "2001:db8:5::70/128");
    eventually("the change", || !deleted_v6(&changes).is_empty());
    let all = changes.all();
    let added = all.iter().position(|line| line.contains("inet6 2001:db8:5::70/128"));
    let gone = all.iter().position(|line| line.starts_with("Deleted") && line.contains("2001:db8:5::50"));
    assert!(added.is_some() && added < gone, "{all:?} {:?}", log.all());
}

#[test]
fn n3_a_client_of_dhcpv6_that_was_killed_asks_for_what_it_had() {
    if !are_installed(&["kea-dhcp6"]) {
        return;
    }
    let cable = Cable::new().with_v6();
    let (_server, requests) = cable.kea6(Gift::of(50, 60, 600));
    let (client, _) = cable.client(&[ALWAYS]);
    wait_for(&cable, FIRST);
    eventually("the kernel to have asked", || {
        !cable.host.ip("-6 address show dev eth0").contains("tentative")
    });
    let (_monitor, changes) = cable.monitor_v6();
    drop(client);
    assert_eq!(cable.v6("eth0"), [FIRST], "it is the kernel's");
    let (client, _log) = cable.client(&[ALWAYS]);
    eventually("the question", || requests.count("CONFIRM") > 0);
    drop(client);
    // One with a prefix asks for all of it.
    let (client, log) = cable.client(&[DELEGATE]);
    eventually("the prefix", || requests.count("REBIND") > 0 && log.count("prefix 2001:db8:100:") == 1);
    drop(client);
    assert_eq!(cable.v6("eth0"), [FIRST]);
    assert_eq!(deleted_v6(&changes), [""; 0]);
}

#[test]
fn what_ended_while_no_client_ran_is_removed_by_the_next() {
    if !are_installed(&["kea-dhcp6"]) {
        return;
    }
    let cable = Cable::new().with_v6();
    let (server, _) = cable.kea6(Gift::of(50, 4, 8));
    let (client, _) = cable.client(&[DELEGATE]);
    wait_for(&cable, FIRST);
    eventually("the prefix", || !rest_of_prefixes(&cable).is_empty());
    drop(client);
    drop(server);
    eventually("the kernel to remove the address", || cable.v6("eth0").is_empty());
    assert_ne!(rest_of_prefixes(&cable), "");
    let (_client, _log) = cable.client(&[DELEGATE]);
    eventually("the prefix to go", || rest_of_prefixes(&cable).is_empty());
}

#[test]
fn an_address_of_dhcpv6_that_another_host_has_is_declined() {
    if !are_installed(&["kea-dhcp6"]) {
        return;
    }
    let cable = Cable::new().with_v6();
    cable.server.ip("-6 address add 2001:db8:5::50/128 dev srv nodad");
    let (_server, requests) = cable.kea6(Gift { more: 1, ..Gift::of(50, 60, 600) });
    let (_client, log) = cable.client(&[ALWAYS]);
    eventually("the conflict", || log.count("2001:db8:5::50 is removed: another host uses it, too") == 1);
    eventually("the message about it", || requests.count("DECLINE") > 0);
    wait_for(&cable, "2001:db8:5::51/128");
}

#[test]
fn routers_say_whether_there_is_an_address_or_names_alone() {
    if !are_installed(&["dnsmasq"]) {
        return;
    }
    let cable = Cable::new().with_v6();
    let (_client, log) = cable.client(&[AUTO]);
    let option = "--dhcp-option=option6:dns-server,[2001:db8:5::53]";
    let stateless = ["--enable-ra", "--dhcp-range=2001:db8:5::,ra-stateless", option];
    let (server, requests) = cable.dnsmasq(&stateless);
    eventually("the names", || log.count("eth0: names from fe80::") == 1);
    assert!(requests.count("DHCPINFORMATION-REQUEST") > 0, "{:?}", requests.all());
    assert_eq!(requests.count("DHCPSOLICIT"), 0, "{:?}", requests.all());
    drop(server);
    let range = "--dhcp-range=2001:db8:5::50,2001:db8:5::50,64,120";
    let (_server, requests) = cable.dnsmasq(&["--enable-ra", range, option]);
    eventually("the address", || cable.v6("eth0").contains(&FIRST.to_owned()));
    assert!(requests.count("DHCPREPLY") > 0, "{:?}", requests.all());
    let resolver = fs::read_to_string(cable.folder.join("resolv.conf")).expect("a file");
    assert!(resolver.contains("nameserver 2001:db8:5::53\n"), "{resolver}");
}

#[test]
fn n3_dnsmasq_confirms_what_a_client_of_dhcpv6_had() {
    if !are_installed(&["dnsmasq"]) {
        return;
    }
    let cable = Cable::new().with_v6();
    let range = "--dhcp-range=2001:db8:5::50,2001:db8:5::50,64,120";
    let (_server, requests) = cable.dnsmasq(&[range]);
    let (_client, _) = cable.client(&[ALWAYS]);
    wait_for(&cable, FIRST);
    let (_monitor, changes) = cable.monitor_v6();
    for count in 1..=3 {
        cable.server.ip("link set srv down");
        cable.server.ip("link set srv up");
        cable.server.ip("-6 address replace 2001:db8:5::1/64 dev srv nodad");
        eventually("the question after the cable", || requests.count("DHCPCONFIRM") >= count);
    }
    assert_eq!(cable.v6("eth0"), [FIRST]);
    assert_eq!(deleted_v6(&changes), [""; 0]);
    assert_eq!(requests.count("DHCPSOLICIT"), 1, "{:?}", requests.all());
}
