//! A plugin for volumes in a container: what it mounts in its folder is seen on the host.

use std::fs;

use kelson_tests::eventually;

use super::{host, runtime, test_image};

both!(mounts_of_a_plugin_reach_the_host);

fn mounts_of_a_plugin_reach_the_host() {
    let file = format!(
        "container: {{{}image: 'test:1', network: none, command: [/program, 'list=/csi', 'report-of=env.CSI_ENDPOINT', \
         'wait-path=/csi/made', 'mount=tmpfs:none:/csi/made', 'touch=/csi/made/seen', print=end, 'csi=/csi/csi.sock:/says']}}\n\
         provides: {{csi: {{id: nfs}}}}\nsecurity: {{capabilities: {{add: [sys_admin]}}}}\nrestart: {{delay: 10ms}}\n",
        runtime()
    );
    let mut host = host(&[test_image()]).own_folder("/run").service("nfs", &file).start();
    let folder = host.inside("/run/kelson/csi/nfs");
    eventually("its folder", || folder.is_dir());
    fs::create_dir(folder.join("made")).expect("a folder");
    host.wait_up("nfs");
    let log = host.wait_log("nfs", "end");
    assert!(log.contains("unix:///csi/csi.sock"), "{log}");
    let table = fs::read_to_string(format!("/proc/{}/mountinfo", host.init_pid())).expect("it runs");
    let inner = fs::read_to_string(format!("/proc/{}/mountinfo", host.outer_pid(host.pid_of("nfs"))))
        .expect("it runs");
    assert!(folder.join("made/seen").exists(), "{table}\n\n{inner}");
    assert!(folder.join("csi.sock").exists());
    // The mount outlives its maker, and the socket does not.
    let before = host.service("nfs").pid;
    host.kill(host.pid_of("nfs"), libc::SIGKILL);
    host.wait_for("nfs", "the next run", |nfs| nfs.up && nfs.pid != before);
    assert!(folder.join("made/seen").exists());
    let log = host.log_text("nfs");
    assert!(log.contains(" made\n") && !log.contains(" csi.sock\n"), "{log}");
    let table = fs::read_to_string(format!("/proc/{}/mountinfo", host.init_pid())).expect("it runs");
    let of_plugin = table.lines().filter(|line| line.contains(" /run/kelson/csi/nfs ")).count();
    assert_eq!(of_plugin, 1, "{table}");
    host.poweroff();
}
