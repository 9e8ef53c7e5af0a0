//! Y1 beside systemd: for each key of a sandbox, what a process may do under either.

use super::{Probe, differences, under_kelson, under_systemd};

/// What each unit tries, in this order.
const TRIES: &str = "attempt=clock attempt=module attempt=log attempt=hostname attempt=realtime \
    attempt=personality attempt=suid:/srv/free/file attempt=code attempt=memory attempt=uts attempt=ipc \
    attempt=unix attempt=netlink attempt=exec:/bin/true \
    try=/proc/sys/kernel/printk try=/sys/class/net/lo/uevent try=/sys/fs/cgroup/cgroup.procs try=/dev/kmsg \
    try=/usr/probe try=/boot/probe try=/etc/probe try=/var/lib/probe/file try=/srv/free/file try=/srv/kept/file \
    try=/srv/hidden/file try=/root/probe try=/home/probe/file try=/tmp/probe try=/var/tmp/probe try=/run/probe \
    try=/dev/shm/probe \
    attempt=see:/root/.bashrc attempt=see:/home/probe/file attempt=see:/tmp/seen attempt=see:/var/tmp/seen \
    attempt=see:/srv/hidden/file attempt=see:/srv/seen/file \
    attempt=see:/dev/vda attempt=see:/dev/ttyS0 attempt=see:/dev/kmsg attempt=see:/dev/null attempt=see:/dev/ptmx \
    attempt=see:/proc/1/stat attempt=see:/proc/meminfo attempt=see:/proc/self/stat \
    attempt=see:/proc/sys/net/ipv4/conf/eth0 device=1:3 \
    'report-of=status Cap' 'report-of=status NoNewPrivs' 'report-of=status Uid' 'report-of=status Gid' \
    cat=/proc/self/uid_map attempt=sync attempt=umount print=end";

/// Both sides begin with these files.
const PREPARE: &str = "mkdir -p /home/probe /var/lib/probe /srv/free /srv/kept /srv/hidden /srv/bound /srv/seen
for path in /home/probe/file /var/lib/probe/file /srv/free/file /srv/kept/file /srv/hidden/file /srv/bound/file \\
    /root/probe /tmp/probe /var/tmp/probe /run/probe /dev/shm/probe /tmp/seen /var/tmp/seen; do : >$path; done
chmod 0777 /srv/free /srv/kept /srv/hidden
chmod 0666 /srv/*/file /tmp/probe /var/tmp/probe /run/probe /dev/shm/probe
";

/// Name and keys of each unit.
const UNITS: [(&str, &str); 54] = [
    ("open", ""),
    ("user", "User=nobody"),
    ("no-new", "NoNewPrivileges=yes"),
    ("bounding", "CapabilityBoundingSet=CAP_CHOWN CAP_SYS_TIME"),
    ("bounding-none", "CapabilityBoundingSet="),
    ("bounding-without", "CapabilityBoundingSet=~CAP_SYS_ADMIN CAP_SYS_PTRACE"),
    ("ambient", "User=nobody\nAmbientCapabilities=CAP_NET_BIND_SERVICE CAP_SYSLOG"),
    ("system", "ProtectSystem=yes"),
    ("system-full", "ProtectSystem=full"),
    ("system-strict", "ProtectSystem=strict"),
    ("system-paths", "ProtectSystem=strict\nReadWritePaths=/var/lib/probe -/no-such-path"),
    ("system-home", "ProtectSystem=strict\nProtectHome=yes"),
    ("system-devices", "ProtectSystem=strict\nPrivateDevices=yes"),
    ("home", "ProtectHome=yes"),
    ("home-read-only", "ProtectHome=read-only"),
    ("home-tmpfs", "ProtectHome=tmpfs"),
    ("tmp", "PrivateTmp=yes"),
    ("devices", "PrivateDevices=yes"),
    ("network", "PrivateNetwork=yes"),
    ("users", "PrivateUsers=yes"),
    ("mounts", "PrivateMounts=yes\nPrivateTmp=yes"),
    ("hostname", "ProtectHostname=yes"),
    ("clock", "ProtectClock=yes"),
    ("tunables", "ProtectKernelTunables=yes"),
    ("modules", "ProtectKernelModules=yes"),
    ("logs", "ProtectKernelLogs=yes"),
    ("cgroups", "ProtectControlGroups=yes"),
    ("processes", "User=nobody\nProtectProc=invisible"),
    ("processes-none", "User=nobody\nProtectProc=noaccess"),
    ("processes-own", "User=nobody\nProtectProc=ptraceable"),
    ("kernel-files", "ProcSubset=pid"),
    ("calls-kill", "SystemCallFilter=~sync @mount"),
    ("calls-answer", "SystemCallFilter=~sync @mount\nSystemCallErrorNumber=EACCES"),
    ("calls-allow", "SystemCallFilter=@system-service\nSystemCallErrorNumber=EPERM"),
    (
        "calls-both",
        "SystemCallFilter=@system-service\nSystemCallFilter=~@privileged @resources\nSystemCallErrorNumber=EPERM",
    ),
    ("calls-user", "User=nobody\nSystemCallFilter=~sync @mount\nSystemCallErrorNumber=EACCES"),
    ("native", "SystemCallArchitectures=native"),
    ("code", "MemoryDenyWriteExecute=yes"),
    ("namespaces", "RestrictNamespaces=yes"),
    ("namespaces-some", "RestrictNamespaces=ipc"),
    ("namespaces-without", "RestrictNamespaces=~ipc"),
    ("realtime", "RestrictRealtime=yes"),
    ("realtime-user", "User=nobody\nRestrictRealtime=yes"),
    ("suid", "RestrictSUIDSGID=yes"),
    ("families", "RestrictAddressFamilies=AF_UNIX"),
    ("families-without", "RestrictAddressFamilies=~AF_NETLINK"),
    ("families-none", "RestrictAddressFamilies=none"),
    ("personality", "LockPersonality=yes"),
    ("read-only", "ReadOnlyPaths=/srv/kept"),
    ("hidden", "InaccessiblePaths=/srv/hidden -/no-such-path"),
    ("exec", "NoExecPaths=/\nExecPaths=/etc/kelson"),
    ("bind", "BindPaths=/srv/bound:/srv/seen"),
    ("bind-read-only", "BindReadOnlyPaths=/srv/bound:/srv/seen /srv/kept"),
    (
        "many",
        "User=nobody\nProtectSystem=strict\nProtectHome=yes\nPrivateTmp=yes\nPrivateDevices=yes\n\
        ProtectKernelTunables=yes\nProtectControlGroups=yes\nRestrictSUIDSGID=yes\nReadWritePaths=/srv/free",
    ),
];

/// What is known to differ: unit, systemd's line, Kelson's line. docs/coming-from/systemd-keys.md or the importer names each.
const KNOWN: [&str; 12] = [
    // systemd sets up root's filter before it gives anything up, Kelson last of all.
    "probe-calls-allow.service: status NoNewPrivs: 0 | status NoNewPrivs: 1",
    "probe-calls-answer.service: status NoNewPrivs: 0 | status NoNewPrivs: 1",
    "probe-calls-both.service: status NoNewPrivs: 0 | status NoNewPrivs: 1",
    "probe-calls-kill.service: status NoNewPrivs: 0 | status NoNewPrivs: 1",
    // systemd.exec(5) calls it read-only too, and 252 does not make it so.
    "probe-home-tmpfs.service: /root/probe: written | /root/probe: Read-only file system (os error 30)",
    // What is written there goes nowhere.
    "probe-logs.service: /dev/kmsg: Permission denied (os error 13) | /dev/kmsg: written",
    // What is hidden is empty, where systemd denies access.
    "probe-many.service: /root/probe: Permission denied (os error 13) | /root/probe: Read-only file system (os error 30)",
    "probe-many.service: /home/probe/file: Permission denied (os error 13) | /home/probe/file: No such file or directory (os error 2)",
    // With these keys together systemd 252 leaves /run writable, against systemd.exec(5).
    "probe-many.service: /run/probe: written | /run/probe: Read-only file system (os error 30)",
    "probe-many.service: see:/root/.bashrc: Permission denied (os error 13) | see:/root/.bashrc: No such file or directory (os error 2)",
    "probe-many.service: see:/home/probe/file: Permission denied (os error 13) | see:/home/probe/file: No such file or directory (os error 2)",
    "probe-processes-none.service: see:/proc/1/stat: Operation not permitted (os error 1) | see:/proc/1/stat: No such file or directory (os error 2)",
];

#[test]
fn long_y1_units_may_do_under_kelson_what_they_may_do_under_systemd() {
    let mut before = String::new();
    let probes = UNITS.map(|(name, keys)| {
        // One after the other: they try the same files.
        let text = format!("[Unit]\n{before}[Service]\nType=oneshot\nExecStart=$PROGRAM {TRIES}\n{keys}\n");
        let probe = Probe::new(name, &text);
        before = format!("After={}\n", probe.unit);
        probe
    });
    let systemd = under_systemd("sandbox-systemd", PREPARE, &probes);
    let kelson = under_kelson("sandbox-kelson", PREPARE, &probes);
    let found = differences(&systemd, &kelson);
    assert_eq!(found, KNOWN, "\n{}", found.join("\n"));
}
