//! Ways to a host, and the exit statuses of those that lead nowhere.

use std::os::unix::net::UnixListener;
use std::time::SystemTime;

use kelson_proto::v1::ClockResponse;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

use crate::fake::{Fake, Seen, State, folder, serve_tls};
use crate::{at, done, kelsonctl, two};

/// Every command that asks a host.
const ALL: &[&str] = &[
    "services",
    "status",
    "status db",
    "cat db",
    "start db",
    "stop db",
    "restart db",
    "wait db --for up",
    "why db",
    "graph",
    "events",
    "events -f",
    "logs db",
    "logs -f db",
    "logs",
    "wait db --for exit",
    "dmesg",
    "dmesg -f",
    "boot",
    "reboot",
    "poweroff",
    "halt",
    "version",
    "processes",
    "netstat",
    "mounts",
    "memory",
    "cpu",
    "disks",
    "cgroups",
    "time",
    "ls /",
    "read /etc/hostname",
    "cp /etc /tmp",
    "cp /etc -",
];

#[test]
fn not_reachable_is_3_and_says_why() {
    let folder = folder();
    let socket = folder.join("init.sock");
    for words in ALL {
        let done = done(at(&socket, words).output().unwrap());
        assert_eq!(done.status, 3, "{words}: {}", done.err);
        let missing = if words.starts_with("logs ") { "log.sock" } else { "init.sock" };
        assert!(done.err.contains("there is no ") && done.err.contains(missing), "{words}: {}", done.err);
        assert!(
            done.err.starts_with("kelsonctl: ") && done.err.lines().count() == 1,
            "{words}: {}",
            done.err
        );
    }
    // A socket file that nobody serves is another matter, and told apart.
    drop(UnixListener::bind(&socket).unwrap());
    let done = done(at(&socket, "services").output().unwrap());
    assert_eq!(done.status, 3);
    assert!(done.err.contains("nobody serves"), "{}", done.err);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn denied_is_4() {
    let fake = Fake::start(State { deny: true, ..two() });
    for words in ALL {
        let done = fake.run(words);
        assert_eq!((done.status, done.err.as_str()), (4, "kelsonctl: only root may ask\n"), "{words}");
    }
}

#[test]
fn a_wrong_command_line_is_2() {
    for words in [
        "servces",
        "start",
        "wait db",
        "services -o xml",
        "logs db --since 5",
        "-e nowhere services",
        "--context x services",
    ] {
        let done = done(kelsonctl().args(words.split_whitespace()).output().unwrap());
        assert_eq!((done.status, done.out.as_str()), (2, ""), "{words}: {}", done.err);
        assert!(!done.err.is_empty(), "{words}");
    }
    let done = done(kelsonctl().arg("services").env("KELSONCONFIG", "/nowhere/config").output().unwrap());
    assert_eq!(done.status, 2);
    assert!(done.err.contains("cannot read /nowhere/config"), "{}", done.err);
}

#[test]
fn the_environment_names_a_host_too() {
    let fake = Fake::start(two());
    let endpoint = format!("unix://{}", fake.socket().display());
    let output =
        kelsonctl().args(["services", "-o", "json"]).env("KELSON_ENDPOINT", &endpoint).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let config = fake.folder().join("config");
    std::fs::write(&config, format!("current: here\ncontexts: {{here: {{endpoint: '{endpoint}'}}}}\n"))
        .unwrap();
    for words in [vec!["services"], vec!["--context", "here", "services"]] {
        let output = kelsonctl().args(words).env("KELSONCONFIG", &config).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
    }
}

/// A CA that can sign.
pub fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

pub fn signed(by: &CertifiedIssuer<'static, KeyPair>, names: &[&str]) -> (String, String) {
    let params =
        CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, by).unwrap().pem(), key.serialize_pem())
}

#[test]
fn over_the_network_both_sides_show_certificates() {
    let ca = authority();
    let (certificate, key) = signed(&ca, &["127.0.0.1"]);
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(certificate, key))
        .client_ca_root(Certificate::from_pem(ca.pem()));
    let lines = vec![kelson_proto::v1::Line {
        service: "db".to_owned(),
        text: b"hello".to_vec(),
        ..Default::default()
    }];
    let clock = ClockResponse { time: Some(SystemTime::now().into()), ..ClockResponse::default() };
    let port = serve_tls(State { lines, seen: Seen { clock, ..Seen::default() }, ..two() }, tls);

    let folder = folder();
    let (certificate, key) = signed(&ca, &["admin"]);
    for (name, text) in [
        ("ca.pem", ca.pem()),
        ("admin.pem", certificate),
        ("admin.key", key),
        ("other.pem", authority().pem()),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let config = folder.join("config");
    let context = |ca: &str| {
        format!("{{endpoint: '127.0.0.1:{port}', ca: {ca}, certificate: admin.pem, key: admin.key}}")
    };
    let text = format!(
        "current: edge\ncontexts:\n  edge: {}\n  liar: {}\n",
        context("ca.pem"),
        context("other.pem")
    );
    std::fs::write(&config, text).unwrap();
    let run = |words: &str| {
        done(kelsonctl().args(words.split_whitespace()).env("KELSONCONFIG", &config).output().unwrap())
    };
    let services = run("services");
    assert_eq!((services.status, services.out.lines().count()), (0, 3), "{}", services.err);
    assert_eq!(run("logs db").out, "hello\n");
    let clock: serde_json::Value = serde_json::from_str(&run("-o json time").out).unwrap();
    let (ahead, uncertain) =
        (clock["differenceMs"].as_f64().unwrap(), clock["uncertaintyMs"].as_f64().unwrap());
    // It stands still there since the beginning of this test.
    assert!(ahead <= uncertain && ahead > -60_000.0 && uncertain > 0.0, "{clock}");
    let clock = run("time").out;
    assert!(clock.contains("\nfrom here      ") && clock.contains(" behind, give or take "), "{clock}");
    assert_eq!(
        run(&format!("-e 127.0.0.1:{port} services")).status,
        0,
        "an address takes the context's certificates"
    );
    let liar = run("--context liar services");
    assert_eq!(liar.status, 3, "{}", liar.err);
    assert!(liar.err.contains("not signed by the CA"), "{}", liar.err);
    let nobody = run("-e 127.0.0.1:1 services");
    assert_eq!(nobody.status, 3);
    assert!(nobody.err.contains("127.0.0.1 port 1 is not reachable"), "{}", nobody.err);
    std::fs::remove_dir_all(folder).unwrap();
}
