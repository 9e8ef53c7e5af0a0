//! Y1, a network and users of its own, devices that it can open, and IPC that is removed.

use std::fs;
use std::os::unix::fs::chown;

use kelson_tests::{Host, eventually};

/// The user of the services, of these tests alone: what it has in memory is the machine's.
fn user() -> u32 {
    50_000 + std::process::id() % 10_000
}

/// What a shell of a service says of its users, its network and a call that needs root of the machine.
const LOOK: &str = "stat -c %u / /proc/1 $DIR/own; ls /sys/class/net >/dev/null; \
    grep -c : /proc/net/dev; mount -t tmpfs none $DIR/own 2>/dev/null || echo refused; echo end; sleep 1000";

fn lines(host: &Host, name: &str) -> Vec<String> {
    host.wait_log(name, "end");
    host.ctl(&["logs", name]).ok().stdout.lines().map(str::to_owned).collect()
}

#[test]
fn y1_a_service_has_users_and_a_network_of_its_own() {
    let mut host = Host::builder().runs("plain", "serve").start();
    let user = user();
    fs::create_dir(host.path("own")).expect("a folder");
    chown(host.path("own"), Some(user), Some(user)).expect("its owner");
    let write = |name: &str, more: &str| {
        let file = format!("process: {{command: [/bin/sh, -c, '{LOOK}']}}\nstop: {{timeout: now}}\n{more}");
        host.write_service(name, &file);
    };
    write("users", &format!("user: \"{user}:{user}\"\nsecurity: {{privateUsers: true}}"));
    write("root", "security: {privateUsers: true, privateNetwork: true, seccomp: unconfined}");
    // All that can be made for a process.
    write("all", "security: {privateUsers: true, privateNetwork: true, privateTmp: true, devices: {}}");
    // Its check asks in its network; nothing of the host listens there.
    let checked =
        "security: {privateNetwork: true}\nhealth: [{tcp: {port: 4321}, initialDelay: 0s, interval: 100ms}]";
    host.write_service("asked", &format!("process: {{command: [$PROGRAM, tcp=4321]}}\n{checked}"));
    host.write_service("unasked", &format!("process: {{command: [$PROGRAM, serve]}}\n{checked}"));
    host.ctl(&["reload"]).ok();
    host.wait_all_up(&["users", "root", "all", "asked"]);
    let refused = host.wait_for("unasked", "to be refused", |service| service.healthy == Some(false));
    assert!(refused.message.contains("refused"), "each has a port 4321 of its own: {refused:?}");
    // The root folder is root's, PID 1 too; the folder is its own.
    let users = lines(&host, "users");
    assert_eq!(users[..3], ["0", "0", &user.to_string()].map(str::to_owned));
    assert_eq!(users[4..], ["refused", "end"].map(str::to_owned));
    // To root without users the folder is nobody's, and it cannot mount on the machine.
    let root = lines(&host, "root");
    assert_eq!(root, ["0", "0", "65534", "1", "refused", "end"].map(str::to_owned));
    let devices = || {
        let cat = ["exec", "root", "--", "/bin/grep", "-c", ":", "/proc/net/dev"];
        let stat =
            ["exec", "root", "--", "/usr/bin/stat", "-c", "%u", &host.path("own").display().to_string()];
        (host.ctl(&cat).ok().stdout, host.ctl(&stat).ok().stdout)
    };
    let expected = ("1\n".to_owned(), "65534\n".to_owned());
    assert_eq!(devices(), expected);
    host.ctl(&["reexec"]).ok();
    assert_eq!(devices(), expected);
    host.ctl(&["restart", "root", "--wait"]).ok();
    assert_eq!(devices(), expected);
    host.poweroff();
}

#[test]
fn y1_ipc_of_a_user_goes_with_its_service() {
    let user = user();
    let (own, others) = (format!("kelson-{user}-own"), format!("kelson-{user}-others"));
    let of_root = format!("/dev/shm/{others}");
    let mut host = Host::builder().runs("plain", "serve").start();
    fs::write(&of_root, "").expect("a file of root");
    let script = format!("touch /dev/shm/{own}; ipcmk -M 4096 >/dev/null; echo end; sleep 1000");
    host.write_service(
        "left",
        &format!(
            "process: {{command: [/bin/sh, -c, '{script}']}}\nuser: \"{user}:{user}\"\nremoveIpc: true\nstop: {{timeout: now}}"
        ),
    );
    host.ctl(&["reload"]).ok();
    host.wait_log("left", "end");
    let of_host = |command: &[&str]| host.ctl(&[&["exec", "plain", "--"], command].concat()).ok().stdout;
    let left = || {
        let table = of_host(&["/bin/cat", "/proc/sysvipc/shm"]);
        let memory = table.lines().filter(|line| line.contains(&format!(" {user} "))).count();
        let files = of_host(&["/bin/ls", "/dev/shm"]);
        (memory > 0, files.contains(&own), files.contains(&others))
    };
    assert_eq!(left(), (true, true, true));
    host.ctl(&["stop", "left", "--wait"]).ok();
    assert_eq!(left(), (false, false, true));
    fs::remove_file(of_root).expect("it goes");
    host.poweroff();
}

/// Which of these devices a shell opens, each to read and to write.
const OPEN: &str = "for device in null zero kmsg; do \
    (true </dev/$device) 2>&- && echo \"$device<\"; (true >/dev/$device) 2>&- && echo \"$device>\"; done; echo end";

#[test]
fn y1_a_service_opens_its_devices_alone() {
    let mut host = Host::builder().runs("plain", "serve").start();
    let script = host.path("open.sh");
    fs::write(&script, OPEN).expect("a script");
    let write = |name: &str, more: &str| {
        let command = format!("sh {}; sleep 1000", script.display());
        let file =
            format!("process: {{command: [/bin/sh, -c, '{command}']}}\nstop: {{timeout: now}}\n{more}");
        host.write_service(name, &file);
    };
    let hook = format!("hooks: {{pre: [{{command: [/bin/sh, {}], asRoot: true}}]}}", script.display());
    write("usual", &format!("security: {{devices: {{}}}}\n{hook}"));
    write("strict", "security: {devices: {usual: false, allow: [/dev/zero:r, /dev/none, 'char-no*']}}");
    host.ctl(&["reload"]).ok();
    host.wait_all_up(&["usual", "strict"]);
    host.wait_log("strict", "end");
    eventually("the program has looked", || {
        lines(&host, "usual").iter().filter(|line| *line == "end").count() == 2
    });
    // Its hook of root is not limited.
    let [all, usual] = [
        &["null<", "null>", "zero<", "zero>", "kmsg<", "kmsg>", "end"][..],
        &["null<", "null>", "zero<", "zero>", "end"],
    ];
    assert_eq!(lines(&host, "usual"), [all, usual].concat());
    assert_eq!(lines(&host, "strict"), ["zero<", "end"]);
    let beside = || host.ctl(&["exec", "strict", "--", "/bin/sh", &script.display().to_string()]).ok().stdout;
    let plain = host.ctl(&["exec", "plain", "--", "/bin/sh", &script.display().to_string()]).ok().stdout;
    assert_eq!(plain.lines().collect::<Vec<_>>(), all);
    assert_eq!(beside(), "zero<\nend\n");
    host.ctl(&["reexec"]).ok();
    assert_eq!(beside(), "zero<\nend\n");
    host.ctl(&["restart", "strict", "--wait"]).ok();
    assert_eq!(beside(), "zero<\nend\n");
    host.poweroff();
}
