//! Tests kelson-fleet on a network that drops packets without a word: a cable between two network namespaces.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::host::store::Store;
use crate::host::{Host, SHORT, TTL, USUAL, register};
use kelson_fleet::Limits;
use kelson_tests::namespace::Namespace;
use kelson_tests::{Etcd, alone, until};

const STORE: &str = "10.77.0.1";
const KEYS: [&str; 3] = ["hosts/edge-1", "services/postgres/edge-1/db", "services/web/edge-1/nginx"];

/// A cable: the network at its other end. The test, and the store, are at this one.
fn cable() -> Namespace {
    let far = Namespace::new();
    let ip = |words: &str| {
        assert!(Command::new("ip").args(words.split(' ')).status().unwrap().success(), "ip {words}");
    };
    ip("link set lo up");
    ip(&format!("link add near type veth peer name eth0 netns {}", far.id()));
    ip(&format!("address add {STORE}/24 dev near"));
    ip("link set near up");
    far.ip("address add 10.77.0.2/24 dev eth0");
    far.ip("link set eth0 up");
    far
}

fn nft(network: &Namespace, rules: &str) {
    let mut nft = network.command("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    nft.stdin.take().unwrap().write_all(rules.as_bytes()).unwrap();
    assert!(nft.wait().unwrap().success(), "{rules}");
}

/// Cuts the cable for these times, one after the other, and gives the changes that a watcher sees of each.
fn cut(limits: &'static str, cuts: &[Duration]) -> Vec<Vec<String>> {
    let network = cable();
    let Some(etcd) = Etcd::start_at(STORE) else { return Vec::new() };
    let mut host = Host::new("edge-1", &etcd);
    host.spec.endpoints = vec![etcd.endpoint_at(STORE)];
    (host.network, host.limits) = (Some(network), limits);
    let mut helper = host.start_with(&[register("nginx", "web"), register("db", "postgres")]);
    helper.state("nginx", "registered");
    helper.state("db", "registered");
    let chain = |hook| format!("chain {hook} {{ type filter hook {hook} priority 0; policy drop; }}\n");
    let silent = format!("table inet cut {{\n{}{}}}\n", chain("input"), chain("output"));
    let ttl = if limits == USUAL { Limits::default().ttl } else { TTL };
    let mut changes = Vec::new();
    for time in cuts {
        let mut store = Store::new(&etcd);
        // The lease is oldest just before it is renewed.
        helper.confirmed();
        std::thread::sleep(ttl * 3 / 10);
        nft(host.network.as_ref().unwrap(), &silent);
        std::thread::sleep(*time);
        nft(host.network.as_ref().unwrap(), "delete table inet cut\n");
        helper.confirmed();
        until("all is registered", 2 * ttl, || (etcd.keys("/").len() == KEYS.len()).then_some(()));
        let mut seen = store.changes();
        seen.sort_unstable();
        changes.push(seen);
    }
    changes
}

/// Each key is deleted once, and put once.
fn once() -> Vec<String> {
    ["delete", "put"].map(|word| KEYS.map(|key| format!("{word} /kelson/v1/{key}"))).concat()
}

/// F6
#[test]
fn f6_a_network_that_is_silent_for_long_removes_and_adds_each_key_once() {
    alone(&["--net"], "silence::f6_a_network_that_is_silent_for_long_removes_and_adds_each_key_once", || {
        for changes in cut(SHORT, &[3 * TTL]) {
            assert_eq!(changes, once());
        }
    });
}

/// F6
#[test]
fn long_f6_a_network_that_is_silent_for_half_a_ttl_changes_nothing() {
    alone(&["--net"], "silence::long_f6_a_network_that_is_silent_for_half_a_ttl_changes_nothing", || {
        let ttl = Limits::default().ttl;
        let changes = cut(USUAL, &[ttl / 2, ttl / 2, 3 * ttl, ttl / 2]);
        let expected = [Vec::new(), Vec::new(), once(), Vec::new()];
        assert!(changes.is_empty() || changes == expected, "{changes:#?}");
    });
}
