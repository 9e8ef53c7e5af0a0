//! The term of a remote connection: it ends with its certificate, with its CA, and after its lifetime.

use std::time::{Duration, Instant};

use kelson_tests::{Authority, Host, Output, PATIENCE, remote};

/// A service that writes a numbered line every few milliseconds, behind apid.
fn open(authority: &Authority, more: &str) -> Host {
    let host = Host::builder()
        .machine(&authority.machine(more))
        .runs("beats", "'beat=5ms:40:$DIR/beats'")
        .runs("web", "serve")
        .start();
    host.wait_all_up(&["beats", "web", "apid"]);
    host
}

/// The number of a line of `beats`.
#[track_caller]
fn number(line: &str) -> u64 {
    let number = line.strip_prefix("beat ").and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.unwrap_or_else(|| panic!("no beat: {line:?}"))
}

#[track_caller]
fn without_a_gap(numbers: &[u64]) {
    let gap = numbers.windows(2).find(|pair| pair[1] != pair[0] + 1);
    assert!(gap.is_none() && !numbers.is_empty(), "lines are lost or doubled: {gap:?} of {}", numbers.len());
}

#[test]
fn at_the_lifetime_of_a_connection_streams_go_on_and_calls_find_a_new_one() {
    let authority = Authority::new("lifetime");
    let mut host = open(&authority, ", connectionLifetime: 1s");
    let away = remote::client_for(&host, &authority, Duration::from_secs(600));
    let mut events = away.follow(&["events", "-f", "-o", "json"]);
    let mut logs = away.follow(&["logs", "-f", "beats"]);
    let mut numbers = vec![number(&logs.one("the first line", PATIENCE))];
    let begun = Instant::now();
    let mut restarts = 0;
    // Over several lifetimes, in the middle of which the streams themselves break once.
    while begun.elapsed() < Duration::from_secs(4) {
        away.run(&["restart", "--wait", "web"]).ok();
        restarts += 1;
        // Lines of 50 ms: apid refuses more than 64 handshakes a second.
        for _ in 0..10 {
            numbers.push(number(&logs.one("a line", PATIENCE)));
        }
        if restarts == 3 {
            host.ctl(&["reexec"]).ok();
        }
    }
    let last = host.events().last().expect("there are events").seq;
    for expected in 1..=last {
        let line = events.one(&format!("event {expected} of {last}"), PATIENCE);
        let event: serde_json::Value = serde_json::from_str(&line).expect(&line);
        assert_eq!(event["seq"], expected, "{line}");
    }
    let reached = number(
        host.log_text("beats")
            .lines()
            .last()
            .and_then(|line| line.find("beat ").map(|at| &line[at..]))
            .expect("it beats"),
    );
    while *numbers.last().expect("not empty") < reached {
        numbers.push(number(&logs.one("a line", PATIENCE)));
    }
    without_a_gap(&numbers);
    host.poweroff();
}

/// Its streams hold connections that take no more calls, and it asks again and again.
#[test]
fn the_dashboard_does_not_notice_the_lifetime_of_a_connection() {
    let authority = Authority::new("dashboard");
    let host = open(&authority, ", connectionLifetime: 1s");
    let away = remote::client_for(&host, &authority, Duration::from_secs(600));
    let dashboard = away.command(&["dashboard", "--interval", "1s"]);
    // A terminal whose keyboard nobody touches, for a few seconds.
    let (keyboard, _open) = std::io::pipe().expect("a pipe");
    let mut command = std::process::Command::new("timeout");
    command.args([
        "5",
        "script",
        "-qec",
        "stty rows 24 cols 80; exec \"$KELSONCTL\" dashboard --interval 1s",
        "/dev/null",
    ]);
    command.env("KELSONCTL", dashboard.get_program()).env("TERM", "xterm").stdin(keyboard);
    command.env("KELSONCONFIG", host.path("contexts-600"));
    let output = command.output().expect("timeout(1) can be started");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(shown.contains("beats") && shown.contains("running"), "{shown:?}{output:?}");
    assert!(!shown.contains("connected:") && !shown.contains("trying"), "{shown:?}");
    let connected = host.wait_log("apid", "has connected").matches("has connected").count();
    assert!(connected > 3, "{connected}");
}

#[track_caller]
fn ended(output: Output) -> String {
    let output = output.expect(4);
    let last = output.stderr.lines().last().unwrap_or_default().to_owned();
    assert!(last.starts_with("kelsonctl: the client's certificate ended at 20"), "{output:?}");
    assert!(last.contains("`kelsonctl gen config`"), "{output:?}");
    output.stderr
}

#[test]
fn at_the_end_of_a_certificate_streams_are_cut_and_say_so() {
    let authority = Authority::new("certificate");
    let host = open(&authority, "");
    let valid = Duration::from_secs(8);
    let begun = Instant::now();
    let away = remote::client_for(&host, &authority, valid);
    let mut events = away.follow(&["events", "-f"]);
    let mut logs = away.follow(&["logs", "-f", "beats"]);
    let program = kelson_tests::paths::binary("kelson-test-program");
    let exec = away.follow(&["exec", "web", "--", &program.display().to_string(), "ticker=100ms"]);
    events.one("an event", PATIENCE);
    let first = number(&logs.one("a line", PATIENCE));

    let (ticks, output) = exec.rest();
    // Not before its time: a certificate knows whole seconds.
    assert!(begun.elapsed() > valid - Duration::from_secs(1), "{:?}", begun.elapsed());
    assert!(ticks.len() > 10, "{ticks:?}");
    let said = ended(output);
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        matches!(lines[..], [warning, _] if warning.starts_with("warning: the client's certificate ends in ")),
        "{said}"
    );
    let (lines, output) = logs.rest();
    let numbers: Vec<u64> = std::iter::once(first).chain(lines.iter().map(|line| number(line))).collect();
    without_a_gap(&numbers);
    ended(output);
    ended(events.rest().1);

    let refused = away.run(&["services"]).expect(4);
    assert!(
        refused.stderr.contains("it has expired") && refused.stderr.contains("`kelsonctl gen config`"),
        "{refused:?}"
    );
    assert!(host.wait_log("apid", "certificate ended at").contains("CN=ann"));
    // The command of the session has ended with it.
    kelson_tests::eventually("the command to be gone", || {
        !host.processes().iter().any(|process| process.command.iter().any(|word| word.starts_with("ticker=")))
    });
    assert_eq!(host.service("apid").restarts, 0);
}

#[test]
fn a_session_is_warned_a_minute_before_its_end() {
    let authority = Authority::new("warning");
    let host = open(&authority, "");
    let away = remote::client_for(&host, &authority, Duration::from_secs(66));
    let program = kelson_tests::paths::binary("kelson-test-program");
    let begun = Instant::now();
    // Its errors go where its output goes, so that the warning comes between its lines.
    let mut command = std::process::Command::new("sh");
    let exec = away.command(&["exec", "web", "--", &program.display().to_string(), "ticker=100ms"]);
    command.args(["-c", "exec \"$0\" \"$@\" 2>&1"]).arg(exec.get_program()).args(exec.get_args());
    for (name, value) in exec.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut lines = kelson_tests::Lines::of(command, "kelsonctl exec");
    lines.find("tick 1", PATIENCE);
    let warning = lines.find("warning: ", PATIENCE);
    assert!(warning.contains("ends in 60 s"), "{warning}");
    assert!(begun.elapsed() > Duration::from_secs(3), "{:?}", begun.elapsed());
    lines.find("tick ", PATIENCE);
}

#[test]
fn when_the_ca_is_replaced_streams_are_cut_at_once() {
    let (authority, other) = (Authority::new("old"), Authority::new("new"));
    let host = open(&authority, "");
    let away = remote::client_for(&host, &authority, Duration::from_secs(600));
    let mut events = away.follow(&["events", "-f"]);
    events.one("an event", PATIENCE);
    let port = remote::port(&host);
    let new = authority.path("ca.pem.new");
    std::fs::write(&new, other.ca()).expect("the folder is writable");
    std::fs::rename(&new, authority.path("ca.pem")).expect("the folder is writable");
    let replaced = Instant::now();
    let output = events.rest().1.expect(4);
    assert!(
        output.stderr.contains("the machine no longer trusts the CA of the client's certificate"),
        "{output:?}"
    );
    assert!(replaced.elapsed() < Duration::from_secs(20), "{:?}", replaced.elapsed());
    let file = host.path("contexts-new");
    other.contexts(port, Duration::from_secs(600), &file);
    // The machine's certificate is that of the old CA still.
    let text = std::fs::read_to_string(&file).expect("it was written");
    std::fs::write(authority.path("old-ca.pem"), authority.ca()).expect("the folder is writable");
    let text = text.replace(
        &other.path("ca.pem").display().to_string(),
        &authority.path("old-ca.pem").display().to_string(),
    );
    std::fs::write(&file, text).expect("the test's folder is writable");
    let next = kelson_tests::Ctl::with_config(file);
    assert_eq!(next.service("web").pid, host.service("web").pid);
    assert_eq!(host.service("apid").restarts, 0);
}
