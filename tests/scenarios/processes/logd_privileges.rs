//! kelson-logd holds no capability, has a seccomp profile, and can gain nothing.

use std::fs;

use kelson_tests::{Host, PATIENCE, until};

use super::logd;

#[test]
fn logd_has_no_capability_and_a_seccomp_profile_in_each_thread() {
    let mut host = Host::builder().runs("web", "print=hello, hang").start();
    host.wait_log("web", "hello");
    // Its third thread is that of the API.
    assert!(host.ctl(&["logs", "web"]).ok().stdout.contains("hello"));
    let tasks = format!("/proc/{}/task", host.outer_pid(logd(&host)));
    until("all threads", PATIENCE, || (fs::read_dir(&tasks).ok()?.count() >= 3).then_some(()));
    for thread in fs::read_dir(&tasks).expect("it runs").flatten() {
        let status = fs::read_to_string(thread.path().join("status")).expect("its status");
        let field = |name: &str| {
            let line =
                status.lines().find_map(|line| line.strip_prefix(name)).expect("a field of the kernel");
            line.trim().to_owned()
        };
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
            assert_eq!(u64::from_str_radix(&field(set), 16), Ok(0), "{set} of {status}");
        }
        // It could get the rest by executing a file: chown and sys_nice, if no_new_privs were not set.
        let bounding = u64::from_str_radix(&field("CapBnd:"), 16).expect("a number");
        assert_eq!(bounding & !(1 | 1 << 23), 0, "{status}");
        assert_eq!((field("Seccomp:"), field("NoNewPrivs:")), ("2".to_owned(), "1".to_owned()));
    }
    host.poweroff();
}
