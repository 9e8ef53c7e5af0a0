//! The end of the host that a service brings about: `main` of the machine file, and `onExit: stop`.

mod command;
mod crashes;
mod signals;

use kelson_tests::{Host, HostBuilder};

/// A host whose main service does these steps.
fn with_main(steps: &str, more: &str) -> HostBuilder {
    Host::builder().machine("main: web").runs_with("web", steps, more)
}

/// A main service that ends with status 7 once it is asked to, and is up once it hears that.
fn serving() -> HostBuilder {
    with_main("notify=READY=1, serve=7", "readiness: notify")
}

/// Where the console first tells this.
#[track_caller]
fn place(console: &str, text: &str) -> usize {
    console.find(text).unwrap_or_else(|| panic!("{text} is not in {console}"))
}

#[test]
fn the_end_of_the_main_service_stops_the_others_in_order() {
    let mut host =
        with_main("wait-path=$DIR/go, exit=3", "restart: {policy: once}\ndepends: [{service: db}]")
            .runs("db", "serve")
            .runs_with("agent", "serve", "depends: [{service: db}]")
            .up(&["db", "agent", "web"]);
    host.touch("go");
    assert_eq!(host.wait_exit(), 3);
    let console = host.console();
    let asked = "power off: asked for by the end of web: exited with status 3";
    let order =
        [asked, "agent: stopping", "agent: stopped", "db: stopping", "db: stopped", "all services are down"];
    let places: Vec<usize> = order.iter().map(|text| place(&console, text)).collect();
    assert!(places.is_sorted(), "{places:?}: {console}");
}

#[test]
fn the_exit_status_is_that_of_the_main_service() {
    for (steps, more, status) in [
        ("exit=0", "restart: {policy: once}", 0),
        ("exit=0", "type: oneshot", 0),
        ("exit=200", "restart: {policy: once}", 200),
        ("raise=KILL", "restart: {policy: once}", 137),
        // Its restart policy decides when it ends.
        ("fail-until=2:$DIR/count, exit=0", "restart: {policy: untilSuccess, delay: 0s}", 0),
        ("append=$DIR/count, exit=4", "restart: {policy: forever, delay: 0s, attempts: 2}", 4),
        // Kelson stops it because it is not ready, and it ends well then.
        ("serve", "restart: {policy: once}\nreadiness: notify\nstartTimeout: 100ms", 1),
        ("serve", "when: [{path: /nowhere}]", 0),
        ("serve", "colour: red", 125),
        ("serve", "restart: {policy: once}\nhooks: {pre: {command: [/nowhere]}}", 125),
    ] {
        let mut host = with_main(steps, more).runs("db", "serve").spawn();
        assert_eq!(host.wait_exit(), status, "{steps} {more}; its console:\n{}", host.console());
    }
}

#[test]
fn a_main_service_that_cannot_be_started_ends_the_host_as_in_a_shell() {
    for (program, status) in [("no-such-program", 127), ("/nowhere/program", 127), ("/etc/passwd", 126)] {
        let yaml = format!("process: {{command: [{program}]}}\nrestart: {{policy: once}}");
        let mut host = Host::builder().machine("main: web").service("web", &yaml).spawn();
        assert_eq!(host.wait_exit(), status, "{program}; its console:\n{}", host.console());
    }
}

#[test]
fn a_main_service_that_an_operator_stops_has_not_ended() {
    let mut host = serving().runs("db", "serve").up(&["web", "db"]);
    host.ctl(&["stop", "web", "--wait"]).ok();
    host.wait_state("web", "stopped");
    host.ctl(&["start", "web", "--wait"]).ok();
    host.ctl(&["restart", "web", "--wait"]).ok();
    host.wait_up("db");
    // What the run ends with is the main service's, whoever asks for the end.
    host.ctl(&["poweroff"]).ok();
    assert_eq!(host.wait_exit(), 7);
}

#[test]
fn a_main_service_that_its_policy_restarts_has_not_ended() {
    let steps = "fail-until=3:$DIR/count, notify=READY=1, serve=5";
    let mut host = with_main(steps, "readiness: notify\nrestart: {delay: 0s}").up(&["web"]);
    assert_eq!(host.service("web").restarts, 2);
    host.signal(libc::SIGTERM);
    assert_eq!(host.wait_exit(), 5);
}

#[test]
fn a_reboot_keeps_its_own_status() {
    let mut host = serving().up(&["web"]);
    host.ctl(&["reboot"]).ok();
    assert_eq!(host.wait_exit(), 10);
}

#[test]
fn a_service_with_on_exit_stop_ends_the_host_with_its_own_status() {
    let ends = "restart: {policy: once}\nonExit: stop";
    let mut host = serving()
        .runs_with("db", "wait-path=$DIR/go, exit=6", ends)
        .runs_with("job", "exit=1", "restart: {policy: once}\nonExit: ignore")
        .up(&["web", "db"]);
    host.wait_state("job", "failed");
    host.wait_up("web");
    host.touch("go");
    assert_eq!(host.wait_exit(), 6);
    assert!(
        host.console().contains("asked for by the end of db: exited with status 6"),
        "{}",
        host.console()
    );
}

#[test]
fn a_main_service_that_does_not_exist_is_a_mistake_of_the_machine_file() {
    let host = Host::builder().machine("main: wbe").runs("web", "serve").up(&["web"]);
    let text = "machine.yaml:1:7: main: there is no service \"wbe\"; did you mean web?";
    assert!(host.console().contains(text), "{}", host.console());
}

#[test]
fn another_main_service_waits_for_the_next_boot() {
    let mut host = serving().runs("db", "serve=8").up(&["web", "db"]);
    std::fs::write(host.path("config/machine.yaml"), "main: db").unwrap();
    let said = host.ctl(&["reload"]).ok();
    assert!(format!("{}{}", said.stdout, said.stderr).contains("main"), "{said:?}");
    host.signal(libc::SIGTERM);
    assert_eq!(host.wait_exit(), 7);
}
