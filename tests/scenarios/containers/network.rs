//! Containers with addresses of their own: `network: bridge`, and the ports of the host that lead there.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use kelson_tests::namespace::Namespace;
use kelson_tests::{Host, PATIENCE, paths, until};

use super::{host, runtime, test_image};

/// A host with one neighbour: 192.0.2.1 and 2001:db8::1, and 192.0.2.9 and 2001:db8::9.
struct Place {
    own: Namespace,
    far: Namespace,
}

const OWN: [&str; 2] = ["192.0.2.1", "[2001:db8::1]"];

impl Place {
    fn new() -> Place {
        let place = Place { own: Namespace::new(), far: Namespace::new() };
        place.own.ip(&format!("link add lan type veth peer name lan netns {}", place.far.id()));
        for (namespace, last) in [(&place.own, 1), (&place.far, 9)] {
            // Else no packet of IPv6 is passed on in the first seconds.
            namespace.sysctl("net.ipv6.conf.lan.accept_dad", "0");
            for name in ["lo", "lan"] {
                namespace.ip(&format!("link set {name} up"));
            }
            namespace.ip(&format!("address add 192.0.2.{last}/24 dev lan"));
            namespace.ip(&format!("address add 2001:db8::{last}/64 dev lan nodad"));
        }
        place
    }

    /// All that containers leave on a host: links, rules, namespaces.
    fn left(&self, host: &Host) -> (usize, Vec<String>, usize) {
        let links = self.own.ip("-oneline link show").lines().count();
        let rules = self.own.command("nft").args(["list", "tables"]).output().expect("nft is installed");
        let rules = String::from_utf8_lossy(&rules.stdout).lines().map(str::to_owned).collect();
        let mounts = std::fs::read_to_string(format!("/proc/{}/mountinfo", host.init_pid()));
        let held = mounts.expect("the mounts of the host").matches("/netns/").count();
        let folder = host.inside(&host.path("run/netns").display().to_string());
        (links, rules, held + std::fs::read_dir(folder).map_or(0, Iterator::count))
    }
}

/// The answer that a program in this network gets at an address.
fn ask(network: &Namespace, address: &str) -> String {
    printed(network, &format!("ask={address}"))
}

/// The output of a step of the test's program in this network.
fn printed(network: &Namespace, step: &str) -> String {
    let done = network.command(paths::binary("kelson-test-program")).arg(step).output();
    String::from_utf8(done.expect("it runs").stdout).expect("text").trim().to_owned()
}

/// As [`ask`], from within a container.
fn ask_within(host: &Host, service: &str, address: &str) -> String {
    printed_within(host, service, &format!("ask={address}"))
}

/// As [`printed`], from within a container.
fn printed_within(host: &Host, service: &str, step: &str) -> String {
    host.ctl(&["exec", service, "--", "/program", step]).ok().stdout.trim().to_owned()
}

/// Waits until the mirrors of these services listen: a program that has been started need not do so yet.
pub fn wait_for_mirrors(host: &Host, services: &[&str]) {
    for service in services {
        until("the mirror", PATIENCE, || {
            (ask_within(host, service, "127.0.0.1:80") == "127.0.0.1").then_some(())
        });
    }
}

/// A service with an address of its own.
fn bridged(ports: &str, steps: &str) -> String {
    let key = runtime();
    format!(
        "container: {{{key}image: 'test:1', network: bridge, ports: [{ports}], command: [/program, {steps}]}}\n"
    )
}

const HTTP: &str = "{name: http, container: 80, host: 8080}";

fn shown_addresses(host: &Host, service: &str) -> Vec<IpAddr> {
    let status: serde_json::Value = host.ctl(&["status", service, "-o", "json"]).ok().json();
    let texts = status["addresses"].as_array().expect("addresses").iter();
    texts.map(|text| text.as_str().expect("a text").parse().unwrap()).collect()
}

fn addresses(host: &Host, service: &str) -> [IpAddr; 2] {
    shown_addresses(host, service).try_into().expect("one of each family")
}

fn at(address: IpAddr, port: u16) -> String {
    SocketAddr::new(address, port).to_string()
}

all!(a_container_with_an_address_is_reached_and_reaches_others);
fn a_container_with_an_address_is_reached_and_reaches_others() {
    let place = Place::new();
    let mut host = host(&[test_image()])
        .network(&place.own)
        .service("web", &bridged(HTTP, "report, mirror=80"))
        .service("other", &bridged("", "mirror=80"))
        .service("own", &format!("process: {{command: ['{}', mirror=81]}}", program()))
        .up(&["web", "other", "own"]);
    wait_for_mirrors(&host, &["web", "other"]);
    let [v4, v6] = addresses(&host, "web");
    let shown = host.ctl(&["status", "web"]).ok().stdout;
    assert!(shown.contains(&format!("{v4}, {v6}")), "{shown}");
    let log = host.wait_log("web", "env.KELSON_PORT_HTTP");
    for (name, value) in [
        ("ADDRESS", v4.to_string()),
        ("ADDRESS6", v6.to_string()),
        ("PORT_HTTP", "80".to_owned()),
        ("HOST_PORT_HTTP", "8080".to_owned()),
    ] {
        assert!(log.contains(&format!("env.KELSON_{name} {value}")), "{name}: {log}");
    }
    let [other4, other6] = addresses(&host, "other");
    let gateway = "10.88.0.1";
    let gateway6 = "fd6b:656c:736f::1";

    // From outside, by a port of the host alone.
    assert_eq!(ask(&place.far, "192.0.2.1:8080"), "192.0.2.9");
    assert_eq!(ask(&place.far, "[2001:db8::1]:8080"), "2001:db8::9");
    place.far.ip("route add 10.88.0.0/16 via 192.0.2.1");
    place.far.ip("-6 route add fd6b:656c:736f::/64 via 2001:db8::1");
    for address in [v4, v6] {
        let heard = ask(&place.far, &at(address, 80));
        assert!(heard.contains("timed out"), "{address}: {heard}");
    }
    // From the host itself, also by its loopback address, where that is of IPv4.
    assert_eq!(ask(&place.own, "127.0.0.1:8080"), gateway);
    assert!(ask(&place.own, "[::1]:8080").contains("refused"));
    assert_eq!(ask(&place.own, &format!("{}:8080", OWN[0])), OWN[0]);
    assert_eq!(ask(&place.own, &format!("{}:8080", OWN[1])), "2001:db8::1");
    assert_eq!(ask(&place.own, &at(v6, 80)), gateway6);
    // From another container, and from itself.
    assert_eq!(ask_within(&host, "other", &at(v4, 80)), other4.to_string());
    assert_eq!(ask_within(&host, "other", &at(v6, 80)), other6.to_string());
    for service in ["other", "web"] {
        assert_eq!(ask_within(&host, service, &format!("{}:8080", OWN[0])), gateway, "{service}");
        assert_eq!(ask_within(&host, service, &format!("{}:8080", OWN[1])), gateway6, "{service}");
    }
    // Out, with an address of the host.
    let _neighbour = kelson_tests::namespace::Guard(
        place.far.command(program()).arg("mirror=82").spawn().expect("it can be started"),
    );
    for (address, own) in [("192.0.2.9:82", "192.0.2.1"), ("[2001:db8::9]:82", "2001:db8::1")] {
        until("the way out", PATIENCE, || (ask_within(&host, "web", address) == own).then_some(()));
    }
    // The host's own programs, but not by what is its loopback.
    assert_eq!(ask_within(&host, "web", &format!("{}:81", OWN[0])), v4.to_string());
    let heard = ask_within(&host, "web", "127.0.0.1:81");
    assert!(heard.contains("refused"), "{heard}");
    host.poweroff();
}

fn program() -> String {
    paths::binary("kelson-test-program").display().to_string()
}

all!(the_bridge_gives_a_host_without_a_network_no_address);
fn the_bridge_gives_a_host_without_a_network_no_address() {
    let alone = Namespace::new();
    let mut host = host(&[test_image()])
        .network(&alone)
        .service("web", &bridged("", "serve"))
        .runs_with("waits", "hang", "depends: [{network: [addresses]}]\n")
        .up(&["web"]);
    assert!(alone.ip("-oneline address show kelson0").contains("10.88.0.1/16"));
    let waits = host.service("waits");
    assert_eq!((waits.state.as_str(), waits.waiting_for.len()), ("waiting", 1), "{waits:?}");
    alone.ip("link add lan type veth peer name far");
    alone.ip("link set far up");
    alone.ip("address add 192.0.2.1/24 dev lan");
    alone.ip("link set lan up");
    host.wait_up("waits");
    host.poweroff();
}

both!(a_port_leads_in_from_one_address_of_the_host);
fn a_port_leads_in_from_one_address_of_the_host() {
    let place = Place::new();
    let addresses = ["127.0.0.1", "192.0.2.1", "2001:db8::1"];
    let ports = addresses.iter().zip(8080..).map(|(address, port)| {
        format!("{{name: port-{port}, container: 80, host: {port}, address: '{address}'}}")
    });
    let ports: Vec<String> = ports.collect();
    let mut host = host(&[test_image()])
        .network(&place.own)
        .service("web", &bridged(&ports.join(", "), "mirror=80"))
        .up(&["web"]);
    wait_for_mirrors(&host, &["web"]);
    for (network, address, answer) in [
        (&place.own, "127.0.0.1:8080", "10.88.0.1"),
        (&place.own, "192.0.2.1:8080", "refused"),
        (&place.far, "192.0.2.1:8080", "refused"),
        (&place.own, "127.0.0.1:8081", "refused"),
        (&place.far, "192.0.2.1:8081", "192.0.2.9"),
        (&place.far, "[2001:db8::1]:8081", "refused"),
        (&place.far, "192.0.2.1:8082", "refused"),
        (&place.far, "[2001:db8::1]:8082", "2001:db8::9"),
    ] {
        let heard = ask(network, address);
        assert!(heard.contains(answer), "{address}: {heard}");
    }
    host.poweroff();
}

both!(containers_know_each_other_by_their_names);
fn containers_know_each_other_by_their_names() {
    let alone = Namespace::new();
    alone.ip("link set lo up");
    let mut host = host(&[test_image()])
        .network(&alone)
        .service("web", &bridged("", "mirror=80"))
        .service("later", &format!("start: manual\n{}", bridged("", "mirror=80")))
        .up(&["web"]);
    let names = |service: &str| printed_within(&host, service, "cat=/etc/hosts");
    let [web, _] = addresses(&host, "web");
    let of_host = std::fs::read_to_string("/etc/hosts").expect("the host has one");
    assert_eq!(names("web"), format!("{of_host}{web}\tweb"));
    host.ctl(&["start", "later", "--wait"]).ok();
    let [later, _] = addresses(&host, "later");
    // What runs already sees the new name.
    assert_eq!(names("web"), format!("{of_host}{later}\tlater\n{web}\tweb"));
    wait_for_mirrors(&host, &["web", "later"]);
    assert_eq!(ask_within(&host, "web", "later:80"), web.to_string());
    assert_eq!(ask_within(&host, "later", "web:80"), later.to_string());
    host.poweroff();
}

all!(datagrams_go_both_ways_through_a_port_of_udp);
fn datagrams_go_both_ways_through_a_port_of_udp() {
    let place = Place::new();
    let port = "{name: dns, container: 53, host: 5353, protocol: udp}";
    let mut host = host(&[test_image()])
        .network(&place.own)
        .service("web", &format!("{}stop: {{timeout: now}}\n", bridged(port, "mirror-udp=53")))
        .service("other", &bridged("", "serve"))
        .up(&["web", "other"]);
    let [v4, v6] = addresses(&host, "web");
    let [other4, other6] = addresses(&host, "other");
    let ask = |network: &Namespace, address: &str| printed(network, &format!("ask-udp={address}"));
    let within = |service: &str, address: &str| printed_within(&host, service, &format!("ask-udp={address}"));
    // The program may have been started and not listen yet.
    until("the port", PATIENCE, || (ask(&place.own, &at(v4, 53)) == "10.88.0.1 ping").then_some(()));

    // From outside, by a port of the host alone, and only by UDP.
    assert_eq!(ask(&place.far, "192.0.2.1:5353"), "192.0.2.9 ping");
    assert_eq!(ask(&place.far, "[2001:db8::1]:5353"), "2001:db8::9 ping");
    place.far.ip("route add 10.88.0.0/16 via 192.0.2.1");
    place.far.ip("-6 route add fd6b:656c:736f::/64 via 2001:db8::1");
    for address in [v4, v6] {
        assert!(ask(&place.far, &at(address, 53)).contains("unavailable"), "{address}");
    }
    for address in OWN {
        let step = format!("ask={address}:5353");
        assert!(printed(&place.far, &step).contains("refused"), "{address}");
    }
    // From the host itself.
    assert_eq!(ask(&place.own, "127.0.0.1:5353"), "10.88.0.1 ping");
    assert_eq!(ask(&place.own, &format!("{}:5353", OWN[0])), "192.0.2.1 ping");
    assert_eq!(ask(&place.own, &format!("{}:5353", OWN[1])), "2001:db8::1 ping");
    // From another container, and from itself.
    assert_eq!(within("other", &at(v4, 53)), format!("{other4} ping"));
    assert_eq!(within("other", &at(v6, 53)), format!("{other6} ping"));
    for service in ["other", "web"] {
        assert_eq!(within(service, &format!("{}:5353", OWN[0])), "10.88.0.1 ping", "{service}");
        assert_eq!(within(service, &format!("{}:5353", OWN[1])), "fd6b:656c:736f::1 ping", "{service}");
    }
    // Out, with an address of the host.
    let _neighbour = kelson_tests::namespace::Guard(
        place.far.command(program()).arg("mirror-udp=82").spawn().expect("it can be started"),
    );
    for (address, own) in [("192.0.2.9:82", "192.0.2.1 ping"), ("[2001:db8::9]:82", "2001:db8::1 ping")] {
        until("the way out", PATIENCE, || (within("other", address) == own).then_some(()));
    }
    // The same socket works after a restart of the container.
    for (own, address) in [("0.0.0.0:0", "192.0.2.1:5353"), ("[::]:0", "[2001:db8::1]:5353")] {
        let socket = place.far.socket(move || UdpSocket::bind(own).expect("a port is free"));
        socket.connect(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let exchange = |text: &str| {
            let mut answer = [0; 100];
            let sent = socket.send(text.as_bytes());
            let length = sent.and_then(|_| socket.recv(&mut answer)).unwrap_or(0);
            answer[..length].ends_with(text.as_bytes()).then_some(())
        };
        for text in ["one", "two", "three"] {
            assert_eq!(exchange(text), Some(()), "{address}");
        }
        host.ctl(&["stop", "web", "--wait"]).ok();
        assert_eq!(exchange("while it is down"), None);
        host.ctl(&["start", "web", "--wait"]).ok();
        until("an answer after the restart", PATIENCE, || exchange("again"));
    }
    host.poweroff();
}

all!(a_check_and_a_hook_are_in_the_network_of_the_container);
fn a_check_and_a_hook_are_in_the_network_of_the_container() {
    let place = Place::new();
    let check = "health: [{tcp: {port: 4321}, initialDelay: 0s, interval: 100ms}]\n";
    let hooks = "hooks: {pre: {command: [/program, report-of=env.KELSON_ADDRESS]}, \
                 postStart: {command: [/program, report-of=env.KELSON_ADDRESS6]}}\n";
    let mut host = host(&[test_image()])
        .network(&place.own)
        .service("web", &format!("{}{check}{hooks}", bridged("", "tcp=4321")))
        .up(&["web"]);
    assert_eq!(host.service("web").healthy, Some(true));
    let [v4, v6] = addresses(&host, "web");
    host.wait_log("web", &format!("env.KELSON_ADDRESS {v4}"));
    host.wait_log("web", &format!("env.KELSON_ADDRESS6 {v6}"));
    host.poweroff();
}

all!(a_connection_and_the_address_outlive_a_crash_of_pid_1);
fn a_connection_and_the_address_outlive_a_crash_of_pid_1() {
    let place = Place::new();
    let mut host = host(&[test_image()])
        .network(&place.own)
        .crash_limit("1000/1m")
        .service("web", &bridged(HTTP, "mirror=80"))
        .up(&["web"]);
    wait_for_mirrors(&host, &["web"]);
    let before = addresses(&host, "web");
    let mut stream = place.far.socket(|| TcpStream::connect("192.0.2.1:8080").expect("the port leads there"));
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    reader.read_line(&mut String::new()).unwrap();
    for signal in [libc::SIGSEGV, libc::SIGABRT] {
        host.crash(|| host.signal(signal));
        stream.write_all(b"again").unwrap();
        let mut back = [0; 5];
        reader.read_exact(&mut back).unwrap();
        assert_eq!(&back, b"again");
        until("its addresses", PATIENCE, || (shown_addresses(&host, "web") == before).then_some(()));
    }
    // Whose network it is is known: it goes with the container.
    host.ctl(&["restart", "web", "--wait"]).ok();
    assert_eq!(addresses(&host, "web"), before);
    until("another connection", PATIENCE, || {
        (ask(&place.far, "192.0.2.1:8080") == "192.0.2.9").then_some(())
    });
    host.ctl(&["stop", "web", "--wait"]).ok();
    assert!(ask(&place.far, "192.0.2.1:8080").contains("refused"));
    assert_eq!(place.left(&host).2, 0);
    host.poweroff();
}

all!(twenty_starts_and_stops_and_a_start_that_fails_leave_nothing);
fn twenty_starts_and_stops_and_a_start_that_fails_leave_nothing() {
    let place = Place::new();
    let key = runtime();
    let fails = format!(
        "container: {{{key}image: 'test:1', network: bridge, command: [/nothing]}}\nstart: manual\nrestart: {{policy: once}}"
    );
    let mut host = host(&[test_image()])
        .network(&place.own)
        .service("web", &format!("{}start: manual", bridged(HTTP, "serve")))
        .service("fails", &fails)
        .service(
            "dies",
            &format!(
                "{}start: manual\nrestart: {{delay: 1ms, maxDelay: 1ms, attempts: 5, interval: 5m}}",
                bridged("", "exit=3")
            ),
        )
        .start();
    let mut before = None;
    for _ in 0..20 {
        host.ctl(&["start", "web", "--wait"]).ok();
        let (links, rules, held) = place.left(&host);
        assert!(rules.contains(&"table inet kelson-web".to_owned()), "{rules:?}");
        // It is a mount, and a file.
        assert_eq!(held, 2);
        host.ctl(&["stop", "web", "--wait"]).ok();
        // The bridge and the table of the host stay.
        let left = place.left(&host);
        assert_eq!((left.0 + 1, left.1.len() + 1, left.2), (links, rules.len(), 0));
        assert_eq!(*before.get_or_insert(left.clone()), left);
    }
    for name in ["fails", "dies"] {
        host.ctl(&["start", name]);
        host.wait_state(name, "failed");
        assert_eq!(Some(place.left(&host)), before, "{name}");
    }
    host.poweroff();
}

all!(without_nft_the_start_fails_and_says_so);
fn without_nft_the_start_fails_and_says_so() {
    let place = Place::new();
    let mut host = host(&[test_image()])
        .network(&place.own)
        .service("web", &format!("{}start: manual\nrestart: {{policy: once}}", bridged(HTTP, "serve")))
        .start();
    // Hidden from this host alone.
    let target = host.init_pid().to_string();
    let hidden = Command::new("nsenter")
        .args(["--mount", "--target", &target, "--", "mount", "-t", "tmpfs", "none", "/usr/sbin"])
        .status();
    assert!(hidden.expect("nsenter is installed").success());
    host.ctl(&["start", "web"]);
    let failed = host.wait_state("web", "failed").message;
    let why = "the network of container \"web\": there is no nft; install nftables, or write network: host";
    assert!(failed.contains(why), "{failed}");
    assert_eq!(place.left(&host).2, 0);
    host.poweroff();
}
