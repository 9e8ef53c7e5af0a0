//! That a host starts, runs a service, and ends.

use std::process::Command;

use kelson_tests::{Host, PATIENCE, eventually, paths, until};

#[test]
fn the_binaries_are_static() {
    for name in ["init", "kelsonctl"] {
        let output = Command::new("file").arg("--brief").arg(paths::binary(name)).output().expect("file(1)");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("static") && !said.contains("interpreter"), "{name}: {said}");
    }
}

#[test]
fn a_host_without_services_boots_answers_and_powers_off() {
    let mut host = Host::builder().start();
    assert!(host.services().iter().all(|service| service.builtin), "{:?}", host.services());
    host.poweroff();
}

#[test]
fn a_service_is_up_with_its_process_and_its_log() {
    let mut host = Host::builder().runs("web", "print=hello, serve").up(&["web"]);
    let web = host.service("web");
    assert_eq!((web.state.as_str(), web.healthy, web.restarts), ("running", None, 0));
    let pid = host.pid_of("web");
    let process = host.processes().into_iter().find(|process| process.pid == pid).expect("its process");
    assert_eq!(
        (process.parent, &process.command[1..]),
        (1, &["print=hello".to_owned(), "serve".to_owned()][..])
    );
    host.wait_log("web", "hello");
    host.poweroff();
}

#[test]
fn a_one_shot_is_up_once_it_ended_successfully() {
    let mut host = Host::builder().runs_with("migrate", "'touch=$DIR/migrated'", "type: oneshot").start();
    host.wait_finished("migrate");
    host.wait_up("migrate");
    assert!(host.path("migrated").exists());
    assert_eq!(host.service("migrate").state, "finished");
    host.poweroff();
}

#[test]
fn without_a_cgroup_a_stop_takes_the_strays_along() {
    let mut host = Host::builder()
        .runs_with("daemon", "'orphan=setsid,ignore=TERM,hang', serve", "resources: {memoryMax: 64Mi}")
        .without_cgroup()
        .up(&["daemon"]);
    assert!(host.console().contains("strays are found by their KELSON_RUN"), "{}", host.console());
    host.wait_event(0, "what is not enforced", |event| {
        event.service == "daemon"
            && event.message.contains("memoryMax is not enforced: there is no cgroup v2")
    });
    eventually("the daemon's orphan", || host.processes_with("orphan=").len() == 2);
    host.ctl(&["stop", "daemon"]).ok();
    host.wait_down("daemon");
    assert!(host.processes_with("orphan=").is_empty(), "{:?}", host.processes());
    host.poweroff();
}

#[test]
fn the_boot_is_over_once_its_one_shots_have_ended() {
    let mut host = Host::builder()
        .runs_with("migrate", "'wait-path=$DIR/go'", "type: oneshot")
        .runs("web", "serve")
        .start();
    let total =
        |host: &Host| host.ctl(&["-o", "json", "boot"]).ok().json::<serde_json::Value>()["totalMs"].as_f64();
    host.wait_up("web");
    host.wait_state("migrate", "running");
    assert_eq!(total(&host), None);
    host.touch("go");
    host.wait_finished("migrate");
    until("the boot to be over", PATIENCE, || total(&host));
    host.poweroff();
}

#[test]
fn a_container_whose_boot_fails_says_why_and_ends_with_status_1() {
    let mut host = Host::builder()
        .argument("--runtime-dir")
        .argument("/proc/none")
        .runs("web", "touch=$DIR/ran")
        .spawn();
    assert_eq!(host.wait_exit(), 1);
    let console = host.console();
    assert!(console.contains("the boot has failed: the boot task \"runtime folders\" failed"), "{console}");
    assert!(!host.path("ran").exists(), "a service was started");
}

/// As named, snmpd and others do.
#[test]
fn a_program_that_gives_up_root_itself_says_that_it_is_ready() {
    let drops = "process: {command: [setpriv, --reuid=4242, --regid=4242, --clear-groups, $PROGRAM, \
                 'notify=READY=1', serve]}\nreadiness: notify\nstartTimeout: 20s\nrestart: {policy: once}";
    let mut host = Host::builder().service("drops", drops).up(&["drops"]);
    host.ctl(&["reexec"]).ok();
    host.ctl(&["restart", "drops", "--wait"]).ok();
    host.poweroff();
}
