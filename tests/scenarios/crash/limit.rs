//! A PID 1 that crashes again and again stops everything as any stop does, and starts the machine again.

use std::time::{Duration, Instant, SystemTime};

use kelson_tests::{Host, HostBuilder, eventually};

const TAKES_ITS_TIME: &str = "await=SIGTERM, sleep=300ms";

fn at_the_limit_of(limit: &str) -> HostBuilder {
    Host::builder().crash_limit(limit)
}

/// A process that leaves a file of this name at its end.
fn says(name: &str) -> String {
    format!("process: {{command: [$PROGRAM, {TAKES_ITS_TIME}, touch=$DIR/{name}]}}\n")
}

fn chain(limit: &str) -> HostBuilder {
    at_the_limit_of(limit)
        .service("below", &says("below"))
        .service("middle", &format!("{}depends: [{{service: below}}]", says("middle")))
        .service("above", &format!("{}depends: [{{service: middle}}]", says("above")))
}

/// When it left its file.
#[track_caller]
fn ended(host: &Host, name: &str) -> SystemTime {
    std::fs::metadata(host.path(name))
        .and_then(|file| file.modified())
        .unwrap_or_else(|error| panic!("{name}: {error}\n{}", host.console()))
}

#[track_caller]
fn assert_in_turn(host: &Host, names: &[&str]) {
    for pair in names.windows(2) {
        let (earlier, later) = (ended(host, pair[0]), ended(host, pair[1]));
        let between = later.duration_since(earlier).unwrap_or_default();
        assert!(between >= Duration::from_millis(290), "{pair:?}: {between:?}\n{}", host.console());
    }
}

#[test]
fn the_third_crash_of_a_minute_stops_all_in_order_and_starts_again() {
    let deaf = "process: {command: [$PROGRAM, ignore=SIGTERM, spawn=hang, notify=READY=1, hang]}\nreadiness: notify\nstop: {timeout: 1s}";
    let mut host = chain("3/1m").service("deaf", deaf).start();
    host.wait_all_up(&["below", "middle", "above", "deaf"]);
    // Re-executions that an operator asked for do not count.
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
    assert!(console.contains("deaf: did not end within 1 s of its stop signal, killed"), "{console}");
    assert_in_turn(&host, &["above", "middle", "below"]);
}

#[test]
fn the_limit_keeps_to_delay_and_hooks() {
    let mut host = at_the_limit_of("1/1m")
        .service("db", &says("db"))
        .runs_with(
            "web",
            "print=runs, await=SIGQUIT, print=quits, touch=$DIR/signalled, exit=3",
            "stop: {signal: SIGQUIT, delay: 1s}
hooks:
  preStop: [{command: [$PROGRAM, sleep=300ms, touch=$DIR/before]}]
  post: [{command: [$PROGRAM, sleep=300ms, report=$DIR/after]}]
depends: [{service: db}]",
        )
        .start();
    // logd has its log.
    host.wait_log("web", "runs");
    host.signal(libc::SIGSEGV);
    assert_eq!(host.wait_exit(), 10);
    assert_in_turn(&host, &["before", "signalled", "after", "db"]);
    let delay = ended(&host, "signalled").duration_since(ended(&host, "before")).expect("in this order");
    assert!(delay >= Duration::from_millis(990), "{delay:?}");
    let told = std::fs::read_to_string(host.path("after")).expect("it can be read");
    assert!(told.contains("env.KELSON_EXIT_STATUS 3"), "{told}");
    assert!(host.log_text("web").contains("quits"), "logd reads on");
}

#[test]
fn a_stop_at_the_limit_that_takes_a_minute_too_long_is_broken_off() {
    let mut host = at_the_limit_of("1/1m")
        .machine("shutdown: {timeout: 1s}")
        .runs_deaf("deaf", "stop: {timeout: 5m}")
        .up(&["deaf"]);
    host.signal(libc::SIGSEGV);
    eventually("the stop to begin", || host.console().contains("stopping deaf"));
    // PID 1 stands still for longer than that.
    host.signal(libc::SIGSTOP);
    std::thread::sleep(Duration::from_secs(62));
    host.signal(libc::SIGCONT);
    assert_eq!(host.wait_exit(), 10);
    assert!(!host.console().contains("the total deadline of the stop has passed"), "{}", host.console());
}

#[test]
fn the_limit_runs_post_hooks_again_that_were_cut_off() {
    let mut host = at_the_limit_of("1/1m")
        .runs_with(
            "web",
            "serve",
            "hooks: {post: [{command: [$PROGRAM, append=$DIR/begun, sleep=1s, touch=$DIR/ended]}]}",
        )
        .up(&["web"]);
    host.ctl(&["stop", "web"]).ok();
    host.wait_file("begun");
    host.signal(libc::SIGSEGV);
    assert_eq!(host.wait_exit(), 10);
    assert!(host.path("ended").exists(), "{}", host.console());
    assert_eq!(host.wait_file("begun").lines().count(), 2);
}

#[test]
fn the_limit_goes_on_with_a_stop_that_was_under_way() {
    let mut host = at_the_limit_of("1/1m")
        .runs_with("web", "await=SIGTERM, touch=$DIR/signalled", "stop: {delay: 4s}")
        .up(&["web"]);
    host.ctl(&["stop", "web"]).ok();
    let asked = Instant::now();
    std::thread::sleep(Duration::from_secs(2));
    host.signal(libc::SIGSEGV);
    assert_eq!(host.wait_exit(), 10);
    let took = asked.elapsed();
    assert!(host.path("signalled").exists());
    assert!(took >= Duration::from_millis(3900), "{took:?}: it has the rest of its delay");
    assert!(took < Duration::from_millis(5900), "{took:?}: the delay began anew");
}

#[test]
fn a_power_off_in_progress_stays_a_power_off_at_the_limit() {
    let mut host = at_the_limit_of("1/1m")
        .service("below", &says("below"))
        .runs_with("slow", "await=SIGTERM, sleep=3s, touch=$DIR/slow", "depends: [{service: below}]")
        .up(&["slow"]);
    host.ctl(&["poweroff", "--no-wait"]).ok();
    host.wait_state("slow", "stopping");
    host.signal(libc::SIGSEGV);
    assert_eq!(host.wait_exit(), 0, "{}", host.console());
    assert_in_turn(&host, &["slow", "below"]);
}

#[test]
fn the_limit_orders_by_what_runs_and_by_what_the_files_say() {
    let needs = |name: &str, other: &str| format!("{}depends: [{{service: {other}}}]", says(name));
    let mut host = at_the_limit_of("1/1m")
        .service("below", &says("below"))
        .service("above", &needs("above", "below"))
        .service("bottom", &says("bottom"))
        .service("top", &says("top"))
        // At rest, and yet between them.
        .service("floor", &says("floor"))
        .runs_with("rests", "exit=0", "type: oneshot\ndepends: [{service: floor}]")
        .service("roof", &format!("{}depends: [{{service: rests, event: finished}}]", says("roof")))
        .start();
    host.wait_all_up(&["above", "bottom", "top", "roof"]);
    host.write_service("above", &says("above"));
    host.write_service("top", &needs("top", "bottom"));
    let before = host.newest_event();
    host.signal(libc::SIGHUP);
    host.wait_event(before, "of the files", |event| event.message.contains("changed, restart them"));
    host.signal(libc::SIGSEGV);
    assert_eq!(host.wait_exit(), 10);
    assert_in_turn(&host, &["above", "below"]);
    assert_in_turn(&host, &["top", "bottom"]);
    assert_in_turn(&host, &["roof", "floor"]);
}

#[test]
fn the_limit_waits_for_nobody_in_a_circle_of_alternatives() {
    let either = |name: &str, other: &str| {
        format!("{}depends: [{{any: [{{service: {other}}}, {{service: spare}}]}}]", says(name))
    };
    let mut host = at_the_limit_of("1/1m")
        .service("spare", &says("spare"))
        .service("one", &either("one", "other"))
        .service("other", &either("other", "one"))
        .up(&["one", "other"]);
    host.signal(libc::SIGSEGV);
    // Not after the total deadline of a minute.
    assert_eq!(host.wait_exit_within(Duration::from_secs(20)), 10);
    assert_in_turn(&host, &["one", "spare"]);
    assert_in_turn(&host, &["other", "spare"]);
}

#[test]
fn crashes_that_lie_apart_do_not_add_up() {
    let mut host = chain("2/1s").up(&["above"]);
    for _ in 0..3 {
        host.crash(|| host.signal(libc::SIGSEGV));
        // The time in which crashes count is over.
        std::thread::sleep(Duration::from_millis(1100));
    }
    host.poweroff();
}

#[test]
fn a_crash_on_that_way_ends_it_at_once() {
    // On its way to its end it would wait for this one a minute: the total deadline.
    let mut host = chain("1/1m").runs_deaf("deaf", "stop: {timeout: 5m}").up(&["above", "deaf"]);
    host.signal(libc::SIGSEGV);
    eventually("the stop to begin", || host.console().contains("stopping deaf"));
    host.signal(libc::SIGSEGV);
    assert_eq!(host.wait_exit_within(Duration::from_secs(20)), 10);
    assert!(!host.path("below").exists(), "nobody was waited for any more");
}
