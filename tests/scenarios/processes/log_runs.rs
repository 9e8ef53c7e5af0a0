//! Each line of a log is of a run, also over a new logd and a new incarnation of PID 1.

use kelson_tests::{Host, PATIENCE, until};
use serde_json::Value;

const STEPS: &str =
    "process: {command: [$PROGRAM, print=hello, print=needle, exit=3]}\nrestart: {policy: once}";

/// The lines that these words give: run, text. `None`: logd is away just now.
fn ask(host: &Host, words: &[&str]) -> Option<Vec<(u64, String)>> {
    let output = host.ctl(&[&["-o", "json", "logs"], words].concat());
    let lines: Vec<Value> = (output.status == 0).then(|| output.json_lines())?;
    let told = lines.into_iter().filter(|line| line["stream"] != "note");
    let text = |line: &Value| line["text"].as_str().unwrap_or("").to_owned();
    Some(told.map(|line| (line["run"].as_u64().unwrap_or(0), text(&line))).collect())
}

#[track_caller]
fn read(host: &Host, words: &[&str]) -> Vec<(u64, String)> {
    ask(host, words).unwrap_or_else(|| panic!("no answer to logs {words:?}"))
}

/// One more run of the service, to its end in the log.
fn run(host: &Host, count: usize) {
    if count > 1 {
        host.ctl(&["restart", "web"]).ok();
    }
    until("the lines of the run", PATIENCE, || ask(host, &["web"]).filter(|lines| lines.len() == count * 2));
    host.wait_state("web", "failed");
}

fn of(run: u64) -> Vec<(u64, String)> {
    ["hello", "needle"].map(|text| (run, text.to_owned())).to_vec()
}

#[test]
fn logs_know_the_runs_of_a_service_over_a_new_logd_and_a_new_incarnation() {
    let mut host = Host::builder().service("web", STEPS).start();
    run(&host, 1);
    run(&host, 2);
    host.ctl(&["restart", "logd", "--wait"]).ok();
    run(&host, 3);
    host.ctl(&["reexec"]).ok();
    run(&host, 4);
    assert_eq!(read(&host, &["web"]), (1..=4).flat_map(of).collect::<Vec<_>>());
    for number in 1..=4 {
        assert_eq!(read(&host, &["--run", &number.to_string(), "web"]), of(number));
    }
    assert_eq!(read(&host, &["--previous", "web"]), of(3));
    assert_eq!(read(&host, &["--run", "2", "--tail", "1", "web"]), of(2)[1..]);
    let needles: Vec<(u64, String)> = (1..=4).map(|run| (run, "needle".to_owned())).collect();
    assert_eq!(read(&host, &["--grep", "need", "web"]), needles);
    assert_eq!(read(&host, &["--grep", "need", "--tail", "2", "web"]), needles[2..]);
    assert_eq!(read(&host, &["--grep", "n.edle", "web"]), [], "a text is no pattern");
    assert_eq!(read(&host, &["--until", "0s", "web"]).len(), 8);
    assert_eq!(read(&host, &["--until", "1h", "web"]), []);
    let none = host.ctl(&["logs", "--run", "9", "web"]).ok();
    assert_eq!(
        (none.stdout.as_str(), none.stderr.as_str()),
        ("", "kelsonctl: no such line of run 9 is kept\n")
    );

    // As ever where it is no terminal, and with the name before each line where all are meant.
    assert_eq!(host.ctl(&["logs", "web"]).ok().stdout, "hello\nneedle\n".repeat(4));
    let all = host.ctl(&["logs", "--all"]).ok().stdout;
    assert_eq!(
        all.lines().filter(|line| line.starts_with("web") && line.contains(" | needle")).count(),
        4,
        "{all}"
    );
    assert_eq!(all, host.ctl(&["logs"]).ok().stdout);
    // The file tells it too.
    let file = host.log_text("web");
    let boots = |line: &str| line.split(' ').nth(2).and_then(|tag| tag.rsplit(':').next()).map(str::to_owned);
    let boots: std::collections::BTreeSet<_> = file.lines().map(boots).collect();
    let known = boots.iter().flatten().all(|boot| boot.len() == 4 && boot != "0000");
    assert!(boots.len() == 1 && known, "all of one start of the host: {file}");
    let why = host.ctl(&["why", "web"]).ok().stdout;
    assert!(why.contains("last lines of run 4") && why.matches("needle").count() == 1, "{why}");
    host.poweroff();
}
