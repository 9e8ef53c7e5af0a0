//! The check `volume` of a container, whose image has no program for it.

use std::fs;

use super::{host, runtime, test_image};

all!(a_full_volume_of_a_container_is_found);

fn a_full_volume_of_a_container_is_found() {
    // The root of the container decides what the path is.
    let file = format!(
        "container: {{{}image: 'test:1', command: [/program, serve]}}\n\
         volumes: [{{name: data, source: {{tmpfs: {{size: 1Mi}}}}, target: /data}}]\n\
         health: [{{volume: data, freeAtLeast: 512Ki, interval: 50ms, failureThreshold: 1}}]\n",
        runtime()
    );
    let mut host = host(&[test_image()]).service("web", &file).up(&["web"]);
    let big = format!("/proc/{}/root/data/big", host.outer_pid(host.pid_of("web")));
    fs::write(&big, vec![0; 700 << 10]).expect("the volume");
    let full = host.wait_for("web", "a full volume", |now| !now.up);
    let expected =
        "check volume: volume data: 324.0 KiB of 1.0 MiB are free; at least 512.0 KiB is asked for";
    assert!(full.message.ends_with(expected), "{}", full.message);
    fs::remove_file(&big).expect("it is there");
    host.wait_up("web");
    host.poweroff();
}
