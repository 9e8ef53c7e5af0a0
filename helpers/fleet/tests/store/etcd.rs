//! What is registered in one member, and removed.

use crate::host::store::Store;
use crate::host::{Host, TTL, hosts, instances, register};
use kelson_proto::v1::FleetPage;
use kelson_proto::v1::fleet_command::Command as Order;
use kelson_proto::v1::fleet_report::Report;
use kelson_tests::{Authority, Etcd, eventually as until, free_port};
use nix::sys::signal::Signal::{SIGCONT, SIGSTOP};

#[test]
fn a_host_and_its_services_are_registered_and_removed() {
    let Some(etcd) = Etcd::start() else { return };
    let host = Host::new("edge-1", &etcd);
    let mut helper = host.start_with(&[register("nginx", "web")]);
    let connection = helper.connected(true);
    assert!(connection.lease != 0 && connection.last_confirmed.is_some() && connection.problem.is_empty());
    let state = helper.state("nginx", "registered");
    assert_eq!((state.address.as_str(), state.problem.as_str()), ("127.0.0.1", ""));
    let keys = ["/kelson/v1/hosts/edge-1", "/kelson/v1/services/web/edge-1/nginx"];
    assert_eq!(etcd.keys("/"), keys);
    let value = etcd.value(keys[0]);
    assert!(
        value.contains(r#""health":"healthy","addresses":["127.0.0.1"],"labels":{"role":"edge"}"#),
        "{value}"
    );
    assert!(value.contains(&format!(r#""id":"{}""#, connection.id)), "{value}");
    assert!(
        etcd.value(keys[1])
            .starts_with(r#"{"address":"127.0.0.1","port":80,"tags":[],"meta":{},"since":"20"#)
    );

    assert_eq!(helper.remove("nginx", 7), "");
    assert_eq!(etcd.keys("/"), keys[..1]);
    assert_eq!(helper.remove("never-there", 8), "");
}

#[test]
fn a_helper_that_is_killed_and_replaced_changes_nothing() {
    let Some(etcd) = Etcd::start() else { return };
    let host = Host::new("edge-1", &etcd);
    let services = [register("nginx", "web"), register("db", "postgres")];
    let mut helper = host.start_with(&services);
    helper.state("nginx", "registered");
    helper.state("db", "registered");
    let mut store = Store::new(&etcd);
    for number in 0..20 {
        drop(helper);
        helper = host.start_with(&services);
        // Some die before they are connected.
        if number % 3 > 0 {
            helper.state("nginx", "registered");
            helper.state("db", "registered");
        }
    }
    helper.connected(true);
    assert_eq!(store.changes(), [""; 0]);
    // One of another name leaves the old ones to the first that knows all.
    helper = host.start();
    helper.send(Order::Register(register("nginx", "web")));
    helper.state("nginx", "registered");
    assert_eq!(store.changes(), [""; 0]);
    helper.send(Order::Complete(true));
    until("the stale key is removed", || etcd.keys("/kelson/v1/services/").len() == 1);
    assert_eq!(store.changes(), ["delete /kelson/v1/services/postgres/edge-1/db"]);
}

#[test]
fn a_store_that_pauses_for_half_a_ttl_loses_nothing() {
    let Some(mut etcd) = Etcd::start() else { return };
    let host = Host::new("edge-1", &etcd);
    let mut helper = host.start_with(&[register("nginx", "web")]);
    helper.state("nginx", "registered");
    let mut store = Store::new(&etcd);
    etcd.signal(SIGSTOP as i32);
    std::thread::sleep(TTL / 2);
    etcd.signal(SIGCONT as i32);
    helper.confirmed();
    assert_eq!(store.changes(), [""; 0]);

    etcd.stop();
    std::thread::sleep(TTL / 2);
    etcd.restart();
    helper.confirmed();
    // etcd extends all leases when it starts, so a longer outage loses nothing either.
    etcd.stop();
    let lost = helper.connected(false);
    assert!(
        lost.problem.starts_with(&format!("etcd at {}: connection refused", etcd.endpoint())),
        "{}",
        lost.problem
    );
    std::thread::sleep(TTL);
    etcd.restart();
    helper.connected(true);
    helper.state("nginx", "registered");
    std::thread::sleep(TTL);
    assert_eq!(store.changes(), [""; 0]);
    assert!(helper.troubles().iter().any(|text| text.contains(&etcd.endpoint())), "{:#?}", helper.reports);
}

#[test]
fn a_host_whose_lease_has_expired_puts_each_key_once() {
    let Some(etcd) = Etcd::start() else { return };
    let host = Host::new("edge-1", &etcd);
    let mut helper = host.start_with(&[register("nginx", "web"), register("db", "postgres")]);
    helper.state("nginx", "registered");
    helper.state("db", "registered");
    let mut store = Store::new(&etcd);
    helper.signal(SIGSTOP);
    until("the lease has expired", || etcd.keys("/").is_empty());
    helper.signal(SIGCONT);
    let lost = helper.connected(false);
    assert!(lost.last_confirmed.is_some(), "{lost:?}");
    let back = helper.connected(true);
    assert!(back.lease != 0 && back.since.unwrap().seconds >= lost.since.unwrap().seconds);
    helper.state("db", "registered");
    let mut changes = store.changes();
    changes.sort_unstable();
    let keys = ["hosts/edge-1", "services/postgres/edge-1/db", "services/web/edge-1/nginx"];
    let expected = ["delete", "put"].map(|word| keys.map(|key| format!("{word} /kelson/v1/{key}")));
    assert_eq!(changes, expected.concat());
}

#[test]
fn a_key_that_another_has_removed_comes_back() {
    let Some(etcd) = Etcd::start() else { return };
    let host = Host::new("edge-1", &etcd);
    let mut helper = host.start_with(&[register("nginx", "web")]);
    helper.state("nginx", "registered");
    etcd.ctl(&["del", "--prefix", "/kelson/v1/"]);
    until("both keys are back", || etcd.keys("/kelson/v1/").len() == 2);
}

#[test]
fn the_second_host_of_a_name_waits_for_the_first() {
    let Some(etcd) = Etcd::start() else { return };
    let (one, other) = (Host::new("edge-1", &etcd), Host::new("edge-1", &etcd));
    let mut first = one.start_with(&[register("nginx", "web")]);
    let id = first.connected(true).id;
    first.state("nginx", "registered");
    let mut store = Store::new(&etcd);
    let mut second = other.start_with(&[register("caddy", "web")]);
    let refused = second.problem("is taken by another host");
    assert!(
        !refused.connected && refused.problem.contains(&format!("(id {id}, since 20")),
        "{}",
        refused.problem
    );
    assert_eq!(second.remove("caddy", 1), "");
    second.send(Order::Register(register("caddy", "web")));
    assert_eq!(store.changes(), [""; 0]);
    first.send(Order::Leave(true));
    assert_eq!(first.removed(0), "");
    second.state("caddy", "registered");
    assert_eq!(etcd.keys("/"), ["/kelson/v1/hosts/edge-1", "/kelson/v1/services/web/edge-1/caddy"]);
}

#[test]
fn of_hosts_with_one_name_that_race_one_wins() {
    let Some(etcd) = Etcd::start() else { return };
    let hosts: Vec<Host> = (0..8).map(|_| Host::new("edge-1", &etcd)).collect();
    let mut helpers: Vec<_> = hosts.iter().map(|host| host.start_with(&[register("nginx", "web")])).collect();
    let winners = helpers.iter_mut().filter_map(|helper| {
        helper.wait(|report| match report {
            Report::Connection(one) if one.connected => Some(Some(())),
            Report::Connection(one) if one.problem.contains("is taken") => Some(None),
            _ => None,
        })
    });
    assert_eq!(winners.count(), 1);
}

#[test]
fn keys_of_others_disturb_nobody() {
    let Some(etcd) = Etcd::start() else { return };
    let store = Store::new(&etcd);
    let odd: [&[u8]; 9] = [
        b"/kelson/v1/hosts/",
        b"/kelson/v1/hosts/a b",
        b"/kelson/v1/hosts/\xff\x00",
        b"/kelson/v1/hosts/a/b",
        b"/kelson/v1/services/",
        b"/kelson/v1/services/web",
        b"/kelson/v1/services/web/edge-1/nginx/more",
        b"/kelson/v1/services/web/edge-1/\xff",
        b"/kelson/v1/other",
    ];
    odd.iter().for_each(|key| store.put(*key, "x"));
    store.put("/kelson/v1/hosts/bad", "{");
    store.put("/kelson/v1/services/web/bad/nginx", vec![0xff; 200_000]);
    store.put("/kelson/v1/services/web/big/nginx", format!(r#"{{"address":"{}"}}"#, "x".repeat(1_000_000)));
    store.put("/kelson/v10/hosts/edge-9", "{}");
    let (one, ten) = (Host::new("edge-1", &etcd), Host::new("edge-10", &etcd));
    let mut first = one.start_with(&[register("nginx", "web"), register("nginx2", "web-2")]);
    let mut tenth = ten.start_with(&[register("nginx", "web")]);
    first.state("nginx2", "registered");
    tenth.state("nginx", "registered");

    let page = first.ask(1, hosts("", 0));
    assert_eq!((page.problem.as_str(), page.rest), ("", false));
    let names: Vec<&str> = page.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["bad", "edge-1", "edge-10"]);
    assert!(page.hosts[0].problem.contains("none of Kelson's") && page.hosts[1].problem.is_empty());
    assert_eq!((page.hosts[1].labels["role"].as_str(), page.hosts[1].health.as_str()), ("edge", "healthy"));

    let page = first.ask(2, instances("web", "", 0));
    let of = |page: &FleetPage| {
        page.instances.iter().map(|one| format!("{}/{}", one.name, one.host)).collect::<Vec<_>>()
    };
    assert_eq!(of(&page), ["web/bad", "web/big", "web/edge-1", "web/edge-10"]);
    assert!(
        page.instances[0].problem.contains("none of Kelson's")
            && page.instances[1].problem.contains("too long")
    );
    assert_eq!(of(&first.ask(3, instances("", "", 0))), [vec!["web-2/edge-1".into()], of(&page)].concat());
    // Stopping the first leaves all others as they are.
    first.send(Order::Leave(true));
    assert_eq!(first.removed(0), "");
    assert_eq!(store.lease_of("/kelson/v1/hosts/bad"), 0);
    let page = tenth.ask(4, instances("", "", 0));
    assert_eq!(of(&page), ["web/bad", "web/big", "web/edge-10"]);
}

#[test]
fn a_long_list_is_read_page_by_page() {
    let Some(etcd) = Etcd::start() else { return };
    let store = Store::new(&etcd);
    let host = |number| {
        (format!("/kelson/v1/hosts/host-{number:04}"), r#"{"id":"7","health":"healthy"}"#.to_owned())
    };
    store.put_all((0..1200).map(host), 0);
    let instance =
        |number| (format!("/kelson/v1/services/s{:02}/host-{number:04}/a", number % 7), "{}".to_owned());
    store.put_all((0..1200).map(instance), 0);
    let own = Host::new("edge-1", &etcd);
    let mut helper = own.start_with(&[]);
    helper.connected(true);
    let (mut names, mut after) = (Vec::new(), String::new());
    for number in 1.. {
        let page = helper.ask(number, hosts(&after, 0));
        assert!(page.hosts.len() == 500 || !page.rest);
        names.extend(page.hosts.into_iter().map(|host| host.name));
        after = names.last().unwrap().clone();
        if !page.rest {
            break;
        }
    }
    assert_eq!((names.len(), names.is_sorted()), (1201, true));
    let (mut count, mut cursor) = (0, String::new());
    for number in 10.. {
        let page = helper.ask(number, instances("", &cursor, 70));
        count += page.instances.len();
        cursor = page.cursor;
        if cursor.is_empty() {
            break;
        }
    }
    assert_eq!(count, 1200);
    let page = helper.ask(1000, instances("s03", "s03/host-0100/a", 5));
    assert_eq!((page.instances.len(), page.instances[0].host.as_str()), (5, "host-0101"));
    let peak = kelson_sys::process::Status::read(helper.pid()).unwrap();
    let peak: u64 = peak.field("VmHWM").unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(peak < 64 << 10, "{peak} KiB");
}

#[test]
fn a_store_with_mutual_tls_is_used() {
    let Some(etcd) = Etcd::start_secure(Authority::new("fleet-etcd")) else { return };
    let mut host = Host::new("edge-1", &etcd);
    let certificate = host.spec.certificate.replace(host.path("later.pem")).unwrap();
    let mut helper = host.start_with(&[register("nginx", "web")]);
    let missing = helper.problem("later.pem");
    assert!(missing.problem.ends_with("later.pem: no such file or directory"), "{}", missing.problem);
    // It is read again.
    std::fs::copy(certificate, host.path("later.pem")).unwrap();
    helper.state("nginx", "registered");
    assert_eq!(etcd.keys("/").len(), 2);

    let other = Authority::new("fleet-other");
    let mut stranger = Host::new("edge-2", &etcd);
    stranger.spec.ca = Some(other.path("ca.pem"));
    let refused = stranger.start().problem("TLS");
    assert!(refused.problem.ends_with("in the file of `ca`"), "{}", refused.problem);
    let mut stranger = Host::new("edge-2", &etcd);
    stranger.spec.certificate = Some(other.path("machine.pem"));
    stranger.spec.key = Some(other.path("machine.key"));
    let refused = stranger.start().problem("etcd at");
    assert!(refused.problem.contains("refuse the host's certificate"), "{}", refused.problem);
    let mut stranger = Host::new("edge-2", &etcd);
    (stranger.spec.certificate, stranger.spec.key) = (None, None);
    let refused = stranger.start().problem("etcd at");
    assert!(refused.problem.contains("refuse the host's certificate"), "{}", refused.problem);
}

#[test]
fn a_member_that_is_down_stops_nothing() {
    let Some(mut etcd) = Etcd::start() else { return };
    let mut host = Host::new("edge-1", &etcd);
    let refused = format!("http://127.0.0.1:{}", free_port());
    // Nobody answers there.
    let silent = "http://192.0.2.1:2379".to_owned();
    host.spec.endpoints = vec![refused, silent, etcd.endpoint(), "http://none.invalid:1".into()];
    let mut helper = host.start_with(&[register("nginx", "web")]);
    helper.state("nginx", "registered");
    helper.confirmed();
    helper.confirmed();
    etcd.stop();
    helper.connected(false);
    let page = helper.ask(1, hosts("", 0));
    assert!(page.problem.starts_with("etcd at "), "{}", page.problem);
    assert!(helper.remove("nginx", 2).starts_with("the store has not confirmed it: etcd at "));
    etcd.restart();
    until("the service is removed", || etcd.keys("/kelson/v1/services/").is_empty());
}
