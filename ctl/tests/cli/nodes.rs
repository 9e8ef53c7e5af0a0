//! Several hosts in one call: `-n a,b`.

use std::net::TcpListener;
use std::process::Command;

use kelson_proto::v1::action_result::Outcome;
use kelson_proto::v1::health_report::State as HealthState;
use kelson_proto::v1::{
    BootResponse, BootService, GetMetricsResponse, HealthReport, Image, ListImagesResponse, MetricFamily,
    Reason, Service, State as ServiceState, StatusResponse,
};
use serde_json::Value as Json;

use crate::fake::{Fake, State};
use crate::reaching::{authority, client};
use crate::samples::{Folder, family, result, wire};
use crate::streams::{Following, line};
use crate::transcript::transcript;
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

    /// [`transcript`] of calls of these hosts.
    #[track_caller]
    pub fn transcript(&self, name: &str) {
        transcript(name, &self.folder, |words| (self.run(words), Vec::new()));
    }

    /// The message about the host that is not there.
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
fn answers_of_several_hosts_are_one() {
    let fleet = fleet();
    fleet.transcript("nodes");
    assert!(fleet.run("-n lab boot plot").out.starts_with("<svg "));
}

#[test]
fn a_command_line_that_makes_no_sense_asks_nobody() {
    let fleet = fleet();
    fleet.transcript("nodes-refused");
    assert!(fleet.hosts.iter().all(|host| host.asked().is_empty()));
    fleet.transcript("nodes-wrong");
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
    fleet.transcript("nodes-pages");
}

#[test]
fn a_start_that_fails_on_one_host() {
    let fails = State { results: vec![result("db", Outcome::Failed, "exited with status 3")], ..two() };
    let fleet = Fleet::new(vec![("edge-1", two()), ("lab", fails)]);
    fleet.transcript("nodes-start");
    for host in &fleet.hosts {
        // A caller that stays asks meanwhile which condition is missing.
        let asked: Vec<String> = host.asked().into_iter().filter(|asked| !asked.starts_with("why")).collect();
        assert_eq!(asked, ["start db web wait=true"]);
    }
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
    fleet.transcript("nodes-health");
}

#[test]
fn each_of_the_other_tables() {
    let host = |millis, up, notes: &[&str]| {
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
                notes: notes.iter().map(|note| (*note).to_owned()).collect(),
            },
            metrics: vec![GetMetricsResponse { families: vec![up] }],
            ..two()
        }
    };
    let fleet =
        Fleet::new(vec![("a", host(30, 1.0, &[])), ("b", host(400, 0.0, &["arm.tar cannot be read"]))]);
    fleet.transcript("nodes-tables");
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
