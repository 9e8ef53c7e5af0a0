//! G8: two requests at once on one service: each is answered with what really happened, the last one wins, and no stale
//! request reaches the next run.

use std::sync::{Arc, Barrier};
use std::thread;

use kelson_tests::{Action, Event, Host};

const ROUNDS: usize = 50;

/// Takes its time in each step, so that the second request meets the first one in the middle of it.
const SLOW: &str = "process: {command: [$PROGRAM, 'append=$DIR/runs', sleep=10ms, notify=READY=1, await=TERM, sleep=10ms, exit=0]}
readiness: notify";
const QUICK: &str = "process: {command: [$PROGRAM, 'append=$DIR/runs', serve]}";

/// Both at the same moment.
fn at_once(host: &Host, first: &[&'static str], second: &[&'static str]) -> [Action; 2] {
    let barrier = Arc::new(Barrier::new(2));
    let ask = |args: &[&'static str]| {
        let (client, barrier, args) = (host.client().clone(), Arc::clone(&barrier), args.to_vec());
        thread::spawn(move || {
            barrier.wait();
            client.act(&args)
        })
    };
    [ask(first), ask(second)].map(|thread| thread.join().expect("an answer"))
}

/// The runs and ends of it in order: no run begins before the one before it is over.
#[track_caller]
fn assert_one_run_at_a_time(host: &Host) {
    let (mut live, mut spawned) = (false, 0);
    for Event { state, message, seq, .. } in host.events_of("web") {
        match state.as_str() {
            "starting" if message.starts_with("run ") => {
                assert!(!live, "event {seq}: a second run beside the first");
                (live, spawned) = (true, spawned + 1);
            }
            // The end of a run: told as stopping, and only then the next one.
            "stopping" | "stopped" => live = false,
            "backoff" | "failed" => panic!("event {seq}: it never failed: {message}"),
            _ => {}
        }
    }
    let ran = host.wait_file("runs").lines().count();
    assert!(ran <= spawned, "{ran} processes of {spawned} runs");
    assert_eq!(host.service("web").restarts, 0, "none of this is counted");
}

/// That nothing is under way: what the host is asked now, it answers with the present state.
#[track_caller]
fn settled(host: &Host, round: usize, answers: &[Action; 2]) -> bool {
    let now = host.service("web");
    // Asked of its cgroup: a process that has just been started has no command line yet.
    let processes = std::fs::read_to_string(host.cgroup_of("web").join("cgroup.procs")).unwrap_or_default();
    let processes = processes.lines().count();
    match now.state.as_str() {
        "running" => {
            assert!(now.up && !now.stopped, "round {round}: {now:?} after {answers:?}");
            assert_eq!(processes, 1, "round {round}: {answers:?}");
            // Nothing was left to do, so nothing happens.
            let start = host.client().act(&["start", "web", "--wait"]);
            assert_eq!(start.outcome, "nothing-to-do", "round {round}: {start:?} after {answers:?}");
            assert_eq!(host.service("web").pid, now.pid, "round {round}: {answers:?}");
            true
        }
        "stopped" => {
            assert!(now.stopped, "round {round}: {now:?} after {answers:?}");
            assert_eq!(processes, 0, "round {round}: {answers:?}");
            let stop = host.client().act(&["stop", "web", "--wait"]);
            assert_eq!(stop.outcome, "nothing-to-do", "round {round}: {stop:?} after {answers:?}");
            false
        }
        _ => panic!("round {round}: {now:?} after both were answered: {answers:?}"),
    }
}

fn restart_and_restart(yaml: &str) {
    let mut host = Host::builder().service("web", yaml).up(&["web"]);
    let mut superseded = 0;
    for round in 0..ROUNDS {
        let before = (host.pid_of("web"), host.newest_event());
        let answers = at_once(&host, &["restart", "web", "--wait"], &["restart", "web", "--wait"]);
        assert!(settled(&host, round, &answers), "round {round}: it is stopped after {answers:?}");
        let pid = host.pid_of("web");
        assert_ne!(pid, before.0, "round {round}: the old run goes on after {answers:?}");
        // A caller with the answer "done" got it for a run that there was; the last one, for the present run.
        let runs: Vec<String> = host
            .events_of("web")
            .into_iter()
            .filter(|event| event.seq > before.1 && event.state == "running")
            .map(|event| event.message)
            .collect();
        assert!((1..=2).contains(&runs.len()), "round {round}: {runs:?} after {answers:?}");
        let mut done = 0;
        for answer in &answers {
            match answer.outcome.as_str() {
                "done" => {
                    done += 1;
                    assert!(
                        answer.up && runs.contains(&answer.message),
                        "round {round}: {answer:?}, {runs:?}"
                    );
                }
                "superseded" => superseded += 1,
                _ => panic!("round {round}: {answer:?}"),
            }
        }
        assert!(done >= 1, "round {round}: nobody was told that it is done: {answers:?}");
        let last = runs.last().expect("a run");
        assert!(
            last.contains(&format!("PID {pid})")) && answers.iter().any(|answer| answer.message == *last),
            "round {round}: {runs:?}, {answers:?}"
        );
    }
    eprintln!("{superseded} of {ROUNDS} rounds met in the middle");
    assert_one_run_at_a_time(&host);
    host.poweroff();
}

#[test]
fn g8_restart_and_restart_of_a_quick_service() {
    restart_and_restart(QUICK);
}

#[test]
fn g8_restart_and_restart_of_a_slow_service() {
    restart_and_restart(SLOW);
}

fn stop_and_start(yaml: &str) {
    let mut host = Host::builder().service("web", yaml).up(&["web"]);
    let (mut up, mut down) = (0, 0);
    for round in 0..ROUNDS {
        let order: [&[&'static str]; 2] = [&["stop", "web", "--wait"], &["start", "web", "--wait"]];
        let [stop, start] = if round % 2 == 0 {
            at_once(&host, order[0], order[1])
        } else {
            let [start, stop] = at_once(&host, order[1], order[0]);
            [stop, start]
        };
        let answers = [stop, start];
        let is_up = settled(&host, round, &answers);
        let [stop, start] = &answers;
        match (start.outcome.as_str(), stop.outcome.as_str()) {
            // It came second: after the whole stop, or into the middle of it.
            ("done", "done" | "superseded") => {
                assert!(is_up && start.up, "round {round}: {answers:?}");
                up += 1;
            }
            // It came first, and found it running.
            ("nothing-to-do" | "superseded", "done") => {
                assert!(!is_up, "round {round}: {answers:?}");
                assert_eq!(stop.state, "stopped", "round {round}: {answers:?}");
                down += 1;
                host.ctl(&["start", "web", "--wait"]).ok();
            }
            _ => panic!("round {round}: {answers:?}"),
        }
    }
    eprintln!("the start came second in {up} rounds, the stop in {down}");
    assert_one_run_at_a_time(&host);
    host.poweroff();
}

#[test]
fn g8_stop_and_start_of_a_quick_service() {
    stop_and_start(QUICK);
}

#[test]
fn g8_stop_and_start_of_a_slow_service() {
    stop_and_start(SLOW);
}

#[test]
fn g8_the_last_of_many_requests_wins() {
    let mut host = Host::builder().service("web", SLOW).up(&["web"]);
    for round in 0..10 {
        // Not waited for: they pile up in the middle of the first stop.
        for command in ["stop", "start", "restart", "stop", "start", "stop"] {
            let answer = host.client().act(&[command, "web"]);
            assert!(matches!(answer.outcome.as_str(), "done" | "nothing-to-do"), "round {round}: {answer:?}");
        }
        host.wait_down("web");
        let web = host.service("web");
        assert_eq!((web.state.as_str(), web.stopped), ("stopped", true), "round {round}: {web:?}");
        host.assert_nothing_left("web", "append=");
        for command in ["start", "restart", "stop", "start"] {
            host.client().act(&[command, "web"]);
        }
        host.wait_up("web");
        let start = host.client().act(&["start", "web", "--wait"]);
        assert_eq!(start.outcome, "nothing-to-do", "round {round}: {start:?}");
    }
    assert_one_run_at_a_time(&host);
    host.poweroff();
}
