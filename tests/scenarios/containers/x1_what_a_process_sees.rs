//! X1: a process of a container sees the same, whether runc, crun or Kelson runs it.

use std::collections::BTreeSet;

use kelson_tests::{Host, HostBuilder, archive};

use super::{Runtime, host, run_by, steps, test_image};

/// What a process can look at, with the words that differ from run to run taken out.
const LOOKS: &str = "cat=/proc/self/mountinfo, cat=/proc/self/status, cat=/proc/self/limits, list=/dev, \
                     cat=/proc/self/cgroup, cat=/proc/sys/kernel/hostname, report, \
                     try=/proc/sys/kernel/hostname, try=/sys/kernel, try=/new, escape, print=done, serve";

/// The lines of the log that say what is seen.
fn seen(host: &Host, name: &str) -> BTreeSet<String> {
    let log = host.wait_log(name, "done");
    // Behind the time, the stream and the mark of the run.
    let lines = log.lines().filter_map(|line| line.splitn(4, ' ').nth(3));
    lines.filter_map(|line| plain(line, name).map(|line| namespace(host, &line).unwrap_or(line))).collect()
}

/// Of a line about a namespace: whether it is that of the host.
fn namespace(host: &Host, line: &str) -> Option<String> {
    let (kind, of_process) = line.strip_prefix("ns.")?.split_once(' ')?;
    let link = std::fs::read_link(format!("/proc/{}/ns/{kind}", host.init_pid())).expect("the host's");
    let of_host = link.as_path() == std::path::Path::new(of_process);
    Some(format!("ns.{kind} is {}", if of_host { "of the host" } else { "of the container" }))
}

/// A line without what no two processes have in common.
fn plain(line: &str, name: &str) -> Option<String> {
    // A mount: numbers, the root of it, where it is, its options; behind the dash its type, source and options.
    if let Some((mount, kind)) = line.split_once(" - ") {
        let words: Vec<&str> = mount.split(' ').collect();
        let (at, options) = (words.get(4)?, words.get(5)?);
        let kind: Vec<&str> = kind.split(' ').collect();
        let optional = words.get(6..)?.iter().map(|word| word.split(':').next().unwrap_or_default());
        let optional: Vec<&str> = optional.collect();
        return Some(format!("mount {at} {options} {optional:?} {}", kind.first()?));
    }
    let volatile = ["Vm", "Rss", "voluntary", "nonvoluntary", "FDSize", "SigQ", "env.KELSON", "fd."];
    (!volatile.iter().any(|word| line.trim_start_matches("status ").starts_with(word)))
        .then(|| line.replace(name, "NAME"))
}

/// Who runs a container, and what its service file says of that.
const RUNC: (&str, &str) = ("runc", "containerd");
const CRUN: (&str, &str) = ("crun", "containerd");
const KELSON: (&str, &str) = ("kelson", "kelson");
const USERS: (&str, &str) = ("users", "kelson, userNamespace: true");

/// What a process of each form of a service sees, by who runs it, its form and the line.
fn looked(builder: HostBuilder, (who, runtime): (&str, &str)) -> BTreeSet<String> {
    let forms = [
        ("plain", ""),
        ("user", "user: '1000:1001'\n"),
        ("powers", "security: {capabilities: {add: [net_admin]}, noNewPrivileges: true}\n"),
        ("bare", "security: {seccomp: unconfined, readOnlyRoot: true}\nlimits: {nofile: 77}\n"),
    ];
    let mut builder = builder.archive("test.tar", archive(&[test_image()]));
    for (form, more) in forms {
        let file = format!(
            "container: {{image: 'test:1', runtime: {runtime}, hostname: same, command: [/program, {LOOKS}]}}\n{more}"
        );
        builder = builder.service(&format!("{form}-{who}"), &file);
    }
    let mut host = builder.start();
    let seen = forms.iter().flat_map(|(form, _)| {
        let lines = seen(&host, &format!("{form}-{who}"));
        lines.into_iter().map(move |line| format!("{form}: {line}"))
    });
    let seen = seen.collect();
    host.poweroff();
    seen
}

/// The lines that differ with crun, in each form: docs/images.md has the reasons.
const WITH_CRUN: [&str; 9] = [
    "core",
    "mount /proc/bus ro,relatime [] proc",
    "mount /proc/fs ro,relatime [] proc",
    "mount /proc/interrupts ro,relatime [] devtmpfs",
    "mount /proc/irq ro,relatime [] proc",
    "mount /proc/keys ro,relatime [] devtmpfs",
    "mount /proc/sys ro,relatime [] proc",
    "mount /proc/timer_list ro,relatime [] devtmpfs",
    "oom_score_adj 1",
];
const INSTEAD: [&str; 8] = [
    "mount /proc/bus ro,nosuid,nodev,noexec,relatime [] proc",
    "mount /proc/fs ro,nosuid,nodev,noexec,relatime [] proc",
    "mount /proc/interrupts rw,nosuid [] tmpfs",
    "mount /proc/irq ro,nosuid,nodev,noexec,relatime [] proc",
    "mount /proc/keys rw,nosuid [] tmpfs",
    "mount /proc/sys ro,nosuid,nodev,noexec,relatime [] proc",
    "mount /proc/timer_list rw,nosuid [] tmpfs",
    "oom_score_adj 0",
];

#[test]
fn x1_a_process_sees_the_same() {
    let kelson = looked(Host::builder().without_containerd(), KELSON);
    let runc = looked(Host::builder().containers(), RUNC);
    let crun = looked(Host::builder().crun(), CRUN);
    let mut different = Vec::new();
    let mut compare = |who: &str, only: &dyn Fn(&str) -> bool, lines: &[&BTreeSet<String>; 2]| {
        let [of, other] = lines;
        different
            .extend(of.difference(other).filter(|line| !only(line)).map(|line| format!("{who}: {line}")));
    };
    let nothing = |_: &str| false;
    let among = |known: &'static [&str]| move |line: &str| known.iter().any(|known| line.ends_with(known));
    compare("runc, not kelson", &nothing, &[&runc, &kelson]);
    compare("kelson, not runc", &nothing, &[&kelson, &runc]);
    compare("crun, not kelson", &among(&WITH_CRUN), &[&crun, &kelson]);
    compare("kelson, not crun", &among(&INSTEAD), &[&kelson, &crun]);
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// The lines that a user namespace changes: docs/howto/user-namespace.md has the reasons.
const WITHOUT_USERS: [&str; 2] = ["ns.user is of the host", ": Read-only file system (os error 30)"];
const WITH_USERS: [&str; 2] = ["ns.user is of the container", ": Permission denied (os error 13)"];

#[test]
fn x1_a_user_namespace_changes_nothing_else() {
    let without = looked(Host::builder().without_containerd(), KELSON);
    let with = looked(Host::builder().without_containerd(), USERS);
    let among =
        |known: &'static [&str]| move |line: &&String| !known.iter().any(|known| line.ends_with(known));
    assert!(with.contains("plain: ns.user is of the container"), "{with:#?}");
    let lost: Vec<_> = without.difference(&with).filter(among(&WITHOUT_USERS)).collect();
    let gained: Vec<_> = with.difference(&without).filter(among(&WITH_USERS)).collect();
    assert!(lost.is_empty() && gained.is_empty(), "lost: {lost:#?}\ngained: {gained:#?}");
}

#[test]
fn a_container_outlives_a_reexecution_of_pid_1() {
    run_by(Runtime::Kelson, || {
        let mut host = host(&[test_image()]).service("web", &steps("touch=/mark, serve")).up(&["web"]);
        let before = host.pid_of("web");
        host.ctl(&["reexec"]).ok();
        host.wait_up("web");
        assert_eq!(host.pid_of("web"), before);
        host.ctl(&["exec", "web", "--", "/program", "wait-path=/mark"]).ok();
        // Another run has the same files.
        host.ctl(&["restart", "web", "--wait"]).ok();
        assert_ne!(host.pid_of("web"), before);
        host.ctl(&["exec", "web", "--", "/program", "wait-path=/mark"]).ok();
        host.ctl(&["stop", "web", "--wait"]).ok();
        host.assert_nothing_left("web", "/program");
        host.poweroff();
    });
}
