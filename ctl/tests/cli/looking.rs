//! Looks at the machine: processes and sockets, and what holds for every look.

use kelson_proto::v1::{Process, Socket, SocketHolder};
use prost_types::Duration;
use serde_json::json;

use crate::fake::{Fake, Seen, State};
use crate::nodes::Fleet;
use crate::streams::Following;
use crate::two;

/// Every look, with the words that it needs.
const ALL: &str = "processes, netstat, mounts, memory, cpu, disks, cgroups, time, ls /, read /x, cp /etc -";

pub fn seen(seen: Seen) -> State {
    State { seen, ..two() }
}

/// The table that it shows.
pub fn table(fake: &Fake, words: &str) -> String {
    fake.run(words).silent(0).out
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

#[test]
fn processes_stand_below_their_services() {
    let fake = Fake::start(seen(Seen { processes: processes(), ..Seen::default() }));
    assert_eq!(
        table(&fake, "processes"),
        "\
SERVICE / PID  STATE  USER  THREADS   MEMORY       CPU    AGE  COMMAND
db
└─ 95          S         0        1  1.0 MiB     40 ms  3m12s  /bin/db
web
└─ 90          S        33        4  5.0 MiB     40 ms  3m12s  nginx -g daemon off;
   ├─ 91       R        33        1  1.0 MiB  75.000 s  3m12s  nginx: worker
   └─ 92       S         0        1  1.0 MiB     40 ms  3m12s  nginx: cache
(Kelson)
└─ 1           S         0        1  1.0 MiB     40 ms  3m12s  /sbin/init
   └─ 40       S         0        1  1.0 MiB     40 ms  3m12s  kelson-logd
(no service)
└─ 200         S         0        1  1.0 MiB     40 ms  3m12s  /bin/sh
"
    );
    let kernel = table(&fake, "processes --kernel");
    assert!(
        kernel.ends_with(
            "(kernel)\n└─ 2           I         0        1      0 B     40 ms  3m12s  [kworker/0:0]\n"
        ),
        "{kernel}"
    );
    let named = table(&fake, "processes db --no-headers");
    assert_eq!(named, "db\n└─ 95  S  0  1  1.0 MiB  40 ms  3m12s  /bin/db\n");
}

#[test]
fn processes_in_a_list() {
    let fake = Fake::start(seen(Seen { processes: processes(), ..Seen::default() }));
    assert_eq!(
        table(&fake, "processes --sort memory web"),
        "\
PID  STATE  USER  THREADS   MEMORY       CPU    AGE  SERVICE  COMMAND
 90  S        33        4  5.0 MiB     40 ms  3m12s  web      nginx -g daemon off;
 91  R        33        1  1.0 MiB  75.000 s  3m12s  web      nginx: worker
 92  S         0        1  1.0 MiB     40 ms  3m12s  web      nginx: cache
"
    );
    let first =
        |words| table(&fake, words).lines().nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    assert_eq!(
        (first("processes --sort cpu"), first("processes --sort pid")),
        ("91".to_owned(), "1".to_owned())
    );
}

#[test]
fn processes_in_json() {
    let fake = Fake::start(seen(Seen { processes: processes(), ..Seen::default() }));
    assert_eq!(
        fake.json("processes db"),
        json!([{"pid": 95, "parent": 1, "service": "db", "name": "db", "command": ["/bin/db"], "state": "S", "uid": 0,
            "threads": 1, "memoryBytes": 1_048_576, "cpuMs": 40.0, "ageMs": 192_000.0, "descriptors": 12, "kernel": false}])
    );
    let all = fake.json("processes");
    assert_eq!(
        (all.as_array().unwrap().len(), &all[0]["service"]),
        (7, &json!(null)),
        "the kernel's are left out"
    );
}

#[test]
fn a_service_without_a_process_is_known_all_the_same() {
    let fake = Fake::start(seen(Seen::default()));
    for words in ["processes", "netstat"] {
        assert_eq!(fake.json(&format!("{words} web")), json!([]), "{words}");
        let wrong = fake.run(&format!("{words} wbe")).refused(1);
        assert_eq!(wrong.err, "kelsonctl: no service \"wbe\"; did you mean \"web\"?\n", "{words}");
    }
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
fn sockets_by_service() {
    let fake = Fake::start(seen(Seen { sockets: sockets(), ..Seen::default() }));
    assert_eq!(
        table(&fake, "netstat --connections"),
        "\
PROTOCOL  LOCAL             REMOTE          STATE        PROCESS                 SERVICE
unix      /run/db.sock\\x1b  -               LISTEN       db (95), nginx (90)     db, web
tcp       0.0.0.0:80        -               LISTEN       nginx (90), nginx (91)  web
tcp       10.0.2.15:80      192.0.2.9:1234  ESTABLISHED  nginx (91)              web
tcp       0.0.0.0:22        -               LISTEN       -                       -
"
    );
    assert_eq!(table(&fake, "netstat db").lines().count(), 2);
    assert_eq!(fake.asked(), ["sockets connections=true", "sockets connections=false"]);
    assert_eq!(
        fake.json("netstat web")[2],
        json!({"protocol": "tcp", "local": "10.0.2.15:80", "remote": "192.0.2.9:1234", "state": "ESTABLISHED", "uid": 33,
            "receiveQueue": 7, "sendQueue": 0, "inode": 44, "processes": [{"pid": 91, "name": "nginx", "service": "web"}]})
    );
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
fn several_hosts_are_looked_at_side_by_side() {
    let host = |pid| seen(Seen { processes: vec![process(pid, 1, "db", &["/bin/db"])], ..Seen::default() });
    let fleet = Fleet::new(vec![("edge-1", host(7)), ("lab", host(8))]);
    let done = fleet.run("-n edge-1,lab processes --sort pid");
    assert_eq!(
        done.out,
        "\
NODE    PID  STATE  USER  THREADS   MEMORY    CPU    AGE  SERVICE  COMMAND
edge-1    7  S         0        1  1.0 MiB  40 ms  3m12s  db       /bin/db
lab       8  S         0        1  1.0 MiB  40 ms  3m12s  db       /bin/db
"
    );
    let out = fleet.run("-n edge-1,lab -o json processes").out;
    assert_eq!(serde_json::from_str::<serde_json::Value>(&out).unwrap()[1]["node"], "lab");
}

#[test]
fn a_look_is_taken_again_and_again() {
    let fake = Fake::start(seen(Seen { processes: processes(), sockets: sockets(), ..Seen::default() }));
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
