//! A crash costs nobody who only looks their answer.

use std::process::Stdio;

use kelson_tests::{Host, Output};

#[test]
fn calls_that_only_read_meet_a_crash_of_pid_1_and_are_answered() {
    let mut host = Host::builder().crash_limit("1000/1m").runs("web", "serve").up(&["web"]);
    // An answer in parts may have begun.
    let questions: [&[&str]; 5] =
        [&["services"], &["status", "web"], &["why", "web"], &["graph"], &["version"]];
    for round in 0..4 {
        let ask = |words: &&[&str]| {
            let mut command = host.client().command(words);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            (words.join(" "), command.spawn().expect("kelsonctl can be started"))
        };
        let mut asked: Vec<_> = questions.iter().map(ask).collect();
        // In the middle of those, and before these.
        host.crash(|| {
            host.signal(libc::SIGSEGV);
            asked.extend(questions.iter().map(ask));
        });
        for (words, child) in asked {
            let output = child.wait_with_output().expect("it ends");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success() && said.is_empty(),
                "round {round}, {words}: {}: {said}",
                output.status
            );
        }
    }
    let version: Output = host.ctl(&["-o", "json", "version"]).ok();
    assert_eq!(version.json::<serde_json::Value>()["server"]["crashes"], 4);
    host.poweroff();
}
