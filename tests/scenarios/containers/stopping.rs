//! S2, S3 and S4 with containers: no container, shim or containerd keeps a service or the host from its end.

use std::time::{Duration, Instant};

use kelson_tests::{Host, Image, PATIENCE, eventually, until};

use super::{assert_no_container, host, runtime, steps, test_image};

both!(s2_a_container_that_ignores_sigterm_is_killed_with_all_its_children);
fn s2_a_container_that_ignores_sigterm_is_killed_with_all_its_children() {
    let mut host = host(&[test_image()])
        .service(
            "deaf",
            &format!(
                "{}stop: {{timeout: 400ms}}",
                steps("ignore=TERM, 'spawn=setsid,ignore=TERM,print=brood,hang', 'orphan=setsid,ignore=TERM,print=brood,hang', print=ready, hang")
            ),
        )
        .service("plain", &format!("{}stop: {{timeout: 400ms}}", steps("print=ready, hang")))
        .start();
    host.wait_log("deaf", "ready");
    host.wait_up("deaf");
    host.wait_log("plain", "ready");
    host.wait_up("plain");
    eventually("the brood", || host.log_text("deaf").matches("brood").count() == 2);
    let begun = Instant::now();
    host.ctl(&["stop", "deaf", "--wait"]).ok();
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(400) && took < Duration::from_secs(5), "{took:?}");
    host.assert_nothing_left("deaf", "setsid");
    let killed = "did not end within 400 ms of its stop signal, killed: it ignores SIGTERM";
    assert!(host.events_of("deaf").iter().any(|event| event.message.contains(killed)));
    // The kernel drops a signal without a handler, where it is for the first process of a PID namespace.
    host.ctl(&["stop", "plain", "--wait"]).ok();
    let plain = host.service("plain").message;
    assert!(
        plain.contains("killed after 400 ms: it has no handler for SIGTERM, and the kernel drops that"),
        "{plain}"
    );
    assert_no_container(&host);
    host.poweroff();
}

#[track_caller]
fn powers_off(host: &mut Host, within: Duration) {
    let begun = Instant::now();
    host.ctl(&["poweroff"]).ok();
    assert_eq!(host.wait_exit_within(within + Duration::from_secs(15)), 0, "{}", host.console());
    assert!(begun.elapsed() < within, "{:?}\n{}", begun.elapsed(), host.console());
}

both!(s3_a_frozen_container_is_thawed_to_stop);
fn s3_a_frozen_container_is_thawed_to_stop() {
    let mut host =
        host(&[test_image()]).service("ice", &steps("print=ready, 'await=TERM', print=obeyed")).start();
    host.wait_log("ice", "ready");
    // It may say so before PID 1 knows that its start is over.
    host.wait_up("ice");
    let folder = host.cgroup_of("ice");
    std::fs::write(folder.join("cgroup.freeze"), "1").expect("its cgroup can be frozen");
    until("it to be frozen", PATIENCE, || {
        std::fs::read_to_string(folder.join("cgroup.events")).ok()?.contains("frozen 1").then_some(())
    });
    host.ctl(&["stop", "ice", "--wait"]).ok();
    host.wait_log("ice", "obeyed");
    host.assert_nothing_left("ice", "await=TERM");
    host.poweroff();
}

#[test]
fn s3_a_shim_that_hangs_holds_nothing_up() {
    let mut host = host(&[test_image()]).service("web", &steps("serve")).up(&["web"]);
    let shims = host.processes_with("containerd-shim");
    assert_eq!(shims.len(), 1, "{shims:?}");
    host.kill(shims[0].pid, libc::SIGSTOP);
    powers_off(&mut host, Duration::from_secs(30));
}

#[test]
fn s3_a_containerd_that_hangs_holds_nothing_up() {
    let mut host = host(&[test_image()])
        .machine("shutdown: {timeout: 20s}")
        .service("web", &steps("serve"))
        .up(&["web"]);
    host.kill(host.pid_of("containerd"), libc::SIGSTOP);
    powers_off(&mut host, Duration::from_secs(30));
}

both!(s4_the_delay_comes_before_the_signal);
fn s4_the_delay_comes_before_the_signal() {
    let mut host = host(&[test_image()])
        .service(
            "web",
            &format!("{}stop: {{delay: 1s}}", steps("print=ready, 'await=TERM', print=signalled")),
        )
        .start();
    host.wait_log("web", "ready");
    host.wait_up("web");
    host.ctl(&["stop", "web"]).ok();
    let web = host.service("web");
    assert_eq!((web.state.as_str(), web.up), ("stopping", false), "{web:?}");
    assert!(!host.log_text("web").contains("signalled"));
    host.wait_state("web", "stopped");
    let told = host.events_of("web");
    let (stopping, end) = (
        told.iter().find(|event| event.state == "stopping").expect("its stop"),
        told.iter().find(|event| event.state == "stopped").expect("its end"),
    );
    assert!(end.at() - stopping.at() >= Duration::from_millis(990), "{told:#?}");
    host.wait_log("web", "signalled");
    host.poweroff();
}

both!(s1_containers_stop_in_order_at_the_crash_limit);
/// The user of a database, which takes its time after the stop signal of its image, and then keeps what it has.
fn s1_containers_stop_in_order_at_the_crash_limit() {
    let image = Image::new("quits:1", &["serve"]).set("StopSignal", "SIGQUIT".into());
    let runtime = if runtime().is_empty() { "containerd" } else { "kelson" };
    let container = |steps: &str, more: &str| {
        format!(
            "container:
  runtime: {runtime}
  image: 'quits:1'
  command: [/program, {steps}]
  mounts: [{{source: $DIR, target: /out, options: [rbind]}}]
{more}"
        )
    };
    let mut host = host(&[image])
        .crash_limit("1/1m")
        .service("db", &container("await=QUIT, touch=/out/signalled, wait-path=/out/kept, touch=/out/db", ""))
        .service(
            "web",
            &container(
                "await=QUIT, sleep=3s, end-if=/out/signalled, touch=/out/kept",
                "depends: [{service: db}]\nhooks: {preStop: {command: [/program, touch=/out/hook]}}",
            ),
        )
        .up(&["web"]);
    host.signal(libc::SIGSEGV);
    assert_eq!(host.wait_exit(), 10);
    let console = host.console();
    for name in ["kept", "signalled", "db"] {
        assert!(host.path(name).exists(), "{name} is missing\n{console}");
    }
    assert!(!console.contains("killed"), "{console}");
    assert!(!host.path("hook").exists());
    assert!(console.contains("no hook of a container runs after the crash limit"), "{console}");
    if let Some(containerd) = console.find("stopping containerd") {
        assert!(console.find("stopping db").is_some_and(|db| db < containerd), "{console}");
    }
}
