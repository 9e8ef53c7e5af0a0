//! Y1, the keys of a sandbox: a process tries what each of them forbids, and what it leaves.

use std::fs;

use kelson_tests::Host;

/// What each service tries, in this order.
const TRIES: [&str; 20] = [
    "attempt=clock",
    "attempt=module",
    "attempt=log",
    "attempt=hostname",
    "attempt=realtime",
    "attempt=personality",
    "attempt=suid:$DIR/file",
    "attempt=code",
    "attempt=memory",
    "attempt=uts",
    "attempt=ipc",
    "attempt=unix",
    "attempt=netlink",
    "attempt=sync",
    "attempt=umount",
    "attempt=exec:/bin/true",
    "try=/proc/sys/kernel/printk",
    "try=/sys/class/net/lo/uevent",
    "try=/sys/fs/cgroup/cgroup.procs",
    "try=/dev/kmsg",
];

const ALLOWED: &str = "allowed";
const WRITTEN: &str = "written";
const INVALID: &str = "Invalid argument (os error 22)";
const MISSING: &str = "No such file or directory (os error 2)";
const REFUSED: &str = "Operation not permitted (os error 1)";
const DENIED: &str = "Permission denied (os error 13)";
const READ_ONLY: &str = "Read-only file system (os error 30)";
const NO_FAMILY: &str = "Address family not supported by protocol (os error 97)";

/// Of a process of root without any of the keys. The kernel answers that something is wrong where it would do it.
const OPEN: [&str; 20] = [
    INVALID, MISSING, ALLOWED, INVALID, INVALID, ALLOWED, ALLOWED, ALLOWED, ALLOWED, ALLOWED, ALLOWED,
    ALLOWED, ALLOWED, ALLOWED, MISSING, ALLOWED, WRITTEN, WRITTEN, WRITTEN, WRITTEN,
];

/// A service, its key, and what differs from [`OPEN`].
type Case = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const CASES: [Case; 16] = [
    ("open", "", &[]),
    (
        "tunables",
        "protect: [kernelTunables]",
        &[("try=/proc/sys/kernel/printk", READ_ONLY), ("try=/sys/class/net/lo/uevent", READ_ONLY)],
    ),
    ("modules", "protect: [kernelModules]", &[("attempt=module", REFUSED)]),
    ("logs", "protect: [kernelLogs]", &[("attempt=log", REFUSED)]),
    ("clock", "protect: [clock]", &[("attempt=clock", REFUSED)]),
    ("hostname", "protect: [hostname]", &[("attempt=hostname", REFUSED)]),
    ("cgroups", "protect: [controlGroups]", &[("try=/sys/fs/cgroup/cgroup.procs", READ_ONLY)]),
    ("realtime", "restrict: [realtime]", &[("attempt=realtime", REFUSED)]),
    ("personality", "restrict: [personality]", &[("attempt=personality", REFUSED)]),
    ("suid", "restrict: [setUserId]", &[("attempt=suid:$DIR/file", REFUSED)]),
    ("code", "restrict: [writableCode]", &[("attempt=code", REFUSED)]),
    ("namespaces", "namespaces: {allow: [ipc]}", &[("attempt=uts", REFUSED)]),
    ("families", "addressFamilies: {allow: [unix]}", &[("attempt=netlink", NO_FAMILY)]),
    (
        "calls",
        "systemCalls: {deny: [sync, \"@mount\"], answer: EACCES}, noNewPrivileges: true",
        &[("attempt=sync", DENIED), ("attempt=umount", DENIED)],
    ),
    ("exec", "noExecPaths: [/], execPaths: [$PROGRAM]", &[("attempt=exec:/bin/true", DENIED)]),
    (
        "strict",
        "readOnlyRoot: true, writablePaths: [/dev, /proc, /sys], protect: [controlGroups]",
        &[("attempt=suid:$DIR/file", READ_ONLY), ("try=/sys/fs/cgroup/cgroup.procs", READ_ONLY)],
    ),
];

/// What a service said of each try.
fn answers(host: &Host, name: &str) -> Vec<String> {
    let text = host.ctl(&["logs", name]).ok().stdout;
    let tries = text.lines().filter_map(|line| line.rsplit_once(": "));
    // A kernel without modules has none of any name.
    tries.map(|(_, answer)| answer.replace("Function not implemented (os error 38)", MISSING)).collect()
}

#[test]
fn y1_each_key_forbids_what_it_names_and_nothing_else() {
    let mut host = Host::builder().runs("plain", "serve").start();
    fs::write(host.path("file"), "").expect("a file");
    let tries = TRIES.map(|word| format!("'{word}'")).join(", ");
    let command = format!("process: {{command: [$PROGRAM, {tries}, print=end, serve]}}\n");
    for (name, keys, _) in CASES {
        let default = if keys.contains("noNewPrivileges") { "" } else { "noNewPrivileges: false, " };
        let security = format!("security: {{{default}seccomp: unconfined, {keys}}}\n");
        host.write_service(name, &format!("{command}{security}"));
    }
    host.ctl(&["reload"]).ok();
    let names = CASES.map(|(name, ..)| name);
    host.wait_all_up(&names);
    for (name, _, differences) in CASES {
        host.wait_log(name, "end");
        let difference =
            |word: &str| differences.iter().find(|(known, _)| *known == word).map(|found| found.1);
        let expected: Vec<&str> =
            TRIES.iter().zip(OPEN).map(|(word, open)| difference(word).unwrap_or(open)).collect();
        assert_eq!(answers(&host, name), expected, "{name}");
    }
    host.poweroff();
}

#[test]
fn y1_a_process_sees_no_others_and_calls_may_end_it() {
    let hidden = "security: {protect: [processes, kernelFiles]}\nuser: \"65534\"\n";
    let killed =
        "security: {systemCalls: {allow: [\"@system-service\"], answer: kill}}\nrestart: {policy: once}\n";
    let mut host = Host::builder()
        .runs_with("hidden", "'list=/proc', print=end, serve", hidden)
        .runs_with("bound", "serve", "security: {seccomp: unconfined, systemCalls: {deny: [\"@mount\"]}}")
        .runs_with("killed", "attempt=memory, attempt=umount, serve", killed)
        .runs_with(
            "own",
            "'try=/var/lib/kelson-own-test/file', 'try=/etc/kelson-own', print=end, serve",
            "security: {readOnlyRoot: true}\ndirectories: {state: [kelson-own-test]}\n",
        )
        .start();
    host.wait_log("hidden", "end");
    let seen = host.ctl(&["logs", "hidden"]).ok().stdout;
    let numbers = seen.lines().filter(|line| line.parse::<u32>().is_ok()).count();
    assert_eq!(numbers, 1, "it sees itself alone: {seen}");
    assert!(!seen.contains("meminfo") && seen.contains("self"), "{seen}");
    let killed = host.wait_state("killed", "failed");
    assert!(killed.message.contains("SIGSYS"), "{}", killed.message);
    assert_eq!(host.ctl(&["logs", "killed"]).ok().stdout, "memory: allowed\n");
    host.wait_log("own", "end");
    let said = host.ctl(&["logs", "own"]).ok().stdout;
    assert_eq!(said, format!("/var/lib/kelson-own-test/file: written\n/etc/kelson-own: {READ_ONLY}\nend\n"));
    // A command beside the process is bound as it is, also in the next incarnation of PID 1.
    let look = || host.ctl(&["exec", "hidden", "--", "/bin/ls", "/proc/meminfo"]).status;
    assert_eq!(look(), 2);
    host.crash(|| host.signal(libc::SIGSEGV));
    assert_eq!(look(), 2);
    let program = kelson_tests::paths::binary("kelson-test-program").display().to_string();
    let mount = || host.ctl(&["exec", "bound", "--", &program, "attempt=umount"]).ok().stdout;
    assert_eq!(mount(), format!("umount: {REFUSED}\n"));
    host.ctl(&["restart", "bound", "--wait"]).ok();
    assert_eq!(mount(), format!("umount: {REFUSED}\n"));
    host.poweroff();
}
