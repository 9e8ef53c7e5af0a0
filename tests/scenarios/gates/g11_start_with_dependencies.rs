//! G11: a start that waits for a service that nobody will start says so at once, fails, and can start that one too.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use kelson_tests::Host;

const STOPPED: &str = "kelsonctl: web waits for service \"db\" to be up (it was stopped); \
                       `kelsonctl start --with-dependencies web` starts what it needs";

/// `db` is needed by `app`, and that by `web`; all are stopped.
fn stopped() -> Host {
    let host = Host::builder()
        .runs("db", "serve")
        .runs_with("app", "serve", "depends: [{service: db}]")
        .runs_with("web", "serve", "depends: [{service: app}]")
        .up(&["web"]);
    host.ctl(&["stop", "db", "--cascade", "--wait"]).ok();
    // It waits for `db` from now on: the stopped service stands at the end of a chain.
    host.ctl(&["start", "app"]).expect(1);
    host
}

#[test]
fn g11_a_start_names_the_stopped_dependency_and_the_way_out() {
    let mut host = stopped();
    let started = host.ctl(&["start", "web"]).expect(1);
    assert_eq!(started.stderr.trim_end(), STOPPED);
    assert_eq!(host.service("web").state, "waiting");
    host.poweroff();
}

#[test]
fn g11_a_start_names_a_dependency_that_nobody_will_start() {
    let needs =
        |name: &str| format!("process: {{command: [$PROGRAM, serve]}}\nstart: manual\ndepends: [{name}]");
    let mut host = Host::builder()
        .runs_with("lazy", "serve", "start: manual")
        .runs_with("broken", "exit=3", "restart: {policy: once}")
        .runs_with("slow", "hang", "readiness: notify\nstartTimeout: 10m")
        .service("needs-lazy", &needs("{service: lazy}"))
        .service("needs-broken", &needs("{service: broken}"))
        .service("needs-slow", &needs("{service: slow}"))
        .service("needs-either", &needs("{any: [{service: lazy}, {service: slow}]}"))
        .start();
    host.wait_state("broken", "failed");
    for (name, problem) in [
        ("needs-lazy", "service \"lazy\" to be up (nothing starts it; its start is manual)"),
        ("needs-broken", "service \"broken\" to be up (it failed: exited with status 3"),
    ] {
        let started = host.ctl(&["start", name]).expect(1);
        assert!(started.stderr.starts_with(&format!("kelsonctl: {name} waits for {problem}")), "{started:?}");
        let way_out = format!("; `kelsonctl start --with-dependencies {name}` starts what it needs");
        assert!(started.stderr.trim_end().ends_with(&way_out), "{started:?}");
        assert_eq!(host.service(name).state, "waiting");
    }
    // A service that is on its way may come.
    for name in ["needs-slow", "needs-either"] {
        assert_eq!(host.ctl(&["start", name]).ok().stderr, "");
    }
    host.ctl(&["start", "needs-lazy", "--with-dependencies", "--wait"]).ok();
    host.poweroff();
}

#[test]
fn g11_a_start_that_stays_says_so_at_once_without_a_terminal() {
    let mut host = stopped();
    let mut start = host.client().command(&["start", "web", "--wait"]);
    let mut start = start.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("kelsonctl runs");
    let mut line = String::new();
    BufReader::new(start.stderr.take().expect("piped")).read_line(&mut line).expect("a line comes");
    assert_eq!(line.trim_end(), STOPPED);
    assert!(start.try_wait().expect("a child").is_none(), "it stays");
    // Its message is true, and the start it waits for goes on.
    host.ctl(&["start", "web", "--with-dependencies"]).ok();
    assert!(start.wait().expect("a child").success());
    assert!(host.service("web").up);
    host.poweroff();
}

#[test]
fn g11_what_is_needed_is_started_first() {
    let mut host = stopped();
    let started = host.ctl(&["start", "web", "--with-dependencies", "--wait", "--timeout", "30s"]).ok();
    let names: Vec<&str> = started.stdout.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(names, ["db", "web"], "{started:?}");
    assert!(["db", "app", "web"].iter().all(|name| host.service(name).up), "{:#?}", host.services());
    host.poweroff();
}
