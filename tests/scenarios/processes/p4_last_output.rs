//! P4: the last output of a dying process is in its log, also without a newline.

use kelson_tests::Host;

#[test]
fn p4_the_last_words_are_in_the_log() {
    let mut host = Host::builder()
        .runs_with("exits", "lines=1000, write=last-of-exits", "restart: {policy: once}")
        .runs_with("fails", "print=first, write=last-of-fails, exit=3", "restart: {policy: once}")
        .runs_with("dies", "write=last-of-dies, raise=KILL", "restart: {policy: once}")
        .runs_with("errs", "'eprint=last-of-errs', raise=SEGV", "restart: {policy: once}")
        .runs_with("stops", "notify=READY=1, await=TERM, write=last-of-stops", "readiness: notify")
        .runs_with("ends", "notify=READY=1, await=TERM, lines=1000, write=last-of-ends", "readiness: notify")
        .start();
    host.wait_state("exits", "finished");
    host.wait_up("stops");
    host.wait_up("ends");
    host.ctl(&["stop", "stops", "--wait"]).ok();
    for name in ["exits", "fails", "dies", "errs", "stops"] {
        let log = host.wait_log(name, &format!("last-of-{name}"));
        assert!(log.lines().last().is_some_and(|line| line.ends_with(&format!("last-of-{name}"))), "{log}");
        let shown = host.ctl(&["logs", name]).ok().stdout;
        assert!(shown.contains(&format!("last-of-{name}")), "{name}: {shown}");
    }
    assert_eq!(host.log_text("exits").lines().count(), 1001);
    // Also what is written while the host stops.
    host.poweroff();
    let log = host.log_text("ends");
    assert_eq!(log.lines().count(), 1001, "{log}");
    assert!(log.trim_end().ends_with("last-of-ends"), "{log}");
}

#[test]
fn p4_each_run_of_a_crashing_service_leaves_its_last_words() {
    let mut host = Host::builder()
        .runs_with(
            "loop",
            "print=begin, write=end, raise=KILL",
            "restart: {delay: 1ms, maxDelay: 1ms, attempts: 19, interval: 5m}",
        )
        .start();
    host.wait_state("loop", "failed");
    host.poweroff();
    let log = host.log_text("loop");
    let words: Vec<&str> = log.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(words, ["begin", "end"].repeat(20), "{log}");
}
