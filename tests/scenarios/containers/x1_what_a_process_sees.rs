//! X1: a process of a container sees the same with both runtimes. X2: it does not get out.

use std::collections::BTreeSet;

use kelson_tests::{Host, Image};

use super::{Runtime, host, run_by, steps, test_image};

/// What a process can look at, with the words that differ from run to run taken out.
const LOOKS: &str = "cat=/proc/self/mountinfo, cat=/proc/self/status, cat=/proc/self/limits, list=/dev, \
                     cat=/proc/self/cgroup, cat=/proc/self/oom_score_adj, cat=/proc/sys/kernel/hostname, report, \
                     try=/proc/sys/kernel/hostname, try=/sys/kernel, try=/new, print=done, serve";

/// The lines of the log that say what is seen.
fn seen(host: &Host, name: &str) -> BTreeSet<String> {
    let log = host.wait_log(name, "done");
    // Behind the time, the stream and the mark of the run.
    let lines = log.lines().filter_map(|line| line.splitn(4, ' ').nth(3));
    lines.filter_map(|line| plain(line, name)).collect()
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
    let volatile = ["Vm", "Rss", "voluntary", "nonvoluntary", "FDSize", "SigQ", "env.KELSON", "fd.", "ns."];
    (!volatile.iter().any(|word| line.trim_start_matches("status ").starts_with(word)))
        .then(|| line.replace(name, "NAME"))
}

#[test]
fn x1_a_process_sees_the_same() {
    let forms = [
        ("plain", ""),
        ("user", "user: '1000:1001'\n"),
        ("powers", "security: {capabilities: {add: [net_admin]}, noNewPrivileges: true}\n"),
        ("bare", "security: {seccomp: unconfined, readOnlyRoot: true}\nlimits: {nofile: 77}\n"),
    ];
    let mut builder = host(&[test_image()]);
    for (form, more) in forms {
        for key in ["containerd", "kelson"] {
            let file = format!(
                "container: {{image: 'test:1', runtime: {key}, hostname: same, command: [/program, {LOOKS}]}}\n{more}"
            );
            builder = builder.service(&format!("{form}-{key}"), &file);
        }
    }
    let mut host = builder.start();
    let mut different = Vec::new();
    for (form, _) in forms {
        let [containerd, kelson] = ["containerd", "kelson"].map(|key| seen(&host, &format!("{form}-{key}")));
        different.extend(containerd.difference(&kelson).map(|line| format!("{form}: containerd: {line}")));
        different.extend(kelson.difference(&containerd).map(|line| format!("{form}: kelson: {line}")));
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    host.poweroff();
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

#[test]
fn x2_links_of_an_image_do_not_lead_out_of_it() {
    let outside = std::env::temp_dir().join(format!("kelson-x2-{}", std::process::id()));
    std::fs::create_dir_all(&outside).expect("a writable folder");
    let image = Image::new("test:1", &["serve"]).layer(
        kelson_tests::Tar::new()
            .symlink("out", &outside.display().to_string())
            .symlink("up", &format!("../../../../..{}", outside.display())),
    );
    run_by(Runtime::Kelson, || {
        let mut host = host(std::slice::from_ref(&image))
            .service(
                "web",
                "container:\n  image: 'test:1'\n  runtime: kelson\n  mounts: [{source: tmpfs, target: /out/a}, \
                 {source: tmpfs, target: /up/b}]\n",
            )
            .up(&["web"]);
        host.ctl(&["exec", "web", "--", "/program", "wait-path=/out/a", "wait-path=/up/b"]).ok();
        host.poweroff();
    });
    assert_eq!(std::fs::read_dir(&outside).expect("the folder").count(), 0);
    std::fs::remove_dir_all(&outside).expect("it is ours");
}

both!(x2_devices_of_the_host_cannot_be_opened);
fn x2_devices_of_the_host_cannot_be_opened() {
    // The node of a zero that every container has, the kernel's log, and the memory of the host.
    let looks = "'device=1:5', 'device=1:11', 'device=1:1', print=done, serve";
    let mut host = host(&[test_image()]).service("web", &steps(looks)).up(&["web"]);
    let log = host.wait_log("web", "done");
    assert!(log.contains("device 1:5: opened"), "{log}");
    for refused in ["device 1:11: Operation not permitted", "device 1:1: Operation not permitted"] {
        assert!(log.contains(refused), "{log}");
    }
    let beside = host.ctl(&["exec", "web", "--", "/program", "device=1:5", "device=1:1"]).ok().stdout;
    assert!(beside.contains("device 1:5: opened"), "{beside}");
    assert!(beside.contains("device 1:1: Operation not permitted"), "{beside}");
    host.poweroff();
}
