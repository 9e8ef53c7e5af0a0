//! The inside of a container: its image's settings with the service file's on top, its log, its end, and
//! commands beside it.

use kelson_tests::{eventually, on_terminal};
use serde_json::json;

use super::{RUNTIME, Runtime, assert_no_container, host, runtime, service, steps, test_image};

all!(a_container_is_what_its_image_and_its_file_say);
fn a_container_is_what_its_image_and_its_file_say() {
    let image = kelson_tests::Image::new("test:1", &["report", "serve"])
        .set("User", json!("web"))
        .set("Env", json!(["PATH=/", "OF_IMAGE=yes", "BOTH=image"]));
    let mut host = host(&[image])
        .service("plain", &service("test:1"))
        .service("changed", &format!("{}user: root\nenvironment: {{BOTH: file}}", service("test:1")))
        .up(&["plain", "changed"]);
    let plain = host.wait_log("plain", "Groups");
    for part in [
        "env.OF_IMAGE yes",
        "env.BOTH image",
        "status Uid: 1000 1000",
        "status Gid: 1001 1001",
        "status Groups: 1002",
    ] {
        assert!(plain.contains(part), "{part}: {plain}");
    }
    let changed = host.wait_log("changed", "Groups");
    assert!(changed.contains("env.BOTH file") && changed.contains("env.OF_IMAGE yes"), "{changed}");
    host.poweroff();
}

all!(a_container_has_the_attributes_of_its_service);
fn a_container_has_the_attributes_of_its_service() {
    let of_kelson = RUNTIME.get() != Runtime::Containerd;
    let scheduled = if of_kelson { "nice: 7\ncpuAffinity: [0]\n" } else { "" };
    let keys = format!("umask: '0027'\noomScoreAdjust: 321\n{scheduled}");
    let image = kelson_tests::Image::new("test:1", &["report", "serve"]);
    let mut host = host(&[image]).service("web", &format!("{}{keys}", service("test:1"))).up(&["web"]);
    let log = host.wait_log("web", "tty ");
    let beside = host.ctl(&["exec", "web", "--", "/program", "report"]).ok().stdout;
    // runc gives a further process its own umask.
    for (report, umask) in [(log, "0027"), (beside, if of_kelson { "0027" } else { "0022" })] {
        let line = |words: &str| report.lines().any(|line| line.ends_with(words));
        assert!(line(&format!("status Umask: {umask}")) && line("oom_score_adj 321"), "{report}");
        if of_kelson {
            assert!(line("nice 7") && line("status Cpus_allowed_list: 0"), "{report}");
        }
    }
    host.poweroff();
}

all!(p4_the_last_words_of_a_container_are_in_its_log);
fn p4_the_last_words_of_a_container_are_in_its_log() {
    let mut host = host(&[test_image()])
        .service(
            "fails",
            &format!("{}restart: {{policy: once}}", steps("print=first, write=last-of-fails, exit=3")),
        )
        .service(
            "dies",
            &format!("{}restart: {{policy: once}}", steps("lines=1000, 'eprint=last-of-dies', hang")),
        )
        .service("ends", &steps("print=ready, 'await=TERM', lines=1000, write=last-of-ends"))
        .start();
    // The first process of a PID namespace cannot be killed from within.
    host.wait_log("dies", "last-of-dies");
    host.wait_up("dies");
    host.kill(host.pid_of("dies"), libc::SIGKILL);
    for (name, said) in [("fails", "exited with status 3"), ("dies", "SIGKILL")] {
        let end = host.wait_state(name, "failed").message;
        assert!(end.contains(said), "{end}");
        let log = host.wait_log(name, &format!("last-of-{name}"));
        // Each of its two streams in order.
        let errors = |line: &&str| line.contains(" stderr ") == (name == "dies");
        let last = log.lines().rfind(errors).expect("a line");
        assert!(last.ends_with(&format!("last-of-{name}")), "{log}");
    }
    assert_eq!(host.log_text("dies").lines().count(), 1001);
    host.wait_log("ends", "ready");
    // Also what is written while the host stops.
    host.poweroff();
    let log = host.log_text("ends");
    assert!(log.trim_end().ends_with("last-of-ends"), "{log}");
    assert_eq!(log.lines().count(), 1002, "{log}");
}

all!(p5_a_container_that_writes_much_is_not_held_up);
fn p5_a_container_that_writes_much_is_not_held_up() {
    let mut host = host(&[test_image()])
        .service(
            "web",
            &format!("{}logs: {{maxSize: 64Ki, maxFiles: 2}}", steps("lines=200000, ticker=100ms")),
        )
        .up(&["web"]);
    // Any of the ticks: the first may be among the lines that were dropped.
    host.wait_log("web", "tick");
    host.poweroff();
}

all!(r1_the_restart_policy_decides_about_containers_too);
fn r1_the_restart_policy_decides_about_containers_too() {
    let mut host = host(&[test_image()])
        .service("job", &format!("type: oneshot\n{}", steps("exit=0")))
        .service(
            "loop",
            &format!("{}restart: {{attempts: 2, interval: 5m, delay: 1ms, maxDelay: 1ms}}", steps("exit=4")),
        )
        .service(
            "missing",
            &format!(
                "container: {{{}image: 'test:1', command: [/nothing]}}\nrestart: {{policy: once}}",
                runtime()
            ),
        )
        .start();
    host.wait_finished("job");
    let end = host.wait_state("loop", "failed");
    assert!(end.message.contains("exited with status 4"), "{end:?}");
    assert_eq!(end.restarts, 2, "{end:?}");
    let end = host.wait_state("missing", "failed");
    assert!(end.message.contains("/nothing"), "{end:?}");
    assert_no_container(&host);
    host.poweroff();
}

all!(exec_runs_a_command_in_the_container);
fn exec_runs_a_command_in_the_container() {
    let mut host = host(&[test_image()])
        .service("web", &format!("{}environment: {{MARK: here}}", steps("touch=/mark, print=ready, serve")))
        .start();
    host.wait_log("web", "ready");
    // Its first words may come before containerd has said that it runs.
    host.wait_up("web");
    let done = host
        .ctl(&["exec", "web", "--", "/program", "wait-path=/mark", "print=hello", "eprint=trouble", "report"])
        .ok();
    assert!(done.stdout.starts_with("hello\n") && done.stdout.contains("env.MARK here"), "{done:?}");
    assert!(done.stderr.contains("trouble"), "{done:?}");
    assert_eq!(host.ctl(&["exec", "web", "--", "/program", "exit=7"]).status, 7);
    let none = host.ctl(&["exec", "web", "--", "/nothing"]);
    assert!(none.status != 0 && none.stderr.contains("/nothing"), "{none:?}");
    assert_eq!(host.service("web").restarts, 0);
    host.poweroff();
}

all!(exec_gets_a_terminal_of_the_container);
fn exec_gets_a_terminal_of_the_container() {
    let mut host = host(&[test_image()]).service("web", &format!("{}user: web", steps("serve"))).up(&["web"]);
    let run = |words: &[&str]| {
        on_terminal(host.client().command(&[&["exec", "-t", "web", "--"], words].concat()), "")
    };
    let (status, shown) = run(&["/program", "list=/dev/pts", "report", "exit=7"]);
    // Both terminals end a line in their way.
    let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
    assert_eq!((status, &lines[..2]), (7, ["0", "ptmx"].as_slice()), "{shown}");
    // It is found by its name, controls the session, and is its user's.
    for line in ["fd.0 /dev/pts/0", "fd.2 /dev/pts/0", "tty true", "status Uid: 1000 1000 1000 1000"] {
        assert!(lines.contains(&line), "{line}: {shown}");
    }
    let (status, shown) = run(&["/nothing"]);
    assert!(status != 0 && shown.contains("/nothing"), "{status} {shown}");
    eventually("the terminal to be gone with the command", || {
        host.ctl(&["exec", "web", "--", "/program", "list=/dev/pts"]).ok().stdout == "ptmx\n"
    });
    host.poweroff();
}

all!(h4_a_health_check_runs_in_the_container);
fn h4_a_health_check_runs_in_the_container() {
    let mut host = host(&[test_image()])
        .service(
            "web",
            &format!(
                "{}health: [{{name: mark, exec: {{command: [/program, 'wait-path=/mark']}}, interval: 100ms, timeout: 5s}}]",
                steps("sleep=300ms, touch=/mark, serve")
            ),
        ).up(&["web"]);
    assert_eq!(host.service("web").healthy, Some(true));
    host.poweroff();
}

all!(h1_a_container_without_a_network_is_asked_in_its_own);
fn h1_a_container_without_a_network_is_asked_in_its_own() {
    let checked = "health: [{tcp: {port: 4321}, initialDelay: 0s, interval: 100ms, failureThreshold: 1}]\n";
    let apart = |steps: &str| {
        let key = runtime();
        format!("container: {{{key}image: 'test:1', network: none, command: [/program, {steps}]}}\n{checked}")
    };
    let mut host = host(&[test_image()])
        .service("here", &apart("tcp=4321"))
        .service("there", &apart("serve"))
        .up(&["here"]);
    let there = host.wait_for("there", "to be refused", |there| there.healthy == Some(false));
    assert!(there.message.contains("refused"), "each has a port 4321 of its own: {there:?}");
    // One that asks in each of the two networks.
    eventually("two to ask", || host.processes_with("kelson-probe").len() == 2);
    let (before, since) = (host.service("here"), host.newest_event());
    for process in host.processes_with("kelson-probe") {
        host.kill(process.pid, libc::SIGKILL);
    }
    for name in ["here", "there"] {
        host.wait_event(since, "the replacement to be told", |event| {
            event.service == "probe"
                && event.message.starts_with(&format!("in the network of service \"{name}\": replaced: "))
        });
    }
    let after = host.service("here");
    assert_eq!((before.pid, before.restarts, before.up), (after.pid, after.restarts, after.up));
    // A stop of the service ends who asks in its network.
    host.ctl(&["stop", "here", "there", "--wait"]).ok();
    eventually("nobody to ask", || host.processes_with("kelson-probe").is_empty());
    host.poweroff();
}
