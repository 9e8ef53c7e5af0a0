//! `kelson-net` on one end of a cable, udhcpd of busybox or a server of Debian on the other, each in a network namespace of its own.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};

use kelson_tests::{PATIENCE, eventually, until};

use super::cable::{Cable, Guard, Log, PROBED, UNPROBED, deleted};
use super::servers::{Gift, are_installed};

fn survives_renewals(count: usize) {
    let cable = Cable::new();
    let (_server, requests) = cable.serve(50, 2);
    let (_client, log) = cable.client(&[UNPROBED]);
    cable.wait_for("192.0.2.50/24");
    let listener = cable.server.socket(|| TcpListener::bind("192.0.2.1:7000").expect("a port"));
    let mut near = cable.host.socket(|| TcpStream::connect("192.0.2.1:7000").expect("a connection"));
    let (mut far, _) = listener.accept().expect("it has connected");
    let (_monitor, changes) = cable.monitor();
    let before = requests.count("sending ACK");
    let patience = PATIENCE + Duration::from_secs(2) * u32::try_from(count).expect("few");
    until("the renewals", patience, || (requests.count("sending ACK") >= before + count).then_some(()));
    near.write_all(b"x").expect("it is connected");
    let mut byte = [0];
    far.read_exact(&mut byte).expect("it is connected");
    assert_eq!(deleted(&changes), [""; 0]);
    assert_eq!(log.count("192.0.2.50/24 for "), 1, "{:?}", log.all());
    assert_eq!(requests.count("sending OFFER"), 1, "{:?}", requests.all());
}

#[test]
fn n1_a_connection_survives_renewals_and_nothing_is_deleted() {
    survives_renewals(5);
}

#[test]
fn long_n1_a_connection_survives_a_hundred_renewals() {
    survives_renewals(100);
}

#[test]
fn n1_all_that_the_server_gives_is_configured() {
    let cable = Cable::new();
    let (_server, _) = cable.serve(50, 600);
    let began = Instant::now();
    let (_client, log) = cable.client(&[PROBED]);
    cable.wait_for("192.0.2.50/24");
    assert!(began.elapsed() > Duration::from_secs(4), "it asks the link first");
    let address = cable.host.ip("-4 address show dev eth0");
    let left = address.split("valid_lft ").nth(1).and_then(|text| text.split("sec").next()?.parse().ok());
    let left: u32 = left.unwrap_or_else(|| panic!("{address}"));
    assert!(address.contains("mtu 1400") && (560..=602).contains(&left), "{address}");
    let routes = cable.host.ip("-4 route show");
    assert!(routes.contains("default via 192.0.2.1 dev eth0 proto dhcp metric "), "{routes}");
    let resolver = cable.folder.join("resolv.conf");
    let text = until("the name servers", PATIENCE, || {
        fs::read_to_string(&resolver).ok().filter(|text| text.contains("192.0.2.53"))
    });
    assert!(text.ends_with("nameserver 192.0.2.54\nnameserver 192.0.2.53\nsearch example.test\n"), "{text}");
    assert_eq!(fs::read_to_string(cable.state().join("ntp-servers")).expect("a file"), "192.0.2.123\n");
    eventually("the log", || {
        log.count("eth0: 192.0.2.50/24 for 9m5") == 1
            && log.count(" from 192.0.2.1, default route by 192.0.2.1") == 1
    });
}

#[test]
fn n2_without_its_server_the_address_lasts_to_the_end_of_the_lease() {
    let cable = Cable::new();
    let (server, requests) = cable.serve(50, 4);
    let (_client, log) = cable.client(&[UNPROBED]);
    cable.wait_for("192.0.2.50/24");
    let last =
        until("an acknowledgement", PATIENCE, || (requests.count("sending ACK") > 0).then(Instant::now));
    drop(server);
    eventually("the address to go", || cable.addresses().is_empty());
    assert!(last.elapsed() >= Duration::from_secs(2), "{:?}", last.elapsed());
    eventually("its reason", || log.count("192.0.2.50/24 is removed: no server has extended it") == 1);
    assert_eq!(cable.host.ip("-4 route show"), "");

    let (_server, _) = cable.serve(70, 600);
    cable.wait_for("192.0.2.70/24");
}

#[test]
fn n2_another_address_is_there_before_the_last_one_goes() {
    let cable = Cable::new();
    let (server, _) = cable.serve(50, 600);
    let (_client, log) = cable.client(&[UNPROBED]);
    cable.wait_for("192.0.2.50/24");
    let (_monitor, changes) = cable.monitor();
    drop(server);
    let (_server, _) = cable.serve(70, 600);
    cable.server.ip("link set srv down");
    cable.server.ip("link set srv up");
    cable.wait_for("192.0.2.70/24");
    eventually("the change", || !deleted(&changes).is_empty());
    let all = changes.all();
    let place = |part: &str| all.iter().position(|line| line.contains(part));
    let (added, gone) = (
        place("inet 192.0.2.70/24"),
        all.iter().position(|line| line.starts_with("Deleted") && line.contains("192.0.2.50/24")),
    );
    assert!(added.is_some() && added < gone, "{all:?} {:?}", log.all());
    assert!(cable.host.ip("-4 route show").contains("default via 192.0.2.1"));
}

#[test]
fn n3_a_client_that_was_killed_asks_for_the_address_that_it_had() {
    let cable = Cable::new();
    let (_server, requests) = cable.serve(50, 600);
    let (client, _) = cable.client(&[UNPROBED]);
    cable.wait_for("192.0.2.50/24");
    let (_monitor, changes) = cable.monitor();
    drop(client);
    assert_eq!(cable.addresses(), ["192.0.2.50/24"], "it is the kernel's");
    let before = requests.count("sending ACK");
    let (_client, log) = cable.client(&[UNPROBED]);
    eventually("an acknowledgement", || requests.count("sending ACK") > before);
    eventually("the log", || log.count("192.0.2.50/24 for ") == 1);
    assert_eq!(requests.count("sending OFFER"), 1, "{:?}", requests.all());
    assert_eq!(deleted(&changes), [""; 0]);
}

#[test]
fn n5_a_cable_is_pulled_and_plugged_again_and_an_interface_gets_another_name() {
    // The kernel reports such a change once a second.
    survives_cables(10);
}

#[test]
fn long_n5_a_cable_is_pulled_and_plugged_again_fifty_times() {
    survives_cables(50);
}

fn survives_cables(count: usize) {
    let cable = Cable::new();
    let (_server, requests) = cable.serve(50, 600);
    let (_client, log) = cable.client(&[UNPROBED, &UNPROBED.replace("eth0", "lan0")]);
    cable.wait_for("192.0.2.50/24");
    let (_monitor, changes) = cable.monitor();
    for _ in 0..count {
        let before = requests.count("sending ACK");
        cable.server.ip("link set srv down");
        cable.server.ip("link set srv up");
        eventually("the request after the cable", || requests.count("sending ACK") > before);
    }
    assert_eq!(cable.addresses(), ["192.0.2.50/24"]);
    let addresses = deleted(&changes).into_iter().filter(|line| line.contains("inet "));
    assert_eq!(addresses.collect::<Vec<_>>(), [""; 0]);
    assert_eq!(requests.count("sending OFFER"), 1);

    cable.host.ip("link set eth0 down");
    cable.host.ip("link set eth0 name lan0");
    cable.host.ip("link set lan0 up");
    eventually("the interface by its new name", || log.count("lan0: ") > 0);
    let text = cable.host.ip("-4 -oneline address show dev lan0");
    assert!(text.contains("192.0.2.50/24"), "{text}");
}

#[test]
fn an_address_that_another_host_has_is_declined() {
    let cable = Cable::new();
    cable.server.ip("address add 192.0.2.50/32 dev srv");
    let (_server, requests) = cable.serve(50, 600);
    let (_client, log) = cable.client(&[PROBED]);
    eventually("the conflict", || log.count("192.0.2.50 is declined: ") == 1);
    assert_eq!(cable.addresses(), [""; 0]);
    cable.server.ip("address del 192.0.2.50/32 dev srv");
    // It begins again after ten seconds.
    cable.wait_for("192.0.2.50/24");
    assert_eq!(requests.count("sending OFFER"), 2, "{:?}", requests.all());
}

/// dnsmasq with one address, which lasts at least two minutes there.
fn dnsmasq(cable: &Cable, last: u8, more: &[&str]) -> (Guard, Log) {
    let range = format!("--dhcp-range=192.0.2.{last},192.0.2.{last},255.255.255.0,120");
    cable.dnsmasq(&[&[range.as_str()], more].concat())
}

#[test]
fn n1_n3_renewals_by_kea_delete_nothing_and_a_killed_client_asks_for_what_it_had() {
    if !are_installed(&["kea-dhcp4"]) {
        return;
    }
    let cable = Cable::new();
    cable.host.ip("link set eth0 up");
    let (_server, requests) = cable.kea4(Gift::of(50, 2, 20));
    let (client, log) = cable.client(&[UNPROBED]);
    cable.wait_for("192.0.2.50/24");
    let (_monitor, changes) = cable.monitor();
    let acks = || requests.count("DHCP4_LEASE_ALLOC");
    let before = acks();
    eventually("the renewals", || acks() >= before + 3);
    assert_eq!(log.count("192.0.2.50/24 for "), 1, "{:?}", log.all());
    drop(client);
    let before = acks();
    let (_client, log) = cable.client(&[UNPROBED]);
    eventually("an acknowledgement", || acks() > before);
    eventually("the log", || log.count("192.0.2.50/24 for ") == 1);
    assert_eq!(requests.count("DHCP4_LEASE_ADVERT"), 1, "{:?}", requests.all());
    assert_eq!(deleted(&changes), [""; 0]);
}

#[test]
fn n1_n3_dnsmasq_acknowledges_what_a_client_had_and_refuses_it_in_another_network() {
    if !are_installed(&["dnsmasq"]) {
        return;
    }
    let cable = Cable::new();
    let (server, requests) = dnsmasq(&cable, 50, &[]);
    let (_client, log) = cable.client(&[UNPROBED]);
    cable.wait_for("192.0.2.50/24");
    let (_monitor, changes) = cable.monitor();
    let bounce = || {
        cable.server.ip("link set srv down");
        cable.server.ip("link set srv up");
    };
    for _ in 0..3 {
        let before = requests.count("DHCPACK");
        bounce();
        eventually("an acknowledgement after the cable", || requests.count("DHCPACK") > before);
    }
    assert_eq!(requests.count("DHCPOFFER"), 1, "{:?}", requests.all());
    let addresses =
        || deleted(&changes).into_iter().filter(|line| line.contains("inet ")).collect::<Vec<_>>();
    assert_eq!(addresses(), [""; 0]);
    drop(server);
    fs::remove_file(cable.folder.join("leases")).expect("its leases");
    let (_server, requests) = dnsmasq(&cable, 70, &["--dhcp-authoritative"]);
    bounce();
    cable.wait_for("192.0.2.70/24");
    assert!(requests.count("DHCPNAK") > 0, "{:?}", requests.all());
    eventually("the change", || !addresses().is_empty());
    let all = changes.all();
    let added = all.iter().position(|line| line.contains("inet 192.0.2.70/24"));
    let gone = all.iter().position(|line| line.starts_with("Deleted") && line.contains("192.0.2.50/24"));
    assert!(added.is_some() && added < gone, "{all:?} {:?}", log.all());
}

#[test]
fn n2_without_kea_the_address_lasts_to_its_end_and_the_next_one_comes() {
    if !are_installed(&["kea-dhcp4"]) {
        return;
    }
    let cable = Cable::new();
    cable.host.ip("link set eth0 up");
    let (server, _) = cable.kea4(Gift::of(50, 3, 6));
    let (_client, log) = cable.client(&[UNPROBED]);
    cable.wait_for("192.0.2.50/24");
    let began = Instant::now();
    drop(server);
    eventually("the address to go", || cable.addresses().is_empty());
    assert!(began.elapsed() >= Duration::from_secs(3), "{:?}", began.elapsed());
    eventually("its reason", || log.count("192.0.2.50/24 is removed: no server has extended it") == 1);
    let (_server, _) = cable.kea4(Gift::of(70, 60, 600));
    cable.wait_for("192.0.2.70/24");
}

#[test]
fn a_server_names_the_host_if_the_machine_file_wants_it() {
    let cable = Cable::new();
    let (_server, _) = cable.serve(50, 600);
    let path = cable.folder.join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("it is ours");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time");
    let named = UNPROBED.replace(r#""probe":false"#, r#""probe":false,"host_name":true"#);
    let (_client, _) = cable.client(&[&named]);
    let mut buffer = [0; 4096];
    let message = until("the name", PATIENCE, || {
        let length = socket.recv(&mut buffer).expect("a message");
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        text.starts_with("X_KELSON_HOST_NAME").then_some(text)
    });
    assert_eq!(message, "X_KELSON_HOST_NAME=edge-7");
    let hosts = || fs::read_to_string(cable.folder.join("hosts")).unwrap_or_default();
    eventually("the file of hosts", || hosts().ends_with("\n127.0.1.1 edge-7\n"));
}
