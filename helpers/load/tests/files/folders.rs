//! Mistakes beyond a single service file: what lies in the folder, files that specs name, the machine file.
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use kelson_load::Mode;
use kelson_spec::machine::Format;

use crate::folder::Folder;

/// A sound beginning of four lines, so that what a case adds starts in line 5.
const SOUND: &str = "name: web\ndescription: sound\nprocess:\n  command: [/bin/web]\n";

fn host() -> Folder {
    let folder = Folder::new();
    folder.root_file("etc/passwd", "root:x:0:0::/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/sh\n");
    folder.root_file("etc/group", "adm:x:4:\n");
    folder
}

#[test]
fn bytes_that_are_no_text_and_files_without_end_are_refused() {
    let folder = host();
    folder.service("latin", b"name: latin\n# gr\xc3\xbc\xdfe\n");
    folder.service("big", vec![b'#'; (1 << 20) + 1]);
    folder.service("fits", {
        let mut content = b"name: fits\nprocess: {command: [a]}\n#".to_vec();
        content.resize(1 << 20, b'#');
        content
    });
    assert_eq!(
        folder.messages(),
        [
            "services/big.yaml: the file is larger than 1048576 bytes, which is more than is read",
            "services/latin.yaml:2:6: the byte 0xdf here is not UTF-8; save the file as UTF-8",
        ]
    );
    assert_eq!(folder.load().services.len(), 1);
}

#[test]
fn whatever_lies_in_the_folder_is_borne() {
    let folder = host();
    folder
        .service("good", "name: good\nprocess: {command: [a]}\ndepends: [{service: pipe}, {service: old}]\n");
    let services = folder.services();
    let pipe = std::ffi::CString::new(services.join("pipe.yaml").as_os_str().as_bytes()).unwrap();
    // SAFETY: the path is a C string that lives during the call.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    // Told by what it is, so it was looked at and not opened: to open a device can do things.
    let _socket = std::os::unix::net::UnixListener::bind(services.join("socket.yaml")).unwrap();
    std::fs::create_dir(services.join("dir.yaml")).unwrap();
    std::fs::create_dir(services.join("dir")).unwrap();
    symlink("/dev/null", services.join("device.yaml")).unwrap();
    symlink("nowhere", services.join("dangling.yaml")).unwrap();
    std::fs::write(services.join("elsewhere"), "name: linked\nprocess: {command: [a]}\n").unwrap();
    symlink("elsewhere", services.join("linked.yaml")).unwrap();
    std::fs::write(services.join("README.md"), "ignored").unwrap();
    std::fs::write(services.join(".#good.yaml"), "ignored").unwrap();
    std::fs::write(services.join("old.yml"), "").unwrap();
    std::fs::write(services.join("good.yml"), "").unwrap();
    std::fs::write(services.join("Bad Name.yaml"), "name: Bad Name\nprocess: {command: [a]}\n").unwrap();
    std::fs::write(services.join("logd.yaml"), "name: logd\nprocess: {command: [a]}\n").unwrap();
    std::fs::write(folder.config().join("machine.yml"), "").unwrap();
    assert_eq!(
        folder.messages(),
        [
            "machine.yml: this file is not read; rename it to machine.yaml",
            "services/Bad Name.yaml:1:7: name: \"Bad Name\" is not a name; use small letters, digits and -, no - first, at most 63",
            "services/dangling.yaml: the file cannot be read: No such file or directory",
            "services/device.yaml: this is a device; a regular file is needed",
            "services/dir.yaml: this is a directory; a regular file is needed",
            "services/good.yml: this file is not read; rename it to good.yaml",
            "services/logd.yaml:1:7: name: logd is the name of a part of Kelson; choose another",
            "services/old.yml: this file is not read; rename it to old.yaml",
            "services/pipe.yaml: this is a FIFO; a regular file is needed",
            "services/socket.yaml: this is a socket; a regular file is needed",
        ]
    );
    let loaded = folder.load();
    let names: Vec<&str> = loaded.services.iter().map(|spec| spec.name.as_str()).collect();
    // A name in the way of a built-in makes the built-in no faulty service.
    assert_eq!(
        (names, loaded.faulty()),
        (vec!["good", "linked"], vec!["dangling", "device", "dir", "old", "pipe", "socket"])
    );
}

#[test]
fn an_environment_file_is_pointed_into() {
    let folder = host();
    folder.root_file("etc/web.env", "GOOD=1\nnothing\n  9=x\n");
    folder.root_file("etc/bad.env", b"A=\xff\n");
    folder.service("web", format!("{SOUND}environmentFiles: [/etc/web.env, /etc/bad.env]\n"));
    assert_eq!(
        folder.messages(),
        [
            "/etc/bad.env:1:3: the byte 0xff here is not UTF-8; save the file as UTF-8",
            "/etc/web.env:2:1: there is no = in this line; write KEY=VALUE, or # before a comment",
            "/etc/web.env:3:3: \"9\" is not a name for the environment; use letters, digits and _, no digit first",
        ]
    );
    assert_eq!(folder.load().faulty(), ["web"]);
}

#[test]
fn a_mistake_in_the_machine_file_leaves_the_rest_of_it() {
    let folder = host();
    folder.machine(
        r#"hostname: -edge
modules: [overlay, "a b"]
sysctl: {ip_forward: 1, vm.swappiness: 10, vm.a: }
network:
  - {interface: "*", vlan: {id: 4095, on: "eth*"}}
  - {mac: 52-54-00-12-34-56}
  - {interface: eth0, dhcp: true, gateway: 10.0.2.2}
  - {interface: eth0, address: 10.0.2.15/24, addresses: [], dhcp: yes}
  - {interface: eth0, address: 10.0.2.15}
  - {interface: eth0, address: 10.0.2.15/33}
  - {interface: eth0, address: 10.0.2.15/24, gateway: 10.0.3.2}
  - {interface: a/b, address: 10.0.2.15/24, dns: [x]}
  - {address: 10.0.2.15/24}
  - {interface: a0, dummy: {}, bridge: {}, driver: x}
  - {interface: "e*", bond: {mode: fast}}
  - {interface: eth0, mtu: 20, routes: [{to: 10.1.2.3/8}, {to: default, via: "fe80::1"}, {to: 10.0.0.0/8, via: "fe80::1"}, {via: 10.0.0.1}]}
  - {interface: eth0, gateway: 10.0.0.1, rules: [{table: 5}, {from: 10.0.0.0/8, to: "fd00::/8", table: 5}, {from: 10.0.0.0/8}]}
mounts: [{source: LABEL=STATE, target: var}, {source: LABEL=, target: /a, type: ext4}, {source: LABLE=a, target: /b, type: ext4}]
api: {listen: [localhost:50000], ca: /a, certificate: /b}
builtins: {containers: {}, containerd: {limit: {}, enabled: maybe, user: root}, probe: {logs: {}}}
shutdown: {timeout: 0s}
images: [images, /good]
time: {servers: [a b, "ntp:0", "192.0.2.1:123", ntp..x]}
devices: {rules: [{mode: 640}, {subsystem: "a b", mode: 9}, {subsystem: x, link: ../x, group: nobodys, attributes: {../a: b}}]}
hostnmae: x
console: disk
kexec: {initramfs: boot}
sources: {from: [disc], wait: 1, server: localhost:80}
registries: {mirrors: {a/b: [x], docker.io: []}, proxy: "https://proxy:1", insecure: ["http://x"], maxSize: 1, secret: a/b, user: ann}
containerNetwork: {bridge: kelson-1, subnet: 10.88.0.0/30, subnet6: 10.88.0.0/16, dns: true}
"#,
    );
    assert_eq!(
        folder.messages(),
        [
            "machine.yaml:1:11: hostname: \"-edge\" is not a host name; use letters, digits, - and ., at most 64",
            "machine.yaml:2:20: modules[1]: \"a b\" is not the name of a kernel module; write such as virtio_net",
            "machine.yaml:3:10: sysctl: \"ip_forward\" is not a key such as net.ipv4.ip_forward",
            "machine.yaml:3:44: sysctl.vm.a: this key has no value; give it one or remove it",
            "machine.yaml:5:22: network[0].vlan: an interface that Kelson makes needs a name; write interface: NAME",
            "machine.yaml:5:33: network[0].vlan.id: 4095 is out of range; write a number from 1 to 4094",
            "machine.yaml:5:43: network[0].vlan.on: \"eth*\" is not the name of an interface, such as eth0",
            "machine.yaml:6:11: network[1].mac: \"52-54-00-12-34-56\" is not an address such as 52:54:00:12:34:56",
            "machine.yaml:7:44: network[2].gateway: gateway belongs to address; DHCP brings its own",
            "machine.yaml:8:46: network[3]: address and addresses exclude each other; keep one",
            "machine.yaml:8:67: network[3].dhcp: \"yes\" is not true; write true, or {probe: false}",
            "machine.yaml:9:32: network[4].address: \"10.0.2.15\" is not an address with its prefix; write such as 10.0.2.15/24",
            "machine.yaml:10:32: network[5].address: \"10.0.2.15/33\" is not an address with its prefix; write such as 10.0.2.15/24",
            "machine.yaml:11:55: network[6].gateway: 10.0.3.2 is not within the network of address",
            "machine.yaml:12:17: network[7].interface: \"a/b\" is not the name of an interface, such as eth0",
            "machine.yaml:12:51: network[7].dns[0]: \"x\" is not an IP address",
            "machine.yaml:13:5: network[8]: one of the keys interface, mac, driver is missing",
            "machine.yaml:14:32: network[9]: bridge and dummy exclude each other; keep one",
            "machine.yaml:14:44: network[9]: interface and driver exclude each other; keep one",
            "machine.yaml:15:23: network[10].bond: an interface that Kelson makes needs a name; write interface: NAME",
            "machine.yaml:15:29: network[10].bond.members: this key is missing; write members: [eth1, eth2]",
            "machine.yaml:15:36: network[10].bond.mode: \"fast\" is not one of balance-rr, active-backup, balance-xor, broadcast, 802.3ad, balance-tlb, balance-alb",
            "machine.yaml:16:28: network[11].mtu: 20 is out of range; write a number from 68 to 65536",
            "machine.yaml:16:46: network[11].routes[0].to: 10.1.2.3/8 is not a whole network; write 10.0.0.0/8",
            "machine.yaml:16:112: network[11].routes[2].via: fe80::1 is of another family than 10.0.0.0/8",
            "machine.yaml:16:124: network[11].routes[3].to: this key is missing; write to: 198.51.100.0/24",
            "machine.yaml:17:32: network[12].gateway: gateway belongs to address; write one such as 192.0.2.7/24",
            "machine.yaml:17:85: network[12].rules[1].to: fd00::/8 is of another family than 10.0.0.0/8",
            "machine.yaml:17:108: network[12].rules[2].table: this key is missing; write table: 1000",
            "machine.yaml:18:10: mounts[0].type: this key is missing; write type: ext4",
            "machine.yaml:18:40: mounts[0].target: \"var\" is not a path from the root; write it with / first",
            "machine.yaml:18:55: mounts[1].source: there is nothing after LABEL=; write a name",
            "machine.yaml:18:97: mounts[2].source: \"LABLE=a\" is no name of a disk; did you mean LABEL=?",
            "machine.yaml:19:6: api.key: this key is missing; write key: PATH",
            "machine.yaml:19:16: api.listen[0]: \"localhost:50000\" is not ADDRESS:PORT; write such as 0.0.0.0:50000 or [::]:50000",
            "machine.yaml:20:12: builtins.containers: this is not one of the built-in services apid, console, containerd, devices, devlog, fleet, logd, net, probe, timers, timesync, volumes; did you mean containerd?",
            "machine.yaml:20:41: builtins.containerd.limit: this key is not known; did you mean limits? Allowed here: enabled, environment, environmentFiles, depends, restart, required, startTimeout, health, hooks, stop, resources, limits, logs",
            "machine.yaml:20:61: builtins.containerd.enabled: \"maybe\" is not true or false",
            "machine.yaml:20:68: builtins.containerd.user: this is settled for containerd and cannot be changed; allowed here: enabled, environment, environmentFiles, depends, restart, required, startTimeout, health, hooks, stop, resources, limits, logs",
            "machine.yaml:20:89: builtins.probe.logs: probe is there as long as a service has tcp, http, grpc or csi checks and cannot be changed in this; allowed here: resources",
            "machine.yaml:21:21: shutdown.timeout: 0s is out of range; write a duration from 1s to 365d",
            "machine.yaml:22:10: images[0]: \"images\" is not a path from the root; write it with / first",
            "machine.yaml:23:18: time.servers[0]: \"a b\" is not a server; write such as ntp.example.com, 192.0.2.1 or 192.0.2.1:123",
            "machine.yaml:23:23: time.servers[1]: \"ntp:0\" is not a server; write such as ntp.example.com, 192.0.2.1 or 192.0.2.1:123",
            "machine.yaml:23:49: time.servers[3]: \"ntp..x\" is not a server; write such as ntp.example.com, 192.0.2.1 or 192.0.2.1:123",
            "machine.yaml:24:19: devices.rules[0].subsystem: this key is missing; write subsystem: tty",
            "machine.yaml:24:44: devices.rules[1].subsystem: a pattern has no space; write ? for one",
            "machine.yaml:24:57: devices.rules[1].mode: \"9\" is not a mode; write such as \"0660\"",
            "machine.yaml:24:82: devices.rules[2].link: \"../x\" is not a name below /dev; write such as serial/gps",
            "machine.yaml:24:95: devices.rules[2].group: group \"nobodys\" is not in /etc/group",
            "machine.yaml:24:117: devices.rules[2].attributes: \"../a\" is not the name of an attribute, such as idVendor",
            "machine.yaml:25:1: hostnmae: this key is not known; did you mean hostname?",
            "machine.yaml:26:10: console: \"disk\" is not one of dashboard, shell",
            "machine.yaml:27:8: kexec.kernel: this key is missing; write kernel: PATH",
            "machine.yaml:27:20: kexec.initramfs: \"boot\" is not a path from the root; write it with / first",
            "machine.yaml:28:18: sources.from[0]: \"disc\" is not one of disk, credentials, noCloud, metadata, commandLine; did you mean disk?",
            "machine.yaml:28:31: sources.wait: \"1\" is not a duration; write a number with a unit, such as 5s, 500ms or 1m30s",
            "machine.yaml:28:42: sources.server: \"localhost:80\" is not ADDRESS:PORT; write such as 169.254.169.254:80",
            "machine.yaml:29:24: registries.mirrors: \"a/b\" is not a registry; write HOST or HOST:PORT, such as registry.example:5000",
            "machine.yaml:29:45: registries.mirrors.docker.io: this list is empty; name a mirror, or remove the registry",
            "machine.yaml:29:57: registries.proxy: \"https://proxy:1\" is not a proxy; write such as http://proxy.example:3128",
            "machine.yaml:29:87: registries.insecure[0]: \"http://x\" is not a registry; write HOST or HOST:PORT, such as registry.example:5000",
            "machine.yaml:29:109: registries.maxSize: 1 is out of range; write at least 1Mi",
            "machine.yaml:29:120: registries.secret: \"a/b\" is not the name of a secret; use letters, digits, _, . and -, at most 64, not . or - first",
            "machine.yaml:29:125: registries.user: this key is not known; allowed here: mirrors, ca, proxy, insecure, maxSize, credentials, secret",
            "machine.yaml:30:28: containerNetwork.bridge: \"kelson-1\" is no name for the bridge; use letters, digits, ., _ and -, and do not begin with kelson-",
            "machine.yaml:30:46: containerNetwork.subnet: \"10.88.0.0/30\" is no network for containers; write such as 10.88.0.0/16, with a prefix from /8 to /29",
            "machine.yaml:30:69: containerNetwork.subnet6: \"10.88.0.0/16\" is no network for containers; write such as fd00:88::/64, with a prefix from /8 to /104",
            "machine.yaml:30:83: containerNetwork.dns: this key is not known; allowed here: bridge, subnet, subnet6",
        ]
    );
    let loaded = folder.load();
    let machine = &loaded.machine;
    assert_eq!(loaded.faulty(), Vec::<&str>::new());
    assert_eq!(
        (machine.hostname.as_deref(), machine.modules.as_slice()),
        (None, ["overlay".to_owned()].as_slice())
    );
    assert_eq!(machine.sysctl, [("vm.swappiness".to_owned(), "10".to_owned())]);
    assert_eq!(machine.network.len(), 9, "an address is kept where only the gateway is wrong");
    assert_eq!((machine.mounts.len(), machine.api.is_none()), (0, true));
    assert_eq!(machine.builtins.len(), 2);
    assert_eq!((machine.shutdown_timeout.as_secs(), machine.images.len()), (60, 1));
}

#[test]
fn the_main_service_is_one_that_has_a_file() {
    let main = |name: &str| {
        let folder = host();
        folder.service("web", SOUND);
        folder.service("faulty", "colour: red");
        folder.machine(&format!("# the service\nmain: {name}\n"));
        let told = folder.messages().into_iter().filter(|text| text.starts_with("machine.yaml"));
        (folder.load().machine.main, told.collect::<Vec<String>>())
    };
    assert_eq!(main("web"), (Some("web".to_owned()), vec![]));
    // Its own mistakes are reported, and end the run.
    assert_eq!(main("faulty"), (Some("faulty".to_owned()), vec![]));
    let refused = |text: &str| (None, vec![format!("machine.yaml:2:7: main: {text}")]);
    assert_eq!(main("wbe"), refused("there is no service \"wbe\"; did you mean web?"));
    assert_eq!(main("zzzzzz"), refused("there is no service \"zzzzzz\"; name a service that has a file"));
    assert_eq!(main("logd"), refused("\"logd\" is a built-in service; name a service that has a file"));
}

#[test]
fn the_total_deadline_is_shorter_in_a_container() {
    let timeout = |machine: Option<&str>, mode| {
        let folder = host();
        if let Some(machine) = machine {
            folder.machine(machine);
        }
        folder.load_for(mode).machine.shutdown_timeout.as_secs()
    };
    for machine in
        [None, Some("hostname: a"), Some("shutdown: {}"), Some("shutdown: {timeout: soon}"), Some("[")]
    {
        assert_eq!(
            (timeout(machine, Mode::Machine), timeout(machine, Mode::Container)),
            (60, 8),
            "{machine:?}"
        );
    }
    assert_eq!(timeout(Some("shutdown: {timeout: 1m}"), Mode::Container), 60);
}

#[test]
fn a_folder_that_is_not_there_is_said() {
    let folder = Folder::new();
    let missing = folder.config().join("missing");
    let loaded = kelson_load::load(&missing);
    let text: Vec<String> = loaded.diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(
        text,
        [format!("{}: the folder cannot be read: No such file or directory", missing.display())]
    );
    std::fs::remove_dir(folder.services()).unwrap();
    assert_eq!(folder.messages(), Vec::<String>::new());
}

#[test]
fn what_cannot_grow_is_said() {
    let folder = host();
    folder.machine(
        "mounts:
  - {source: tmpfs, target: /a, type: ext4, grow: true}
  - {source: LABEL=B, target: /b, type: vfat, grow: true}
  - {source: LABEL=C, target: /c, type: xfs, grow: true}
",
    );
    let mistake = |place| format!("{place}.grow: only an ext4 or xfs on a disk grows; leave grow out");
    assert_eq!(
        folder.messages(),
        [mistake("machine.yaml:2:45: mounts[0]"), mistake("machine.yaml:3:47: mounts[1]")]
    );
    let growing: Vec<bool> = folder.load().machine.mounts.iter().map(|mount| mount.grow).collect();
    assert_eq!(growing, [false, false, true]);
}

#[test]
fn an_encrypted_disk_that_cannot_be_made_is_said() {
    let folder = host();
    folder.machine(
        "encryption:
  - {name: a, source: UUID=a, keyFile: /k, recoveryFile: /r, format: ifBlank}
  - {name: b, source: SERIAL=B, recoveryFile: /r, format: ifBlank}
  - {name: c, source: SERIAL=C, keyFile: /k, format: ifBlank}
  - {name: d, source: /srv/file}
",
    );
    assert_eq!(
        folder.messages(),
        [
            "machine.yaml:2:62: encryption[0].format: a blank disk has no UUID; name it in source by SERIAL=, ID=, PARTLABEL=, PARTUUID= or its path",
            "machine.yaml:3:51: encryption[1].format: a disk that is to be encrypted needs keyFile; write such as keyFile: /etc/kelson/b.key",
            "machine.yaml:4:46: encryption[2].format: a disk that is to be encrypted needs recoveryFile; write such as recoveryFile: /etc/kelson/c.recovery",
            "machine.yaml:5:23: encryption[3].source: \"/srv/file\" is no name of a disk; write such as SERIAL=WD-123",
        ]
    );
    assert!(folder.load().machine.encryption.iter().all(|disk| disk.format == Format::Never));
    folder.machine("encryption: [{name: a, source: SERIAL=A}, {name: a, source: SERIAL=B}]\n");
    assert_eq!(
        folder.messages(),
        ["machine.yaml:1:13: encryption: two disks have the name a; give each another one"]
    );
}

#[test]
fn a_disk_of_whose_partitions_one_is_wrong_is_left_alone() {
    let folder = host();
    folder.machine(
        "partitions:
  - {disk: PARTLABEL=a, create: [{label: A}]}
  - {disk: SERIAL=b, create: []}
  - {disk: SERIAL=c, create: [{label: ' A'}, {label: abcdefghijklmnopqrstuvwxyz-abcdefghijk}, {label: é}]}
  - {disk: SERIAL=d, create: [{label: A, size: 1000}, {label: B, type: fat}, {size: 1Mi}]}
  - {disk: SERIAL=e, create: [{label: A}, {label: B}]}
  - {disk: SERIAL=f, create: [{label: F, size: 1Gi}, {label: G, type: swap}]}
",
    );
    assert_eq!(
        folder.messages(),
        [
            "machine.yaml:2:12: partitions[0].disk: PARTLABEL is the name of a part of a disk; name the disk by SERIAL=, ID= or its path",
            "machine.yaml:3:30: partitions[1].create: no partition is named; write such as [{label: DATA}], or leave the disk out",
            "machine.yaml:4:39: partitions[2].create[0].label: \" A\" is no label of a partition; write at most 36 characters of ASCII",
            "machine.yaml:4:54: partitions[2].create[1].label: \"abcdefghijklmnopqrstuvwxyz-abcdefghijk\" is no label of a partition; write at most 36 characters of ASCII",
            "machine.yaml:4:103: partitions[2].create[2].label: \"é\" is no label of a partition; write at most 36 characters of ASCII",
            "machine.yaml:5:48: partitions[3].create[0].size: 1000 is out of range; write at least 1Mi",
            "machine.yaml:5:72: partitions[3].create[1].type: \"fat\" is not one of linux, swap, esp, luks, lvm, raid, and no GUID",
            "machine.yaml:5:78: partitions[3].create[2].label: this key is missing; write label: DATA",
            "machine.yaml:6:30: partitions[4].create: only the last partition may be without size, because it takes what the others leave; give \"A\" one",
        ]
    );
    let disks = folder.load().machine.partitions;
    assert_eq!(disks.iter().map(|disk| disk.disk.as_str()).collect::<Vec<_>>(), ["SERIAL=f"]);
    for (lists, message) in [
        (["A", "A"], "two partitions have the label \"A\"; give each another one"),
        (["A", "B"], "the disk \"SERIAL=a\" is there twice; put its partitions into one list"),
    ] {
        let disks = lists.map(|label| format!("{{disk: SERIAL=a, create: [{{label: {label}}}]}}"));
        folder.machine(&format!("partitions: [{}]\n", disks.join(", ")));
        assert_eq!(folder.messages(), [format!("machine.yaml:1:13: partitions: {message}")]);
        assert!(folder.load().machine.partitions.is_empty());
    }
}

#[test]
fn a_disk_that_cannot_be_blank_is_never_formatted() {
    let folder = host();
    folder.machine(
        "mounts:
  - {source: LABEL=A, target: /a, type: ext4, format: ifBlank}
  - {source: SERIAL=B, target: /b, type: btrfs, format: ifBlank}
  - {source: tmpfs, target: /c, type: tmpfs, format: ifBlank}
  - {source: SERIAL=D, target: /d, type: ext4, format: always}
swap:
  - {source: UUID=a, format: ifBlank}
  - {source: /swapfile, algorithm: zstd}
  - {zram: 0}
  - {zram: 50, wait: 1s, algorithm: \"a b\"}
  - {zram: 50, source: /dev/vdb}
",
    );
    assert_eq!(
        folder.messages(),
        [
            "machine.yaml:2:47: mounts[0].format: a blank disk has no LABEL; name it in source by SERIAL=, ID=, PARTLABEL=, PARTUUID= or its path",
            "machine.yaml:3:49: mounts[1].format: Kelson makes no \"btrfs\"; write a type of ext4, xfs, vfat",
            "machine.yaml:4:46: mounts[2].format: source is no disk; leave format out",
            "machine.yaml:5:56: mounts[3].format: \"always\" is not ifBlank",
            "machine.yaml:7:22: swap[0].format: a blank disk has no UUID; name it in source by SERIAL=, ID=, PARTLABEL=, PARTUUID= or its path",
            "machine.yaml:8:25: swap[1].algorithm: algorithm belongs to zram, not to source",
            "machine.yaml:9:12: swap[2].zram: 0 is out of range; write a number from 1 to 300",
            "machine.yaml:10:16: swap[3].wait: wait belongs to source, not to zram",
            "machine.yaml:10:37: swap[3].algorithm: this is not the name of an algorithm; write such as zstd or lzo-rle",
            "machine.yaml:11:16: swap[4]: source and zram exclude each other; keep one",
        ]
    );
    assert!(folder.load().machine.mounts.iter().all(|mount| mount.format == Format::Never));
}
