//! H4: an exec check runs where and as its service does; a timeout kills all that it started; `status` has its output.

use kelson_tests::{Host, eventually};

use super::{check, last_output};

#[test]
fn h4_a_check_runs_where_and_as_its_service_does() {
    let mut host = Host::builder()
        .service(
            "web",
            "process: {command: [/usr/bin/busybox, sleep, '1000000']}\n\
             environment: {COLOUR: green}\n\
             user: '1234:1234'\n\
             health:\n\
             - name: self\n\
             \x20 exec: {command: [/usr/bin/busybox, sh, -c, 'id -u; echo $COLOUR; cat /proc/self/cgroup; exit 0']}\n\
             \x20 initialDelay: 0s",
        ).up(&["web"]);
    let service = host.service("web");
    assert_eq!(service.healthy, Some(true), "{service:?}");
    let check = check(&host, "web", "self");
    assert_eq!((&check["kind"], &check["state"]), (&"exec".into(), &"passing".into()), "{check}");
    let output = last_output(&check);
    assert!(output.starts_with("1234\ngreen\n") && output.contains("kelson/web"), "{output}");
    let table = host.ctl(&["status", "web"]).ok();
    assert!(
        table.stdout.contains("self (exec): passing") && table.stdout.contains("green"),
        "{}",
        table.stdout
    );
    host.poweroff();
}

#[test]
fn h4_a_timeout_kills_all_that_the_check_started() {
    let mut host = Host::builder()
        .service(
            "web",
            "process: {command: [/usr/bin/busybox, sleep, '1000000']}\n\
             health:\n\
             - name: slow\n\
             \x20 exec: {command: [/usr/bin/busybox, sh, -c, 'echo asking; sleep 77777 & sleep 77777']}\n\
             \x20 initialDelay: 0s\n\
             \x20 timeout: 300ms\n\
             \x20 interval: 1h\n\
             \x20 grace: 0s\n\
             \x20 failureThreshold: 1",
        )
        .start();
    let service = host.wait_for("web", "to be unhealthy", |service| service.healthy == Some(false));
    assert!(service.pid.is_some() && !service.up, "{service:?}");
    assert_eq!(service.message, "running, waits for check slow: no answer within 300 ms");
    eventually("all of the check to be gone", || host.processes_with("77777").is_empty());
    assert_eq!(last_output(&check(&host, "web", "slow")), "asking\nno answer within 300 ms");
    host.poweroff();
}
