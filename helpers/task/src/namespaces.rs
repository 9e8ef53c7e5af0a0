//! The namespaces that a process enters: its view of the file system, a network and users of its own.

use std::fs::{self, File};
use std::os::fd::OwnedFd;

use kelson_spec::service::ViewRule;
use kelson_sys::netlink;
use kelson_sys::user_namespace::Held;
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};

use crate::{device_access, file_view, hand_over};

/// Makes those for which there are rules, and sends them.
pub fn make(rules: &[String], control: &OwnedFd) -> Result<String, String> {
    let (mut network, mut users) = (None, None);
    for (rule, place) in rules.iter().filter_map(|word| ViewRule::of_word(word)) {
        match rule {
            ViewRule::Network => network = Some(new_network()?),
            ViewRule::Users => users = Some(new_users(place)?),
            _ => {}
        }
    }
    let devices = device_access::make(rules)?;
    let made = [file_view::make(rules)?, network, users].map(|made| made.map(OwnedFd::from));
    let made: Vec<OwnedFd> = made.into_iter().chain([devices]).flatten().collect();
    hand_over::send(control, &made, "namespaces").map(|()| String::new())
}

/// A network of the loopback interface alone. This process goes back to its own.
fn new_network() -> Result<File, String> {
    let own = "/proc/self/ns/net";
    let made = || {
        let before = File::open(own)?;
        unshare(CloneFlags::CLONE_NEWNET)?;
        netlink::set_up(netlink::index_of("lo").ok_or(Errno::ENODEV)?)?;
        let new = File::open(own)?;
        setns(before, CloneFlags::CLONE_NEWNET)?;
        Ok(new)
    };
    made().map_err(|error: std::io::Error| format!("cannot make its network namespace: {error}"))
}

/// Users of which root and the one of `UID:GID` are those of the machine; all others are nobody there.
fn new_users(place: &str) -> Result<File, String> {
    let made = || {
        let (uid, gid) = place.split_once(':').ok_or(Errno::EINVAL)?;
        let held = Held::new()?;
        let of_process = |file: &str| format!("/proc/{}/{file}", held.pid());
        fs::write(of_process("uid_map"), map(uid))?;
        fs::write(of_process("gid_map"), map(gid))?;
        File::open(of_process("ns/user"))
    };
    made().map_err(|error: std::io::Error| format!("cannot make its user namespace: {error}"))
}

fn map(id: &str) -> String {
    match id {
        "0" => "0 0 1\n".to_owned(),
        id => format!("0 0 1\n{id} {id} 1\n"),
    }
}
