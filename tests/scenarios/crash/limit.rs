//! A PID 1 that crashes again and again stops everything in order and starts the machine again.

use kelson_tests::Host;

fn chain(limit: &str) -> Host {
    let say = |name: &str| {
        format!("process: {{command: [$PROGRAM, await=SIGTERM, sleep=300ms, touch=$DIR/{name}]}}")
    };
    Host::builder()
        .argument("--crash-limit")
        .argument(limit)
        .service("below", &say("below"))
        .service("middle", &format!("{}\ndepends: [{{service: below}}]", say("middle")))
        .service("above", &format!("{}\ndepends: [{{service: middle}}]", say("above")))
        .service(
            "deaf",
            "process: {command: [$PROGRAM, ignore=SIGTERM, spawn=hang, hang]}\nstop: {timeout: 1s}",
        )
        .start()
}

#[test]
fn the_third_crash_of_a_minute_stops_all_in_order_and_starts_again() {
    let mut host = chain("3/1m");
    for name in ["below", "middle", "above", "deaf"] {
        host.wait_up(name);
    }
    // What somebody asked for does not count.
    for _ in 0..4 {
        host.ctl(&["reexec"]).ok();
    }
    for _ in 0..2 {
        host.crash(|| host.signal(libc::SIGSEGV));
    }
    host.signal(libc::SIGSEGV);
    // A container is to be started again.
    assert_eq!(host.wait_exit(), 10);
    let console = host.console();
    assert!(console.contains("PID 1 crashed 3 times in 1m (kelson.crashLimit)"), "{console}");
    assert!(console.contains("killing deaf"), "{console}");
    let ended = |name: &str| {
        std::fs::metadata(host.path(name))
            .and_then(|file| file.modified())
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    assert!(ended("above") < ended("middle") && ended("middle") < ended("below"));
}

#[test]
fn crashes_that_lie_apart_do_not_add_up() {
    let mut host = chain("2/1s");
    host.wait_up("above");
    for _ in 0..3 {
        host.crash(|| host.signal(libc::SIGSEGV));
        // What counts is over.
        std::thread::sleep(std::time::Duration::from_millis(1100));
    }
    host.poweroff();
}

#[test]
fn a_crash_on_that_way_ends_it_at_once() {
    let mut host = chain("1/1m");
    host.wait_up("above");
    host.wait_up("deaf");
    host.signal(libc::SIGSEGV);
    kelson_tests::until("the stop to begin", kelson_tests::PATIENCE, || {
        host.console().contains("stopping above").then_some(())
    });
    host.signal(libc::SIGSEGV);
    assert_eq!(host.wait_exit(), 10);
}
