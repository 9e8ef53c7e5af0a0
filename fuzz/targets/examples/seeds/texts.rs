//! Seeds that are texts: files of the configuration, of the kernel, of logs.

use super::Seeds;

const WHOLE: &str = include_str!("../../../../helpers/load/tests/whole.yaml");
const EXAMPLE: &str = include_str!("../../../../helpers/load/tests/example.yaml");
const MACHINE: &str = include_str!("../../../../hack/demo/config/machine.yaml");
const DEMO: [(&str, &str); 5] = [
    ("nginx", include_str!("../../../../hack/demo/config/services/nginx.yaml")),
    ("redis", include_str!("../../../../hack/demo/config/services/redis.yaml")),
    ("seed", include_str!("../../../../hack/demo/config/services/seed.yaml")),
    ("watch", include_str!("../../../../hack/demo/config/services/watch.yaml")),
    ("web", include_str!("../../../../hack/demo/config/services/web.yaml")),
];

const WHOLE_MACHINE: &str = "\
hostname: edge-1
modules: [overlay, virtio_net]
sysctl: {net.ipv4.ip_forward: \"1\"}
network: [{interface: eth0, address: 10.0.2.15/24, gateway: 10.0.2.2, dns: [10.0.2.3, \"fd00::3\"]}]
mounts: [{source: LABEL=STATE, target: /var, type: ext4, options: [noatime]}]
api: {listen: [\"0.0.0.0:50000\", \"[::]:50000\"], ca: /a.pem, certificate: /b.pem, key: /c.key}
builtins: {containerd: {enabled: true, resources: {memoryMax: 512Mi}, restart: {delay: 1s}}, logd: {logs: {maxFiles: 2}}}
health: {minimum: 10s, deadline: 5m}
shutdown: {timeout: 60s}
watchdog: {device: /dev/watchdog0, timeout: 30s}
images: [/usr/share/kelson/images, /more]
";

const KERNEL_FILES: &str = "\
=== proc/self/cgroup
0::/kelson/_inspect-0
=== proc/7/stat
7 (we) b) S 1 1 1 0 -1 4194560 1 2 3 4 150 50 0 0 20 0 3 0 200 9999 7 18446744073709551615
=== proc/7/cgroup
0::/kelson/web
=== proc/self/net/tcp
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000005:00000002 00:00000000 00000000  33 0 777 1 x
=== proc/self/net/unix
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 900 /run/a b.sock
=== proc/self/mountinfo
22 1 254:1 / /with\\040space rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro
=== proc/meminfo
MemTotal:        1000 kB
=== proc/stat
cpu  100 0 50 1000 5 1 2 3 0 0
cpu3 50 0 25 500
ctxt 77
=== proc/pressure/cpu
some avg10=2.50 avg60=1.00 avg300=0.25 total=391926
=== sys/block/vda/stat
 10 0 4 7 20 0 8 9 0 1500 16
=== sys/block/vda/vda1/partition
1
=== sys/kelson/web/cpu.max
50000 100000
";

const CONFIGURATION: &str = "\
=== config/machine.yaml
hostname: a
builtins: {containerd: {depends: [{service: db}]}}
=== config/services/db.yaml
name: db
process: {command: [/bin/db]}
group: shop
user: db:db
environmentFiles: [/etc/db.env, -/etc/none.env]
=== config/services/migrate.yaml
name: migrate
type: oneshot
process: {command: [/bin/migrate]}
group: shop
lifecycle: {hook: prestart}
depends: [{service: db}, {any: [{path: /a}, {service: web, event: down}]}]
=== config/services/proxy.yaml
name: proxy
container: {image: \"demo/proxy:1\"}
group: shop
lifecycle: {sidecar: true}
=== config/services/web.yml
name: web
=== root/etc/db.env
A=1
export B='two words'
# no
C=\"x\\n$\"
=== root/etc/passwd
root:x:0:0::/root:/bin/sh
db:x:70:70::/var/db:
=== root/etc/group
db:x:70:db
kelson:x:990:db
";

const CYCLE: &str = "\
=== config/services/a.yaml
name: a
process: {command: [a]}
depends: [{service: b}]
=== config/services/b.yaml
name: b
process: {command: [b]}
depends: [{service: c, event: finished}, {service: nobody}]
=== config/services/c.yaml
name: c
type: oneshot
process: {command: [c]}
depends: [{service: a}]
";

const MOUNTS: &str = "\
28 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro
22 28 0:21 / /proc rw,nosuid shared:12 - proc proc rw
23 28 0:22 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate
30 28 254:2 / /var rw,noatime shared:2 master:3 - ext4 /dev/vda2 rw
40 30 0:40 / /var/my\\040dir ro - tmpfs tmpfs rw,size=1k
42 40 254:4 / /var/my\\040dir/deep rw - xfs /dev/vda4 ro
not a line
===
28 1 254:1 / / ro,relatime shared:1 - ext4 /dev/vda1 rw
30 28 254:2 / /var rw,noatime - ext4 /dev/vda2 rw
0::/a/b
";

const CGROUP: &str = "\
=== memory.events
low 0
high 3
max 17
oom 2
oom_kill 1
oom_group_kill 0
=== cgroup.events
populated 1
frozen 0
=== cgroup.procs
7
12
0
x
=== cpu.stat
usage_usec 1234
user_usec 1000
=== memory.current
4096
=== pids.current
3
=== stat
7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 9876 1000 100 18446744073709551615
";

const LOG: &str = "\
2026-11-21T09:29:15.123456789Z stdout F text
2026-11-21T09:29:15.123456790Z stderr P a part
1970-01-01T00:00:00.000000000Z note F
2026-02-29T24:60:61.999999999Z stdout X
torn
";

const KERNEL: [&str; 4] = [
    "console=ttyS0 root=LABEL=ROOT rootfstype=ext4 rootflags=noatime,x-a ro quiet ip=10.0.2.15::10.0.2.2:255.255.255.0:edge:eth0:off:10.0.2.3",
    "ip=dhcp ip=[fd00::1]/64 ip=10.0.2.15/24 kelson.mode=machine kelson.config=/a kelson.panic=0 kelson.crashLimit=3/1m kelson.disk=/dev/vdb",
    "a=\"b c\" kelson.foo=1 kelson.log-dir=x rw\n--mode\ncontainer\n--config=/b\n--images\n/c\nquiet\n--runtime-dir",
    "500ms 1m30s 64Mi 1.5Gi ro,nosuid,size=1k,rbind",
];

pub fn seeds() -> Seeds {
    let mut seeds: Seeds = vec![
        ("service_file", "whole".into(), WHOLE.into()),
        ("service_file", "example".into(), EXAMPLE.into()),
        ("machine_file", "demo".into(), MACHINE.into()),
        ("machine_file", "whole".into(), WHOLE_MACHINE.into()),
        ("configuration", "group".into(), CONFIGURATION.into()),
        ("inspect_files", "whole".into(), KERNEL_FILES.into()),
        ("configuration", "cycle".into(), CYCLE.into()),
        ("mountinfo", "table".into(), MOUNTS.into()),
        ("cgroup_files", "all".into(), CGROUP.into()),
        ("log_files", "lines".into(), LOG.into()),
        (
            "notify",
            "ready".into(),
            b"READY=1\nSTATUS=all \x1b[31mwell\nMAINPID=12\nWATCHDOG_USEC=2000000".to_vec(),
        ),
        (
            "notify",
            "watchdog".into(),
            b"WATCHDOG=1\nWATCHDOG=trigger\nEXTEND_TIMEOUT_USEC=99\nSTOPPING=1\nRELOADING=1".to_vec(),
        ),
        ("task_answer", "done".into(), b"done all is written\n".to_vec()),
        ("task_answer", "failed".into(), b"failed /a is busy\n".to_vec()),
        ("task_words", "sysctl".into(), b"sysctl\0net.ipv4.ip_forward\x001".to_vec()),
        ("task_words", "interface".into(), b"interface\0eth0\x002\x0010.0.2.15/24\x0010.0.2.2".to_vec()),
        ("task_words", "resolver".into(), b"resolver\0/run/kelson/resolv.conf\x0010.0.2.3".to_vec()),
        ("task_words", "mount".into(), b"mount\0LABEL=x y\0/var\0ext4\0ro,noatime\x001500".to_vec()),
        ("task_words", "mkdir".into(), b"mkdir\0/a b/\xff\x00755".to_vec()),
        ("task_words", "modules".into(), b"modules\0overlay\0virtio_net".to_vec()),
        ("task_words", "sync".into(), b"sync".to_vec()),
        (
            "kernel_log",
            "record".into(),
            b"30,339,5140900,-,caller=T1;NET: gr\\xc3\\xbc\\x5c\\x09x\n SUBSYSTEM=net\n DEVICE=n2\n".to_vec(),
        ),
    ];
    let mut demo = format!("=== config/machine.yaml\n{MACHINE}");
    for (name, text) in DEMO {
        let named = text.replace(&format!("name: {name}\n"), "name: web\n");
        seeds.push(("service_file", format!("demo-{name}"), named.into()));
        demo += &format!("=== config/services/{name}.yaml\n{text}");
    }
    seeds.push(("configuration", "demo".into(), demo.into()));
    for (number, line) in KERNEL.iter().enumerate() {
        seeds.push(("kernel_line", format!("line-{number}"), line.as_bytes().to_vec()));
    }
    seeds
}
