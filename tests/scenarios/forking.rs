//! Services whose command forks into the background: its main process is followed, and what it leaves is the service.

use std::fs;

use kelson_tests::{Host, HostBuilder, eventually};

const MAIN: &str = "sleep 77401";
const OTHER: &str = "sleep 77402";
const SIGKILL: i32 = libc::SIGKILL;

/// Leaves two processes behind, and names the first of them after its own end.
const NAMED: &str = "rm -f /run/web.new; sleep 77401 & pid=$!; sleep 77402 & \
                     (sleep 0.1; echo $pid >/run/web.new; mv /run/web.new /run/web.pid) & exit 0";

fn builder(more: &str) -> HostBuilder {
    Host::builder().own_folder("/run").service("web", more)
}

fn command(script: &str, more: &str) -> String {
    format!("process: {{command: [sh, -c, '{script}']}}\n{more}\n")
}

/// How many processes there are with this command line.
fn count(host: &Host, command: &str) -> usize {
    host.processes().iter().filter(|process| process.command.join(" ") == command).count()
}

fn pid_file(host: &Host) -> i32 {
    fs::read_to_string(host.inside("/run/web.pid")).expect("the PID file").trim().parse().expect("a number")
}

#[test]
fn the_process_that_the_pid_file_names_is_followed() {
    let text = command(
        NAMED,
        "readiness: {pidFile: /run/web.pid}\nrestart: {delay: 1ms, maxDelay: 1ms}\nreload: {signal: SIGCONT}\n\
         hooks: {preStop: {command: [sh, -c, \"echo stops.$MAINPID\"]}}",
    );
    let mut host = builder(&text).up(&["web"]);
    let first = host.pid_of("web");
    assert_eq!(first, pid_file(&host));
    assert!(host.service("web").message.contains("ready after"), "{}", host.service("web").message);
    host.ctl(&["reload", "web"]).ok();

    // The file of the first run still names the dead process when the second begins.
    host.kill(first, SIGKILL);
    let second =
        host.wait_for("web", "the next run", |now| now.up && now.pid.is_some_and(|pid| pid != first));
    assert_eq!(second.pid, Some(pid_file(&host)));
    assert!(host.states_of("web").iter().any(|state| state == "backoff"));
    assert!(
        host.events_of("web").iter().any(|event| event.message.contains("killed by SIGKILL")),
        "{:?}",
        host.events_of("web")
    );
    eventually("the first run to be cleared away", || (count(&host, MAIN), count(&host, OTHER)) == (1, 1));

    // Another incarnation of PID 1 knows which process it is, and how it ends.
    host.ctl(&["reexec"]).ok();
    let now = host.service("web");
    assert!(now.up && now.pid == second.pid, "{now:?}");
    host.kill(pid_file(&host), SIGKILL);
    let third =
        host.wait_for("web", "the run after", |now| now.up && now.pid != second.pid && now.pid.is_some());
    host.ctl(&["stop", "web", "--wait"]).ok();
    host.wait_log("web", &format!("stops.{}", third.pid.expect("a main process")));
    host.assert_nothing_left("web", "7740");
    host.poweroff();
}

#[test]
fn a_crash_while_the_main_process_is_looked_for_is_survived() {
    let script =
        "sleep 77401 & (while [ ! -e /run/go ]; do sleep 0.05; done; echo $! >/run/web.pid) & exit 0";
    let mut host = builder(&command(script, "readiness: {pidFile: /run/web.pid}")).start();
    let looks = "its command has ended, looking for its main process";
    host.wait_for("web", "the end of the command", |now| now.message == looks && now.pid.is_none());
    host.ctl(&["reexec"]).ok();
    host.crash(|| host.signal(libc::SIGSEGV));
    assert_eq!(host.service("web").state, "starting");
    fs::write(host.inside("/run/go"), "").expect("it is writable");
    host.wait_up("web");
    assert_eq!(host.pid_of("web"), pid_file(&host));
    assert_eq!(host.service("web").restarts, 0);
    host.poweroff();
}

#[test]
fn without_a_pid_file_the_only_process_is_the_main_one() {
    let script = "(sleep 77401 & exit 0); exit 0";
    let mut host =
        builder(&command(script, "readiness: {forks: true}\nrestart: {policy: once}")).up(&["web"]);
    let main = host.pid_of("web");
    assert_eq!(host.processes_with("77401")[0].pid, main);
    host.kill(main, SIGKILL);
    assert!(host.wait_state("web", "failed").message.contains("killed by SIGKILL"));
    host.poweroff();
}

#[test]
fn several_processes_are_the_service_until_the_last_of_them_ends() {
    let one = "sh -c \"trap \\\"echo bye; exit 0\\\" TERM; while :; do sleep 0.05; done\" &";
    let script = format!("{one} {one} sleep 77402 & exit 0");
    let mut host = builder(&command(
        &script,
        "readiness: {forks: true}\nrestart: {policy: onSuccess, delay: 1ms, maxDelay: 1ms}",
    ))
    .up(&["web"]);
    assert_eq!(host.service("web").pid, None);
    host.ctl(&["reexec"]).ok();
    assert!(host.service("web").up);
    // All of them get the stop signal.
    host.ctl(&["stop", "web", "--wait"]).ok();
    eventually("the last words of both", || host.log_text("web").matches(" bye").count() == 2);
    host.assert_nothing_left("web", "77402");

    host.ctl(&["start", "web", "--wait"]).ok();
    // All at once: a process that is just being forked is none that a list of processes names for long.
    fs::write(host.cgroup_of("web").join("cgroup.kill"), "1").expect("a cgroup of the service");
    host.wait_for("web", "the restart after a success", |now| now.up && now.restarts > 0);
    host.poweroff();
}

#[test]
fn a_start_that_fails_says_why() {
    let once = "restart: {policy: once}\nstartTimeout: 1s\n";
    let mut host = builder(&command("exit 3", &format!("readiness: {{forks: true}}\n{once}")))
        .service("alone", &command("exit 0", &format!("readiness: {{forks: true}}\n{once}")))
        .service(
            "silent",
            &command("sleep 77403 & exit 0", &format!("readiness: {{pidFile: /run/silent.pid}}\n{once}")),
        )
        .service(
            "wrong",
            &command(
                "echo 1 >/run/wrong.pid; sleep 77404 & exit 0",
                &format!("readiness: {{pidFile: /run/wrong.pid}}\n{once}"),
            ),
        )
        .service("slow", &command("sleep 77405", &format!("readiness: {{forks: true}}\n{once}")))
        .start();
    for (name, why) in [
        ("web", "exited with status 3"),
        ("alone", "its command has ended and left no process"),
        ("silent", "not ready after 1 s"),
        ("wrong", "not ready after 1 s"),
        ("slow", "not ready after 1 s"),
    ] {
        let message = host.wait_state(name, "failed").message;
        assert!(message.contains(why), "{name}: {message}");
    }
    assert_eq!(host.processes_with("7740").len(), 0);
    host.poweroff();
}

#[test]
fn what_the_main_process_leaves_behind_can_outlive_a_stop() {
    let text = command("sleep 77406 & exec sleep 77407", "stop: {mode: process}");
    let mut host = builder(&text).up(&["web"]);
    host.ctl(&["restart", "web", "--wait"]).ok();
    host.wait_up("web");
    eventually("the child of each run", || {
        (count(&host, "sleep 77406"), count(&host, "sleep 77407")) == (2, 1)
    });
    host.ctl(&["stop", "web", "--wait"]).ok();
    assert_eq!((count(&host, "sleep 77406"), count(&host, "sleep 77407")), (2, 0));
    assert!(!host.cgroup_of("web").exists() && host.cgroup_of("web.left").exists());
    host.poweroff();
}
