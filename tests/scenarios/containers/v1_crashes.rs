//! V1, V7, V8: a crash of PID 1 costs a container nothing, whenever it comes; and the helper that makes a container may die at
//! any step.

use std::fs;
use std::time::Duration;

use kelson_tests::chaos::ledger::{Ledger, number_after};
use kelson_tests::{Host, PATIENCE, until};

use super::{Runtime, host, run_by, steps, test_image};

type Seen = Vec<(String, Option<i32>, u32, bool, Option<bool>)>;

fn seen(host: &Host) -> Seen {
    let all = host.services().into_iter().filter(|now| !now.builtin);
    all.map(|now| (now.name, now.pid, now.restarts, now.up, now.healthy)).collect()
}

both!(v1_a_crash_of_pid_1_costs_a_container_nothing);
fn v1_a_crash_of_pid_1_costs_a_container_nothing() {
    let check = "health: [{name: own, exec: {command: [/program, 'wait-path=/mark']}, interval: 100ms}]\n";
    let mut host = host(&[test_image()])
        .crash_limit("1000/1m")
        .service("web", &format!("{}stop: {{timeout: 200ms}}", steps("ticker=5ms")))
        .service("checked", &format!("{}{check}", steps("touch=/mark, serve")))
        .service("job", &format!("type: oneshot\n{}", steps("exit=0")))
        .start();
    host.wait_all_up(&["web", "checked"]);
    host.wait_finished("job");
    let before = seen(&host);
    for signal in [libc::SIGSEGV, libc::SIGABRT, libc::SIGBUS] {
        host.crash(|| host.signal(signal));
        assert_eq!(seen(&host), before, "after signal {signal}");
    }
    // They are still what PID 1 knows of them: a command runs inside, an end is seen.
    host.ctl(&["exec", "checked", "--", "/program", "wait-path=/mark"]).ok();
    host.kill(host.pid_of("checked"), libc::SIGKILL);
    host.wait_for("checked", "to run again", |now| now.up && now.restarts == 1);
    host.poweroff();
    let log = host.log_text("web");
    let numbers: Vec<u64> = log.lines().filter_map(|line| number_after(line, " tick ")).collect();
    let last = numbers.iter().copied().max().expect("a line");
    let ledger = Ledger::of(numbers, 1, last..=last);
    assert_eq!(ledger.wrong(), 0, "{ledger:?}:\n{log}");
}

/// The moments cannot be chosen from outside, so containers start and end while PID 1 crashes again and again.
#[test]
fn v7_v8_each_container_runs_once_and_its_end_is_heard() {
    run_by(Runtime::Kelson, || {
        const COUNT: usize = 12;
        const ROUNDS: usize = 3;
        let mut builder = host(&[test_image()]).crash_limit("1000/1m");
        let name = |round, number| format!("r{round}-n{number}");
        for (round, number) in (0..ROUNDS).flat_map(|round| (0..COUNT).map(move |number| (round, number))) {
            let name = name(round, number);
            let pause = if number % 4 < 2 { "sleep=1ms" } else { "sleep=30ms" };
            let status = number % 2 * 7;
            builder = builder.service(
                &name,
                &format!(
                    "container:\n  runtime: kelson\n  image: 'test:1'\n  mounts: [{{source: $DIR, target: /host}}]\n  \
                     command: [/program, append=/host/{name}, {pause}, exit={status}]\n\
                     type: oneshot\ndepends: [{{path: $DIR/go-{round}}}]"
                ),
            );
        }
        let mut host = builder.start();
        for round in 0..ROUNDS {
            fs::write(host.path(&format!("go-{round}")), "").expect("the test's folder is writable");
            for pause in [0, 20, 60] {
                std::thread::sleep(Duration::from_millis(pause));
                host.crash(|| host.signal(libc::SIGSEGV));
            }
            for number in 0..COUNT {
                let name = name(round, number);
                let now = host.wait_state(&name, if number % 2 == 0 { "finished" } else { "failed" });
                let end = format!("exited with status {}", number % 2 * 7);
                assert!(now.message.contains(&end) && now.restarts == 0, "{now:?}");
                let ran = fs::read_to_string(host.path(&name)).expect("it has run");
                assert_eq!(ran.lines().count(), 1, "{now:?}");
            }
        }
        host.poweroff();
    });
}

#[test]
fn v6_a_helper_that_dies_at_any_step_leaves_nothing_of_its_container() {
    run_by(Runtime::Kelson, || {
        let quick = "restart: {delay: 1ms, maxDelay: 1ms}\n";
        let mut host =
            host(&[test_image()]).service("web", &format!("{}{quick}start: manual", steps("serve"))).start();
        let mounts = || {
            let file = format!("/proc/{}/mountinfo", host.init_pid());
            fs::read_to_string(file).expect("the mounts of the host").lines().count()
        };
        let before = mounts();
        host.ctl(&["start", "web"]).ok();
        let mut killed = 0;
        // Some are found as the helper, some as the program that it has become.
        until("ten of them to be killed", PATIENCE, || {
            let found = host.processes().into_iter().find(|process| {
                let is = |name: &str| process.command.iter().any(|word| word == name);
                is("kelson-container") || is("/program")
            });
            if let Some(process) = found {
                // SAFETY: it is a process of this host, or was a moment ago.
                unsafe { libc::kill(process.outer_pid, libc::SIGKILL) };
                killed += 1;
            }
            (killed >= 10).then_some(())
        });
        host.wait_up("web");
        assert_eq!(mounts(), before);
        assert_eq!(host.processes_with("/program").len(), 1, "{:?}", host.processes());
        host.ctl(&["stop", "web", "--wait"]).ok();
        host.assert_nothing_left("web", "/program");
        assert_eq!(mounts(), before);
        host.poweroff();
    });
}
