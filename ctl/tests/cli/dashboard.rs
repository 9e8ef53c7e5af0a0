//! `dashboard` on a terminal of 80x24: its whole screens, its keys, and what becomes of the terminal.

mod screen;

use std::time::SystemTime;

use kelson_proto::v1::action_result::Outcome;
use kelson_proto::v1::line::Stream;
use kelson_proto::v1::{
    ActionResult, BootResponse, GetMetricsResponse, GraphResponse, Service, State as ServiceState,
};
use nix::sys::signal::Signal;

use crate::fake::{Fake, State};
use crate::reaching::{authority, client, machine};
use crate::samples::{Folder, edge, family, node, result};
use crate::streams::line;
use crate::{at, done, event, service, two};
use screen::{OnScreen, dashboard};

/// Memory, and CPU time that does not grow.
fn metrics(seconds: f64) -> Vec<GetMetricsResponse> {
    let page = |name, number| GetMetricsResponse { families: vec![family(name, &[("db", number)])] };
    vec![page("kelson_service_memory_bytes", 12_345_678.0), page("kelson_service_cpu_seconds", seconds)]
}

fn graph() -> GraphResponse {
    GraphResponse {
        nodes: vec![
            node("db", ServiceState::Running),
            node("path \"/run/x\" to exist", ServiceState::Unspecified),
            node("web", ServiceState::Waiting),
        ],
        edges: vec![edge("web", "db", "up", true), edge("web", "path \"/run/x\" to exist", "", false)],
    }
}

/// A host for three hours and four minutes.
fn host() -> State {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seconds = i64::try_from(now.as_secs()).unwrap() - (3 * 3600 + 4 * 60 + 5);
    let mut state = two();
    state.services.insert(0, Service { builtin: true, up: true, ..service("apid", ServiceState::Running) });
    state.services[1].healthy = Some(true);
    let failed = "exited with status 3 after 1.2 s".to_owned();
    state.services.insert(2, Service { message: failed, ..service("job", ServiceState::Failed) });
    let mut red = line("db", 1, b"a warning in \x1b[31mred\x1b[0m");
    red.set_stream(Stream::Stderr);
    State {
        started: Some(prost_types::Timestamp { seconds, nanos: 0 }),
        lines: vec![line("apid", 0, b"listening on 0.0.0.0:50000"), line("db", 0, b"opening"), red],
        events: vec![event(1, "", "the boot is done"), event(2, "apid", "ready"), event(3, "db", "ready")],
        graph: graph(),
        metrics: metrics(7.5),
        ..state
    }
}

#[test]
fn whole_screens() {
    let fake = Fake::start(host());
    let mut on = OnScreen::start(dashboard(&fake));
    on.until_as("logs");
    on.keys("j");
    on.until_as("logs-of-db");
    on.keys("2");
    on.until_as("events");
    on.keys("3\x1b[B\x1b[B");
    on.until_as("graph");
    on.keys("\r");
    on.until_as("graph-whole");
    on.keys("\r?");
    on.until_as("keys");
    on.keys("q/b\r");
    on.until_as("filter");
    on.keys("q");
    assert_eq!(on.ended(), (Some(0), "$ kelsonctl dashboard\n".to_owned()));
}

#[test]
fn a_serial_console_does_not_tell_its_size() {
    let boot = BootResponse { total: Some(prost_types::Duration::default()), ..BootResponse::default() };
    let fake = Fake::start(State { boot, ..host() });
    let mut on = OnScreen::sized(dashboard(&fake), 0, 0);
    on.until_as("logs");
    // Nothing has changed, and nothing is sent over a slow line.
    on.drain();
    let (asked, before) = (fake.asked().len(), on.bytes.len());
    fake.until_asked("list", fake.asked().iter().filter(|words| words.starts_with("list")).count() + 3);
    on.drain();
    assert!(fake.asked().len() > asked);
    assert_eq!(on.bytes.len(), before, "{:?}", String::from_utf8_lossy(&on.bytes[before..]));
    assert_eq!(fake.asked().iter().filter(|words| *words == "boot").count(), 1, "it is over");
    on.keys("q");
    assert_eq!(on.ended().0, Some(0));
}

#[test]
fn what_changes_is_seen() {
    let fake = Fake::start(host());
    let mut on = OnScreen::start(dashboard(&fake));
    on.until_seen("0.0%");
    fake.change(|state| {
        state.metrics = metrics(1000.0);
        state.services[3].set_state(ServiceState::Running);
        state.events.push(event(4, "web", "ready"));
    });
    on.until("web runs", |text| text.contains("web   running"));
    on.until("CPU time", |text| {
        text.lines().any(|row| row.contains("db    running") && row.contains('%') && !row.contains("0.0%"))
    });
    on.keys("jjj");
    on.until_seen("it has written nothing yet");
    fake.change(|state| state.lines.push(line("web", 2, b"the first line")));
    on.until_seen("09:48:07 the first line");
    let mut status = service("web", ServiceState::Running);
    status.description = "the front door".to_owned();
    fake.change(|state| state.status.service = Some(status));
    on.keys("4");
    on.until_seen("● web - the front door");
    on.keys("q");
    assert_eq!(on.ended().0, Some(0));
}

fn refused() -> Vec<ActionResult> {
    vec![result("db", Outcome::Refused, "needed by \"web\"; stop that first, or use --cascade")]
}

fn asked(fake: &Fake) -> Vec<String> {
    let acts = |words: &String| ["start", "stop", "restart"].iter().any(|act| words.starts_with(act));
    fake.asked().into_iter().filter(acts).collect()
}

#[test]
fn a_service_is_started_and_stopped_once_that_is_confirmed() {
    let fake = Fake::start(host());
    let mut on = OnScreen::start(dashboard(&fake));
    on.keys("jx");
    on.until_as("stop");
    on.keys("n");
    on.until_seen("db: left as it is");
    assert!(asked(&fake).is_empty());
    on.keys("ry");
    on.until_seen("db: done as asked");
    assert_eq!(asked(&fake), ["restart db wait=false"]);
    fake.change(|state| state.results = refused());
    on.keys("xy");
    on.until_as("refused");
    fake.change(|state| state.results.clear());
    on.keys("y");
    on.until_seen("db: done as asked");
    on.keys("sy");
    on.until("the answer", |text| text.contains("db: done as asked") && asked(&fake).len() == 4);
    assert_eq!(
        asked(&fake)[1..],
        ["stop db wait=false cascade=false", "stop db wait=false cascade=true", "start db wait=false"]
    );
    on.keys("\x03");
    assert_eq!(on.ended().0, Some(0));
}

#[test]
fn who_may_only_look_is_told_so() {
    let words = "Services.Restart needs the role os:operator, and the client certificate has os:reader";
    let fake = Fake::start(State { deny_acting: Some(words.to_owned()), ..host() });
    let mut on = OnScreen::start(dashboard(&fake));
    on.keys("ry");
    on.until_as("denied");
    on.keys("q");
    assert_eq!(on.ended().0, Some(0));
}

#[test]
fn a_connection_that_is_lost_is_found_again() {
    let mut fake = Fake::start(host());
    let mut on = OnScreen::start(dashboard(&fake));
    on.keys("j2");
    on.until_seen("    3 09:48:05 db");
    fake.cut();
    let text = on.until_seen("not connected: nobody serves");
    assert!(text.contains("db    running") && text.contains("; trying again"), "{text}");
    on.keys("ry");
    on.until_seen("db: nobody serves");
    fake.change(|state| {
        state.services[3].set_state(ServiceState::Running);
        state.events.push(event(4, "web", "ready now"));
        state.asked.clear();
    });
    fake.serve();
    let text = on.until("all of it", |text| {
        text.contains("  connected") && text.contains("ready now") && text.contains("web   running")
    });
    assert_eq!(text.matches("09:48:05").count(), 4, "each once: {text}");
    assert!(fake.asked().contains(&"events since=4 last=false".to_owned()), "{:?}", fake.asked());
    // The log goes on too, without what was there already.
    on.keys("1");
    on.until_seen("a warning");
    fake.cut();
    on.until_seen("not connected");
    fake.change(|state| state.lines.push(line("db", 2, b"and on it goes")));
    fake.serve();
    let text = on.until_seen("and on it goes");
    assert_eq!(text.matches("opening").count(), 1, "{text}");
    // Another life of the host counts from one again.
    fake.cut();
    fake.change(|state| {
        state.started = Some(prost_types::Timestamp { seconds: 1_795_254_485, nanos: 0 });
        state.events = vec![event(1, "db", "another life")];
    });
    fake.serve();
    on.keys("2");
    on.until_seen("    1 09:48:05 db           running   another life");
    on.keys("q");
    assert_eq!(on.ended().0, Some(0));
}

#[test]
fn a_host_elsewhere_is_shown_too() {
    let ca = authority();
    let (port, folder) = (machine(&ca, host()), client(ca.pem(), &ca));
    let context =
        format!("{{endpoint: '127.0.0.1:{port}', ca: ca.pem, certificate: admin.pem, key: admin.key}}");
    std::fs::write(folder.join("config"), format!("contexts: {{edge: {context}}}\n")).unwrap();
    for words in [["--context", "edge"], ["-n", "edge"]] {
        let mut command = crate::kelsonctl();
        command.args(words).arg("dashboard").env("KELSONCONFIG", folder.join("config"));
        command.env("TERM", "vt220").env("NO_COLOR", "1").env("LANG", "C.UTF-8");
        let mut on = OnScreen::start(command);
        on.until("the host and its log", |text| {
            text.starts_with("edge-1  machine  Kelson 9.8.7  for 3h4m  2 up, 2 not")
                && text.contains("09:48:05 listening on 0.0.0.0:50000")
        });
        on.keys("q");
        assert_eq!(on.ended().0, Some(0));
    }
}

#[test]
fn the_screen_follows_the_size_of_the_terminal() {
    let fake = Fake::start(host());
    let mut on = OnScreen::start(dashboard(&fake));
    on.until_as("logs");
    on.resize(39, 9);
    on.until_seen("This terminal has 39x9; the dashboard\nneeds 40x10. q quits.");
    on.resize(40, 10);
    on.until_seen("[1 Logs]");
    on.resize(120, 40);
    on.until("all columns", |text| text.lines().next().is_some_and(|head| head.chars().count() == 120));
    on.resize(80, 24);
    on.until_as("logs");
    on.keys("q");
    assert_eq!(on.ended().0, Some(0));
}

#[test]
fn colours_are_those_of_the_tables() {
    let fake = Fake::start(host());
    let mut command = dashboard(&fake);
    command.env("TERM", "xterm-256color").env_remove("NO_COLOR");
    let mut on = OnScreen::start(command);
    on.until_seen("listening");
    assert_eq!(on.colour("failed"), vt100::Color::Idx(160));
    assert_eq!(on.colour("waiting"), vt100::Color::Idx(130));
    let mut command = dashboard(&fake);
    command.env("TERM", "vt220").env_remove("NO_COLOR");
    let mut on = OnScreen::start(command);
    on.until_seen("listening");
    assert_eq!(on.colour("failed"), vt100::Color::Idx(1));
    assert!(!String::from_utf8_lossy(&on.bytes).contains("38;5"));
    let mut on = OnScreen::start(dashboard(&fake));
    on.until_seen("listening");
    assert_eq!(on.colour("failed"), vt100::Color::Default);
}

#[test]
fn the_terminal_is_given_back_however_it_ends() {
    let fake = Fake::start(host());
    for (signal, status) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129), (Signal::SIGINT, 130)] {
        let mut on = OnScreen::start(dashboard(&fake));
        on.until_seen("listening");
        assert!(on.is_raw());
        on.signal(signal);
        assert_eq!(on.ended(), (Some(status), "$ kelsonctl dashboard\n".to_owned()));
    }
    // Also while the terminal takes nothing.
    let mut on = OnScreen::unread(dashboard(&fake), 200, 60);
    fake.until_asked("logs", 4);
    on.keys(&"\x0c".repeat(20));
    on.signal(Signal::SIGTERM);
    assert_eq!(on.child.wait().unwrap().code(), Some(143));
    assert!(!on.is_raw());
}

#[test]
fn where_it_makes_no_sense_it_says_why() {
    let fake = Fake::start(host());
    for (words, said) in [
        (
            "dashboard",
            "kelsonctl: dashboard needs a terminal, and the standard input is none; `kelsonctl services --watch` needs none\n",
        ),
        (
            "dashboard --interval 10ms",
            "error: invalid value '10ms' for '--interval <D>': it must be 1s or longer",
        ),
    ] {
        let done = fake.run(words).refused(2);
        assert!(done.err.starts_with(said), "{words}: {done:?}");
    }
    let two = done(crate::kelsonctl().args(["-n", "a,b", "dashboard"]).output().unwrap());
    assert_eq!(two.status, 2);
    assert!(two.err.contains("one host at a time"), "{two:?}");
    let folder = Folder::new();
    let mut dumb = dashboard(&fake);
    dumb.env("TERM", "dumb");
    let mut json = dashboard(&fake);
    json.args(["-o", "json"]);
    let nobody = at(&folder.join("init.sock"), "dashboard");
    for (command, status, said) in [
        (dumb, 2, "kelsonctl: dashboard needs a terminal that can place text"),
        (json, 2, "kelsonctl: dashboard is for people"),
        (nobody, 3, "kelsonctl: there is no "),
    ] {
        let (ended, text) = OnScreen::start(command).ended();
        assert_eq!(ended, Some(status), "{text}");
        assert!(text.starts_with(&format!("$ kelsonctl dashboard\n{said}")), "{text}");
    }
    fake.change(|state| state.deny = true);
    let (ended, text) = OnScreen::start(dashboard(&fake)).ended();
    assert_eq!((ended, text.as_str()), (Some(4), "$ kelsonctl dashboard\nkelsonctl: only root may ask\n"));
}
