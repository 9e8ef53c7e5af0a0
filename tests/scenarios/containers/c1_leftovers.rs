//! C1: a container, snapshot or task of the same name that an earlier incarnation has left does not keep a service from
//! its start, and is gone.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use kelson_tests::{Host, paths};
use serde_json::json;

use super::{host, kept, runtime, service, steps, test_image};

/// A container that Kelson knows nothing of, called `web`; its command line holds `stranger`.
#[track_caller]
fn stranger(host: &Host) {
    let root = host.path("stranger");
    for folder in ["", "proc"] {
        fs::create_dir(root.join(folder)).expect("a writable folder");
    }
    fs::copy(paths::binary("kelson-test-program"), root.join("program")).expect("a copy");
    fs::set_permissions(root.join("program"), fs::Permissions::from_mode(0o755)).expect("a program");
    let spec = json!({
        "ociVersion": "1.0.2",
        "process": {"user": {"uid": 0, "gid": 0}, "args": ["/program", "hang", "stranger"], "cwd": "/"},
        "root": {"path": root},
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
        "linux": {"namespaces": [{"type": "pid"}, {"type": "mount"}]},
    });
    let file = host.path("stranger.json");
    fs::write(&file, spec.to_string()).expect("a writable folder");
    host.ctr(&["run", "--detach", "--config", &file.display().to_string(), "web"]).ok();
}

#[test]
fn c1_what_bears_the_name_of_a_service_makes_room_for_it() {
    let mut host = host(&[test_image()])
        .service("first", &service("test:1"))
        .service("web", &format!("{}start: manual", steps("serve")))
        .up(&["first"]);
    // As an earlier incarnation may have left them: a snapshot, and a container whose task runs.
    host.ctr(&["snapshots", "prepare", "web"]).ok();
    stranger(&host);
    let old = host.tasks().into_iter().find(|(name, ..)| name == "web").expect("its task").1;
    host.ctl(&["start", "web", "--wait"]).ok();
    let now = host.tasks();
    let web = now.iter().find(|(name, ..)| name == "web").expect("its task");
    assert_eq!((web.1, web.2.as_str()), (host.pid_of("web"), "RUNNING"), "{now:?}");
    assert_ne!(web.1, old);
    assert!(host.processes_with("stranger").is_empty(), "{:?}", host.processes());
    host.ctl(&["stop", "web", "--wait"]).ok();
    assert_eq!(
        (host.containers(), host.active_snapshots()),
        (vec!["first".to_owned()], vec!["first".to_owned()])
    );
    host.poweroff();
}

both!(c1_a_host_that_died_leaves_nothing_in_the_way_of_the_next);
fn c1_a_host_that_died_leaves_nothing_in_the_way_of_the_next() {
    let place = format!("kelson-c1-{}-{}", std::process::id(), runtime().len());
    let state = std::env::temp_dir().join(place);
    fs::create_dir_all(&state).expect("a writable folder");
    let life = || {
        let steps = steps("list=/, touch=/written, print=ready, serve");
        host(&[test_image()]).state(&state).service("web", &steps).start()
    };
    let mut first = life();
    first.wait_log("web", "ready");
    first.signal(libc::SIGKILL);
    first.wait_exit();
    drop(first);
    let mut second = life();
    second.wait_up("web");
    let told = second.events_of("web");
    assert!(told.iter().any(|event| event.message == "image test:1 was unpacked before"), "{told:#?}");
    assert_eq!(kept(&second, &state), ["web"]);
    let log = second.wait_log("web", "ready");
    assert!(!log.contains("written"), "the files of the first are there: {log}");
    second.poweroff();
    drop(second);
    fs::remove_dir_all(&state).expect("nothing is mounted there");
}
