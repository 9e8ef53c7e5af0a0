//! V7, V8: PID 1 ends between making a child and recording it, and between learning an exit and acting on it.
//! Which instant that is cannot be chosen from outside, so many services start and end while PID 1 ends again
//! and again: each runs once, and each status is reported.

use std::fs;
use std::time::Duration;

use kelson_tests::Host;

use super::{Fault, each_fault};

const COUNT: usize = 30;
const ROUNDS: u32 = 4;

fn each_runs_once_and_is_heard(fault: Fault) {
    let mut builder = Host::builder().crash_limit("1000/1m");
    let mut names = Vec::new();
    for round in 0..ROUNDS {
        for n in 0..COUNT {
            let name = format!("r{round}-n{n}");
            // They end at once, or a little later; with success, or not.
            let pause = if n % 4 < 2 { "sleep=1ms" } else { "sleep=30ms" };
            builder = builder.service(
                &name,
                &format!(
                    "process: {{command: [$PROGRAM, append=$DIR/{name}, {pause}, exit={}]}}\n\
                     type: oneshot\ndepends: [{{path: $DIR/go-{round}}}]",
                    n % 2 * 7
                ),
            );
            names.push((round, n, name));
        }
    }
    let mut host = builder.start();
    for round in 0..ROUNDS {
        fs::write(host.path(&format!("go-{round}")), "").expect("the test's folder is writable");
        for _ in 0..3 {
            fault.strike(&host);
            std::thread::sleep(Duration::from_millis(u64::from(5 * round)));
        }
        for (_, n, name) in names.iter().filter(|(of, ..)| *of == round) {
            let now = host.wait_state(name, if n % 2 == 0 { "finished" } else { "failed" });
            let told = format!("exited with status {}", n % 2 * 7);
            assert!(now.message.contains(&told) && now.restarts == 0, "{now:?}");
            let ran = fs::read_to_string(host.path(name)).expect("it has run");
            assert_eq!(ran.lines().count(), 1, "{now:?}");
        }
    }
    host.poweroff();
}

#[test]
fn v7_v8_each_run_begins_once_and_each_end_is_heard() {
    each_fault(each_runs_once_and_is_heard);
}
