//! P7: `kelsonctl signal` reaches the main process of a service, also after a re-exec of PID 1, and is no stop.

use kelson_tests::Host;

#[test]
fn p7_a_signal_reaches_the_main_process_and_is_no_stop() {
    let mut host = Host::builder()
        .runs_with(
            "web",
            "await=HUP, touch=$DIR/one, await=HUP, touch=$DIR/two, await=USR1, \
             touch=$DIR/three, hang",
            "restart: {delay: 10ms}",
        )
        .runs_with("idle", "serve", "start: manual")
        .up(&["web"]);
    let pid = host.pid_of("web");
    let said = host.ctl(&["signal", "web", "SIGHUP"]).ok().stdout;
    assert_eq!(said, format!("web: SIGHUP sent to PID {pid}\n"));
    host.wait_file("one");
    host.ctl(&["signal", "web", "1"]).ok();
    host.wait_file("two");
    let told = |text: &str| host.events_of("web").iter().any(|event| event.message.contains(text));
    assert!(told(&format!("SIGHUP sent to PID {pid}: asked by")), "{:#?}", host.events_of("web"));
    // PID 1 knows the process by its PID and start time, regardless of who started it.
    host.ctl(&["reexec"]).ok();
    host.ctl(&["signal", "web", "USR1"]).ok();
    host.wait_file("three");
    let now = host.service("web");
    assert_eq!((now.pid, now.restarts, now.stopped, now.up), (Some(pid), 0, false, true));
    // An end by it is an end like any other.
    host.ctl(&["signal", "web", "KILL"]).ok();
    let now = host.wait_for("web", "to be started again", |web| web.up && web.pid != Some(pid));
    assert_eq!((now.restarts, now.stopped), (1, false));

    let said = host.ctl(&["signal", "idle", "HUP"]).expect(1).stderr;
    assert!(said.contains("service \"idle\" does not run"), "{said}");
    let said = host.ctl(&["signal", "wbe", "HUP"]).expect(1).stderr;
    assert!(said.contains("did you mean \"web\"?"), "{said}");
    host.ctl(&["signal", "web", "HUPP"]).expect(2);
    host.poweroff();
}
