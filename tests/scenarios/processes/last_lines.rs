//! `status` and `why` show the last lines of a log, and go without where logd is away.

use std::fs;

use kelson_tests::Host;

#[test]
fn status_and_why_show_the_last_lines_and_say_why_there_are_none() {
    let steps: Vec<String> = (1..=12).map(|n| format!("print=line-{n:02}")).collect();
    let failing = |steps: &str| {
        format!(
            "process: {{command: [$PROGRAM, {steps}, exit=3]}}\nrestart: {{policy: once}}\nreadiness: notify"
        )
    };
    let mut host = Host::builder()
        .service("db", &failing(&format!("{}, \"print=evil \\e[2J\"", steps.join(", "))))
        .runs_with("web", "serve", "depends: [{service: db}]")
        .start();
    host.wait_state("db", "failed");
    host.wait_log("db", "evil");
    let lines = |text: &str| -> Vec<String> {
        let words = text.split_whitespace();
        words.filter(|word| word.starts_with("line-")).map(str::to_owned).collect()
    };
    // Those of the spec and of the events stand before the log.
    let status = host.ctl(&["status", "db"]).ok().stdout;
    let (_, log) = status.split_once("Last lines of its log\n").unwrap_or_else(|| panic!("no log: {status}"));
    assert_eq!(lines(log), (4..=12).map(|n| format!("line-{n:02}")).collect::<Vec<_>>());
    assert!(log.ends_with("evil \\x1b[2J\n"), "{log}");
    for name in ["db", "web"] {
        let why = host.ctl(&["why", name]).ok().stdout;
        assert_eq!(lines(&why), ["line-11", "line-12"], "{why}");
        assert!(why.contains("last lines of run 1") && why.contains("evil \\x1b[2J"), "{why}");
    }
    // One that runs or has written nothing has none.
    assert!(!host.ctl(&["status", "web"]).ok().stdout.contains("Last lines"));

    // Without logd all else is shown.
    fs::rename(host.path("run/log.sock"), host.path("run/away.sock")).expect("the test's folder is writable");
    let status = host.ctl(&["status", "db"]).ok().stdout;
    assert!(status.contains("failed") && status.contains("\n  its log cannot be read: "), "{status}");
    let why = host.ctl(&["why", "db"]).ok().stdout;
    assert!(why.starts_with("service \"db\": failed") && why.contains("its log cannot be read: "), "{why}");
    fs::rename(host.path("run/away.sock"), host.path("run/log.sock")).expect("the test's folder is writable");

    // Lines of an earlier run tell nothing of a run that wrote none.
    host.write_service("db", &failing("sleep=1ms"));
    host.ctl(&["reload"]).ok();
    host.ctl(&["restart", "db", "--wait"]).expect(1);
    let why = host.ctl(&["why", "db"]).ok().stdout;
    assert!(why.starts_with("service \"db\": failed") && lines(&why).is_empty(), "{why}");
    assert!(host.ctl(&["status", "db"]).ok().stdout.contains("evil"), "the log itself has them");
    host.poweroff();
}
