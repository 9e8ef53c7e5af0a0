//! V5, V8: a process that ends about the moment at which PID 1 re-executes itself is seen once, with its
//! status, and acted upon once.

use std::time::Duration;

use kelson_tests::{Host, PATIENCE};

use super::{Fault, each_fault};

const COUNT: usize = 20;
const ROUNDS: u32 = 5;

fn no_end_is_lost_and_none_is_counted_twice(fault: Fault) {
    let mut builder = Host::builder().crash_limit("1000/1m");
    for n in 0..COUNT {
        builder = builder.runs_with(
            &format!("n-{n}"),
            "serve",
            "restart: {policy: forever, delay: 1ms, maxDelay: 1ms}",
        );
    }
    let mut host = builder.start();
    for n in 0..COUNT {
        host.wait_up(&format!("n-{n}"));
    }
    for round in 1..=ROUNDS {
        let pids: Vec<i32> = (0..COUNT).map(|n| host.pid_of(&format!("n-{n}"))).collect();
        let outer: Vec<i32> = pids.iter().map(|pid| host.outer_pid(*pid)).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| fault.strike(&host));
            // They end one after the other over the whole of it.
            for pid in outer {
                // SAFETY: kill(2) has no preconditions.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                std::thread::sleep(Duration::from_millis(10 * u64::from(round)));
            }
        });
        for (n, pid) in pids.into_iter().enumerate() {
            let now = host
                .client()
                .wait_for(&format!("n-{n}"), "to run again", PATIENCE, |now| now.up && now.pid != Some(pid));
            assert_eq!(now.restarts, round, "{now:?}");
        }
    }
    for n in 0..COUNT {
        let ends = host.events_of(&format!("n-{n}"));
        let ends: Vec<_> = ends.iter().filter(|event| event.state == "backoff").collect();
        assert_eq!(ends.len(), ROUNDS as usize, "{ends:#?}");
        assert!(ends.iter().all(|event| event.message.contains("SIGKILL")), "{ends:#?}");
    }
    host.poweroff();
}

#[test]
fn v5_no_end_is_lost_and_none_is_counted_twice() {
    each_fault(no_end_is_lost_and_none_is_counted_twice);
}
