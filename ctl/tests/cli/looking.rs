//! Looks at the machine: processes and sockets, and what holds for every look.

use kelson_proto::v1::{Process, Socket, SocketHolder};
use prost_types::Duration;

use crate::fake::{Fake, Seen, State};
use crate::machine::all;
use crate::streams::Following;
use crate::two;

/// Every look, with the words that it needs.
const ALL: &str =
    "processes, netstat, network, mounts, memory, cpu, disks, facts, cgroups, time, ls /, read /x, cp /etc -";

pub fn seen(seen: Seen) -> State {
    State { seen, ..two() }
}

pub fn wire(seconds: i64, millis: i32) -> Option<Duration> {
    Some(Duration { seconds, nanos: millis * 1_000_000 })
}

pub fn process(pid: i32, parent: i32, service: &str, command: &[&str]) -> Process {
    let name = command.first().map_or("kworker/0:0", |path| path.rsplit('/').next().unwrap());
    Process {
        pid,
        parent,
        service: service.to_owned(),
        name: name.to_owned(),
        command: command.iter().map(|word| word.as_bytes().to_vec()).collect(),
        state: "S".to_owned(),
        threads: 1,
        resident: 1 << 20,
        cpu: wire(0, 40),
        age: wire(192, 0),
        ..Process::default()
    }
}

pub fn processes() -> Vec<Process> {
    vec![
        process(1, 0, "", &["/sbin/init"]),
        Process { kernel: true, state: "I".to_owned(), resident: 0, ..process(2, 0, "", &[]) },
        process(40, 1, "", &["kelson-logd"]),
        Process {
            uid: 33,
            threads: 4,
            resident: 5 << 20,
            ..process(90, 1, "web", &["nginx", "-g", "daemon off;"])
        },
        Process {
            uid: 33,
            state: "R".to_owned(),
            cpu: wire(75, 0),
            ..process(91, 90, "web", &["nginx:", "worker"])
        },
        process(92, 90, "web", &["nginx:", "cache"]),
        Process { descriptors: Some(12), ..process(95, 1, "db", &["/bin/db"]) },
        process(200, 1, "", &["/bin/sh"]),
    ]
}

pub fn sockets() -> Vec<Socket> {
    let holder = |pid, name: &str, service: &str| SocketHolder {
        pid,
        name: name.to_owned(),
        service: service.to_owned(),
    };
    let socket = |protocol: &str, local: &str, state: &str, holders| Socket {
        protocol: protocol.to_owned(),
        local: local.to_owned(),
        state: state.to_owned(),
        holders,
        ..Socket::default()
    };
    vec![
        socket("tcp", "0.0.0.0:22", "LISTEN", vec![]),
        socket("tcp", "0.0.0.0:80", "LISTEN", vec![holder(90, "nginx", "web"), holder(91, "nginx", "web")]),
        Socket {
            remote: "192.0.2.9:1234".to_owned(),
            uid: 33,
            receive_queue: 7,
            inode: 44,
            ..socket("tcp", "10.0.2.15:80", "ESTABLISHED", vec![holder(91, "nginx", "web")])
        },
        socket(
            "unix",
            "/run/db.sock\x1b",
            "LISTEN",
            vec![holder(95, "db", "db"), holder(90, "nginx", "web")],
        ),
    ]
}

#[test]
fn an_old_host_is_told_of() {
    let fake = Fake::start(seen(Seen { unknown: true, ..Seen::default() }));
    for words in ALL.split(", ") {
        let done = fake.run(words).refused(1);
        assert_eq!(
            done.err,
            "kelsonctl: the host does not know this command; `kelsonctl version` tells how old its Kelson is\n",
            "{words}"
        );
    }
}

#[test]
fn a_look_is_taken_again_and_again() {
    let fake = Fake::start(seen(all()));
    let looks = [
        ("processes", "processes"),
        ("netstat", "sockets"),
        ("memory", "memory"),
        ("cgroups", "cgroups"),
        ("mounts", "mounts"),
    ];
    for (words, asked) in looks.into_iter().chain([("cpu --interval=100ms", "cpu")]) {
        let mut following = Following::new(&fake, &format!("{words} --watch=100ms"));
        fake.until_asked(asked, 3);
        assert!(!following.line().is_empty(), "{words}");
        following.child.kill().unwrap();
        following.child.wait().unwrap();
        fake.change(|state| state.asked.clear());
    }
}
