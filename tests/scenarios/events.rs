//! The events of the host: which are kept when there are more than 4096, and how readers learn of the others.

use std::time::Duration;

use kelson_tests::{Event, Host, Output};

const KEPT: usize = 4096;

#[track_caller]
fn ask(host: &Host, args: &[&str]) -> (Vec<Event>, Output) {
    let output = host.ctl(&[&["-o", "json", "events"], args].concat()).ok();
    (output.json_lines(), output)
}

fn numbers(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.seq).collect()
}

/// The sum of the counts in the notes of the standard error.
fn told_missing(output: &Output) -> u64 {
    let notes = output.stderr.lines().filter(|line| line.contains("no longer kept"));
    notes.filter_map(|note| note.split(' ').find_map(|word| word.parse::<u64>().ok())).sum()
}

#[test]
fn a_service_that_crashes_in_a_loop_evicts_its_own_events_alone() {
    let mut host = Host::builder()
        .runs("quiet", "serve")
        .service("job", "process: {command: [$PROGRAM]}\ntype: oneshot")
        .runs_with("loop", "exit=3", "start: manual\nrestart: {delay: 0s, maxDelay: 0s}")
        .up(&["quiet"]);
    host.wait_finished("job");
    let others = |host: &Host| {
        let all = host.events().into_iter();
        numbers(&all.filter(|event| event.service != "loop").collect::<Vec<_>>())
    };
    let before = others(&host);
    host.ctl(&["start", "loop"]).ok();
    // As many as are kept, and enough more that all others would be gone.
    let wanted = KEPT as u64 + before.last().expect("the host has begun") + 500;
    host.client().follow_events(wanted).find("the loop's 4096th", Duration::from_secs(120), |_| true);
    host.ctl(&["stop", "loop", "--wait"]).ok();

    let check = |host: &Host| {
        let (all, output) = ask(host, &[]);
        assert!(others(host).starts_with(&before), "events of the others are gone: {:?}", others(host));
        assert_eq!(all.len(), KEPT);
        // Each number that is not shown is counted: from the first that there ever was as from the oldest that is kept.
        let last = all.last().expect("there are some").seq;
        assert_eq!((all[0].seq, told_missing(&output)), (1, last - KEPT as u64));
        let (since, output) = ask(host, &["--since", "1"]);
        assert_eq!((numbers(&since), told_missing(&output)), (numbers(&all), last - KEPT as u64));
        // From the middle of the gap.
        let first_of_loop =
            all.iter().find(|event| event.service == "loop").expect("its newest are kept").seq;
        let (since, output) = ask(host, &["--since", &(first_of_loop - 100).to_string()]);
        assert_eq!((since[0].seq, told_missing(&output)), (first_of_loop, 100));
        let (rest, output) = ask(host, &["--since", &first_of_loop.to_string()]);
        assert_eq!((rest[0].seq, told_missing(&output)), (first_of_loop, 0));
        let status: serde_json::Value = host.ctl(&["-o", "json", "status", "quiet"]).ok().json();
        assert!(!status["events"].as_array().expect("a list").is_empty(), "{status}");
        last
    };
    let begun = check(&host);
    // The next incarnation keeps the same, and goes on with the next number.
    let mut follower = host.follow_events(begun);
    host.ctl(&["reexec"]).ok();
    let after_reexec = check(&host);
    host.crash(|| host.signal(libc::SIGSEGV));
    let after_crash = check(&host);
    assert!(begun < after_reexec && after_reexec < after_crash);
    follower.each_once(begun..=after_crash, Duration::from_secs(30));
    host.poweroff();
}

#[test]
fn events_from_a_number_beyond_the_newest_are_said_to_be_none_yet() {
    let mut host = Host::builder().runs("web", "serve").up(&["web"]);
    let newest = host.newest_event();
    let (events, output) = ask(&host, &["--since", "100000"]);
    assert_eq!(events.len(), 0);
    assert_eq!(output.stderr, format!("kelsonctl: there is no event 100000 yet: the newest is {newest}\n"));
    assert_eq!(ask(&host, &["--since", &(newest + 1).to_string()]).1.stderr, "", "the next one is no news");
    host.poweroff();
}
