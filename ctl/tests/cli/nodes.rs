//! Several hosts in one call: `-n a,b`.

use std::net::TcpListener;
use std::process::Command;

use kelson_proto::v1::action_result::Outcome;
use kelson_proto::v1::health_report::State as HealthState;
use kelson_proto::v1::{
    BootResponse, BootService, GetMetricsResponse, HealthReport, Image, ListImagesResponse, MetricFamily,
    Reason, Service, State as ServiceState, StatusResponse,
};
use serde_json::{Value as Json, json};

use crate::fake::{Fake, State};
use crate::reaching::{authority, client};
use crate::samples::{Folder, family, result, wire};
use crate::streams::{Following, line};
use crate::{Done, done, event, kelsonctl, service, two};

/// Hosts, and the file of contexts that names them.
pub struct Fleet {
    pub hosts: Vec<Fake>,
    folder: Folder,
}

impl Fleet {
    /// Hosts under these names. `lost` is a context too, behind which nobody is.
    pub fn new(hosts: Vec<(&str, State)>) -> Fleet {
        let folder = Folder::new();
        let mut text = format!("contexts:\n  lost: {{endpoint: 'unix://{}/lost.sock'}}\n", folder.display());
        let hosts = hosts.into_iter().map(|(name, state)| {
            let fake = Fake::start(state);
            text += &format!("  {name}: {{endpoint: 'unix://{}'}}\n", fake.socket().display());
            fake
        });
        let hosts = hosts.collect();
        std::fs::write(folder.join("config"), text).unwrap();
        Fleet { hosts, folder }
    }

    pub fn command(&self, words: &str) -> Command {
        let mut command = kelsonctl();
        command.env("KELSONCONFIG", self.folder.join("config")).args(words.split_whitespace());
        command
    }

    pub fn run(&self, words: &str) -> Done {
        done(self.command(words).output().unwrap())
    }

    /// What is said of the host that is not there.
    pub fn lost(&self) -> String {
        format!(
            "kelsonctl: lost: there is no {}/lost.sock: Kelson does not run here, or with another --runtime-dir (see \
             --endpoint)\n",
            self.folder.display()
        )
    }
}

/// [`two`], at no time: what a table tells of times changes with the clock.
fn timeless() -> State {
    let services = two().services.into_iter().map(|service| Service { since: None, ..service });
    State { services: services.collect(), ..State::default() }
}

/// A host of one service.
fn one(name: &str) -> State {
    let service = Service { up: true, since: None, ..service(name, ServiceState::Running) };
    State { services: vec![service], ..State::default() }
}

fn fleet() -> Fleet {
    Fleet::new(vec![("edge-1", timeless()), ("lab", one("database"))])
}

fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap()
}

#[test]
fn tables_are_one_table() {
    let fleet = fleet();
    let text = "\
NODE    NAME      STATE    UP   HEALTH  SINCE  RESTARTS  WAITING FOR / WHY
lab     database  running  yes  -                     0
edge-1  db        running  yes  -                     1
edge-1  web       waiting  no   -                     0  path \"/run/x\" to exist
";
    for words in ["-n lab,edge-1 services", "services --nodes lab -n edge-1", "services -n lab,edge-1,lab"] {
        assert_eq!(fleet.run(words), Done { status: 0, out: text.into(), err: String::new() }, "{words}");
    }
    let (_, rows) = text.split_once('\n').unwrap();
    let bare = fleet.run("-n lab,edge-1 services --no-headers").out;
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&bare), words(rows));
    let alone = fleet.run("-n lab services");
    assert!(alone.out.starts_with("NODE  NAME "), "one has the column as well: {alone:?}");
    let unnamed = fleet.run("--context lab services");
    assert!(unnamed.out.starts_with("NAME "), "without -n there is none: {unnamed:?}");
}

#[test]
fn one_that_is_down_hides_none_of_the_others() {
    let fleet = fleet();
    let text = "\
NODE  NAME      STATE    UP   HEALTH  SINCE  RESTARTS  WAITING FOR / WHY
lab   database  running  yes  -                     0
";
    assert_eq!(fleet.run("-n lost,lab services"), Done { status: 3, out: text.into(), err: fleet.lost() });
    let programs = fleet.run("-n lost,lab services -o json");
    assert_eq!((programs.status, json(&programs.out)[0]["node"].as_str()), (3, Some("lab")));
    assert_eq!(fleet.run("-n lost services"), Done { status: 3, out: String::new(), err: fleet.lost() });
}

#[test]
fn failures_that_differ_are_status_1() {
    let fleet = Fleet::new(vec![("edge", two()), ("shut", State { deny: true, ..two() })]);
    let denied = "kelsonctl: shut: only root may ask\n";
    let both = fleet.run("-n edge,shut,lost services");
    let mut lines: Vec<&str> = both.err.split_inclusive('\n').collect();
    // In the order in which they fail.
    lines.sort_unstable();
    assert_eq!((both.status, lines), (1, vec![fleet.lost().as_str(), denied]));
    assert_eq!(both.out.lines().count(), 3);
    let agreed = fleet.run("-n edge,shut services");
    assert_eq!((agreed.status, agreed.err.as_str()), (4, denied));
    let told = fleet.run("-n edge,shut status wbe");
    assert_eq!(told.status, 1);
    assert!(told.err.contains("kelsonctl: edge: no service \"wbe\"; did you mean \"web\"?\n"), "{told:?}");
}

#[test]
fn programs_get_one_list() {
    let fleet = fleet();
    let out = fleet.run("-n edge-1,lab services -o json").out;
    assert!(
        out.starts_with("[\n  {\n    \"node\": \"edge-1\",\n    \"name\": \"db\",\n    \"state\":"),
        "{out}"
    );
    let names = |out: &str| -> Vec<(String, String)> {
        let text = |value: &Json| value.as_str().unwrap().to_owned();
        json(out).as_array().unwrap().iter().map(|each| (text(&each["node"]), text(&each["name"]))).collect()
    };
    let all = [("edge-1", "db"), ("edge-1", "web"), ("lab", "database")];
    assert_eq!(names(&out), all.map(|(node, name)| (node.to_owned(), name.to_owned())));
    let yaml = fleet.run("-n edge-1,lab services -o yaml").out;
    assert!(yaml.starts_with("- node: edge-1\n  name: db\n  state: running\n"), "{yaml}");
    // What is one object of one host is a list of objects.
    let start = fleet.run("-n edge-1 start db -o json");
    let expected = json!([{"node": "edge-1", "name": "db", "outcome": "done", "message": "done as asked",
        "state": "", "up": false, "faultyFile": null}]);
    assert_eq!(json(&start.out), expected);
    let wait = json(&fleet.run("-n edge-1,lost wait db --for up -o json").out);
    assert_eq!((&wait[0]["node"], &wait[0]["reached"]), (&json!("edge-1"), &json!(true)));
    assert_eq!(wait.as_array().unwrap().len(), 1);
}

#[test]
fn what_is_no_table_has_a_heading() {
    let why = |text: &str| Reason {
        subject: "service \"web\"".to_owned(),
        text: text.to_owned(),
        state: ServiceState::Waiting.into(),
        ..Reason::default()
    };
    let status = |name| StatusResponse {
        service: Some(Service { name: String::from(name), ..Service::default() }),
        ..StatusResponse::default()
    };
    let host = |text, name| State { why: why(text), status: status(name), ..two() };
    let fleet = Fleet::new(vec![("a", host("one", "web")), ("b", host("another", "web"))]);
    assert_eq!(
        fleet.run("-n b,lost,a why web"),
        Done {
            status: 3,
            out: "==> b <==\nservice \"web\": waiting, another\n\n==> a <==\nservice \"web\": waiting, one\n"
                .into(),
            err: fleet.lost(),
        }
    );
    let status = fleet.run("-n a,b status web").out;
    assert!(
        status.starts_with("==> a <==\n● web\n") && status.contains("\n\n==> b <==\n● web\n"),
        "{status}"
    );
    assert_eq!(json(&fleet.run("-n a,b status web -o json").out)[1]["node"], "b");
}

#[test]
fn a_start_that_fails_on_one_host() {
    let fails = State { results: vec![result("db", Outcome::Failed, "exited with status 3")], ..two() };
    let fleet = Fleet::new(vec![("edge-1", two()), ("lab", fails)]);
    assert_eq!(
        fleet.run("-n lab,edge-1 start db web --wait"),
        Done {
            status: 1,
            out: "edge-1  db: done as asked\nedge-1  web: done as asked\n".into(),
            err: "kelsonctl: lab: db: failed: exited with status 3\n".into(),
        }
    );
    assert!(fleet.hosts.iter().all(|host| host.asked() == ["start db web wait=true"]));
}

#[test]
fn all_are_asked_at_the_same_time() {
    let fleet = fleet();
    for host in &fleet.hosts {
        host.state().services = ["db", "database"].map(|name| one(name).services.remove(0)).into();
    }
    let following =
        Following::of(fleet.command("-n edge-1,lab,lost wait db database --for down --timeout 60s"));
    // The first answers only after the last was asked.
    for host in &fleet.hosts {
        host.until_asked("wait", 1);
    }
    for host in &fleet.hosts {
        host.change(|state| state.services.iter_mut().for_each(|service| service.down = true));
    }
    assert_eq!(following.end(), (Some(3), String::new(), fleet.lost()));
}

#[test]
fn hosts_that_say_nothing_are_given_up_together() {
    let fleet = fleet();
    let ca = authority();
    let client = client(ca.pem(), &ca);
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let config = fleet.folder.join("config");
    let mut text = std::fs::read_to_string(&config).unwrap();
    for (name, listener) in ["mute-1", "mute-2"].iter().zip(&listeners) {
        let port = listener.local_addr().unwrap().port();
        let paths = ["ca.pem", "admin.pem", "admin.key"].map(|name| client.join(name).display().to_string());
        let [ca, certificate, key] = paths;
        text += &format!(
            "  {name}: {{endpoint: '127.0.0.1:{port}', ca: {ca}, certificate: {certificate}, key: {key}}}\n"
        );
    }
    std::fs::write(&config, text).unwrap();
    let following = Following::of(fleet.command("-n mute-1,lab,mute-2 services"));
    let connections = listeners.each_ref().map(|listener| listener.accept().unwrap().0);
    // Both are called before either is given up: behind what a connection brought there is no end yet.
    for mut connection in &connections {
        connection.set_nonblocking(true).unwrap();
        let open = std::io::copy(&mut connection, &mut std::io::sink());
        assert_eq!(open.map_err(|error| error.kind()), Err(std::io::ErrorKind::WouldBlock));
    }
    let (status, out, err) = following.end();
    assert_eq!((status, out.lines().count()), (Some(3), 2), "{out}");
    assert!(out.lines().nth(1).unwrap().starts_with("lab   database  running"), "{out}");
    for name in ["mute-1", "mute-2"] {
        let told = err.lines().find(|line| line.starts_with(&format!("kelsonctl: {name}: "))).unwrap();
        assert!(told.ends_with("but something else: it says nothing within 5 s"), "{err}");
    }
}

#[test]
fn events_of_several_hosts_flow_together() {
    let host = |name: &str| State { events: vec![event(1, "db", name)], ..two() };
    let mut fleet = Fleet::new(vec![("edge-1", host("first")), ("lab", host("other"))]);
    let mut following = Following::of(fleet.command("-n edge-1,lab,lost events -f"));
    let mut begun = [following.line(), following.line()];
    begun.sort_unstable();
    assert_eq!(
        begun,
        [
            "edge-1      1  2026-11-21T09:48:05.000Z  db                running      first",
            "lab         1  2026-11-21T09:48:05.000Z  db                running      other"
        ]
    );
    let text = |line: String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
    fleet.hosts[1].cut();
    fleet.hosts[0].change(|state| state.events.push(event(2, "web", "goes on")));
    assert_eq!(text(following.line()), "edge-1 2 2026-11-21T09:48:05.000Z web running goes on");
    // Happened while nobody could hear of it.
    fleet.hosts[1].change(|state| state.events.push(event(2, "web", "is back")));
    fleet.hosts[1].serve();
    assert_eq!(text(following.line()), "lab 2 2026-11-21T09:48:05.000Z web running is back");
    for host in &fleet.hosts {
        host.change(|state| state.ending = true);
    }
    let (status, rest, errors) = following.end();
    assert_eq!((status, rest.as_str()), (Some(3), ""), "{errors}");
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!((lines[0], lines.len()), (fleet.lost().trim_end(), 3), "{errors}");
    assert!(lines[1].starts_with("kelsonctl: lab: ") && lines[1].ends_with("; connecting again"), "{errors}");
    assert_eq!(lines[2], "kelsonctl: lab: connected again");
    let programs = fleet.run("-n edge-1 events -o json");
    assert!(programs.out.starts_with("{\"node\":\"edge-1\",\"seq\":1,\"time\":"), "{programs:?}");
    assert!(fleet.run("-n edge-1 events -o yaml").out.starts_with("---\nnode: edge-1\nseq: 1\n"));
}

#[test]
fn logs_of_several_hosts_keep_to_lines() {
    let host = |text: &[u8]| {
        let part = kelson_proto::v1::Line { partial: true, ..line("db", 0, b"no end") };
        State { lines: vec![line("db", 0, text), part], ..two() }
    };
    let fleet = Fleet::new(vec![("edge-1", host(b"\xff raw")), ("lab", host(b"two"))]);
    let output = fleet.command("-n edge-1,lab logs db").output().unwrap();
    let mut lines: Vec<&[u8]> = output.stdout.split_inclusive(|byte| *byte == b'\n').collect();
    lines.sort_unstable();
    let expected: [&[u8]; 4] =
        [b"edge-1  \xff raw\n", b"edge-1  no end\n", b"lab     no end\n", b"lab     two\n"];
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!((output.status.code(), lines), (Some(0), expected));
    let both = fleet.run("-n lab logs db web").out;
    assert!(both.starts_with("lab  db  | two\n"), "{both}");
    let programs = fleet.run("-n lab logs db -o json").out;
    assert!(programs.starts_with("{\"node\":\"lab\",\"service\":\"db\","), "{programs}");
}

#[test]
fn health_is_told_of_each() {
    let host = |state: HealthState, message: &str| {
        let lasts = wire(192_000);
        let health = HealthReport {
            state: state.into(),
            message: message.to_owned(),
            lasts,
            ..HealthReport::default()
        };
        State { health, ..two() }
    };
    let fleet = Fleet::new(vec![
        ("a", host(HealthState::Healthy, "all up")),
        ("b", host(HealthState::Failed, "db is down")),
    ]);
    let text = "==> a <==\nthe host is healthy (for 3m12s): all up\n\n\
                ==> b <==\nthe host is failed (for 3m12s): db is down\n";
    assert_eq!(fleet.run("-n a,b health"), Done { status: 1, out: text.into(), err: String::new() });
    assert_eq!(fleet.run("-n a health").status, 0);
    assert_eq!(fleet.run("-n a,b health --wait").status, 1, "one has failed, and the other is waited for");
    let programs = json(&fleet.run("-n a,b health -o json").out);
    assert_eq!((&programs[1]["node"], &programs[1]["healthy"]), (&json!("b"), &json!(false)));
}

#[test]
fn each_of_the_other_tables() {
    let host = |millis, up| {
        let up = family("kelson_service_up", &[("db", up)]);
        let up = MetricFamily { help: "Up.".to_owned(), ..up };
        let image = Image { reference: "demo/nginx:1".to_owned(), size: 7, ..Image::default() };
        State {
            boot: BootResponse {
                services: vec![BootService {
                    name: "db".to_owned(),
                    spawned: wire(0),
                    up: wire(millis),
                    after: vec![],
                }],
                ..BootResponse::default()
            },
            images: ListImagesResponse {
                images: vec![image],
                notes: vec!["arm.tar cannot be read".to_owned()],
            },
            metrics: vec![GetMetricsResponse { families: vec![up] }],
            ..two()
        }
    };
    let fleet = Fleet::new(vec![("a", host(30, 1.0)), ("b", host(400, 0.0))]);
    assert_eq!(
        fleet.run("-n a,b boot blame").out,
        "NODE  DURATION  WHAT     NAME\na        30 ms  service  db\nb       400 ms  service  db\n"
    );
    let images = fleet.run("-n a,b images");
    assert_eq!(
        images.out,
        "NODE  IMAGE         ARCHIVE  SIZE  UNPACKED  SERVICES  TROUBLE\n\
         a     demo/nginx:1  -         7 B  no\n\
         b     demo/nginx:1  -         7 B  no\n"
    );
    assert!(images.err.contains("kelsonctl: b: arm.tar cannot be read\n"), "{images:?}");
    let version: Vec<Vec<String>> = fleet
        .run("-n a,b version")
        .out
        .lines()
        .map(|line| line.split_whitespace().map(str::to_owned).collect())
        .collect();
    assert_eq!(version[0].join(" "), "NODE VERSION MODE HOST KERNEL STARTED REEXECS CRASHES");
    assert_eq!(version[2][..5], ["b", "9.8.7", "machine", "edge-1", "6.1.0"]);
    assert_eq!(fleet.run("-n lost version"), Done { status: 3, out: String::new(), err: fleet.lost() });
    assert_eq!(json(&fleet.run("-n lost,b version -o json").out).as_array().unwrap().len(), 1);
    let samples = "# TYPE kelson_service_up unknown\n# HELP kelson_service_up Up.\n\
                   kelson_service_up{node=\"a\",service=\"db\"} 1\n";
    let metrics = fleet.run("-n a,b metrics").out;
    assert_eq!(metrics, format!("{samples}kelson_service_up{{node=\"b\",service=\"db\"}} 0\n# EOF\n"));
    assert_eq!(fleet.run("-n a,lost metrics").out, samples, "without its end: it is not whole");
}

#[test]
fn the_end_of_several_hosts() {
    let host = || State { last_words: vec![event(1, "db", "stopped")], ..two() };
    let fleet = Fleet::new(vec![("a", host()), ("b", host())]);
    let ended = fleet.run("-n a,b reboot").silent(0);
    for name in ["a", "b"] {
        let of = ended.out.lines().filter_map(|line| line.strip_prefix(&format!("{name}  ")));
        let of: Vec<&str> = of.collect();
        assert_eq!((of[0], of.len()), ("everything stops, then the host reboots", 2), "{ended:?}");
        assert!(of[1].ends_with("stopped"), "{ended:?}");
    }
    let again = fleet.run("-n a,b reexec -o json");
    let mut nodes: Vec<String> =
        again.out.lines().map(|line| json(line)["node"].as_str().unwrap().to_owned()).collect();
    nodes.sort_unstable();
    assert_eq!((again.status, nodes), (0, vec!["a".to_owned(), "b".to_owned()]));
}

#[test]
fn all_means_every_context() {
    let fleet = fleet();
    let all = fleet.run("-n all services");
    assert_eq!((all.status, all.err), (3, fleet.lost()));
    let nodes: Vec<&str> = all.out.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(nodes, ["NODE", "edge-1", "edge-1", "lab"]);
}

#[test]
fn what_is_for_one_host_is_refused_for_two() {
    let fleet = fleet();
    let all = "exec db -- ls; graph; completion bash; validate /; boot plot; \
        events --timeline --format svg; version --client";
    for words in all.split("; ") {
        let refused = fleet.run(&format!("-n edge-1,lab {words}")).refused(2);
        let said = "kelsonctl: this command has one host at a time; give one with --nodes, and call it once for each\n";
        assert_eq!(refused.err, said, "{words}");
    }
    assert!(fleet.hosts.iter().all(|host| host.asked().is_empty()), "nobody was asked");
    assert!(fleet.run("-n lab boot plot").out.starts_with("<svg "));
    assert_eq!(fleet.run("-n lab graph").status, 0);
}

#[test]
fn a_command_line_that_makes_no_sense_asks_nobody() {
    let fleet = fleet();
    for (words, said) in [
        ("-n edge-1 -e unix:///x services", "--nodes and --endpoint both say where to go; give one of them"),
        (
            "-n edge-1,10.0.0.1:0 services",
            "\"10.0.0.1:0\" is no node: the port must be a number from 1 to 65535",
        ),
        ("-n edge-1, services", "a node has no name"),
        ("-n edge-1 --context lab services", "each of the nodes is a context itself"),
        ("logs -n 20 db", "\"20\" is no node"),
    ] {
        let refused = fleet.run(words).refused(2);
        assert!(refused.err.starts_with(&format!("kelsonctl: {said}")), "{words}: {refused:?}");
    }
    assert!(fleet.hosts.iter().all(|host| host.asked().is_empty()));
    // What is wrong with one host's context is that host's failure.
    let mixed = fleet.run("-n lab,10.0.0.1 services");
    assert_eq!((mixed.status, mixed.out.lines().count()), (2, 2));
    assert!(mixed.err.starts_with("kelsonctl: 10.0.0.1: ") && mixed.err.contains("names no current context"));
    // What is no context is a host, but was it meant to be one?
    let mistyped = fleet.run("-n edge-11 services");
    assert!(mistyped.err.ends_with("; did you mean the context \"edge-1\"?\n"), "{mistyped:?}");
}

#[test]
fn completion_knows_the_contexts() {
    let fleet = fleet();
    let complete = |words: &[&str]| {
        let mut command = fleet.command("complete --");
        done(command.args(words).output().unwrap()).out
    };
    let words = |words: &[&str]| {
        complete(words).lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(words(&["-n", "l"]), ["lab", "lost"]);
    assert_eq!(words(&["-n", "lab,e"]), ["lab,edge-1"]);
    assert_eq!(complete(&["-n", "lab,edge-1", "start", ""]), "database\trunning\n");
}
