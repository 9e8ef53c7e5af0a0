//! A table of mistakes: a file, and exactly the reported mistakes with their places.
use crate::folder::{Folder, each_case};

/// A sound beginning of four lines, so that what a case adds starts in line 5.
const SOUND: &str = "name: web\ndescription: sound\nprocess:\n  command: [/bin/web]\n";

fn host() -> Folder {
    let folder = Folder::new();
    folder.root_file("etc/passwd", "root:x:0:0::/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/sh\n");
    folder.root_file("etc/group", "adm:x:4:\n");
    let ca = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    folder.root_file("etc/ca.pem", ca);
    folder
}

/// Returns the mistakes of `services/web.yaml` with this content, without the file's name.
fn said(content: &str) -> Vec<String> {
    let folder = host();
    folder.service("web", content);
    let strip = |message: String| {
        message
            .strip_prefix("services/web.yaml:")
            .map_or(message.clone(), |rest| rest.trim_start().to_owned())
    };
    let loaded = folder.load();
    if !loaded.diagnostics.is_empty() {
        assert_eq!(loaded.services, [], "a faulty service was given out: {content}");
        assert_eq!(loaded.faulty(), ["web"]);
    }
    folder.messages().into_iter().map(strip).collect()
}

/// Lines that are added to [`SOUND`], and the mistakes that are reported.
const VALUES: &str = r#"
## Keys.
restrat: {}
=> 5:1: restrat: this key is not known; did you mean restart?

after: [web]
=> 5:9: after: service web waits for itself

when: [{not: {service: db}}]
=> 5:15: when[0].not.service: this cannot be negated; for a service write event: down; allowed here: path, device, network, interface, time, mount, kernelArgument, fact

after: db
=> 5:8: after: found "db" where a list of names of services, such as [db, cache] belongs

after: [Db]
=> 5:9: after[0]: "Db" is not a name; use small letters, digits and -, no - first, at most 63

reload: {signal: HUPP}
=> 5:18: reload.signal: "HUPP" is not a signal; did you mean SIGHUP?

restart: {delai: 5s}
=> 5:11: restart.delai: this key is not known; did you mean delay? Allowed here: policy, delay, maxDelay, attempts, interval, exhausted, preventOn, forceOn, scope

resources: {memory_max: 64Mi}
=> 5:13: resources.memory_max: this key is not known; did you mean memoryMax? Allowed here: memoryMax, memoryHigh, cpuMax, cpuWeight, ioWeight, pidsMax

logs: {zzz: 1}
=> 5:8: logs.zzz: this key is not known; allowed here: maxSize, maxFiles, rateLimit, console, stdout

start: auto
start: manual
=> 6:1: start: this key stands here a second time; the first is in line 5

environment:
  A: 1
  B: 2
  A: 3
=> 8:3: environment.A: this key stands here a second time; the first is in line 6

? [a]
: b
=> 5:3: found a list where a key belongs

start:
user: root
=> 5:1: start: this key has no value; give it one or remove it

user: ~
=> 5:7: user: this key has no value; give it one or remove it

## Kinds of values.
stop: now
=> 5:7: stop: found "now" where a mapping of keys to values belongs

depends: {service: db}
=> 5:10: depends: found a mapping where a list such as [{service: NAME}, {path: /PATH}] belongs

delegate: true
security: {readOnlyRoot: true}
=> 5:1: delegate: readOnlyRoot makes /sys/fs/cgroup read-only for a process, so that it cannot use the cgroups that delegate gives it; leave one of the two out

delegate: all
=> 5:11: delegate: "all" is not true or false

user: [root]
=> 5:7: user: found a list where a text belongs

startTimeout: {}
=> 5:15: startTimeout: found a mapping where a duration belongs

resources: {memoryMax: []}
=> 5:24: resources.memoryMax: found a list where a size belongs

environment: [A=1]
=> 5:14: environment: found a list where a mapping of keys to values belongs

environment: {A: [1]}
=> 5:18: environment.A: found a list where a text belongs

## Durations, sizes, numbers.
restart: {delay: 5 sec}
=> 5:18: restart.delay: "5 sec" is not a duration; write a number with a unit, such as 5s, 500ms or 1m30s

restart:
  delay: 10
=> 6:10: restart.delay: "10" is not a duration; write a number with a unit, such as 5s, 500ms or 1m30s

startTimeout: 0s
=> 5:15: startTimeout: 0s is no time to start in; write none to wait for as long as it takes

stop: {timeout: 0s}
=> 5:17: stop.timeout: 0s may mean either; write now to kill it at once, or none to wait for as long as it takes

stop: {timeout: 400d}
=> 5:17: stop.timeout: 400d is out of range; write a duration from 1ms to 365d

restart: {delay: 10s, maxDelay: 5s}
=> 5:33: restart.maxDelay: maxDelay is less than delay

resources: {memoryMax: 64MB}
=> 5:24: resources.memoryMax: "64MB" is not a size; write a number of bytes or one with a unit, such as 4096, 64Mi or 10M

resources: {memoryHigh: 1Ki}
=> 5:25: resources.memoryHigh: 1Ki is out of range; write at least 64Ki

resources: {cpuMax: 50%}
=> 5:21: resources.cpuMax: "50%" is not a number of CPUs; write such as 0.5 or 2

resources: {cpuMax: 0.001}
=> 5:21: resources.cpuMax: 0.001 is out of range; write a number of CPUs from 0.01 to 4096

resources: {cpuWeight: 0}
=> 5:24: resources.cpuWeight: 0 is out of range; write a number from 1 to 10000

resources: {pidsMax: many}
=> 5:22: resources.pidsMax: "many" is not a number; write a whole number from 1 to 4194304

restart: {attempts: -1}
=> 5:21: restart.attempts: -1 is out of range; write a number from 0 to 1000000

logs: {maxFiles: 99999999999999999999}
=> 5:18: logs.maxFiles: 99999999999999999999 is out of range; write a number from 1 to 100

logs: {maxSize: 100}
=> 5:17: logs.maxSize: 100 is out of range; write at least 4Ki

logs: {console: yes}
=> 5:17: logs.console: "yes" is not true or false

logs: {stdout: both}
=> 5:16: logs.stdout: "both" is not one of false, true, prefix, only

## Choices.
type: oneshoot
=> 5:7: type: "oneshoot" is not one of service, oneshot; did you mean oneshot?

start: later
=> 5:8: start: "later" is not one of auto, manual, onDemand

restart: {policy: until-success}
=> 5:19: restart.policy: "until-success" is not one of once, untilSuccess, forever, onSuccess, onAbnormal, onAbort, onWatchdog, no, on-failure, always, on-success, on-abnormal, on-abort, on-watchdog; did you mean untilSuccess?

type: oneshot
restart: {policy: forever}
=> 6:19: restart.policy: a oneshot cannot run forever; write once or untilSuccess

restart: {exhausted: stop}
=> 5:22: restart.exhausted: "stop" is not one of fail, delay

security: {seccomp: unconfind}
=> 5:21: security.seccomp: "unconfind" is not one of default, unconfined; did you mean unconfined?

## Readiness, stop, user.
readiness: {fd: 2}
=> 5:17: readiness.fd: descriptors 0 to 2 are input and output; write a number from 3 on

readiness: {fd: 5000}
=> 5:17: readiness.fd: 5000 is out of range; write a number from 3 to 1023

readiness: {}
=> 5:12: readiness: one of the keys fd, forks, pidFile is missing

readiness: notfy
=> 5:12: readiness: "notfy" is not one of none, notify; did you mean notify?

readiness: [notify]
=> 5:12: readiness: found a list where none, notify, {fd: NUMBER}, {forks: true} or {pidFile: PATH} belongs

stop: {signal: SIGTREM}
=> 5:16: stop.signal: "SIGTREM" is not a signal; did you mean SIGTERM?

stop: {signal: sighup}
=> 5:16: stop.signal: "sighup" is not a signal; did you mean SIGHUP?

stop: {signal: 65}
=> 5:16: stop.signal: "65" is not a signal

user: www_data
=> 5:7: user: user "www_data" is not in /etc/passwd; did you mean www-data?

user: www-data:admn
=> 5:7: user: group "admn" is not in /etc/group; did you mean adm?

user: 4711
=> 5:7: user: user 4711 is not in /etc/passwd, so its group is not known; write 4711:GROUP

## Limits and security.
limits: {nofiles: 1}
=> 5:10: limits.nofiles: this key is not known; did you mean nofile? Allowed here: cpu, fsize, data, stack, core, rss, nproc, nofile, memlock, as, locks, sigpending, msgqueue, nice, rtprio, rttime

limits: {nofile: lots}
=> 5:18: limits.nofile: "lots" is not a number, a size or unlimited

limits: {nofile: [1]}
=> 5:18: limits.nofile: found a list where a number, a size or unlimited belongs

limits: {nofile: {soft: 2, hard: 1}}
=> 5:25: limits.nofile: soft is above hard; the kernel refuses that

limits: {nofile: {soft: 2}}
=> 5:18: limits.nofile.hard: this key is missing; write hard: NUMBER

security: {hiddenPaths: [home]}
=> 5:26: security.hiddenPaths[0]: "home" is not a path from the root; write it with / first

security: {bindPaths: [/srv, "/a:/", "/a:b"]}
=> 5:24: security.bindPaths[0]: "/srv" is not two paths from the root; write SOURCE:TARGET, without . and .. in it
=> 5:30: security.bindPaths[1]: "/a:/" is not two paths from the root; write SOURCE:TARGET, without . and .. in it
=> 5:38: security.bindPaths[2]: "/a:b" is not two paths from the root; write SOURCE:TARGET, without . and .. in it

security: {devices: {allow: [null, "/dev/sda:x", /dev/../etc]}}
=> 5:30: security.devices.allow[0]: this item is empty; give it a value or remove it
=> 5:36: security.devices.allow[1]: "/dev/sda:x" is not a device; write such as /dev/net/tun, /dev/sda:r or char-rtc
=> 5:50: security.devices.allow[2]: "/dev/../etc" is not a device; write such as /dev/net/tun, /dev/sda:r or char-rtc

security: {readOnlyPaths: [-/srv/../etc, /]}
=> 5:28: security.readOnlyPaths[0]: the whole root is readOnlyRoot, and a path has no . or .. in it
=> 5:42: security.readOnlyPaths[1]: the whole root is readOnlyRoot, and a path has no . or .. in it

delegate: true
security: {readOnlyRoot: true, writablePaths: [/sys], protect: [controlGroups]}
=> 5:1: delegate: protect: [controlGroups] keeps it from the cgroups that delegate gives it; leave one of the two out

security: {protect: [clocks]}
=> 5:22: security.protect[0]: "clocks" is not one of kernelTunables, kernelModules, kernelLogs, clock, hostname, controlGroups, processes, kernelFiles; did you mean clock?

security: {namespaces: {allow: [], deny: [user]}}
=> 5:24: security.namespaces: write either allow: […] or deny: […]

security: {addressFamilies: {deny: [inet7]}}
=> 5:37: security.addressFamilies.deny[0]: "inet7" is not one of unix, inet, ax25, ipx, appletalk, netrom, bridge, atmpvc, x25, inet6, rose, decnet, netbeui, security, key, netlink, packet, ash, econet, atmsvc, rds, sna, irda, pppox, wanpipe, llc, ib, mpls, can, tipc, bluetooth, iucv, rxrpc, isdn, phonet, ieee802154, caif, alg, nfc, vsock, kcm, qipcrtr, smc, xdp, mctp; did you mean inet?

security: {systemCalls: {deny: ["@mounts", openatt], answer: EPRM}}
=> 5:33: security.systemCalls.deny[0]: "@mounts" is not a group of system calls; did you mean @mount?
=> 5:44: security.systemCalls.deny[1]: "openatt" is not a system call; did you mean openat?
=> 5:62: security.systemCalls.answer: "EPRM" is not the name of an error, such as EPERM, nor kill

security: {noNewPrivileges: false, systemCalls: {deny: [mount]}}
=> 5:11: security: systemCalls needs noNewPrivileges: true, so that it can be set up last of all

security: {capabilities: {drop: [net_rwa]}}
=> 5:34: security.capabilities.drop[0]: "net_rwa" is not a capability; did you mean net_raw?

security: {capabilities: {add: [CAP_SYS_ADMN]}}
=> 5:33: security.capabilities.add[0]: "CAP_SYS_ADMN" is not a capability; did you mean sys_admin?

removeIpc: true
=> 5:1: removeIpc: what root has left is never removed; write a user of its own, or leave removeIpc out

user: root
removeIpc: true
=> 6:1: removeIpc: what root has left is never removed; write a user of its own, or leave removeIpc out

watchdog: 30s
=> 5:1: watchdog: a service reports to its watchdog by its notify socket; write readiness: notify, or {forks: true}

readiness: {fd: 3}
watchdog: 30s
=> 6:1: watchdog: a service reports to its watchdog by its notify socket; write readiness: notify, or {forks: true}

## Environment.
environment: {9A: 1}
=> 5:15: environment: "9A" is not a name for the environment; use letters, digits and _, no digit first

environment: {A-B: 1}
=> 5:15: environment: "A-B" is not a name for the environment; use letters, digits and _, no digit first

environmentFacts: {A: hostname}
=> 5:23: environmentFacts.A: "hostname" is not one of service, hostName, bootId, architecture, kernel, cpus, memory; did you mean hostName?

environmentFacts: {PORT: }
=> 5:20: environmentFacts.PORT: this key has no value; name a fact, such as hostName

environment: {KELSON_RUN: 1}
=> 5:15: environment: KELSON_RUN is set by Kelson itself; use another name

environment: {inherit: some}
=> 5:24: environment.inherit: "some" is not all

environment: {inherit: {A: b}}
=> 5:24: environment.inherit: found a mapping where all or a list of names belongs

environment: {inherit: all, inherit: all}
=> 5:29: environment: inherit stands here a second time

environment: {inherit: [A-B]}
=> 5:25: environment.inherit[0]: "A-B" is not a name for the environment; use letters, digits and _, no digit first

environment: {inherit: [KELSON_STARTED]}
=> 5:25: environment.inherit[0]: "KELSON_STARTED" is a variable of Kelson itself and is never inherited

environment: {A: }
=> 5:15: environment.A: this key has no value; write "" for an empty one

environment: {A: "x\0"}
=> 5:18: environment.A: a NUL byte cannot stand in a text

environmentFiles: [/etc/none.env]
=> 5:20: environmentFiles[0]: /etc/none.env does not exist; create it, or write -/etc/none.env if it may be missing

environmentFiles: [web.env]
=> 5:20: environmentFiles[0]: "web.env" is not a path from the root; write it with / first

environmentFiles: [/etc]
=> 5:20: environmentFiles[0]: /etc: this is a directory; a regular file is needed

## Secrets.
secrets: [db, .hidden, {name: a/b}]
=> 5:15: secrets[1]: ".hidden" is not the name of a secret; use letters, digits, _, . and -, at most 64, not . or - first
=> 5:31: secrets[2].name: "a/b" is not the name of a secret; use letters, digits, _, . and -, at most 64, not . or - first

secrets: [{name: db, file: ../db, mode: 0600}, {file: x}]
=> 5:28: secrets[0].file: "../db" leads elsewhere, or has other characters than letters, digits, _, . and -; write such as tls/key.pem
=> 5:41: secrets[0].mode: "0600" are not permissions of a file that nobody writes; write such as 0440
=> 5:48: secrets[1].name: this key is missing; write name: NAME

secrets: [{name: db, onChange: sometimes}]
=> 5:32: secrets[0].onChange: "sometimes" is not a signal; write restart, or a signal such as SIGHUP

secrets: [tls, {name: key, file: tls/key}]
=> 5:10: secrets: another secret is at "tls/key" already; write file: too

## Dependencies.
depends: [db]
=> 5:11: depends[0]: found "db" where a mapping belongs; write service: db

depends: [/run/x]
=> 5:11: depends[0]: found "/run/x" where a mapping belongs; write path: /run/x

depends:
  -
=> 6:4: depends[0]: this item is empty; give it a value or remove it

depends: [{}]
=> 5:11: depends[0]: one of the keys service, path, device, network, interface, time, mount, kernelArgument, fact, registered, any, not is missing

depends: [{kernelArgument: ""}]
=> 5:28: depends[0].kernelArgument: an argument has a name; write NAME or NAME=VALUE

depends: [{kernelArgument: "=1"}]
=> 5:28: depends[0].kernelArgument: an argument has a name; write NAME or NAME=VALUE

depends: [{fact: platfrom}]
=> 5:18: depends[0].fact: "platfrom" is not the name of a fact; did you mean platform?

depends: [{fact: {name: colour, is: red}}]
=> 5:25: depends[0].fact.name: "colour" is not the name of a fact; kelsonctl facts lists those of a host

when: [{fact: {name: platform, atLeast: 4}}]
=> 5:32: when[0].fact.atLeast: the fact platform is no number; write is

when: [{fact: {is: aws}}]
=> 5:15: when[0].fact.name: this key is missing; write name: platform

when: [{not: {fact: {name: memory.total, atLeast: many}}}]
=> 5:51: when[0].not.fact.atLeast: "many" is not a size; write a number of bytes or one with a unit, such as 4096, 64Mi or 10M

depends: [{device: /run/a}]
=> 5:20: depends[0].device: devices are below /dev; write such as /dev/disk/by-label/DATA

depends: [{path: /a, time: synced}]
=> 5:22: depends[0]: path and time exclude each other; keep one

depends: [{path: a}]
=> 5:18: depends[0].path: "a" is not a path from the root; write it with / first

depends: [{path: /a, event: up}]
=> 5:22: depends[0].event: event belongs to service, not to path

depends: [{service: logd, event: started}]
=> 5:34: depends[0].event: "started" is not one of up, running, finished, down

depends: [{service: Big}]
=> 5:21: depends[0].service: "Big" is not a name; use small letters, digits and -, no - first, at most 63

depends: [{network: addresses}]
=> 5:21: depends[0].network: found "addresses" where a list such as [addresses, hostname] belongs

depends: [{network: [address]}]
=> 5:22: depends[0].network[0]: "address" is not one of addresses, connectivity, hostname; did you mean addresses?

depends: [{network: [{interface: eth1, up: false}, {interface: "eth*"}, {up: true}, {interface: eth1, down: true}]}]
=> 5:44: depends[0].network[0].up: a condition waits for an interface to be up; write true
=> 5:64: depends[0].network[1].interface: "eth*" is not the name of an interface, such as eth0
=> 5:73: depends[0].network[2].interface: this key is missing; write interface: eth1
=> 5:103: depends[0].network[3].down: this key is not known; allowed here: interface, up

depends: [{network: []}]
=> 5:21: depends[0].network: this list is empty, so it could never hold

depends: [{time: set}]
=> 5:18: depends[0].time: "set" is not synced

depends: [{any: []}]
=> 5:17: depends[0].any: this list is empty, so it could never hold

depends: [{any: [{path: /a}, {pth: /b}]}]
=> 5:30: depends[0].any[1]: one of the keys service, path, device, network, interface, time, mount, kernelArgument, fact, registered, any, not is missing
=> 5:31: depends[0].any[1].pth: this key is not known; did you mean path?

depends: [{path: /a, whenDown: stop}]
=> 5:22: depends[0].whenDown: whenDown belongs to service and registered, not to path

depends: [{service: logd, whenDown: restrat}]
=> 5:37: depends[0].whenDown: "restrat" is not one of ignore, stop, restart; did you mean restart?

depends: [{whenDown: stop, service: logd, event: finished}]
=> 5:12: depends[0].whenDown: what has finished does not run any more; write event: up or running, or leave whenDown out

depends: [{service: logd, event: down, whenDown: stop}]
=> 5:40: depends[0].whenDown: this waits for the service to be down; write event: up or running, or leave whenDown out

depends: [{any: [{service: logd, whenDown: stop}]}]
=> 5:34: depends[0].any[0].whenDown: inside any another entry may do; write whenDown in an entry of its own

when: [{service: logd, whenDown: stop}]
=> 5:24: when[0].whenDown: when is asked once, at the start; write whenDown in depends

depends: [{service: databse}]
=> 5:21: depends: there is no service databse

depends: [{service: containerdd}]
=> 5:21: depends: there is no service containerdd; did you mean containerd?

depends: [{service: web}]
=> 5:21: depends: service web waits for itself

depends: [{any: [{path: /a}, {service: web, event: down}]}]
=> 5:40: depends: service web waits for itself

when: [{path: /a}, {service: nobody}]
=> 5:30: when: there is no service nobody

## Health.
health: [{tcp: {port: 0}}]
=> 5:23: health[0].tcp.port: 0 is out of range; write a number from 1 to 65535

health: [{tcp: {}}]
=> 5:16: health[0].tcp.port: this key is missing; write port: NUMBER

health: [{name: a}]
=> 5:10: health[0]: one of the keys http, tcp, grpc, csi, exec, volume is missing

health: [{csi: run/csi.sock}]
=> 5:16: health[0].csi: "run/csi.sock" is not a path from the root; write it with / first

health: [{csi: /run/loooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooooong}]
=> 5:16: health[0].csi: this path has 108 bytes; that of a Unix socket has at most 107

health: [{csi: /run/csi.sock, tcp: {port: 1}}]
=> 5:31: health[0]: tcp and csi exclude each other; keep one

health: [{volume: data, freeAtLeast: 5%}]
=> 5:9: health: check "volume": "data" is none of the volumes of this service

health: [{volume: data}]
volumes: [{name: data, source: {tmpfs: {}}, target: /data}]
=> 5:11: health[0].volume: freeAtLeast is missing beside it; write such as freeAtLeast: 5%

health: [{tcp: {port: 1}, freeAtLeast: 5%}]
=> 5:27: health[0].freeAtLeast: this is for a check of a volume; write volume: NAME too, or leave it out

health: [{volume: data, freeAtLeast: half}]
volumes: [{name: data, source: {tmpfs: {}}, target: /data}]
=> 5:38: health[0].freeAtLeast: "half" is no part of a volume; write such as 5% or 1Gi

health: [{http: {port: 1, path: x}}]
=> 5:33: health[0].http.path: "x" is not a path of a URL; write it with / first

health: [{exec: {command: []}}]
=> 5:27: health[0].exec.command: the command is empty; write a program and its arguments

health: [{tcp: {port: 1}}, {tcp: {port: 2}}]
=> 5:28: health[1].name: two checks are named tcp; give each a name of its own

health: [{tcp: {port: 1}, interval: 1ms}]
=> 5:37: health[0].interval: 1ms is out of range; write a duration from 10ms to 365d

health: [{tcp: {port: 1}, failureThreshold: 0}]
=> 5:45: health[0].failureThreshold: 0 is out of range; write a number from 1 to 1000

health: [{tcp: {port: 1, address: db.local}}]
=> 5:35: health[0].tcp.address: "db.local" is not an IP address; a check looks no names up: write such as 127.0.0.1 or ::1

health: [{tcp: {port: 1, address: 0.0.0.0}}]
=> 5:35: health[0].tcp.address: nothing answers at 0.0.0.0; write the address of one host, or leave it out

health: [{tcp: {port: 1, path: /}}]
=> 5:26: health[0].tcp.path: this key is not known; allowed here: port, address

health: [{tcp: {port: 1}, startup: 1}]
=> 5:36: health[0].startup: "1" is not true or false

health: [{http: {port: 1, path: /a b}}]
=> 5:33: health[0].http.path: ' ' cannot stand in a path of a URL; write %20

health: [{http: {port: 1, path: '/ü#'}}]
=> 5:33: health[0].http.path: 'ü' cannot stand in a path of a URL; write %C3%BC

health: [{http: {port: 1, path: "/\r\nX: 1"}}]
=> 5:33: health[0].http.path: '\r' cannot stand in a path of a URL; write %0D

health: [{http: {port: 1, host: 'a:80'}}]
=> 5:33: health[0].http.host: "a:80" is not the name of a host; write such as www.example.org, without scheme and port

health: [{grpc: {port: 1, host: "a\nb"}}]
=> 5:33: health[0].grpc.host: "a\nb" is not the name of a host; write such as www.example.org, without scheme and port

health: [{http: {port: 1, scheme: htps}}]
=> 5:35: health[0].http.scheme: "htps" is not one of http, https; did you mean https?

health: [{http: {port: 1, scheme: https}}]
=> 5:27: health[0].http.scheme: https needs ca: FILE with the certificates that may have signed the server's, or verify: false

health: [{grpc: {port: 1, scheme: https, verify: true}}]
=> 5:27: health[0].grpc.scheme: https needs ca: FILE with the certificates that may have signed the server's, or verify: false

health: [{http: {port: 1, scheme: https, verify: maybe}}]
=> 5:50: health[0].http.verify: "maybe" is not true or false

health: [{http: {port: 1, scheme: https, ca: /etc/ca.pem, verify: false}}]
=> 5:59: health[0].http: ca and verify: false exclude each other; keep one

health: [{http: {port: 1, ca: /etc/ca.pem}}]
=> 5:27: health[0].http.ca: without TLS there is no certificate; write scheme: https, or leave ca out

health: [{grpc: {port: 1, scheme: http, verify: false}}]
=> 5:41: health[0].grpc.verify: without TLS there is no certificate; write scheme: https, or leave verify out

health: [{http: {port: 1, scheme: https, ca: ca.pem}}]
=> 5:46: health[0].http.ca: "ca.pem" is not a path from the root; write it with / first

health: [{http: {port: 1, scheme: https, ca: /etc/none.pem}}]
=> 5:46: health[0].http.ca: /etc/none.pem: the file cannot be read: No such file or directory

health: [{http: {port: 1, scheme: https, ca: /etc}}]
=> 5:46: health[0].http.ca: /etc: this is a directory; a regular file is needed

health: [{http: {port: 1, scheme: https, ca: /etc/passwd}}]
=> 5:46: health[0].http.ca: /etc/passwd: there is no certificate in PEM here; it begins with a line -----BEGIN CERTIFICATE-----

health: [{http: {port: 1, scheme: https, ca: "-----BEGIN CERTIFICATE-----\nMI"}}]
=> 5:46: health[0].http.ca: the certificate that begins in line 1 has no line -----END CERTIFICATE-----

health: [{http: {port: 1, headers: [A]}}]
=> 5:36: health[0].http.headers: found a list where a mapping of keys to values belongs

health: [{http: {port: 1, headers: {"A: b": c}}}]
=> 5:37: health[0].http.headers: "A: b" is not the name of a header, such as X-Probe

health: [{http: {port: 1, headers: {HOST: c}}}]
=> 5:37: health[0].http.headers: the header Host has a key of its own; write host: NAME beside port

health: [{http: {port: 1, headers: {Transfer-Encoding: chunked}}}]
=> 5:37: health[0].http.headers: the header Transfer-Encoding belongs to the connection and cannot be set; remove it

health: [{http: {port: 1, headers: {X-A: 1, x-a: 2}}}]
=> 5:45: health[0].http.headers: the headers X-A and x-a are the same; keep one

health: [{http: {port: 1, headers: {A: "b\r\nC: d"}}}]
=> 5:40: health[0].http.headers.A: "b\r\nC: d" is not the value of a header; write one line of ASCII, at most 4096 bytes, no spaces around it

health: [{http: {port: 1, headers: {A: }}}]
=> 5:37: health[0].http.headers.A: this key has no value; write "" for an empty one

health: [{http: {port: 1, status: ok}}]
=> 5:35: health[0].http.status: "ok" is not a status; write such as 200 or 200-299

health: [{http: {port: 1, status: [200, 299-200]}}]
=> 5:41: health[0].http.status[1]: 299-200 is out of range; write codes from 100 to 599, the lower first

health: [{http: {port: 1, status: 200-600}}]
=> 5:35: health[0].http.status: 200-600 is out of range; write codes from 100 to 599, the lower first

health: [{http: {port: 1, status: []}}]
=> 5:35: health[0].http.status: this list is empty, so no answer could pass

health: [{http: {port: 1, status: {a: b}}}]
=> 5:35: health[0].http.status: found a mapping where a status such as 200, 200-299 or [200, 204] belongs

health: [{http: {port: 1, body: "(ok"}}]
=> 5:33: health[0].http.body: "(ok" is not a regular expression: found open group without closing ')'

health: [{http: {port: 1, body: ""}}]
=> 5:33: health[0].http.body: this text is empty

## Hooks.
hooks: [a]
=> 5:8: hooks: found a list where a mapping of keys to values belongs

hooks: {prestop: []}
=> 5:9: hooks.prestop: this key is not known; did you mean preStop? Allowed here: pre, postStart, preStop, post, undo

hooks: {pre: /bin/a}
=> 5:14: hooks.pre: found "/bin/a" where such as {command: [PROGRAM, ARGUMENT]} belongs

hooks: {pre: [/bin/a]}
=> 5:15: hooks.pre[0]: found "/bin/a" where such as {command: [PROGRAM, ARGUMENT]} belongs

hooks: {post: {timeout: 5s}}
=> 5:15: hooks.post.command: this key is missing; write command: [PROGRAM, ARGUMENT]

hooks: {postStart: [{command: [a], timeout: 0s}]}
=> 5:45: hooks.postStart[0].timeout: 0s is out of range; write a duration from 1ms to 365d

hooks: {preStop: {command: [./a]}}
=> 5:28: hooks.preStop.command: "./a" is not the path of a program; write it with / first, or a name alone to look up in PATH

required: maybe
=> 5:11: required: "maybe" is not true or false

## YAML.
user: !secret root
=> 5:7: the tag !secret means nothing here; remove it

---
name: other
=> 5:1: a second document starts here; a file holds one, without a line ---

a: &x [*x]
=> 5:8: this alias stands within the value it names

user: *nobody
=> 5:7: this is not YAML: while parsing node, found unknown anchor

user: "root
=> 5:7: this is not YAML: while scanning a quoted scalar, found unexpected end of stream

## Many at once, in the order of the file.
type: x
stop: {signal: Y, timeout: 1}
logs: {maxFiles: z}
=> 5:7: type: "x" is not one of service, oneshot
=> 6:16: stop.signal: "Y" is not a signal
=> 6:28: stop.timeout: "1" is not a duration; write a number with a unit, such as 5s, 500ms or 1m30s
=> 7:18: logs.maxFiles: "z" is not a number; write a whole number from 1 to 100
"#;

/// Whole files.
const FILES: &str = r#"
# nothing but a comment
=> the file is empty

---
...
=> the file is empty

[a]
=> 1:1: found a list where a mapping of keys to values belongs

web
=> 1:1: found "web" where a mapping of keys to values belongs

process: {command: [/bin/web]}
=> 1:1: name: this key is missing; write name: web

name: web
=> 1:1: one of the keys process, container, target is missing

name: web
process: {command: [/a]}
container: {image: a}
=> 3:1: process and container exclude each other; keep one

name: site
process: {command: [/a]}
=> 1:7: name: "site" is not the file's name; write web, or rename the file to site.yaml

name: Web
process: {command: [/a]}
=> 1:7: name: "Web" is not a name; use small letters, digits and -, no - first, at most 63

name: web
process: {}
=> 2:10: process.command: this key is missing; write command: [PROGRAM, ARGUMENT]

name: web
process: {command: []}
=> 2:20: process.command: the command is empty; write a program and its arguments

name: web
process: {command: ["", a]}
=> 2:20: process.command: the program's name is empty

name: web
process: {command: /bin/web -x}
=> 2:20: process.command: found "/bin/web -x" where a list such as [/usr/bin/program, --flag] belongs

name: web
process: {command: [./web]}
=> 2:20: process.command: "./web" is not the path of a program; write it with / first, or a name alone to look up in PATH

name: web
process: {command: [a, [b]]}
=> 2:24: process.command[1]: found a list where a text belongs

name: web
process: {command: [a], workingDirectory: tmp}
=> 2:43: process.workingDirectory: "tmp" is not a path from the root; write it with / first

name: web
container: {}
=> 2:12: container.image: this key is missing; write image: NAME:TAG

name: web
container: {image: ""}
=> 2:20: container.image: this text is empty

name: web
container: {image: a b}
=> 2:20: container.image: "a b" is not a reference of an image, such as demo/nginx:1

name: web
container: {image: a, command: [b], arguments: [c]}
=> 2:37: container.arguments: command stands for the entrypoint too, so nothing gets these arguments; add them to command

name: web
container: {image: a}
user: www-data
removeIpc: true
security: {privateUsers: true}
=> 4:1: removeIpc: a container has IPC of its own, which goes with it; leave removeIpc out
=> 5:11: security: a container has users and a network of its own; privateUsers and privateNetwork are for a process

name: web
container: {image: a, network: ring}
=> 2:32: container.network: "ring" is not one of host, none, bridge

name: web
container: {image: a, mounts: [{source: /a}]}
=> 2:32: container.mounts[0].target: this key is missing; write target: PATH

name: web
target:
=> 2:1: target: this key has no value; give it one or remove it

name: web
target: now
=> 2:9: target: found "now" where a mapping of keys to values belongs

name: web
target: {command: [/a]}
=> 2:10: target.command: this key is not known; allowed here: nothing

name: web
target: {}
process: {command: [/a]}
=> 3:1: process and target exclude each other; keep one

name: web
target: {}
environment: {A: b}
environmentFiles: [-/etc/a]
type: oneshot
restart: {policy: once}
readiness: notify
startTimeout: 1m
health: []
hooks: {}
stop: {timeout: 1s}
user: www-data
resources: {pidsMax: 5}
delegate: false
limits: {core: 0}
security: {}
api: none
logs: {}
=> 3:1: environment: a target runs no program, so environment means nothing; leave it out
=> 4:1: environmentFiles: a target runs no program, so environmentFiles means nothing; leave it out
=> 5:1: type: a target runs no program, so type means nothing; leave it out
=> 6:1: restart: a target runs no program, so restart means nothing; leave it out
=> 7:1: readiness: a target runs no program, so readiness means nothing; leave it out
=> 8:1: startTimeout: a target runs no program, so startTimeout means nothing; leave it out
=> 9:1: health: a target runs no program, so health means nothing; leave it out
=> 10:1: hooks: a target runs no program, so hooks means nothing; leave it out
=> 11:1: stop: a target runs no program, so stop means nothing; leave it out
=> 12:1: user: a target runs no program, so user means nothing; leave it out
=> 13:1: resources: a target runs no program, so resources means nothing; leave it out
=> 14:1: delegate: a target runs no program, so delegate means nothing; leave it out
=> 15:1: limits: a target runs no program, so limits means nothing; leave it out
=> 16:1: security: a target runs no program, so security means nothing; leave it out
=> 17:1: api: a target runs no program, so api means nothing; leave it out
=> 18:1: logs: a target runs no program, so logs means nothing; leave it out

name: web
␉process: {}
=> 2:1: this is not YAML: a tab stands before the first word of this line; indent with spaces
"#;

#[test]
fn each_mistake_of_a_value_is_pointed_at() {
    let cases = each_case(VALUES, |added| said(&format!("{SOUND}{added}")));
    assert!(cases >= 60);
    assert_eq!(said(SOUND), Vec::<String>::new());
}

#[test]
fn each_mistake_of_a_whole_file_is_pointed_at() {
    each_case(FILES, said);
    assert_eq!(said(""), ["the file is empty"]);
}
