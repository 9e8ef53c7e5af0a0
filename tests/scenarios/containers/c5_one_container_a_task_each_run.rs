//! C5: open, run, stop, run, stop, close: the container is made once, a task for each run.

use super::{host, steps, test_image};

#[test]
fn c5_a_container_is_made_once_and_a_task_for_each_run() {
    let mut host = host(&[test_image()])
        .service(
            "web",
            &format!(
                "{}restart: {{policy: forever, delay: 10ms, maxDelay: 10ms}}",
                steps("'fail-until=3:/count', print=third, serve")
            ),
        )
        .start();
    host.wait_log("web", "third");
    host.wait_up("web");
    assert_eq!(host.service("web").restarts, 2);
    let made = host.ctr(&["containers", "info", "web"]).ok().stdout;
    assert_eq!(host.tasks().len(), 1);
    // The files that it wrote to its root are there in the next run: the snapshot is the same.
    let pid = host.pid_of("web");
    host.kill(pid, libc::SIGKILL);
    host.wait_for("web", "to run again", |web| web.up && web.pid.is_some_and(|new| new != pid));
    let again = host.ctr(&["containers", "info", "web"]).ok().stdout;
    let created = |info: &str| info.lines().find(|line| line.contains("CreatedAt")).map(str::to_owned);
    assert_eq!(created(&made), created(&again), "the container was made anew");
    assert!(created(&made).is_some(), "{made}");
    host.ctl(&["stop", "web", "--wait"]).ok();
    assert!(host.containers().is_empty() && host.tasks().is_empty() && host.active_snapshots().is_empty());
    host.assert_nothing_left("web", "fail-until");
    host.poweroff();
}
