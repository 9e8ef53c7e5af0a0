//! The command line as people's hands expect it: no name, no dashes, and words of other tools.

use kelson_tests::Host;

const SERVE: &str = "process: {command: [$PROGRAM, print=hello, serve]}\n";

#[test]
fn command_line_without_names_tells_of_the_whole_host() {
    let mut host = Host::builder()
        .service("web", SERVE)
        .runs_with("job", "print=broken, exit=3", "restart: {policy: once}")
        .service("late", &format!("{SERVE}depends: [{{path: /run/never}}]"))
        .up(&["web"]);
    host.wait_down("job");
    host.wait_state("late", "waiting");
    let status = host.ctl(&["status"]).ok().stdout;
    assert!(status.contains(" in container mode, Linux ") && status.contains("\n  uptime:    "), "{status}");
    let wanted = status.split("\nFailed or waiting\n").nth(1).unwrap_or_else(|| panic!("{status}"));
    assert!(wanted.contains("late  waiting") && wanted.contains("path \"/run/never\" to exist"), "{status}");
    assert!(!wanted.contains("web"), "{status}");
    let json: serde_json::Value = host.ctl(&["-o", "json", "status"]).ok().json();
    assert_eq!(json["waiting"][0]["name"], "late", "{json}");
    assert_eq!(json["health"]["healthy"], false, "{json}");

    host.wait_log("web", "hello");
    host.wait_log("job", "broken");
    let logs = host.ctl(&["logs"]).ok().stdout;
    let told = |name: &str, text: &str| {
        logs.lines().any(|line| line.starts_with(name) && line.ends_with(&format!("| {text}")))
    };
    assert!(told("web", "hello") && told("job", "broken"), "{logs}");
    host.poweroff();
}

#[test]
fn command_line_cat_prints_the_file_as_it_is_now() {
    let mut host = Host::builder().service("web", SERVE).up(&["web"]);
    let file = std::fs::read_to_string(host.path("config/services/web.yaml")).expect("the file of web");
    let cat = host.ctl(&["cat", "web"]).ok();
    assert_eq!((cat.stdout.as_str(), cat.stderr.as_str()), (file.as_str(), ""));
    host.write_service("web", &format!("{SERVE}description: another\n"));
    host.ctl(&["reload"]).ok();
    let cat = host.ctl(&["cat", "web"]).ok();
    assert!(
        cat.stdout.contains("another") && cat.stderr.contains("changed since web was started"),
        "{cat:?}"
    );
    host.ctl(&["cat", "logd"]).expect(1);
    host.poweroff();
}

#[test]
fn command_line_exec_needs_no_dashes_and_waits_know_an_exit() {
    let mut host = Host::builder()
        .service("web", SERVE)
        .runs_with("brief", "sleep=200ms", "restart: {policy: forever, delay: 20ms, maxDelay: 20ms}")
        .up(&["web"]);
    assert_eq!(host.ctl(&["exec", "web", "/bin/echo", "-n", "hi"]).ok().stdout, "hi");
    host.ctl(&["wait", "web", "--for", "healthy"]).ok();
    host.ctl(&["wait", "web", "--for", "exit", "--timeout", "100ms"]).expect(5);
    host.ctl(&["wait", "web", "--for", "stopped", "--timeout", "100ms"]).expect(5);
    // It ends again and again, and is restarted each time: it is never down, and each run exits.
    host.ctl(&["wait", "brief", "--for", "down", "--timeout", "500ms"]).expect(5);
    host.ctl(&["wait", "brief", "--for", "exit", "--timeout", "20s"]).ok();
    host.ctl(&["kill", "web", "CONT"]).ok();
    host.ctl(&["stop", "web"]).ok();
    host.ctl(&["wait", "web", "--for", "stopped", "--timeout", "20s"]).ok();
    host.poweroff();
}

#[test]
fn command_line_a_name_of_100_kilobytes_is_not_echoed_whole() {
    let mut host = Host::builder().service("web", SERVE).up(&["web"]);
    let long = "x".repeat(100_000);
    for words in [
        &["status", &long][..],
        &["cat", &long],
        &["start", &long],
        &["stop", "web", &long],
        &["restart", &long],
        &["signal", &long, "HUP"],
        &["why", &long],
        &["wait", &long, "--for", "up"],
        &["logs", &long],
        &["logs", "-f", &long],
        &["events", &long],
        &["metrics", &long],
        &["health", &long],
        &["exec", &long, "true"],
        &["processes", &long],
    ] {
        let told = host.ctl(words).expect(1).stderr;
        assert!(
            told.starts_with("kelsonctl: ") && told.contains("\"xxx") && told.contains("xxx\""),
            "{words:.60?}: {told}"
        );
        assert!(told.len() < 300, "{}: {} bytes", words[0], told.len());
    }
    host.poweroff();
}
