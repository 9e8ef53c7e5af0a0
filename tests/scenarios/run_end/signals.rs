//! Signals to PID 1 of a container: two of them mean stop, and the main service gets the others.

use kelson_tests::Host;

use super::with_main;

#[test]
fn the_main_service_gets_the_signals_that_are_not_for_pid_1() {
    let realtime = libc::SIGRTMIN();
    for signal in [
        libc::SIGHUP,
        libc::SIGQUIT,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGPWR,
        libc::SIGWINCH,
        realtime + 3,
    ] {
        let steps = format!("notify=READY=1, await={signal}, exit=5");
        let mut host = with_main(&steps, "readiness: notify\nrestart: {policy: once}").up(&["web"]);
        host.signal(signal);
        assert_eq!(host.wait_exit(), 5, "{signal}; its console:\n{}", host.console());
        let console = host.console();
        assert!(
            console.contains("asked by a process outside this PID namespace, who sent it to PID 1"),
            "{console}"
        );
        assert!(!console.contains("read again"), "{console}");
    }
}

#[test]
fn a_signal_during_the_stop_is_passed_on_too() {
    let mut host =
        with_main("notify=READY=1, await=TERM, touch=$DIR/told, await=USR1, exit=5", "readiness: notify")
            .up(&["web"]);
    host.signal(libc::SIGTERM);
    host.wait_file("told");
    host.signal(libc::SIGUSR1);
    assert_eq!(host.wait_exit(), 5, "{}", host.console());
}

#[test]
fn a_signal_to_a_main_service_that_does_not_run_is_reported() {
    let mut host = with_main("notify=READY=1, serve", "readiness: notify\nstart: manual").start();
    let before = host.newest_event();
    host.signal(libc::SIGUSR1);
    let told = host.wait_event(before, "of the signal", |event| event.service == "web");
    assert!(told.message.contains("was not passed on: service \"web\" does not run"), "{told:?}");
    host.poweroff();
}

#[test]
fn the_signals_of_terminals_and_those_of_pid_1_itself_are_not_passed_on() {
    let host = with_main("notify=READY=1, serve", "readiness: notify").up(&["web"]);
    let before = host.newest_event();
    for signal in [libc::SIGTTIN, libc::SIGTTOU] {
        host.signal(signal);
    }
    // The kernel hands them over by their numbers, and this one is the last.
    host.signal(libc::SIGWINCH);
    let told = host.wait_event(before, "of the last signal", |event| event.service == "web");
    assert!(told.message.starts_with("SIGWINCH sent to PID"), "{told:?}");
}

#[test]
fn both_signals_that_mean_stop_end_with_the_status_of_the_main_service() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let mut host = with_main("notify=READY=1, serve=7", "readiness: notify").up(&["web"]);
        host.signal(signal);
        assert_eq!(host.wait_exit(), 7, "{}", host.console());
    }
    let mut host = Host::builder().runs("web", "serve").up(&["web"]);
    host.signal(libc::SIGINT);
    assert_eq!(host.wait_exit(), 0);
}
