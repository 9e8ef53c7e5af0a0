//! C5: open, run, stop, run, stop, close: the container is made once, a task for each run.

use kelson_tests::Host;

use super::{RUNTIME, Runtime, assert_no_container, host, kept, steps, test_image};

/// Of the container `web`, where containerd has it.
#[track_caller]
fn created(host: &Host) -> Option<String> {
    let info = (RUNTIME.get() == Runtime::Containerd)
        .then(|| host.ctr(&["containers", "info", "web"]).ok().stdout)?;
    let line = info.lines().find(|line| line.contains("CreatedAt"));
    Some(line.unwrap_or_else(|| panic!("{info}")).to_owned())
}

both!(c5_a_container_is_made_once_and_a_task_for_each_run);
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
    let state = host.path("lib");
    host.wait_log("web", "third");
    host.wait_up("web");
    assert_eq!(host.service("web").restarts, 2);
    let made = created(&host);
    assert_eq!(host.processes_with("/program").len(), 1);
    // The files that it wrote to its root are there in the next run.
    let pid = host.pid_of("web");
    host.kill(pid, libc::SIGKILL);
    host.wait_for("web", "to run again", |web| web.up && web.pid.is_some_and(|new| new != pid));
    assert_eq!((created(&host), kept(&host, &state)), (made, vec!["web".to_owned()]), "it was made again");
    host.ctl(&["stop", "web", "--wait"]).ok();
    assert_no_container(&host);
    // Kelson's own containers leave their files to the next start, or to this.
    host.ctl(&["images", "prune"]).ok();
    assert!(kept(&host, &state).is_empty(), "{:?}", kept(&host, &state));
    // Another start begins with the image again.
    host.ctl(&["start", "web"]).ok();
    host.wait_for("web", "to count from the beginning", |web| web.up && web.restarts == 2);
    host.ctl(&["stop", "web", "--wait"]).ok();
    host.assert_nothing_left("web", "fail-until");
    host.poweroff();
}
