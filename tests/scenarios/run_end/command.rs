//! `init -- COMMAND`: a container without a file of Kelson.

use kelson_tests::{Host, HostBuilder};

/// A container that runs this script, and has no configuration.
fn script(text: &str) -> HostBuilder {
    command(Host::builder().argument("--config").argument("/nowhere"), &["sh", "-c", text])
}

fn command(builder: HostBuilder, words: &[&str]) -> HostBuilder {
    words.iter().fold(builder.argument("--"), |builder, word| builder.argument(word))
}

#[test]
fn its_exit_status_is_that_of_the_container() {
    for (text, status) in [("exit 0", 0), ("exit 42", 42), ("kill -KILL $$", 137)] {
        let mut host = script(&format!("echo out; echo error >&2; {text}")).spawn();
        assert_eq!(host.wait_exit(), status, "{text}; its console:\n{}", host.console());
        for line in ["out", "error"] {
            assert!(host.console().lines().any(|one| one == line), "{line}: {}", host.console());
        }
        assert!(!host.console().contains("/nowhere"), "{}", host.console());
    }
    for (program, status) in [("no-such-program", 127), ("/etc/passwd", 126)] {
        let mut host = command(Host::builder(), &[program]).spawn();
        assert_eq!(host.wait_exit(), status, "{program}; its console:\n{}", host.console());
    }
}

#[test]
fn it_has_a_name_a_log_and_a_reason_and_ends_on_a_signal() {
    let mut host =
        script("echo ready; trap 'exit 9' TERM; echo steady; while :; do sleep 0.05; done").start();
    host.wait_log("sh", "steady");
    let service = host.service("sh");
    assert_eq!((service.state.as_str(), service.restarts), ("running", 0), "{service:?}");
    let why = host.ctl(&["why", "sh"]).ok().stdout;
    assert!(why.contains("running"), "{why}");
    host.signal(libc::SIGTERM);
    assert_eq!(host.wait_exit(), 9, "{}", host.console());
}

#[test]
fn one_that_ignores_nothing_dies_of_the_signal_of_the_stop() {
    let mut host = script("echo ready; exec sleep 1000").start();
    host.wait_log("sh", "ready");
    host.signal(libc::SIGINT);
    assert_eq!(host.wait_exit(), 143, "{}", host.console());
}

#[test]
fn it_inherits_what_pid_1_was_given() {
    let text = "echo burden=$BURDEN folder=$PWD none=$KELSON_STARTED$KELSON_CRASHES; \
                grep NoNewPrivs /proc/self/status; grep Seccomp: /proc/self/status; sleep 1000";
    let host = script(text).burdened().start();
    let log = host.wait_log("sh", "Seccomp");
    let folder = std::env::current_dir().unwrap();
    let said = format!("burden=1 folder={} none=", folder.display());
    assert!(log.lines().any(|line| line.ends_with(&said)), "{said}: {log}");
    assert!(log.contains("NoNewPrivs:\t0") && log.contains("Seccomp:\t0"), "{log}");
}

#[test]
fn it_starts_after_the_services_and_stops_before_them() {
    let builder = Host::builder()
        .runs_with("db", "wait-path=$DIR/go, notify=READY=1, serve", "readiness: notify")
        .runs_with("job", "exit=0", "type: oneshot")
        .runs_with("spare", "serve", "start: manual")
        // In its place the command runs.
        .runs("sh", "exit=1");
    let script = "echo ready; exec sleep 1000";
    let mut host = command(builder, &["sh", "-c", script]).start();
    let waits = host.wait_state("sh", "waiting");
    assert!(waits.message.contains("service \"db\" to be up"), "{waits:?}");
    host.touch("go");
    host.wait_log("sh", "ready");
    // Reading the files again leaves it alone.
    let pid = host.pid_of("sh");
    let said = host.ctl(&["reload"]).ok();
    assert!(!format!("{}{}", said.stdout, said.stderr).contains("sh"), "{said:?}");
    assert_eq!(host.pid_of("sh"), pid);
    host.crash(|| host.signal(libc::SIGSEGV));
    assert_eq!(host.pid_of("sh"), pid);
    host.signal(libc::SIGTERM);
    assert_eq!(host.wait_exit(), 143);
    let console = host.console();
    let place = |text: &str| console.rfind(text).unwrap_or_else(|| panic!("{text} is not in {console}"));
    assert!(place("sh: stopped") < place("db: stopping"), "{console}");
}
