//! The network probes of checks: every key read, written as text and read again.
use crate::folder::Folder;
use kelson_load::written;
use kelson_spec::service::*;
use kelson_spec::{Loaded, wire};

const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nMIIBAA==\n-----END CERTIFICATE-----";

fn folder(checks: &str) -> Folder {
    let folder = Folder::new();
    let ca = format!(
        "# of the shop\n{CERTIFICATE}\n-----BEGIN PRIVATE KEY-----\nMIIS\n-----END PRIVATE KEY-----\n"
    );
    folder.root_file("etc/ca.pem", ca);
    folder.service("web", format!("name: web\nprocess: {{command: [/bin/web]}}\nhealth:\n{checks}"));
    folder
}

/// The checks of a sound file, which mean the same when they are rendered and read again.
#[track_caller]
fn checks(text: &str) -> Vec<Check> {
    let folder = folder(text);
    let loaded = folder.load();
    assert_eq!(loaded.diagnostics, []);
    assert_eq!(wire::decode::<Loaded>(&wire::encode(&loaded).unwrap()).unwrap(), loaded);
    let spec = loaded.services[0].clone();
    folder.service("web", written(&spec).file());
    // Where it is read again the file of the certificates may be missing.
    folder.root_file("etc/ca.pem", "");
    let again = folder.load();
    assert_eq!((again.diagnostics, again.services), (vec![], vec![spec.clone()]));
    spec.health
}

fn http(probe: &Probe) -> (&NetworkProbe, &HttpProbe) {
    match probe {
        Probe::Network(network) => match &network.asks {
            Asks::Http(http) => (network, http),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_key_of_a_probe_is_read() {
    let found = checks(
        r#"
  - name: page
    http:
      port: 8443
      path: /healthz?deep=1&a=[b]
      address: 192.0.2.7
      host: www.example.org
      scheme: https
      ca: /etc/ca.pem
      headers: {X-Probe: "yes, \"please\": #1", Accept: "*/*", "null": "", "x!#$%&'*+.^_`|~": tab	in}
      status: [200, 204, 300-399]
      body: '^\{"ok": (true|1)\}\s*$'
    startup: true
    restartAfter: 3
  - name: peer
    tcp: {port: 5432, address: "2001:db8::1"}
    timeout: 1m
    interval: 10ms
  - name: rpc
    grpc: {port: 50051, service: shop.v1.Cart, address: 127.0.0.2, host: my_cart, scheme: https, verify: false}
"#,
    );
    let expected = HttpProbe {
        path: "/healthz?deep=1&a=[b]".into(),
        host: Some("www.example.org".into()),
        headers: [
            ("X-Probe", "yes, \"please\": #1"),
            ("Accept", "*/*"),
            ("null", ""),
            ("x!#$%&'*+.^_`|~", "tab\tin"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec(),
        status: vec![(200, 200), (204, 204), (300, 399)],
        body: Some(r#"^\{"ok": (true|1)\}\s*$"#.into()),
        tls: Some(ProbeTls { ca: Some(CERTIFICATE.into()) }),
    };
    let (network, asked) = http(&found[0].probe);
    assert_eq!((asked, network.port, network.address), (&expected, 8443, "192.0.2.7".parse().unwrap()));
    assert_eq!((found[0].startup, found[0].restart_after), (true, 3));
    let tcp = NetworkProbe { address: "2001:db8::1".parse().unwrap(), port: 5432, asks: Asks::Tcp };
    assert_eq!((&found[1].probe, found[1].startup), (&Probe::Network(tcp), false));
    assert!(found[1].timeout > found[1].interval, "a slow answer is no reason to ask less often");
    let grpc = GrpcProbe {
        service: "shop.v1.Cart".into(),
        host: Some("my_cart".into()),
        tls: Some(ProbeTls { ca: None }),
    };
    let grpc = NetworkProbe { address: "127.0.0.2".parse().unwrap(), port: 50051, asks: Asks::Grpc(grpc) };
    assert_eq!(found[2].probe, Probe::Network(grpc));
}

#[test]
fn what_a_probe_does_not_say_has_its_default() {
    let found = checks("  - http: {port: 80}\n  - grpc: {port: 1, scheme: http}\n");
    let plain =
        HttpProbe { path: "/".into(), host: None, headers: vec![], status: vec![], body: None, tls: None };
    let (network, asked) = http(&found[0].probe);
    assert_eq!((asked, network.address), (&plain, NetworkProbe::ADDRESS));
    let grpc = GrpcProbe { service: String::new(), host: None, tls: None };
    let grpc = NetworkProbe { address: NetworkProbe::ADDRESS, port: 1, asks: Asks::Grpc(grpc) };
    assert_eq!(found[1], Check::new("grpc", Probe::Network(grpc)));
}

#[test]
fn a_plugin_is_asked_less_often_unless_the_file_says_so() {
    let found = checks("  - csi: /run/a.sock\n  - {name: b, csi: /run/b.sock, interval: 5s}\n");
    let of = |socket: &str| Probe::Csi { socket: socket.into() };
    assert_eq!(found[0], Check::new("csi", of("/run/a.sock")));
    let five = std::time::Duration::from_secs(5);
    assert_eq!(found[0].interval, 2 * five);
    assert_eq!(found[1], Check { interval: five, ..Check::new("b", of("/run/b.sock")) });
}

#[test]
fn a_status_is_one_code_or_a_range() {
    let status = |text: &str| {
        let found = checks(&format!("  - http: {{port: 80, status: {text}}}\n"));
        http(&found[0].probe).1.status.clone()
    };
    assert_eq!(status("200"), [(200, 200)]);
    assert_eq!(status("100-599"), [(100, 599)]);
    assert_eq!(status("[404]"), [(404, 404)]);
}

#[test]
fn verify_may_be_written_beside_a_ca() {
    let found = checks("  - http: {port: 80, scheme: https, verify: true, ca: /etc/ca.pem}\n");
    let tls = http(&found[0].probe).1.tls.clone();
    assert_eq!(tls, Some(ProbeTls { ca: Some(CERTIFICATE.into()) }), "a key beside it is not taken along");
}

#[test]
fn built_in_services_take_such_checks_too() {
    let folder = Folder::new();
    folder.machine("builtins: {apid: {health: [{tcp: {port: 50000}, startup: true}]}}\n");
    let loaded = folder.load();
    assert_eq!(loaded.diagnostics, []);
    let expected = Check { startup: true, ..Check::new("tcp", Probe::tcp(50000)) };
    assert_eq!(loaded.machine.builtins[0].health, [expected]);
}

#[test]
fn what_a_service_may_make_pid_1_keep_is_bounded() {
    let many = |count: usize| {
        (0..count).map(|n| format!("  - {{name: c{n}, tcp: {{port: 1}}}}\n")).collect::<String>()
    };
    assert_eq!(checks(&many(256)).len(), 256);
    assert_eq!(
        folder(&many(257)).messages(),
        ["services/web.yaml:260:5: health: these are 257 checks; a service has at most 256"]
    );

    let https: String = (0..6)
        .map(|n| format!("  - {{name: c{n}, http: {{port: 1, scheme: https, ca: /etc/big.pem}}}}\n"))
        .collect();
    let certificate = |body: usize| {
        format!("-----BEGIN CERTIFICATE-----\nMIIB{}\n-----END CERTIFICATE-----", "A".repeat(body))
    };
    let with_ca = |body: usize| {
        let folder = folder(&https);
        folder.root_file("etc/big.pem", certificate(body));
        folder.messages()
    };
    assert_eq!(with_ca(40 << 10), Vec::<String>::new());
    assert_eq!(
        with_ca(60 << 10),
        [
            "services/web.yaml:8:5: health[4]: the certificates of this service's checks are more than 256Ki in all"
        ]
    );
    let (of_health, own) = https.split_at(https.len() / 2);
    let own = own.trim_end().replace("  - ", "").replace('\n', ", ");
    let shared = folder(&format!("{of_health}register: {{checks: [{own}]}}\n"));
    shared.root_file("etc/big.pem", certificate(60 << 10));
    assert_eq!(
        shared.messages(),
        [
            "services/web.yaml:7:20: register.checks: with those of health the certificates of these checks are more than 256Ki in all"
        ]
    );
    let told = with_ca(64 << 10);
    assert_eq!(told.len(), 6);
    assert_eq!(
        told[0],
        "services/web.yaml:4:51: health[0].http.ca: /etc/big.pem: the file is larger than 65536 bytes, which is more than is read"
    );

    let headers: String = (0..33).map(|n| format!("H{n}: 1, ")).collect();
    assert_eq!(
        folder(&format!("  - http: {{port: 1, headers: {{{headers}}}}}\n")).messages(),
        ["services/web.yaml:4:30: health[0].http.headers: these are 33 headers; a request has at most 32"]
    );
    let long = "a".repeat(1025);
    let told = folder(&format!("  - http: {{port: 1, body: {long}}}\n")).messages();
    assert!(told[0].ends_with("… is longer than 1024 bytes"), "{told:?}");
    let told = folder(&format!("  - http: {{port: 1, path: /{}}}\n", "a".repeat(4096))).messages();
    assert_eq!(told, ["services/web.yaml:4:27: health[0].http.path: the path is longer than 4096 bytes"]);
}
