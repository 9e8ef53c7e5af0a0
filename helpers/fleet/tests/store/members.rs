//! Tests kelson-fleet against three members of etcd, and against a slow one.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::host::store::Store;
use crate::host::{Helper, Host, TTL, register};
use kelson_proto::v1::fleet_command::Command as Order;
use kelson_tests::{Etcd, LoopDisk, alone, eventually as until};

/// A host with one service that knows all members.
fn registered(members: &[Etcd]) -> (Host, Helper) {
    let mut host = Host::new("edge-1", &members[0]);
    host.spec.endpoints = members.iter().map(Etcd::endpoint).collect();
    let mut helper = host.start_with(&[register("nginx", "web")]);
    helper.state("nginx", "registered");
    (host, helper)
}

/// Moves the leader each second.
fn move_leader(times: usize) {
    let Some(members) = Etcd::start_three() else { return };
    let (_host, mut helper) = registered(&members);
    let mut store = Store::new(&members[0]);
    for _ in 0..times {
        let ids = members.each_ref().map(|member| member.ids().0);
        let leader = || members[0].ids().1;
        let old = ids.iter().position(|id| *id == leader()).unwrap();
        let new = ids[(old + 1) % ids.len()];
        members[old].ctl(&["move-leader", &format!("{new:x}")]);
        until("another leader", || leader() == new);
        std::thread::sleep(Duration::from_secs(1));
    }
    helper.confirmed();
    assert_eq!(store.changes(), [""; 0]);
}

/// F2
#[test]
fn f2_a_leader_that_moves_changes_nothing() {
    move_leader(8);
}

/// F2
#[test]
fn long_f2_a_leader_that_moves_for_a_minute_changes_nothing() {
    move_leader(60);
}

/// F2
#[test]
fn f2_the_loss_of_any_member_changes_nothing() {
    let Some(mut members) = Etcd::start_three() else { return };
    let (_host, mut helper) = registered(&members);
    // One of the three is the leader, and one is that which the helper talks to.
    for number in 0..3 {
        let mut store = Store::new(&members[(number + 1) % 3]);
        members[number].kill();
        std::thread::sleep(TTL);
        helper.confirmed();
        assert_eq!(store.changes(), [""; 0]);
        members[number].restart();
    }
}

/// A file system that takes no change until the value ends.
struct Frozen<'a>(&'a Path);

impl Frozen<'_> {
    fn new(folder: &Path) -> Frozen<'_> {
        assert!(Command::new("fsfreeze").arg("-f").arg(folder).status().unwrap().success());
        Frozen(folder)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let _ = Command::new("fsfreeze").arg("-u").arg(self.0).status();
    }
}

/// F2
#[test]
fn f2_a_disk_of_the_store_that_hangs_changes_nothing() {
    let name = "members::f2_a_disk_of_the_store_that_hangs_changes_nothing";
    alone(&["--mount", "--propagation", "private"], name, || {
        let disk = LoopDisk::of_size("etcd", 256 << 20);
        let folder = tempfile::tempdir().unwrap();
        assert!(Command::new("mount").args([disk.device(), folder.path()]).status().unwrap().success());
        hang(folder.path());
        assert!(Command::new("umount").arg(folder.path()).status().unwrap().success());
    });
}

/// The disk of this folder hangs for half a TTL each time.
fn hang(folder: &Path) {
    let Some(etcd) = Etcd::start_in(folder) else { return };
    let host = Host::new("edge-1", &etcd);
    let mut helper = host.start_with(&[register("nginx", "web")]);
    helper.state("nginx", "registered");
    let mut store = Store::new(&etcd);
    for number in 0..3 {
        let frozen = Frozen::new(folder);
        helper.send(Order::Register(register("db", "postgres")));
        std::thread::sleep(TTL / 2);
        drop(frozen);
        helper.state("db", "registered");
        assert_eq!(helper.remove("db", number), "");
    }
    helper.confirmed();
    let key = "/kelson/v1/services/postgres/edge-1/db";
    let expected = ["put", "delete"].map(|word| format!("{word} {key}"));
    assert_eq!(store.changes(), vec![expected; 3].concat());
}
