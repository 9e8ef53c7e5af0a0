//! The machine itself: mounts, memory, processors, disks, cgroups, the clock.

use kelson_proto::v1::{
    Cgroup, CgroupsResponse, ClockResponse, CpuResponse, CpuTimes, Disk, MemoryResponse, Mount, Pressure,
};
use prost_types::Timestamp;
use serde_json::json;

use crate::fake::{Fake, Seen};
use crate::looking::{seen, table, wire};
use crate::nodes::Fleet;

pub fn mounts() -> Vec<Mount> {
    let mount = |source: &str, target: &str, kind: &str| Mount {
        source: source.to_owned(),
        target: target.to_owned(),
        r#type: kind.to_owned(),
        options: vec!["rw".to_owned(), "noatime".to_owned()],
        root: "/".to_owned(),
        ..Mount::default()
    };
    vec![
        Mount {
            size: Some(10 << 30),
            used: Some(8 << 30),
            available: Some(1 << 30),
            inodes: Some(100),
            ..mount("/dev/vda1", "/", "ext4")
        },
        mount("proc", "/proc", "proc"),
        Mount {
            size: Some(1 << 20),
            used: Some(1),
            available: Some((1 << 20) - 1),
            root: "/srv".to_owned(),
            ..mount("/dev/vda1", "/srv\n", "ext4")
        },
        Mount { trouble: "does not answer".to_owned(), ..mount("nas:/x", "/mnt", "nfs") },
    ]
}

#[test]
fn mounts_and_how_full_they_are() {
    let fake = Fake::start(seen(Seen { mounts: mounts(), ..Seen::default() }));
    assert_eq!(
        table(&fake, "mounts"),
        "\
SOURCE           TARGET  TYPE      SIZE     USED   AVAILABLE  USE%  TROUBLE
/dev/vda1        /       ext4  10.0 GiB  8.0 GiB     1.0 GiB   89%
/dev/vda1[/srv]  /srv\\n  ext4   1.0 MiB      1 B  1024.0 KiB    1%
nas:/x           /mnt    nfs          -        -           -     -  does not answer
"
    );
    let all = table(&fake, "mounts --all --wide");
    assert!(
        all.starts_with(
            "SOURCE           TARGET  TYPE      SIZE     USED   AVAILABLE  USE%  OPTIONS     TROUBLE\n"
        ),
        "{all}"
    );
    assert!(
        all.contains("proc             /proc   proc         -        -           -     -  rw,noatime\n"),
        "{all}"
    );
    assert_eq!(
        fake.json("mounts")[0],
        json!({"source": "/dev/vda1", "target": "/", "type": "ext4", "root": "/", "options": ["rw", "noatime"],
            "size": 10_737_418_240u64, "used": 8_589_934_592u64, "available": 1_073_741_824, "inodes": 100, "inodesUsed": null, "trouble": null})
    );
    assert_eq!(fake.json("mounts")[2]["trouble"], "does not answer");
}

fn pressure() -> Option<Pressure> {
    Some(Pressure {
        some_10: 0.25,
        some_60: 0.051,
        some_300: 0.0,
        full_10: 0.1,
        full_60: 0.02,
        full_300: 0.0,
    })
}

pub fn memory() -> MemoryResponse {
    MemoryResponse {
        total: 4 << 30,
        available: 3 << 30,
        cached: 1 << 30,
        slab: 32 << 20,
        dirty: 4096,
        swap_total: 1 << 30,
        swap_free: 768 << 20,
        pressure: pressure(),
        ..MemoryResponse::default()
    }
}

#[test]
fn memory_in_a_few_lines() {
    let fake = Fake::start(seen(Seen { memory: memory(), ..Seen::default() }));
    assert_eq!(
        table(&fake, "memory"),
        "\
memory     4.0 GiB: 1.0 GiB used (25.0 %), 3.0 GiB available
cached     1.0 GiB, of which 4.0 KiB is to be written
kernel     32.0 MiB
swap       1.0 GiB: 256.0 MiB used (25.0 %)
pressure   some waited 25.0 %, 5.1 %, 0.0 % of the last 10 s, 60 s, 300 s; all 10.0 %, 2.0 %, 0.0 %
"
    );
    assert_eq!(
        fake.json("memory"),
        json!({"total": 4_294_967_296u64, "used": 1_073_741_824, "available": 3_221_225_472u64, "free": 0, "buffers": 0,
            "cached": 1_073_741_824, "shared": 0, "slab": 33_554_432, "slabReclaimable": 0, "dirty": 4096,
            "swapTotal": 1_073_741_824, "swapFree": 805_306_368, "committed": 0, "commitLimit": 0,
            "pressure": {"some10": 0.25, "some60": 0.051, "some300": 0.0, "full10": 0.1, "full60": 0.02, "full300": 0.0}})
    );
    let small = MemoryResponse { swap_total: 0, pressure: None, ..memory() };
    fake.change(|state| state.seen.memory = small);
    assert!(table(&fake, "memory").ends_with("kernel     32.0 MiB\nswap       none\n"));
    assert_eq!(fake.json("memory")["pressure"], json!(null));
}

pub fn cpu() -> Vec<CpuResponse> {
    let times = |number, user: i64, idle: i64| CpuTimes {
        number,
        user: wire(user, 0),
        idle: wire(idle, 0),
        ..CpuTimes::default()
    };
    let look = |second, all: CpuTimes, one, two| CpuResponse {
        time: Some(Timestamp { seconds: second, nanos: 0 }),
        all: Some(all),
        processors: vec![one, two],
        load_1: 0.5,
        load_5: 0.25,
        load_15: 1.0,
        model: "A Processor\x1b".to_owned(),
        pressure: pressure(),
        switches: u64::try_from(second).unwrap() * 100,
        ..CpuResponse::default()
    };
    let busy =
        CpuTimes { system: wire(1, 0), io_wait: wire(0, 500), steal: wire(0, 500), ..times(1, 12, 100) };
    vec![
        look(100, times(0, 20, 200), times(0, 10, 100), times(1, 10, 100)),
        look(
            104,
            CpuTimes { system: wire(1, 0), io_wait: wire(0, 500), steal: wire(0, 500), ..times(0, 22, 204) },
            times(0, 10, 104),
            busy,
        ),
    ]
}

#[test]
fn processors_between_two_looks() {
    let fake = Fake::start(seen(Seen { cpu: cpu(), ..Seen::default() }));
    assert_eq!(
        table(&fake, "cpu --interval 100ms"),
        "\
processors  2, A Processor\\x1b
load        0.50, 0.25, 1.00 (1, 5, 15 minutes)
pressure    some waited 25.0 %, 5.1 %, 0.0 % of the last 10 s, 60 s, 300 s; all 10.0 %, 2.0 %, 0.0 %

CPU    USER  SYSTEM  IOWAIT   STEAL     IDLE
all  25.0 %  12.5 %   6.2 %   6.2 %   50.0 %
0     0.0 %   0.0 %   0.0 %   0.0 %  100.0 %
1    50.0 %  25.0 %  12.5 %  12.5 %    0.0 %
"
    );
    fake.change(|state| state.seen.cpu = cpu());
    let told = fake.json("cpu --interval 100ms");
    assert_eq!(
        told["all"],
        json!({"processor": null, "user": 0.25, "nice": 0.0, "system": 0.125, "irq": 0.0, "softIrq": 0.0, "ioWait": 0.0625,
            "steal": 0.0625, "idle": 0.5})
    );
    assert_eq!(
        (
            &told["intervalMs"],
            &told["switchesPerSecond"],
            &told["load15"],
            &told["processors"][1]["processor"]
        ),
        (&json!(4000.0), &json!(100.0), &json!(1.0), &json!(1))
    );
    assert_eq!(fake.asked(), ["cpu"; 4]);
}

#[test]
fn disks_with_their_partitions() {
    let disk = |name: &str, parent: &str, size| Disk {
        name: name.to_owned(),
        parent: parent.to_owned(),
        size,
        ..Disk::default()
    };
    let disks = vec![
        Disk {
            model: "QEMU HARDDISK ".to_owned(),
            removable: true,
            read_bytes: 2 << 20,
            busy: wire(1, 0),
            ..disk("sda", "", 8 << 30)
        },
        Disk {
            targets: vec!["/".to_owned(), "/srv".to_owned()],
            r#type: "ext4".to_owned(),
            written_bytes: 512,
            ..disk("sda1", "sda", 7 << 30)
        },
        disk("sda2", "sda", 1 << 30),
        Disk { backing: "/images/x.img".to_owned(), read_only: true, ..disk("loop0", "", 1 << 20) },
    ];
    let fake = Fake::start(seen(Seen { disks, ..Seen::default() }));
    assert_eq!(
        table(&fake, "disks"),
        "\
NAME        SIZE  TYPE  MOUNTED AT     READ  WRITTEN  MODEL
sda      8.0 GiB                    2.0 MiB      0 B  QEMU HARDDISK, removable
├─ sda1  7.0 GiB  ext4  /, /srv         0 B    512 B
└─ sda2  1.0 GiB                        0 B      0 B
loop0    1.0 MiB                        0 B      0 B  /images/x.img, read-only
"
    );
    assert_eq!(
        fake.json("disks")[1],
        json!({"name": "sda1", "parent": "sda", "size": 7_516_192_768u64, "model": null, "serial": null, "readOnly": false,
            "removable": false, "rotational": false, "targets": ["/", "/srv"], "type": "ext4", "readBytes": 0, "writtenBytes": 512,
            "busyMs": 0.0, "backing": null})
    );
}

#[test]
fn cgroups_in_a_tree() {
    let cgroup = |path: &str, service: &str| Cgroup {
        path: path.to_owned(),
        service: service.to_owned(),
        processes: 2,
        ..Cgroup::default()
    };
    let cgroups = vec![
        Cgroup { cpu: wire(75, 0), ..cgroup("", "") },
        Cgroup {
            memory: Some(60 << 20),
            memory_max: Some(64 << 20),
            throttled: wire(0, 250),
            pids: Some(3),
            pids_max: Some(64),
            oom_kills: Some(1),
            frozen: true,
            cpu_max: Some(0.5),
            ..cgroup("web", "web")
        },
        cgroup("web/inner", "web"),
        cgroup("db", "db"),
    ];
    let fake = Fake::start(seen(Seen {
        cgroups: CgroupsResponse { root: "/kelson".to_owned(), cgroups },
        ..Seen::default()
    }));
    assert_eq!(
        table(&fake, "cgroups"),
        "\
CGROUP       PROCESSES    MEMORY       MAX       CPU  THROTTLED  PIDS  MAX  FROZEN  OOM KILLS
/kelson              2         -         -  75.000 s          -     -    -  no              -
├─ web               2  60.0 MiB  64.0 MiB         -     250 ms     3   64  yes             1
│  └─ inner          2         -         -         -          -     -    -  no              -
└─ db                2         -         -         -          -     -    -  no              -
"
    );
    let told = fake.json("cgroups");
    assert_eq!(told["root"], "/kelson");
    assert_eq!(
        told["cgroups"][1],
        json!({"path": "web", "service": "web", "processes": 2, "frozen": true, "cpuMs": null, "throttledMs": 250.0,
            "memoryBytes": 62_914_560, "memoryPeakBytes": null, "memoryMaxBytes": 67_108_864, "memoryHighBytes": null,
            "oomKills": 1, "pids": 3, "pidsMax": 64, "cpuMax": 0.5, "cpuWeight": null})
    );
}

pub fn clock() -> ClockResponse {
    ClockResponse {
        time: Some(Timestamp { seconds: 1_795_254_485, nanos: 0 }),
        uptime: wire(7500, 0),
        synchronized: true,
        max_error: wire(0, 16),
        hardware: Some(Timestamp { seconds: 1_795_254_486, nanos: 0 }),
        source: "tsc".to_owned(),
        ..ClockResponse::default()
    }
}

#[test]
fn the_clock() {
    let fake = Fake::start(seen(Seen { clock: clock(), ..Seen::default() }));
    assert_eq!(
        table(&fake, "time"),
        "\
clock          2026-11-21T09:48:05.000Z
synchronised   yes, to 16 ms at most
hardware       2026-11-21T09:48:06.000Z
uptime         2h5m
counts by      tsc
"
    );
    assert_eq!(
        fake.json("time"),
        json!({"time": "2026-11-21T09:48:05.000Z", "uptimeMs": 7_500_000.0, "synchronized": true, "maxErrorMs": 16.0,
            "estimatedErrorMs": null, "offsetMs": null, "hardware": "2026-11-21T09:48:06.000Z", "source": "tsc",
            "differenceMs": null, "uncertaintyMs": null})
    );
    assert_eq!(fake.asked(), ["clock"; 2], "a clock on the same host is read once");
}

#[test]
fn hosts_are_compared() {
    let host = || seen(Seen { clock: clock(), cpu: cpu(), memory: memory(), ..Seen::default() });
    let fleet = Fleet::new(vec![("a", host()), ("b", host())]);
    let shown = |words: &str| fleet.run(&format!("-n a,b {words}")).out;
    assert_eq!(
        shown("memory"),
        "\
NODE    TOTAL     USED  AVAILABLE   CACHED     SWAP  SWAP USED  PRESSURE
a     4.0 GiB  1.0 GiB    3.0 GiB  1.0 GiB  1.0 GiB  256.0 MiB    25.0 %
b     4.0 GiB  1.0 GiB    3.0 GiB  1.0 GiB  1.0 GiB  256.0 MiB    25.0 %
"
    );
    assert_eq!(
        shown("cpu --interval 100ms").lines().nth(2),
        Some("b     all  25.0 %  12.5 %   6.2 %  6.2 %  50.0 %")
    );
    assert_eq!(
        shown("time").lines().nth(1),
        Some("a     2026-11-21T09:48:05.000Z  yes, to 16 ms at most  2h5m    2026-11-21T09:48:06.000Z")
    );
}
