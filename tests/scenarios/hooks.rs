//! Hooks of a real process and of a real container: where they run, in which order, and that a stop breaks them off.

use std::time::Instant;

use kelson_tests::{Host, HostBuilder, Image, PATIENCE, archive, eventually, until};

/// The hooks of a service whose main process prints `main`, each of which tells its name and its cgroup.
fn hooks(program: &str) -> String {
    let hook = |name: &str| {
        format!("{{command: [{program}, print={name}, report-of=cgroup, 'report-of=env.KELSON_EXIT']}}")
    };
    format!(
        "hooks: {{pre: [{}], postStart: [{}], preStop: [{}], post: [{}]}}\n",
        hook("pre"),
        hook("postStart"),
        hook("preStop"),
        hook("post")
    )
}

/// Runs it, kills it once, and stops it.
#[track_caller]
fn each_in_its_place(builder: HostBuilder) {
    let mut host = builder.start();
    // All that the first three of a run have to say: the end of the process would break postStart off.
    let said = |cgroups: usize| {
        eventually("the hooks of the start to be in the log", || {
            host.log_text("web").matches("cgroup 0::").count() == cgroups
        });
    };
    said(3);
    host.wait_up("web");
    let first = host.pid_of("web");
    host.kill(first, libc::SIGKILL);
    host.wait_for("web", "to run again", |web| web.up && web.pid.is_some_and(|pid| pid != first));
    said(7);
    host.ctl(&["stop", "web", "--wait"]).ok();
    host.wait_log("web", "env.KELSON_EXIT_STATUS 0");
    // Of stdout and stderr each line bears its own time; what matters is what stands in it.
    let log = host.log_text("web");
    let words = [
        "postStart",
        "preStop",
        "pre",
        "main",
        "post",
        "env.KELSON_EXIT_SIGNAL 9",
        "env.KELSON_EXIT_STATUS 0",
    ];
    let said: Vec<&str> =
        log.lines().filter_map(|line| words.into_iter().find(|word| line.ends_with(word))).collect();
    assert_eq!(
        said,
        [
            "pre",
            "main",
            "postStart",
            "post",
            "env.KELSON_EXIT_SIGNAL 9",
            "pre",
            "main",
            "postStart",
            "preStop",
            "post",
            "env.KELSON_EXIT_STATUS 0",
        ],
        "{log}"
    );
    // All of them in the service's cgroup, those beside the main process in a leaf of it.
    let cgroups: Vec<&str> = log.lines().filter_map(|line| Some(line.split_once("cgroup 0::")?.1)).collect();
    assert_eq!(cgroups.len(), 9, "{log}");
    let own = |cgroup: &&str| cgroup.strip_suffix("/exec").unwrap_or(cgroup) == cgroups[0];
    assert!(cgroups.iter().all(own), "{cgroups:?}");
    let now = host.service("web");
    assert_eq!((now.restarts, now.state.as_str()), (1, "stopped"), "{now:?}");
    host.poweroff();
}

#[test]
fn reload_runs_the_hooks_beside_the_process_and_sends_the_signal() {
    let reload = "reload: {hooks: {command: [$PROGRAM, 'report-of=env.MAINPID']}, signal: SIGHUP}";
    let mut host = Host::builder()
        .runs_with("web", "await=HUP, print=first, await=HUP, print=second, serve", reload)
        .runs_with(
            "worker",
            "serve",
            "reload: {hooks: [{command: [$PROGRAM, exit=3]}, {command: [$PROGRAM, print=never]}], signal: KILL}",
        )
        .up(&["web", "worker"]);
    let pid = host.pid_of("web");
    assert_eq!(host.ctl(&["reload", "web"]).ok().stdout, "web: 1 hook succeeded, SIGHUP sent\n");
    // The hook has been waited for.
    assert!(host.wait_log("web", "first").contains(&format!("env.MAINPID {pid}")));
    assert_eq!(host.pid_of("web"), pid);
    let events = host.ctl(&["events", "web"]).ok().stdout;
    assert!(events.contains("reloaded (1 hook succeeded, SIGHUP sent): asked by"), "{events}");
    // Of several, each is answered for, and one that fails changes nothing else.
    let both = host.ctl(&["reload", "web", "worker"]).expect(1);
    assert_eq!(both.stdout, "web: 1 hook succeeded, SIGHUP sent\n");
    assert!(
        both.stderr.contains("worker: failed: reload hook") && both.stderr.contains("status 3"),
        "{}",
        both.stderr
    );
    assert!(host.service("worker").up && host.service("worker").restarts == 0, "it got no signal");
    assert!(!host.log_text("worker").contains("never"));
    host.ctl(&["stop", "web", "--wait"]).ok();
    let stopped = host.ctl(&["reload", "web"]).expect(1).stderr;
    assert!(stopped.contains("web: failed: service \"web\" does not run: its state is stopped"), "{stopped}");
    assert!(host.ctl(&["reload", "wep"]).expect(1).stderr.contains("did you mean \"web\""));
    host.poweroff();
}

#[test]
fn hooks_of_a_process_stand_around_each_run() {
    let main = "process: {command: [$PROGRAM, print=main, report-of=cgroup, notify=READY=1, serve]}
readiness: notify
restart: {delay: 10ms}
";
    each_in_its_place(Host::builder().service("web", &format!("{main}{}", hooks("$PROGRAM"))));
}

#[test]
fn hooks_of_a_container_run_inside_it() {
    let main = "container: {image: 'test:1', command: [/program, print=main, report-of=cgroup, notify=READY=1, serve]}
readiness: notify
restart: {delay: 10ms}
";
    let image = archive(&[Image::new("test:1", &["serve"])]);
    let builder = Host::builder().containers().archive("test.tar", image);
    each_in_its_place(builder.service("web", &format!("{main}{}", hooks("/program"))));
}

#[test]
fn g3_a_stop_breaks_a_hook_off_and_a_failure_says_which() {
    let mut host = Host::builder()
        .runs_with("slow", "serve", "hooks: {pre: {command: [$PROGRAM, hang]}}")
        .runs_with(
            "bad",
            "serve",
            "hooks: {pre: [{command: [$PROGRAM, exit=3]}]}
restart: {attempts: 1, delay: 1ms}",
        )
        .runs_with(
            "late",
            "serve",
            "hooks: {pre: [{command: [$PROGRAM, hang], timeout: 200ms}]}
restart: {policy: once}",
        )
        .start();
    let bad = host.wait_state("bad", "failed");
    assert!(bad.message.ends_with("failed: exited with status 3; gave up after 2 failures in 5m"), "{bad:?}");
    assert!(bad.message.starts_with("pre hook /"), "{bad:?}");
    let late = host.wait_state("late", "failed");
    assert!(late.message.contains("failed: it had not ended after 200 ms, killed"), "{late:?}");
    host.wait_for("slow", "its hook to run", |slow| slow.state == "starting");
    eventually("the hook to run", || !host.processes_with("hang").is_empty());
    let begun = Instant::now();
    host.ctl(&["stop", "slow", "--wait"]).ok();
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    host.assert_nothing_left("slow", "hang");
    host.poweroff();
}

/// Debian's own pattern for a web server: its configuration is tested first, and it needs addresses.
#[test]
fn a_service_with_a_pre_hook_starts_where_conditions_answer_late() {
    let host = Host::builder()
        .runs_with(
            "web",
            "serve",
            "hooks: {pre: {command: [$PROGRAM, 'append=$DIR/rounds']}}\n\
             depends: [{path: /etc/passwd}, {path: $DIR/there}, {network: [hostname]}]",
        )
        .start();
    host.touch("there");
    host.wait_up("web");
    let rounds = || std::fs::read_to_string(host.path("rounds")).unwrap().lines().count();
    assert_eq!(rounds(), 1);
    for restarts in 2..=100 {
        host.ctl(&["restart", "web", "--wait"]).ok();
        assert_eq!(rounds(), restarts);
    }
    assert_eq!(host.service("web").restarts, 0);
}

#[test]
fn a_hook_runs_as_root_where_the_file_says_so() {
    let tell = |name: &str, more: &str| {
        let script = format!("echo {name} $(id -u) $(grep -E 'CapEff|Seccomp:' /proc/self/status)");
        format!("{{command: [sh, -c, \"{script}\"]{more}}}")
    };
    let as_root = ", asRoot: true";
    let mut host = Host::builder()
        .runs_with(
            "web",
            "notify=READY=1, serve",
            &format!(
                "readiness: notify
user: nobody
security: {{readOnlyRoot: true}}
hooks: {{pre: [{}, {}], post: {}}}
",
                tell("own", ""),
                tell("root", as_root),
                tell("after", as_root)
            ),
        )
        .up(&["web"]);
    host.ctl(&["stop", "web", "--wait"]).ok();
    let line = |name: &str| {
        let line = until("the hook in the log", PATIENCE, || {
            let log = host.log_text("web");
            log.lines().find_map(|line| Some(line.split_once(&format!(" {name} "))?.1.to_owned()))
        });
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    // Its user, its capabilities, and whether a filter watches it.
    let own = line("own");
    assert_eq!([&own[0], &own[2], &own[4]], ["65534", "0000000000000000", "2"], "{own:?}");
    let confined = own[2].clone();
    for name in ["root", "after"] {
        let words = line(name);
        assert_eq!([&words[0], &words[4]], ["0", "0"], "{words:?}");
        assert_ne!(words[2], confined, "{words:?}");
    }
    host.poweroff();
}
