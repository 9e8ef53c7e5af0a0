//! G5, and the other side of it: `whenDown`.

use kelson_tests::Host;

#[test]
fn g5_each_does_what_its_file_says_when_its_dependency_goes_down() {
    let user = |rule: &str| {
        format!("process: {{command: [$PROGRAM, serve]}}\ndepends: [{{service: db, whenDown: {rule}}}]")
    };
    let mut host = Host::builder()
        .runs_with("db", "serve", "restart: {delay: 10ms}")
        .service("ignores", &user("ignore"))
        .service("stops", &user("stop"))
        .service("restarts", &user("restart"))
        .runs_with("tail", "serve", "depends: [{service: restarts, whenDown: restart}]")
        .start();
    host.wait_all_up(&["ignores", "stops", "tail"]);
    let pids = ["ignores", "restarts", "tail"].map(|name| host.pid_of(name));
    host.kill(host.pid_of("db"), libc::SIGKILL);
    let stops = host.wait_state("stops", "stopped");
    assert!(stops.message.starts_with("stopped: service \"db\", which it needs, went down ("), "{stops:?}");
    assert!(!stops.stopped && !stops.up, "no operator has stopped it: {stops:?}");
    // A dependant of one that was restarted goes along with it.
    for (name, was) in ["restarts", "tail"].into_iter().zip(&pids[1..]) {
        let now = host.wait_for(name, "to run again", |now| now.up && now.pid.is_some_and(|pid| pid != *was));
        assert_eq!(now.restarts, 0, "nobody counts it: {now:?}");
    }
    let ignores = host.service("ignores");
    assert_eq!((ignores.pid, ignores.up), (Some(pids[0]), true), "{ignores:?}");
    // It stays stopped until somebody starts it.
    assert_eq!(host.service("stops").state, "stopped");
    host.ctl(&["start", "stops", "--wait"]).ok();
    let status = host.ctl(&["status", "restarts", "-o", "json"]).ok().stdout;
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["restartsBy"]["dependency"], 1, "{status}");
    host.poweroff();
}
