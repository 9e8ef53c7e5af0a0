//! `fleet` of the machine file, and `register` and `disconnect` of a service file.
use std::collections::BTreeMap;
use std::time::Duration;

use crate::folder::{Folder, each_case};
use kelson_load::written;
use kelson_spec::fleet::{Disconnect, FleetSpec, OnReconnect, Registration};
use kelson_spec::loaded::Diagnostic;
use kelson_spec::service::{Check, Probe, ServiceSpec};
use kelson_spec::{Loaded, wire};

/// Lines below `fleet:`, from line 2 on.
const MACHINE: &str = r#"
## Keys.
  {}
=> 2:3: fleet: one of the keys endpoints, consul is missing

  endpoints: []
=> 2:14: fleet.endpoints: this list is empty; name a member of etcd, or remove fleet

  {endpoints: ["http://a:1"], consul: {}}
=> 2:31: fleet: endpoints and consul exclude each other; keep one

  {consul: {address: "https://a:1"}}
=> 2:22: fleet.consul.address: "https://a:1" is not the address of an agent; write such as http://127.0.0.1:8500, with the port

  {consul: {address: "http://a"}}
=> 2:22: fleet.consul.address: "http://a" is not the address of an agent; write such as http://127.0.0.1:8500, with the port

  {consul: {token: b3f1}}
=> 2:20: fleet.consul.token: "b3f1" is not a path from the root; write it with / first

  {consul: {}, ca: /ca.pem}
=> 2:16: fleet.ca: without TLS there is no certificate; write https:// in endpoints, or leave ca out

  endpoints: http://a:1
=> 2:14: fleet.endpoints: found "http://a:1" where a list of endpoints belongs

  endpoints: [etcd-1, "etcd-1:2379", "http://etcd-1", "http://a:0", "http://a:+1", "http://a:65536"]
=> 2:15: fleet.endpoints[0]: "etcd-1" is not an endpoint; write such as https://etcd-1.example:2379, with the port
=> 2:23: fleet.endpoints[1]: "etcd-1:2379" is not an endpoint; write such as https://etcd-1.example:2379, with the port
=> 2:38: fleet.endpoints[2]: "http://etcd-1" is not an endpoint; write such as https://etcd-1.example:2379, with the port
=> 2:55: fleet.endpoints[3]: "http://a:0" is not an endpoint; write such as https://etcd-1.example:2379, with the port
=> 2:69: fleet.endpoints[4]: "http://a:+1" is not an endpoint; write such as https://etcd-1.example:2379, with the port
=> 2:84: fleet.endpoints[5]: "http://a:65536" is not an endpoint; write such as https://etcd-1.example:2379, with the port

  endpoints: ["http://a:1/", "http://u@a:1", "http://fd00::1:1", "http://[fd00::1]", "http://[fe80::1%2]:1", "HTTP://a:1"]
=> 2:15: fleet.endpoints[0]: "http://a:1/" is not an endpoint; write such as https://etcd-1.example:2379, with the port
=> 2:30: fleet.endpoints[1]: "http://u@a:1" is not an endpoint; write such as https://etcd-1.example:2379, with the port
=> 2:46: fleet.endpoints[2]: "http://fd00::1:1" is not an endpoint; write such as https://etcd-1.example:2379, with the port
=> 2:66: fleet.endpoints[3]: "http://[fd00::1]" is not an endpoint; write such as https://etcd-1.example:2379, with the port
=> 2:86: fleet.endpoints[4]: "http://[fe80::1%2]:1" is not an endpoint; write such as https://etcd-1.example:2379, with the port
=> 2:110: fleet.endpoints[5]: "HTTP://a:1" is not an endpoint; write such as https://etcd-1.example:2379, with the port

  endpoints: ["http://a:1", "http://a:1"]
=> 2:14: fleet.endpoints: "http://a:1" is in it twice; leave one out

  endpoints: ["https://a:1"]
=> 2:3: fleet.endpoints: https needs ca: FILE with the CAs that the certificates of etcd lead to

  endpoints: ["https://a:1", "http://b:1"]
  ca: /ca.pem
=> 2:14: fleet.endpoints: some are https and others http, without TLS; write https:// in all of them

  endpoints: ["http://a:1"]
  ca: /ca.pem
  certificate: /c.pem
  key: /k.pem
=> 3:3: fleet.ca: without TLS there is no certificate; write https:// in endpoints, or leave ca out
=> 4:3: fleet.certificate: without TLS there is no certificate; write https:// in endpoints, or leave certificate out
=> 5:3: fleet.key: without TLS there is no certificate; write https:// in endpoints, or leave key out

  endpoints: ["https://a:1"]
  ca: /ca.pem
  join: /token
  certificate: /c.pem
  key: /k.pem
=> 5:3: fleet.certificate: with join the host has a certificate and a key of its own; leave one of both out
=> 6:3: fleet.key: with join the host has a certificate and a key of its own; leave one of both out

  endpoints: ["http://a:1"]
  join: /token
=> 3:3: fleet.join: without TLS there is no certificate; write https:// in endpoints, or leave join out

  endpoints: ["https://a:1"]
  ca: /ca.pem
  certificate: /c.pem
=> 4:3: fleet.certificate: key is missing beside it; write key: PATH

  endpoints: ["https://a:1"]
  ca: /ca.pem
  key: /k.pem
=> 4:3: fleet.key: certificate is missing beside it; write certificate: PATH

  endpoints: ["https://a:1"]
  ca: ca.pem
=> 3:7: fleet.ca: "ca.pem" is not a path from the root; write it with / first

  {endpoints: ["http://a:1"], prefix: kelson}
=> 2:39: fleet.prefix: "kelson" is not a prefix of keys; write such as /kelson/v1, of letters, digits, ., _ and -, at most 255, without a / at the end

  {endpoints: ["http://a:1"], prefix: /}
=> 2:39: fleet.prefix: "/" is not a prefix of keys; write such as /kelson/v1, of letters, digits, ., _ and -, at most 255, without a / at the end

  {endpoints: ["http://a:1"], prefix: /a/}
=> 2:39: fleet.prefix: "/a/" is not a prefix of keys; write such as /kelson/v1, of letters, digits, ., _ and -, at most 255, without a / at the end

  {endpoints: ["http://a:1"], prefix: /a//b}
=> 2:39: fleet.prefix: "/a//b" is not a prefix of keys; write such as /kelson/v1, of letters, digits, ., _ and -, at most 255, without a / at the end

  {endpoints: ["http://a:1"], prefix: "/a b"}
=> 2:39: fleet.prefix: "/a b" is not a prefix of keys; write such as /kelson/v1, of letters, digits, ., _ and -, at most 255, without a / at the end

  {endpoints: ["http://a:1"], name: a/b, labels: {-a: b, a b: c, role: "x\ny", zone: , rack: [1]}}
=> 2:37: fleet.name: "a/b" is not a name of a host; use letters, digits and . -, a letter or digit first, at most 63
=> 2:51: fleet.labels: "-a" is not a key; use letters, digits and . _ / -, a letter or digit first, at most 63
=> 2:58: fleet.labels: "a b" is not a key; use letters, digits and . _ / -, a letter or digit first, at most 63
=> 2:72: fleet.labels.role: a control character cannot stand here; write one line of text
=> 2:80: fleet.labels.zone: this key has no value; write "" for an empty text
=> 2:94: fleet.labels.rack: found a list where a text belongs

  {endpoint: ["http://a:1"], endpoints: ["http://a:1"]}
=> 2:4: fleet.endpoint: this key is not known; did you mean endpoints? Allowed here: endpoints, consul, ca, certificate, key, join, prefix, name, labels
"#;

/// Values of `register`, in line 3 from column 11 on.
const SERVICE: &str = r#"
5432
=> 3:11: register: found "5432" where a mapping of keys to values belongs

{name: Postgres}
=> 3:18: register.name: "Postgres" is not a name; use small letters, digits and -, no - first, at most 63

{port: 0}
=> 3:18: register.port: 0 is out of range; write a number from 1 to 65535

{port: http}
=> 3:18: register.port: "http" is not a number; write a whole number from 1 to 65535

{tag: primary}
=> 3:12: register.tag: this key is not known; did you mean tags? Allowed here: name, port, tags, address, meta, required, checks

{tags: primary}
=> 3:18: register.tags: found "primary" where a list of tags such as [primary] belongs

{tags: [a, b c, -a, "", a/b]}
=> 3:22: register.tags[1]: "b c" is not a tag; use letters, digits and . _ : -, a letter or digit first, at most 63
=> 3:27: register.tags[2]: "-a" is not a tag; use letters, digits and . _ : -, a letter or digit first, at most 63
=> 3:31: register.tags[3]: this text is empty
=> 3:35: register.tags[4]: "a/b" is not a tag; use letters, digits and . _ : -, a letter or digit first, at most 63

{tags: [a, b, a]}
=> 3:18: register.tags: "a" is in it twice; leave one out

{address: "192.0.2.7:80"}
=> 3:21: register.address: nothing is reached at "192.0.2.7:80"; write auto, or such as 192.0.2.7, 2001:db8::7 or db.example, without a port

{address: 192.0.2.300}
=> 3:21: register.address: nothing is reached at "192.0.2.300"; write auto, or such as 192.0.2.7, 2001:db8::7 or db.example, without a port

{address: "::"}
=> 3:21: register.address: nothing is reached at "::"; write auto, or such as 192.0.2.7, 2001:db8::7 or db.example, without a port

{address: ""}
=> 3:21: register.address: this text is empty

{meta: {a b: c}}
=> 3:19: register.meta: "a b" is not a key; use letters, digits and . _ / -, a letter or digit first, at most 63

{meta: {url: "http://${hostname}/", sound: "${host.name}:${port} ${fact.platform} $${x} $5"}}
=> 3:24: register.meta.url: ${hostname} is no variable; write ${host.name}, ${port}, ${port.NAME} or ${fact.NAME}, or $${ for the signs themselves

{meta: {url: "${fact.colour}", at: "${port"}}
=> 3:24: register.meta.url: ${fact.colour} is no variable; write ${host.name}, ${port}, ${port.NAME} or ${fact.NAME}, or $${ for the signs themselves
=> 3:46: register.meta.at: ${port has no closing brace; write ${NAME}, or $${ for the signs themselves

{meta: [a]}
=> 3:18: register.meta: found a list where a mapping of keys to values belongs

{checks: {tcp: {port: 80}}}
=> 3:20: register.checks: found a mapping where a list of checks belongs

{checks: [{tcp: {port: 80}, restartAfter: 3}, {exec: {command: [/a]}, grace: 5s, startup: true}]}
=> 3:39: register.checks[0].restartAfter: a check of a registration decides about the registration alone; write this check into health to restart the service or to gate its start; allowed here: name, http, tcp, grpc, csi, exec, volume, freeAtLeast, initialDelay, interval, timeout, successThreshold, failureThreshold
=> 3:81: register.checks[1].grace: a check of a registration decides about the registration alone; write this check into health to restart the service or to gate its start; allowed here: name, http, tcp, grpc, csi, exec, volume, freeAtLeast, initialDelay, interval, timeout, successThreshold, failureThreshold
=> 3:92: register.checks[1].startup: a check of a registration decides about the registration alone; write this check into health to restart the service or to gate its start; allowed here: name, http, tcp, grpc, csi, exec, volume, freeAtLeast, initialDelay, interval, timeout, successThreshold, failureThreshold

{checks: [{tcp: {port: 80}}, {tcp: {port: 81}}]}
=> 3:40: register.checks[1].name: two checks are named tcp; give each a name of its own

{checks: [{volume: data, freeAtLeast: 5%}]}
=> 3:11: register: check "volume": "data" is none of the volumes of this service
"#;

/// Values of `disconnect`, in line 3 from column 13 on.
const DISCONNECT: &str = r#"
10m
=> 3:13: disconnect: found "10m" where a mapping of keys to values belongs

{}
=> 3:13: disconnect.stopAfter: this key is missing; write stopAfter: 10m

{startupGrace: 5m}
=> 3:13: disconnect.stopAfter: this key is missing; write stopAfter: 10m

{stopAfter: 0s}
=> 3:25: disconnect.stopAfter: 0s is out of range; write a duration from 1ms to 365d

{stopAfter: 366d}
=> 3:25: disconnect.stopAfter: 366d is out of range; write a duration from 1ms to 365d

{stopAfter: 10}
=> 3:25: disconnect.stopAfter: "10" is not a duration; write a number with a unit, such as 5s, 500ms or 1m30s

{stopAfter: 10m, startupGrace: -1s}
=> 3:44: disconnect.startupGrace: "-1s" is not a duration; write a number with a unit, such as 5s, 500ms or 1m30s

{stopAfter: 10m, onReconnect: restart}
=> 3:43: disconnect.onReconnect: "restart" is not one of start, leave; did you mean start?

{stopAfter: 10m, after: 5m}
=> 3:30: disconnect.after: this key is not known; allowed here: stopAfter, startupGrace, onReconnect
"#;

const SOUND: &str = "name: db\nprocess: {command: [/bin/db]}\n";

fn of_machine(fleet: &str) -> (Option<FleetSpec>, Vec<String>) {
    let folder = Folder::new();
    folder.machine(&format!("fleet:\n{fleet}"));
    let short = |text: String| text.trim_start_matches("machine.yaml:").to_owned();
    (folder.load().machine.fleet, folder.messages().into_iter().map(short).collect())
}

fn of_service(key: &str, value: &str) -> Vec<String> {
    let folder = Folder::new();
    folder.service("db", format!("{SOUND}{key}: {value}"));
    let short = |text: String| text.trim_start_matches("services/db.yaml:").trim_start().to_owned();
    folder.messages().into_iter().map(short).collect()
}

fn spec<'l>(loaded: &'l Loaded, service: &str) -> &'l ServiceSpec {
    let spec = loaded.services.iter().find(|spec| spec.name == service);
    spec.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics))
}

fn registered(loaded: &Loaded, service: &str) -> Registration {
    spec(loaded, service).register.clone().unwrap()
}

fn of_disconnect(value: &str) -> Disconnect {
    let folder = Folder::of("db", &format!("process: {{command: [/bin/db]}}\ndisconnect: {value}\n"));
    spec(&folder.load(), "db").disconnect.unwrap()
}

fn minutes(count: u64) -> Duration {
    Duration::from_secs(60 * count)
}

/// The warnings of a folder without a mistake, with their files and lines.
fn warned(folder: &Folder) -> Vec<String> {
    let loaded = folder.load();
    assert_eq!(loaded.diagnostics, [], "a warning is no mistake");
    let stem = |warning: &Diagnostic| warning.file.file_stem().unwrap().to_string_lossy().into_owned();
    let text = |warning: &Diagnostic| format!("{}:{}: {}", stem(warning), warning.line, warning.message);
    loaded.warnings.iter().map(text).collect()
}

fn texts(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn mistakes_in_fleet_say_what_to_do_and_leave_it_out() {
    let said = |text: &str| {
        let (fleet, messages) = of_machine(text);
        assert_eq!(fleet, None, "{text}");
        messages
    };
    assert_eq!(each_case(MACHINE, said), 26);
}

#[test]
fn mistakes_in_register_say_what_to_do() {
    assert_eq!(each_case(SERVICE, |value| of_service("register", value)), 20);
}

#[test]
fn mistakes_in_disconnect_say_what_to_do() {
    assert_eq!(each_case(DISCONNECT, |value| of_service("disconnect", value)), 9);
}

#[test]
fn a_disconnect_needs_one_time_and_has_defaults() {
    let expected = |grace: Duration, on_reconnect: OnReconnect| Disconnect {
        stop_after: minutes(10),
        startup_grace: grace,
        on_reconnect,
    };
    assert_eq!(of_disconnect("{stopAfter: 10m}"), expected(minutes(10), OnReconnect::Start));
    assert_eq!(
        of_disconnect("{stopAfter: 10m, startupGrace: 5m, onReconnect: leave}"),
        expected(minutes(5), OnReconnect::Leave)
    );
    assert_eq!(
        of_disconnect("{startupGrace: 0s, stopAfter: 10m}"),
        expected(Duration::ZERO, OnReconnect::Start)
    );
}

#[test]
fn a_disconnect_is_handed_over_and_written_as_it_was_read() {
    let value = "{stopAfter: 1h30m, startupGrace: 5m, onReconnect: leave}";
    let folder = Folder::of("db", &format!("process: {{command: [/bin/db]}}\ndisconnect: {value}\n"));
    let loaded = folder.load();
    let expected = spec(&loaded, "db").disconnect;
    assert!(expected.is_some());
    assert_eq!(wire::decode::<Loaded>(&wire::encode(&loaded).unwrap()).unwrap(), loaded);
    let file = written(&loaded.services[0]).file();
    assert!(file.contains("stopAfter: 1h30m") && file.contains("onReconnect: leave"), "{file}");
    folder.service("db", file);
    assert_eq!(spec(&folder.load(), "db").disconnect, expected);
}

#[test]
fn what_ends_or_runs_no_program_is_not_stopped_by_a_disconnect() {
    let messages = |text: &str| Folder::of("db", text).messages();
    assert_eq!(
        messages("process: {command: [/a]}\ntype: oneshot\ndisconnect: {stopAfter: 10m}\n"),
        [
            "services/db.yaml:4:1: disconnect: a one-shot ends by itself; leave disconnect out, or write type: service if its program runs on"
        ]
    );
    assert_eq!(
        messages("target: {}\ndisconnect: {stopAfter: 10m}\n"),
        [
            "services/db.yaml:3:1: disconnect: a target runs no program, so disconnect means nothing; leave it out"
        ]
    );
}

#[test]
fn a_disconnect_without_a_fleet_is_warned_of() {
    let folder =
        Folder::of("db", "process: {command: [/a]}\ninstances: [a, b]\ndisconnect: {stopAfter: 10m}\n");
    folder.service("web", "name: web\nprocess: {command: [/a]}\nregister: {}\n");
    let text = "db:4: disconnect: machine.yaml names no fleet, so this has no effect; write fleet there, or leave disconnect out";
    assert_eq!(warned(&folder), [text, text]);
    folder.machine("hostname: edge-1\n");
    assert_eq!(warned(&folder), [text, text]);
    folder.machine("fleet: {endpoints: [\"http://192.0.2.1:2379\"]}\n");
    assert_eq!(warned(&folder), [""; 0]);
    folder.machine("sources: {from: [disk]}\n");
    assert_eq!(warned(&folder), [""; 0], "the source may name the fleet");
    folder.machine("fleet: {endpoints: [etcd-1]}\n");
    assert_eq!(folder.load().warnings, [], "the fleet has a mistake, which is reported");
}

#[test]
fn a_disconnect_shorter_than_a_lease_is_warned_of() {
    let warnings = |time: &str| {
        let folder =
            Folder::of("db", &format!("process: {{command: [/a]}}\ndisconnect: {{stopAfter: {time}}}\n"));
        folder.machine("fleet: {endpoints: [\"http://192.0.2.1:2379\"]}\n");
        warned(&folder)
    };
    let text = "db:3: disconnect: others see this host until 30s after the last answer of etcd; with a stopAfter of less than \
                30s one late answer stops the service";
    assert_eq!(warnings("29s"), [text]);
    assert_eq!(warnings("30s"), [""; 0]);
}

#[test]
fn a_fleet_has_defaults() {
    let (fleet, messages) =
        of_machine("  endpoints: [\"http://192.0.2.1:2379\", \"http://[2001:db8::1]:2379\"]\n");
    assert_eq!(messages, [""; 0]);
    let endpoints = vec!["http://192.0.2.1:2379".to_owned(), "http://[2001:db8::1]:2379".to_owned()];
    assert_eq!(fleet, Some(FleetSpec { endpoints, ..FleetSpec::default() }));
    let spec = FleetSpec::default();
    assert_eq!((spec.prefix.as_str(), spec.name, spec.labels.len()), ("/kelson/v1", None, 0));
}

#[test]
fn a_registration_has_the_name_of_its_service_and_no_other_key_is_needed() {
    let folder = Folder::of("db", "process: {command: [/bin/db]}\nregister: {}\n");
    folder
        .service("queue", "instances: [a, b]\nname: queue\nprocess: {command: [/q]}\nregister: {port: 80}\n");
    folder.service(
        "shared",
        "instances: [a, b]\nname: shared\nprocess: {command: [/q]}\nregister: {name: all}\n",
    );
    let loaded = folder.load();
    assert_eq!((&loaded.diagnostics, &loaded.warnings), (&vec![], &vec![]));
    assert_eq!(registered(&loaded, "db"), Registration { name: "db".to_owned(), ..Registration::default() });
    let names = ["queue-a", "queue-b", "shared-a", "shared-b"].map(|name| registered(&loaded, name).name);
    assert_eq!(names, ["queue-a", "queue-b", "all", "all"]);
}

#[test]
fn checks_of_a_registration_are_counted_and_named_with_those_of_health() {
    let list = |from: usize, count: usize| {
        let one = |n: usize| format!("{{name: c{n}, tcp: {{port: 80}}}}");
        (from..from + count).map(one).collect::<Vec<_>>().join(", ")
    };
    let messages = |more: &str, health: &str, own: &str| {
        let text = format!(
            "process: {{command: [/bin/db]}}\n{more}health: [{health}]\nregister: {{checks: [{own}]}}\n"
        );
        Folder::of("db", &text).messages()
    };
    assert_eq!(messages("", &list(0, 200), &list(200, 56)), [""; 0]);
    let text = "services/db.yaml:4:20: register.checks: ";
    assert_eq!(
        messages("", &list(0, 200), &list(200, 57)),
        [format!("{text}with those of health these are 257 checks; a service has at most 256")]
    );
    assert_eq!(
        messages("", &list(0, 2), &list(1, 2)),
        [format!("{text}one of health is named c1 too; give each a name of its own")]
    );
    assert_eq!(
        messages("type: oneshot\n", "", &list(0, 1)),
        [
            "services/db.yaml:5:20: register.checks: a one-shot is registered once it has ended, and no check runs then; leave checks out"
        ]
    );
}

#[test]
fn a_value_of_meta_has_the_ports_of_sockets() {
    let sockets = "sockets:\n- {name: http, listen: \"*:8080\"}\n- {name: dns, listen: \"udp:127.0.0.1:53\"}\n\
                   - {name: vm, listen: \"vsock:1024\"}\n- {name: ctl, listen: /run/db.sock}\n";
    let file = |meta: &str, sockets: &str| {
        format!("process: {{command: [/bin/db]}}\nregister: {{meta: {{{meta}}}}}\n{sockets}")
    };
    let meta = "url: \"http://${host.name}:${port.http}/\", dns: \"${port.dns}\", vm: \"${port.vm}\", own: \"$${port.http} ${port}\"";
    let loaded = Folder::of("db", &file(meta, sockets)).load();
    assert_eq!((&loaded.diagnostics, &loaded.warnings), (&vec![], &vec![]));
    let expected = [
        ("url", "http://${host.name}:8080/"),
        ("dns", "53"),
        ("vm", "1024"),
        ("own", "$${port.http} ${port}"),
    ];
    assert_eq!(registered(&loaded, "db").meta, texts(&expected));
    let messages = |meta: &str, sockets: &str| Folder::of("db", &file(meta, sockets)).messages();
    assert_eq!(
        messages("a: \"${port.ctl}\", b: \"${port.htp}\"", sockets),
        [
            "services/db.yaml:3:22: register.meta.a: ${port.ctl} is the port of no socket; sockets with a port: http, dns, vm",
            "services/db.yaml:3:40: register.meta.b: ${port.htp} is the port of no socket; sockets with a port: http, dns, vm",
        ]
    );
    assert_eq!(
        messages("a: \"${port.http}\"", ""),
        [
            "services/db.yaml:3:22: register.meta.a: ${port.http} is the port of no socket; sockets with a port: none"
        ]
    );
}

#[test]
fn a_registration_is_handed_over_and_written_as_it_was_read() {
    let register = "{name: postgres, port: 5432, tags: [primary, \"v:17\"], address: db.example.com, meta: {version: 17, note: \"\"}, checks: [{tcp: {port: 5432}}]}";
    let folder = Folder::of("db", &format!("process: {{command: [/bin/db]}}\nregister: {register}\n"));
    let loaded = folder.load();
    assert_eq!((&loaded.diagnostics, &loaded.warnings), (&vec![], &vec![]));
    let expected = Registration {
        name: "postgres".to_owned(),
        port: Some(5432),
        tags: vec!["primary".to_owned(), "v:17".to_owned()],
        address: Some("db.example.com".to_owned()),
        meta: texts(&[("note", ""), ("version", "17")]),
        required: false,
        checks: vec![Check::new("tcp", Probe::tcp(5432))],
    };
    assert_eq!(registered(&loaded, "db"), expected);
    assert_eq!(wire::decode::<Loaded>(&wire::encode(&loaded).unwrap()).unwrap(), loaded);
    folder.service("db", written(&loaded.services[0]).file());
    assert_eq!(registered(&folder.load(), "db"), expected);
}

#[test]
fn addresses_are_of_one_host() {
    let address = |text: &str| {
        let folder = Folder::of(
            "db",
            &format!("process: {{command: [/bin/db]}}\nregister: {{address: \"{text}\"}}\n"),
        );
        registered(&folder.load(), "db").address
    };
    assert_eq!(address("auto"), None);
    for own in ["192.0.2.7", "2001:db8::7", "127.0.0.1", "db", "db_1.Example.com", "7up"] {
        assert_eq!(address(own).as_deref(), Some(own));
    }
}

#[test]
fn too_much_is_refused() {
    let list = |count: usize| (0..count).map(|n| format!("t{n}")).collect::<Vec<_>>().join(", ");
    assert_eq!(of_service("register", &format!("{{tags: [{}]}}", list(64))), [""; 0]);
    let most = of_service("register", &format!("{{tags: [{}]}}", list(65)));
    assert!(most[0].ends_with("register.tags: these are 65 tags; a service has at most 64"), "{most:?}");
    let map = |count: usize, length: usize| {
        (0..count).map(|n| format!("k{n}: {}", "ä".repeat(length))).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(of_service("register", &format!("{{meta: {{{}}}}}", map(64, 20))), [""; 0]);
    let most = of_service("register", &format!("{{meta: {{{}}}}}", map(65, 1)));
    assert!(most[0].ends_with("register.meta: these are 65 entries; at most 64 can stand here"), "{most:?}");
    let long = of_service("register", &format!("{{meta: {{{}}}}}", map(1, 513)));
    assert!(
        long[0].ends_with("register.meta.k0: this text has 513 characters; at most 512 can stand here"),
        "{long:?}"
    );
    let large = of_service("register", &format!("{{meta: {{{}}}}}", map(5, 512)));
    assert!(
        large[0].ends_with("register.meta: these entries have 5130 bytes; they may have 4096"),
        "{large:?}"
    );
    let both = of_service("register", &format!("{{tags: [{}], meta: {{{}}}}}", "t".repeat(63), map(4, 505)));
    assert_eq!(both, ["3:11: register: these tags and entries of meta have 4111 bytes; they may have 4096"]);
    let label = "t".repeat(64);
    assert_eq!(of_service("register", &format!("{{tags: [{label}]}}")).len(), 1);
    let (_, long) = of_machine(&format!("  {{endpoints: [\"http://a:1\"], labels: {{{}}}}}\n", map(1, 64)));
    assert!(
        long[0].ends_with("fleet.labels.k0: this text has 64 characters; at most 63 can stand here"),
        "{long:?}"
    );
    let members = (0..17).map(|n| format!("\"http://a{n}:1\"")).collect::<Vec<_>>().join(", ");
    let (_, many) = of_machine(&format!("  endpoints: [{members}]\n"));
    assert!(
        many[0].ends_with("fleet.endpoints: these are 17 endpoints; at most 16 can stand here"),
        "{many:?}"
    );
}

#[test]
fn what_ends_or_runs_no_program_is_hardly_registered() {
    assert_eq!(
        warned(&Folder::of("db", "process: {command: [/a]}\ntype: oneshot\nregister: {port: 2049}\n")),
        [
            "db:4: register: a one-shot is up, and so registered, once it has ended; write type: service if its program answers, \
          or leave register out unless something else answers then"
        ]
    );
    let target = Folder::of("db", "target: {}\nregister: {}\n").messages();
    let text =
        "services/db.yaml:3:1: register: a target runs no program, so register means nothing; leave it out";
    assert_eq!(target, [text]);
}
