//! G4: a one-shot that failed keeps its dependants waiting, and they say why; once it is restarted and succeeds, they
//! start.

use kelson_tests::Host;

#[test]
fn g4_a_failed_one_shot_keeps_its_dependants_waiting_until_it_succeeds() {
    let mut host = Host::builder()
        .runs_with("migrate", "'wait-path=$DIR/go', 'fail-until=3:$DIR/count'", "type: oneshot")
        .runs_with("web", "serve", "depends: [{service: migrate}]")
        .service(
            "report",
            "process: {command: [$PROGRAM]}\ntype: oneshot\ndepends: [{service: migrate, event: finished}]",
        )
        .runs_with("front", "serve", "depends: [{service: web}]")
        .start();
    host.touch("go");
    for round in ["first", "second"] {
        for (name, event) in [("web", "to be up"), ("report", "to have finished")] {
            let waiter = host.wait_for(name, "to say that migrate failed", |service| {
                service.message.contains("it failed: exited with status 1 after")
            });
            assert_eq!((waiter.state.as_str(), waiter.pid), ("waiting", None), "{round}: {waiter:?}");
            assert_eq!(waiter.waiting_for.len(), 1, "{waiter:?}");
            assert!(waiter.waiting_for[0].starts_with(&format!("service \"migrate\" {event} (it failed: ")));
        }
        let migrate = host.service("migrate");
        assert_eq!((migrate.state.as_str(), migrate.up, migrate.stopped), ("failed", false, false));

        // Down to the cause, over two links.
        let why = host.client().why("front");
        assert_eq!((why.subject.as_str(), why.state.as_str()), ("service \"front\"", "waiting"));
        let web = &why.causes[0];
        assert_eq!((web.subject.as_str(), web.state.as_str()), ("service \"web\" to be up", "waiting"));
        let cause = &web.causes[0];
        assert_eq!(
            (cause.subject.as_str(), cause.state.as_str()),
            ("service \"migrate\" to be up", "failed")
        );
        assert!(cause.text.contains("exited with status 1"), "{cause:?}");
        let table = host.ctl(&["why", "front"]).ok().stdout;
        assert!(table.contains("migrate") && table.contains("exited with status 1"), "{table}");

        if round == "first" {
            let after = host.newest_event();
            let again = host.client().act(&["restart", "migrate", "--wait"]);
            assert_eq!((again.outcome.as_str(), again.state.as_str()), ("failed", "failed"), "{again:?}");
            host.wait_event(after, "of web that says again why", |event| {
                event.service == "web" && event.message.contains("it failed: ")
            });
        }
    }
    assert_eq!(host.states_of("web"), ["waiting"]);

    let done = host.client().act(&["restart", "migrate", "--wait"]);
    assert_eq!((done.outcome.as_str(), done.up), ("done", true), "{done:?}");
    host.wait_all_up(&["web", "front"]);
    host.wait_finished("report");
    assert_eq!(host.client().why("web").causes.len(), 0);
    host.poweroff();
}
