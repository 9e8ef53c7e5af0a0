//! Ways to a host, and the exit statuses of those that lead nowhere.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;
use std::time::SystemTime;

use kelson_proto::v1::ClockResponse;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

use crate::fake::{Fake, Seen, State, serve_tls};
use crate::samples::{Folder, line};
use crate::{at, done, kelsonctl, two};

/// Every command that asks a host.
const ALL: &str = "images, images prune, images update a.b/c, services, status, status db, cat db, start db, stop db, restart db, wait db --for up, \
    why db, graph, events, events -f, logs db, logs -f db, logs, wait db --for exit, dmesg, \
    dmesg -f, boot, reboot, poweroff, halt, version, processes, netstat, network, mounts, memory, cpu, \
    disks, facts, cgroups, time, timers, registry, fleet status, fleet hosts, fleet services, ls /, \
    read /etc/hostname, cp /etc /tmp, cp /etc -";

#[test]
fn not_reachable_is_3_and_says_why() {
    let folder = Folder::new();
    let socket = folder.join("init.sock");
    for words in ALL.split(", ") {
        let done = done(at(&socket, words).output().unwrap());
        assert_eq!(done.status, 3, "{words}: {done:?}");
        let missing = if words.starts_with("logs ") { "log.sock" } else { "init.sock" };
        assert!(done.err.contains("there is no ") && done.err.contains(missing), "{words}: {done:?}");
        assert!(done.err.starts_with("kelsonctl: ") && done.err.lines().count() == 1, "{words}: {done:?}");
    }
    // A socket file that nobody serves is another matter, and told apart.
    drop(UnixListener::bind(&socket).unwrap());
    let done = done(at(&socket, "services").output().unwrap());
    assert_eq!(done.status, 3);
    assert!(done.err.contains("nobody serves"), "{done:?}");
}

#[test]
fn denied_is_4() {
    let fake = Fake::start(State { deny: true, ..two() });
    for words in ALL.split(", ") {
        let done = fake.run(words);
        assert_eq!((done.status, done.err.as_str()), (4, "kelsonctl: only root may ask\n"), "{words}");
        assert!(done.out.is_empty() || words == "version", "{words}: {done:?}");
    }
}

#[test]
fn a_wrong_command_line_is_2() {
    let all = "servces; start; wait db; services -o xml; logs db --since 5; -e nowhere: services; \
        --context x services";
    for words in all.split("; ") {
        let done = done(kelsonctl().args(words.split_whitespace()).output().unwrap()).refused(2);
        assert!(!done.err.is_empty(), "{words}");
    }
    let done = done(kelsonctl().arg("services").env("KELSONCONFIG", "/nowhere/config").output().unwrap());
    assert_eq!(done.status, 2);
    assert!(done.err.contains("cannot read /nowhere/config"), "{done:?}");
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

/// A machine of this CA, over TLS on a port of this host.
pub fn machine(ca: &CertifiedIssuer<'static, KeyPair>, state: State) -> u16 {
    let (certificate, key) = signed(ca, &["127.0.0.1"]);
    let tls = ServerTlsConfig::new().identity(Identity::from_pem(certificate, key));
    serve_tls(state, tls.client_ca_root(Certificate::from_pem(ca.pem())))
}

/// A client's certificate signed by `by`, its key, and the CA that it trusts.
pub fn client(ca: String, by: &CertifiedIssuer<'static, KeyPair>) -> Folder {
    let (certificate, key) = signed(by, &["admin"]);
    Folder::with([("ca.pem", ca), ("admin.pem", certificate), ("admin.key", key)])
}

#[test]
fn over_the_network_both_sides_show_certificates() {
    let ca = authority();
    let lines = vec![line("db", b"hello")];
    let clock = ClockResponse { time: Some(SystemTime::now().into()), ..ClockResponse::default() };
    let port = machine(&ca, State { lines, seen: Seen { clock, ..Seen::default() }, ..two() });

    let folder = client(ca.pem(), &ca);
    std::fs::write(folder.join("other.pem"), authority().pem()).unwrap();
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
    assert_eq!((services.status, services.out.lines().count()), (0, 3), "{services:?}");
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
    assert_eq!(liar.status, 3, "{liar:?}");
    assert!(liar.err.contains("not signed by the CA"), "{liar:?}");
    let nobody = run("-e 127.0.0.1:1 services");
    assert_eq!(nobody.status, 3);
    assert!(nobody.err.contains("nobody listens on 127.0.0.1:1: "), "{nobody:?}");
}

#[test]
fn what_answers_in_place_of_kelson_is_told_apart() {
    let ca = authority();
    let kelson = machine(&ca, two());
    // One that speaks another protocol, and one that hangs up.
    let talker = TcpListener::bind("127.0.0.1:0").unwrap();
    let closer = TcpListener::bind("127.0.0.1:0").unwrap();
    let ports = [&talker, &closer].map(|listener| listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = talker.accept() {
            drop(stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n"));
            drop(std::io::copy(&mut stream, &mut std::io::sink()));
        }
    });
    std::thread::spawn(move || while closer.accept().is_ok() {});

    // Its certificate is of another CA than the machine's.
    let folder = client(ca.pem(), &authority());
    let config = folder.join("config");
    let context = "{endpoint: 127.0.0.1, ca: ca.pem, certificate: admin.pem, key: admin.key}";
    std::fs::write(&config, format!("current: a\ncontexts: {{a: {context}}}\n")).unwrap();
    let asked = |endpoint: &str| {
        let mut command = kelsonctl();
        done(command.args(["-e", endpoint, "services"]).env("KELSONCONFIG", &config).output().unwrap())
    };
    for port in ports {
        let told = asked(&format!("127.0.0.1:{port}"));
        let expected = format!("kelsonctl: 127.0.0.1:{port} does not speak TLS, ");
        assert!(told.status == 3 && told.err.starts_with(&expected), "{told:?}");
    }
    let told = asked(&format!("127.0.0.1:{kelson}"));
    let expected = "kelsonctl: the machine refuses our certificate: it is not signed by the machine's CA\n";
    assert_eq!((told.status, told.err.as_str()), (4, expected));
    let told = asked("127.0.0.1:1");
    assert!(
        told.status == 3 && told.err.starts_with("kelsonctl: nobody listens on 127.0.0.1:1: "),
        "{told:?}"
    );
}

#[test]
fn the_usual_file_and_the_usual_port_need_no_words() {
    let fake = Fake::start(two());
    let home = fake.folder().join("home");
    std::fs::create_dir_all(&home).unwrap();
    let run = |words: &str, xdg: Option<&str>| {
        let mut command = kelsonctl();
        command.args(words.split_whitespace()).env("HOME", &home);
        if let Some(folder) = xdg {
            command.env("XDG_CONFIG_HOME", home.join(folder));
        }
        done(command.output().unwrap())
    };
    let socket = format!("unix://{}", fake.socket().display());
    // It is made by the first context, for the eyes of its owner.
    assert_eq!(run(&format!("config add here -e {socket}"), None).status, 0);
    let file = home.join(".config/kelson/config");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    for words in ["services", "--context here services", "-n all services"] {
        assert_eq!(run(words, None).status, 0, "{words}");
    }
    // Another folder has another file, and none is no mistake.
    assert!(run("--context here services", Some("xdg")).err.contains("needs contexts: set KELSONCONFIG"));
    assert_eq!(run("config contexts", Some("xdg")).status, 2);
    std::fs::create_dir_all(home.join("xdg/kelson")).unwrap();
    let text = "contexts: {edge: {endpoint: edge}, v6: {endpoint: '::1'}, lab: {endpoint: 'lab:7'}}\n";
    std::fs::write(home.join("xdg/kelson/config"), text).unwrap();
    let offered = |words: &[&str]| {
        let mut command = kelsonctl();
        command.args(["complete", "--"]).args(words).env("XDG_CONFIG_HOME", home.join("xdg"));
        done(command.output().unwrap()).out
    };
    assert_eq!(offered(&["--context", ""]), "edge\tedge\nlab\tlab:7\nv6\t::1\n");
    assert_eq!(offered(&["-n", ""]), "edge\tedge\nlab\tlab:7\nv6\t::1\nall\tevery context\n");
    assert_eq!(offered(&["-n", "lab,"]), "lab,edge\tedge\nlab,v6\t::1\n");
    // KELSONCONFIG wins.
    let mut command = kelsonctl();
    command.arg("services").env("HOME", &home).env("KELSONCONFIG", "/nowhere/config");
    assert!(done(command.output().unwrap()).err.contains("cannot read /nowhere/config"));
}

/// A call whose first connection is cut once the host has its request; then the host is there. Gives what the call came to.
fn met_by_a_crash(fake: &mut Fake, words: &str) -> crate::Done {
    fake.cut();
    drop(std::fs::remove_file(fake.socket()));
    let dying = UnixListener::bind(fake.socket()).unwrap();
    let child = at(&fake.socket(), words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut connection, _) = dying.accept().unwrap();
    let (mut preface, mut head) = ([0; 24], [0; 9]);
    connection.read_exact(&mut preface).unwrap();
    // Frames of HTTP/2: length, type, flags, stream. The last one of a request is data (0) with the flag END_STREAM (1).
    loop {
        connection.read_exact(&mut head).unwrap();
        let mut frame = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        connection.read_exact(&mut frame).unwrap();
        if head[3] == 0 && head[4] & 1 == 1 {
            break;
        }
    }
    fake.serve();
    drop(connection);
    done(child.wait_with_output().unwrap())
}

#[test]
fn a_call_that_meets_a_crash_is_made_again_where_it_only_reads() {
    let mut fake = Fake::start(two());
    for words in ["services", "status db", "version", "events", "health", "images"] {
        let met = met_by_a_crash(&mut fake, words);
        assert_eq!((met.status, met.err.as_str()), (fake.run(words).status, ""), "{words}: {met:?}");
        assert_eq!(met.out.lines().count(), fake.run(words).out.lines().count(), "{words}: {met:?}");
    }
    // Nobody knows whether this was done.
    let asked = fake.asked().len();
    met_by_a_crash(&mut fake, "stop db").refused(3);
    assert_eq!(fake.asked().len(), asked, "{:?}", fake.asked());
}
