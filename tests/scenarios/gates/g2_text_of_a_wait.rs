//! G2: the text of a wait names only what is missing, and changes as things come true.

use std::fs;

use kelson_tests::{Event, Host};

#[test]
fn g2_the_text_names_only_what_is_missing_and_changes_with_it() {
    let mut host = Host::builder()
        .runs_with("db", "serve", "start: manual")
        .service("migrate", "process: {command: [$PROGRAM]}\ntype: oneshot\nstart: manual")
        .runs_with(
            "web",
            "serve",
            "depends:
  - service: db
  - {service: migrate, event: finished}
  - path: $DIR/flag
  - any: [{path: $DIR/x}, {path: $DIR/y}]",
        )
        .start();
    let path = |name: &str| format!("path \"{}\" to exist", host.path(name).display());
    let manual = "(nothing starts it; its start is manual)";
    let db = format!("service \"db\" to be up {manual}");
    let migrate = format!("service \"migrate\" to have finished {manual}");
    let any = format!("{} or {}", path("x"), path("y"));
    let missing = |after: u64, expected: &[&str]| {
        let text = format!("waiting for {}", expected.join(", "));
        let event = host.wait_event(after, &format!("of web that says \"{text}\""), |event: &Event| {
            event.service == "web" && event.state == "waiting" && event.message == text
        });
        let web = host.service("web");
        assert_eq!((web.state.as_str(), web.up), ("waiting", false));
        assert_eq!(web.waiting_for, expected);
        event.seq
    };
    let seq = missing(0, &[&db, &migrate, &path("flag"), &any]);
    host.touch("flag");
    let seq = missing(seq, &[&db, &migrate, &any]);
    host.ctl(&["start", "migrate", "--wait"]).ok();
    let seq = missing(seq, &[&db, &any]);
    host.touch("y");
    let seq = missing(seq, &[&db]);
    // A path that goes is missing again.
    fs::remove_file(host.path("flag")).unwrap();
    let seq = missing(seq, &[&db, &path("flag")]);
    host.touch("flag");
    missing(seq, &[&db]);
    host.ctl(&["start", "db", "--wait"]).ok();
    host.wait_up("web");
    assert!(host.service("web").waiting_for.is_empty());

    // No two events say the same, and all of them came before the start.
    let said: Vec<String> = host.events_of("web").into_iter().map(|event| event.message).collect();
    assert!(said.windows(2).all(|pair| pair[0] != pair[1]), "{said:#?}");
    assert_eq!(host.states_of("web"), ["waiting", "preparing", "starting", "running"]);
    host.poweroff();
}
