//! The machine itself: mounts, memory, processors, disks, facts, cgroups, the clock.

use kelson_proto::v1::{
    Advertised, AdvertisedName, Cgroup, CgroupsResponse, ClockResponse, CpuResponse, CpuTimes, Disk, Fact,
    LeasedItem, Link, LinkAddress, LinkRoute, MemoryResponse, Mount, NetworkLease, NetworkLease6, Pressure,
};
use prost_types::Timestamp;

use crate::fake::{Fake, Seen};
use crate::looking::{processes, seen, sockets, wire};
use crate::nodes::Fleet;

fn mounts() -> Vec<Mount> {
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

fn memory() -> MemoryResponse {
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

fn cpu() -> Vec<CpuResponse> {
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

fn disks() -> Vec<Disk> {
    let disk = |name: &str, parent: &str, size| Disk {
        name: name.to_owned(),
        parent: parent.to_owned(),
        size,
        ..Disk::default()
    };
    vec![
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
    ]
}

fn cgroups() -> CgroupsResponse {
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
    CgroupsResponse { root: "/kelson".to_owned(), cgroups }
}

fn links() -> Vec<Link> {
    let address = |address: &str, origin: &str, valid| LinkAddress {
        address: address.to_owned(),
        origin: origin.to_owned(),
        valid,
        tentative: false,
    };
    let route = |destination: &str, gateway: &str, origin: &str| LinkRoute {
        destination: destination.to_owned(),
        gateway: gateway.to_owned(),
        metric: 1026,
        origin: origin.to_owned(),
    };
    let lease = NetworkLease {
        address: "10.0.2.15/24".to_owned(),
        server: "10.0.2.2".to_owned(),
        renew: wire(43_190, 0),
        rebind: wire(75_590, 0),
        end: wire(86_390, 0),
        routes: vec![LinkRoute { metric: 0, ..route("default", "10.0.2.2", "") }],
        name_servers: vec!["10.0.2.3".to_owned()],
        hardware: "52:54:00:12:34:56".to_owned(),
        ..NetworkLease::default()
    };
    let item = |address: &str| LeasedItem {
        address: address.to_owned(),
        preferred: wire(43_190, 0),
        end: wire(86_390, 0),
    };
    let lease6 = NetworkLease6 {
        server: "fe80::2".to_owned(),
        renew: wire(21_590, 0),
        rebind: wire(34_550, 0),
        addresses: vec![item("2001:db8::7/128")],
        prefixes: vec![item("2001:db8:100::/56")],
        name_servers: vec!["2001:db8::53".to_owned()],
        ..NetworkLease6::default()
    };
    vec![
        Link {
            index: 1,
            name: "lo".to_owned(),
            up: true,
            running: true,
            mtu: 65_536,
            addresses: vec![address("127.0.0.1/8", "static", None)],
            ..Link::default()
        },
        Link {
            index: 2,
            name: "eth0".to_owned(),
            hardware: lease.hardware.clone(),
            up: true,
            running: true,
            mtu: 1500,
            addresses: vec![
                address("10.0.2.15/24", "dhcp", wire(86_392, 0)),
                address("2001:db8::7/128", "dhcp", wire(86_392, 0)),
                address("fe80::5054:ff:fe12:3456/64", "link-local", None),
            ],
            routes: vec![route("default", "10.0.2.2", "dhcp"), route("10.0.2.0/24", "", "kernel")],
            lease: Some(lease),
            lease6: Some(lease6),
            advertised: Some(Advertised {
                name_servers: vec![AdvertisedName { name: "fe80::1%eth0".to_owned(), end: wire(600, 0) }],
                search: Vec::new(),
            }),
        },
        Link { index: 3, name: "eth1".to_owned(), up: true, mtu: 1500, ..Link::default() },
        Link {
            index: 4,
            name: "lan0".to_owned(),
            up: true,
            running: true,
            mtu: 1500,
            addresses: vec![address("2001:db8:100::1/64", "delegated", wire(86_392, 0))],
            ..Link::default()
        },
    ]
}

fn facts() -> Vec<Fact> {
    let fact = |name: &str, value: &str, source: &str| Fact {
        name: name.to_owned(),
        value: value.to_owned(),
        source: source.to_owned(),
    };
    vec![
        fact("cpu.cores", "4", "/sys/devices/system/cpu/cpu*/topology/core_id"),
        fact("virtualization", "kvm", "CPUID"),
        fact("platform", "aws", "/sys/class/dmi/id/sys_vendor, http://169.254.169.254"),
    ]
}

fn clock() -> ClockResponse {
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

/// All that is to be seen of a machine.
pub fn all() -> Seen {
    Seen {
        processes: processes(),
        sockets: sockets(),
        links: links(),
        mounts: mounts(),
        memory: memory(),
        // For two calls.
        cpu: [cpu(), cpu()].concat(),
        disks: disks(),
        facts: facts(),
        cgroups: cgroups(),
        clock: clock(),
        ..Seen::default()
    }
}

#[test]
fn the_machine_in_tables_and_in_json() {
    Fake::start(seen(all())).transcript("machine");
}

#[test]
fn a_machine_without_swap_and_pressure() {
    let memory = MemoryResponse { swap_total: 0, pressure: None, ..memory() };
    Fake::start(seen(Seen { memory, ..Seen::default() })).transcript("memory");
}

#[test]
fn hosts_are_compared() {
    Fleet::new(vec![("a", seen(all())), ("b", seen(all()))]).transcript("machines");
}
