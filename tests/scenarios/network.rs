//! `kelson-net` and the interfaces of a host: static settings, and the advertisements of radvd.

use std::fs;
use std::process::Stdio;

use kelson_tests::{PATIENCE, eventually, until};

use super::cable::{Cable, Guard, Log};

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

const ROUTED: &str = r#"{"matches":{"Name":"eth0"},"router_advertisements":true}"#;

/// radvd on the server's end, whose name servers last for some seconds.
fn advertise(cable: &Cable, seconds: u32) -> Guard {
    cable.server.sysctl("net.ipv6.conf.all.forwarding", "1");
    let text = format!(
        "interface srv {{ AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; AdvDefaultLifetime 60;\n\
         prefix 2001:db8:5::/64 {{ AdvValidLifetime 600; AdvPreferredLifetime 300; }};\n\
         RDNSS 2001:db8:5::53 {{ AdvRDNSSLifetime {seconds}; }};\n\
         DNSSL example.test {{ AdvDNSSLLifetime {seconds}; }}; }};\n"
    );
    let path = |name: &str| cable.folder.join(name).display().to_string();
    fs::write(path("radvd.conf"), text).expect("a file");
    let mut command = cable.server.command("radvd");
    command.args(["--nodaemon", "--logmethod", "stderr", "--config", &path("radvd.conf")]);
    command.args(["--pidfile", &path("radvd.pid")]).stderr(Stdio::piped());
    let mut router = Guard(command.spawn().expect("radvd is installed"));
    // Its words are of no interest, but have to go somewhere.
    let _ = Log::of(router.0.stderr.take().expect("piped"));
    router
}

#[test]
fn names_of_a_router_last_as_long_as_it_says_also_on_a_host_that_forwards() {
    let cable = Cable::new();
    cable.host.sysctl("net.ipv6.conf.all.forwarding", "1");
    let router = advertise(&cable, 8);
    let (client, log) = cable.client(&[ROUTED]);
    let resolver = || fs::read_to_string(cable.folder.join("resolv.conf")).unwrap_or_default();
    let has_names = || resolver().ends_with("nameserver 2001:db8:5::53\nsearch example.test\n");
    until("the names", PATIENCE, || has_names().then_some(()));
    eventually("the address", || {
        cable.host.ip("-6 -oneline address show dev eth0").contains("inet6 2001:db8:5:")
    });
    eventually("the route", || cable.host.ip("-6 route show default").contains("proto ra"));
    assert_eq!(log.count("name server 2001:db8:5::53, domain example.test"), 1, "{:?}", log.all());

    // The next process knows them at once, and asks for them.
    drop(client);
    let (_client, log) = cable.client(&[ROUTED]);
    assert!(has_names(), "{}", resolver());
    drop(router);
    until("the names to go", PATIENCE, || (!resolver().contains("2001:db8:5::53")).then_some(()));
    assert!(log.count("eth0: no names by router advertisements") <= 1);
    assert_eq!(cable.host.ip("-6 route show default").matches("proto ra").count(), 1, "it lasts longer");

    let _router = advertise(&cable, 600);
    until("the names of the next router", PATIENCE, || has_names().then_some(()));
}

#[test]
fn a_host_that_wants_no_advertisements_takes_none() {
    let cable = Cable::new();
    let (_client, _) = cable.client(&[&ROUTED.replace("true", "false")]);
    eventually("the setting", || cable.host.read_sysctl("net.ipv6.conf.eth0.accept_ra") == "0");
}
