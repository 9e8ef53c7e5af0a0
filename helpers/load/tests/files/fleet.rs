//! `fleet` of the machine file, and `register` of a service file.
use std::collections::BTreeMap;

use crate::folder::{Folder, each_case};
use kelson_load::written;
use kelson_spec::fleet::{FleetSpec, Registration};
use kelson_spec::{Loaded, wire};

/// Lines below `fleet:`, from line 2 on.
const MACHINE: &str = r#"
## Keys.
  {}
=> 2:3: fleet.endpoints: this key is missing; write endpoints: ["https://etcd-1.example:2379"]

  endpoints: []
=> 2:14: fleet.endpoints: this list is empty; name a member of etcd, or remove fleet

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
=> 2:4: fleet.endpoint: this key is not known; did you mean endpoints? Allowed here: endpoints, ca, certificate, key, prefix, name, labels
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
=> 3:12: register.tag: this key is not known; did you mean tags? Allowed here: name, port, tags, address, meta

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

{meta: [a]}
=> 3:18: register.meta: found a list where a mapping of keys to values belongs
"#;

const SOUND: &str = "name: db\nprocess: {command: [/bin/db]}\n";

fn of_machine(fleet: &str) -> (Option<FleetSpec>, Vec<String>) {
    let folder = Folder::new();
    folder.machine(&format!("fleet:\n{fleet}"));
    let short = |text: String| text.trim_start_matches("machine.yaml:").to_owned();
    (folder.load().machine.fleet, folder.messages().into_iter().map(short).collect())
}

fn of_service(register: &str) -> Vec<String> {
    let folder = Folder::new();
    folder.service("db", format!("{SOUND}register: {register}"));
    let short = |text: String| text.trim_start_matches("services/db.yaml:").trim_start().to_owned();
    folder.messages().into_iter().map(short).collect()
}

fn registered(loaded: &Loaded, service: &str) -> Registration {
    let spec = loaded.services.iter().find(|spec| spec.name == service);
    spec.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics)).register.clone().unwrap()
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
    assert_eq!(each_case(MACHINE, said), 19);
}

#[test]
fn mistakes_in_register_say_what_to_do() {
    assert_eq!(each_case(SERVICE, of_service), 14);
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
fn a_registration_is_handed_over_and_written_as_it_was_read() {
    let register = "{name: postgres, port: 5432, tags: [primary, \"v:17\"], address: db.example.com, meta: {version: 17, note: \"\"}}";
    let folder = Folder::of("db", &format!("process: {{command: [/bin/db]}}\nregister: {register}\n"));
    let loaded = folder.load();
    assert_eq!((&loaded.diagnostics, &loaded.warnings), (&vec![], &vec![]));
    let expected = Registration {
        name: "postgres".to_owned(),
        port: Some(5432),
        tags: vec!["primary".to_owned(), "v:17".to_owned()],
        address: Some("db.example.com".to_owned()),
        meta: texts(&[("note", ""), ("version", "17")]),
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
    assert_eq!(of_service(&format!("{{tags: [{}]}}", list(64))), [""; 0]);
    let most = of_service(&format!("{{tags: [{}]}}", list(65)));
    assert!(most[0].ends_with("register.tags: these are 65 tags; a service has at most 64"), "{most:?}");
    let map = |count: usize, length: usize| {
        (0..count).map(|n| format!("k{n}: {}", "ä".repeat(length))).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(of_service(&format!("{{meta: {{{}}}}}", map(64, 20))), [""; 0]);
    let most = of_service(&format!("{{meta: {{{}}}}}", map(65, 1)));
    assert!(most[0].ends_with("register.meta: these are 65 entries; at most 64 can stand here"), "{most:?}");
    let long = of_service(&format!("{{meta: {{{}}}}}", map(1, 513)));
    assert!(
        long[0].ends_with("register.meta.k0: this text has 513 characters; at most 512 can stand here"),
        "{long:?}"
    );
    let large = of_service(&format!("{{meta: {{{}}}}}", map(5, 512)));
    assert!(
        large[0].ends_with("register.meta: these entries have 5130 bytes; they may have 4096"),
        "{large:?}"
    );
    let both = of_service(&format!("{{tags: [{}], meta: {{{}}}}}", "t".repeat(63), map(4, 505)));
    assert_eq!(both, ["3:11: register: these tags and entries of meta have 4111 bytes; they may have 4096"]);
    let label = "t".repeat(64);
    assert_eq!(of_service(&format!("{{tags: [{label}]}}")).len(), 1);
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
    let warnings = |text: &str| {
        let folder = Folder::of("db", text);
        let loaded = folder.load();
        assert_eq!(loaded.diagnostics, [], "a warning is no mistake");
        loaded
            .warnings
            .iter()
            .map(|warning| format!("{}: {}", warning.line, warning.message))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        warnings("process: {command: [/a]}\ntype: oneshot\nregister: {port: 2049}\n"),
        [
            "4: register: a one-shot is up, and so registered, once it has ended; write type: service if its program answers, \
          or leave register out unless something else answers then"
        ]
    );
    let target = Folder::of("db", "target: {}\nregister: {}\n").messages();
    let text =
        "services/db.yaml:3:1: register: a target runs no program, so register means nothing; leave it out";
    assert_eq!(target, [text]);
}
