//! What a hook, another service or the file says of a start, a stop or a reload.

use kelson_tests::{Host, HostBuilder};

fn sleeps(builder: HostBuilder, name: &str, more: &str) -> HostBuilder {
    builder.service(name, &format!("process: {{command: [sleep, '77500']}}\n{more}\n"))
}

#[test]
fn a_hook_decides_whether_the_service_starts() {
    let hook = |status: u8| {
        format!(
            "hooks: {{pre: [{{command: [sh, -c, 'exit {status}'], condition: true}}], post: {{command: ['true']}}}}\n\
             restart: {{policy: once}}"
        )
    };
    let mut host = Host::builder();
    for status in [0, 1, 254, 255] {
        host = sleeps(host, &format!("s{status}"), &hook(status));
    }
    let mut host = sleeps(host, "after", "after: [s1, s254]").up(&["s0", "after"]);
    for status in [1, 254] {
        let service = host.wait_state(&format!("s{status}"), "skipped");
        let expected = format!("skipped: its hook sh exited with status {status}");
        assert_eq!(service.message, expected);
    }
    let failed = host.wait_state("s255", "failed").message;
    assert!(failed.contains("pre hook sh failed: exited with status 255"), "{failed}");
    host.poweroff();
}

#[test]
fn what_is_part_of_another_is_stopped_restarted_and_reloaded_with_it() {
    let host = sleeps(Host::builder(), "db", "reload: {signal: SIGCONT}");
    let host = sleeps(host, "web", "partOf: [db]\nreload: {signal: SIGCONT, with: [db]}");
    let mut host = sleeps(host, "log", "partOf: [web]").up(&["db", "web", "log"]);
    let names = ["db", "web", "log"];
    let pids = |host: &Host| names.map(|name| host.service(name).pid);
    let reloaded = host.ctl(&["reload", "db"]).ok().stdout;
    assert!(reloaded.contains("web"), "{reloaded}");

    let before = pids(&host);
    host.ctl(&["restart", "db", "--wait"]).ok();
    host.wait_all_up(&names);
    assert!(pids(&host).iter().zip(before).all(|(now, before)| *now != before), "{before:?}");

    host.ctl(&["stop", "web", "--wait"]).ok();
    assert_eq!(names.map(|name| host.service(name).state), ["running", "stopped", "stopped"]);
    // What rests is not started with the other.
    host.ctl(&["restart", "db", "--wait"]).ok();
    assert_eq!(names.map(|name| host.service(name).state), ["running", "stopped", "stopped"]);
    host.ctl(&["start", "web", "log", "--wait"]).ok();
    host.ctl(&["stop", "db", "--wait"]).ok();
    assert_eq!(names.map(|name| host.service(name).state), ["stopped"; 3].map(str::to_owned));
    host.poweroff();
}

#[test]
fn the_start_of_a_service_stops_what_conflicts_with_it() {
    let host = sleeps(Host::builder(), "old", "conflicts: [new, none]\nrefuses: [stop]");
    let host = sleeps(host, "user", "depends: [{service: old, whenDown: stop}]");
    let host = sleeps(host, "new", "start: manual");
    let mut host =
        sleeps(host, "kept", "start: manual\nrefuses: [start]\nconflicts: [old]").up(&["old", "user"]);
    let names = ["old", "user", "new"];
    let states = |host: &Host| names.map(|name| host.service(name).state);
    // One that does not start stops nothing.
    assert_ne!(host.ctl(&["start", "kept"]).status, 0);
    assert_eq!(states(&host), ["running", "running", "initialized"].map(str::to_owned));
    host.ctl(&["start", "new", "--wait"]).ok();
    assert_eq!(states(&host), ["stopped", "stopped", "running"].map(str::to_owned));
    let message = host.service("old").message;
    assert_eq!(message, "stopped: \"new\", with which it conflicts, is started");
    host.ctl(&["restart", "old", "--wait"]).ok();
    assert_eq!(states(&host), ["running", "stopped", "stopped"].map(str::to_owned));
    let both = host.ctl(&["start", "old", "new"]);
    let text = "it conflicts with new, which was asked for too: name one of them";
    assert!(both.status != 0 && both.stderr.contains(text), "{both:?}");
    host.poweroff();
}

#[test]
fn a_request_that_the_file_refuses_is_refused() {
    let host = sleeps(Host::builder(), "kept", "refuses: [stop]");
    let mut host = sleeps(host, "quiet", "refuses: [start]\nstart: manual").up(&["kept"]);
    for (words, why) in [(["stop", "kept"], "refuses: [stop]"), (["start", "quiet"], "refuses: [start]")] {
        let refused = host.ctl(&words);
        assert!(refused.status != 0, "{words:?}");
        let said = format!("{}{}", refused.stdout, refused.stderr);
        assert!(said.contains(why), "{said}");
    }
    assert!(host.service("kept").up);
    assert_eq!(host.service("quiet").pid, None);
    host.ctl(&["restart", "kept", "--wait"]).ok();
    // The end of the host is nobody's request.
    host.poweroff();
}

#[test]
fn a_finished_one_shot_is_undone_when_it_stops_and_when_the_host_ends() {
    let text = "process: {command: [sh, -c, 'echo done >>/run/trace']}\ntype: oneshot\n\
                hooks: {undo: {command: [sh, -c, 'echo undone >>/run/trace']}, post: {command: [sh, -c, 'echo post >>/run/trace']}}";
    let mut host = sleeps(
        Host::builder().own_folder("/run").service("rules", text),
        "web",
        "depends: [{service: rules}]\nhooks: {post: {command: [sh, -c, 'echo web >>/run/trace']}}",
    )
    .up(&["rules", "web"]);
    let trace = |host: &Host| {
        std::fs::read_to_string(host.inside("/run/trace")).expect("the trace").replace('\n', " ")
    };
    assert_eq!(trace(&host), "done post ");
    host.ctl(&["stop", "web", "--wait"]).ok();
    host.ctl(&["stop", "rules", "--wait"]).ok();
    assert_eq!(host.service("rules").state, "stopped");
    assert_eq!(trace(&host), "done post web undone ");
    // Nothing is left to undo.
    host.ctl(&["stop", "rules", "--wait"]).ok();
    host.ctl(&["start", "rules", "web", "--wait"]).ok();
    host.ctl(&["restart", "rules", "--wait"]).ok();
    assert_eq!(trace(&host), "done post web undone done post undone done post ");
    let log = host.inside("/run/trace");
    let copy = std::fs::File::open(log).expect("the trace");
    host.poweroff();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut { copy }, &mut text).expect("it is still there");
    assert_eq!(text.replace('\n', " "), "done post web undone done post undone done post web undone ");
}

/// What a service names starts at its end, of whichever kind that is, and once.
#[test]
fn an_end_starts_other_services() {
    let job = |more: &str| format!("type: oneshot\nstart: manual\n{more}");
    let after = "onFailure: [alert]\nonSuccess: [prune]";
    let mut host = Host::builder()
        .runs_with("good", "exit=0", &job(after))
        .runs_with(
            "bad",
            "exit=3",
            &job(&format!("restart: {{policy: untilSuccess, delay: 10ms, attempts: 1}}\n{after}")),
        )
        .runs_with("stopped", "serve", &job(after))
        .runs_with("alert", "append=$DIR/alerts", &job("refuses: [start]"))
        .runs_with("prune", "append=$DIR/prunes", &job(""))
        .runs_with("rival", "serve", "conflicts: [alert]")
        .start();
    host.wait_up("rival");
    let lines = |host: &Host, name: &str| {
        std::fs::read_to_string(host.path(name)).unwrap_or_default().lines().count()
    };
    host.ctl(&["start", "stopped"]).ok();
    host.ctl(&["stop", "stopped", "--wait"]).ok();
    host.ctl(&["start", "good", "--wait"]).ok();
    host.wait_finished("prune");
    host.ctl(&["start", "bad"]).ok();
    host.wait_state("bad", "failed");
    host.wait_finished("alert");
    assert_eq!((lines(&host, "alerts"), lines(&host, "prunes")), (1, 1));
    assert_eq!(
        host.service("rival").state,
        "stopped",
        "its file refuses starts by operators, and this is none"
    );
    let events: Vec<String> = host.events_of("alert").into_iter().map(|event| event.message).collect();
    assert!(events.contains(&"\"bad\" has failed: it is started".to_owned()), "{events:?}");
    // What ended before is no end of the next incarnation of PID 1.
    host.ctl(&["reexec"]).ok();
    host.crash(|| host.signal(libc::SIGSEGV));
    host.ctl(&["start", "good", "--wait"]).ok();
    kelson_tests::eventually("it is started again", || lines(&host, "prunes") == 2);
    assert_eq!(lines(&host, "alerts"), 1);
    host.poweroff();
}
