//! The cgroups of a host that is PID 1 of a container: what stays of them, and what the next host finds.

use kelson_tests::Host;

#[test]
fn a_host_that_has_stopped_leaves_no_cgroup_behind() {
    let mut host = Host::builder()
        .runs("web", "serve")
        .runs_with("nest", "serve", "delegate: true")
        .up(&["web", "nest"]);
    let root = host.cgroup_of("web").parent().expect("services are below a root").to_owned();
    assert!(root.join("logd").is_dir(), "{root:?}");
    host.poweroff();
    assert!(!root.exists(), "{root:?} is left: {}", host.console());
}

#[test]
fn what_another_host_has_left_in_its_cgroups_counts_for_nobody() {
    let host = Host::builder().cgroup_left("web/main").cgroup_left("gone").runs("web", "serve").up(&["web"]);
    assert!(!host.cgroup_of("gone").exists() && !host.cgroup_of("web").join("main").exists());
    assert_eq!(host.service("web").restarts, 0);
}
