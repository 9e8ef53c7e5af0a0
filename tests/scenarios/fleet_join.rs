//! Hosts that join a fleet with a token, against a real etcd that asks each client for its rights.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use kelson_tests::ctl::{Ctl, Output};
use kelson_tests::{Authority, Etcd, Host, HostBuilder, eventually};
use tempfile::TempDir;

const PREFIX: &str = "/kelson/v1";

/// A store with users, as `fleet init` makes them, and the folder of its operator.
struct Fleet {
    etcd: Etcd,
    folder: TempDir,
    issuer: Option<kelson_tests::namespace::Guard>,
}

impl Fleet {
    fn start(name: &str) -> Option<Fleet> {
        let etcd = Etcd::start_secure(Authority::new(name))?;
        let folder = tempfile::tempdir().expect("a folder");
        let mut fleet = Fleet { etcd, folder, issuer: None };
        let made = fleet.init().ok();
        assert!(made.stdout.ends_with("etcd asks each client for its rights\n"), "{}", made.stdout);
        let [certificate, key] = ["root.pem", "root.key"].map(|file| fleet.path(&format!("access/{file}")));
        fleet.etcd.come_with(&certificate, &key);
        Some(fleet)
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn text(&self, file: &str) -> String {
        self.path(file).display().to_string()
    }

    fn ca(&self) -> String {
        self.etcd.authority().expect("it has one").path("ca.pem").display().to_string()
    }

    fn ctl(&self, words: &[&str]) -> Output {
        Ctl::nowhere().run(words)
    }

    fn init(&self) -> Output {
        let (ca, endpoint, out) = (self.ca(), self.etcd.endpoint(), self.text("access"));
        self.ctl(&["fleet", "init", "--ca", &ca, "--endpoints", &endpoint, "--out", &out])
    }

    /// A token in this file.
    fn token(&self, file: &str, more: &[&str]) -> Output {
        let (ca, access, out) = (self.ca(), self.text("access"), self.text(file));
        let words = ["fleet", "token", "--ca", &ca, "--access", &access, "--out", &out];
        self.ctl(&[&words[..], more].concat())
    }

    /// Certificates that are valid for so long.
    fn issue(&mut self, valid: &str) {
        let (ca, access) = (self.ca(), self.text("access"));
        let words = ["fleet", "issue", "--ca", &ca, "--access", &access, "--valid", valid];
        let mut command = Ctl::nowhere().command(&words);
        let log = fs::File::options().create(true).append(true).open(self.path("issuer.log")).expect("a log");
        command.stdout(log.try_clone().expect("a descriptor")).stderr(log);
        self.issuer =
            Some(kelson_tests::namespace::Guard(command.spawn().expect("kelsonctl can be executed")));
    }

    fn host(&self, name: &str, token: &str) -> HostBuilder {
        let (endpoint, ca, token) = (self.etcd.endpoint(), self.ca(), self.text(token));
        Host::builder()
            .machine(&format!("fleet: {{endpoints: ['{endpoint}'], ca: {ca}, join: {token}, name: {name}}}"))
    }

    /// What the store answers a client with the certificate of this host.
    fn as_host(&self, host: &Host, words: &[&str]) -> Result<String, String> {
        let own = host.path("lib/fleet/certificate.pem");
        self.etcd.ctl_as(&own, &own, words)
    }

    fn has(&self, key: &str) -> bool {
        self.etcd.keys(&format!("{PREFIX}/{key}")) == [format!("{PREFIX}/{key}")]
    }
}

fn status(host: &Host) -> serde_json::Value {
    host.ctl(&["fleet", "status", "-o", "json"]).json()
}

/// Until the host says so of its certificate.
fn says(host: &Host, words: &str) {
    eventually(&format!("the host to say {words}"), || {
        status(host)["certificateProblem"].as_str().is_some_and(|problem| problem.contains(words))
    });
}

#[test]
fn hosts_join_with_a_token_and_write_their_own_keys_alone() {
    let Some(mut fleet) = Fleet::start("fleet-join") else { return };
    let again = fleet.init().ok();
    assert!(
        again.stdout.starts_with("kept ") && again.stdout.ends_with("for its rights\n"),
        "{}",
        again.stdout
    );
    fleet.token("token", &["--host", "edge-*", "--services", "web,db-*", "--uses", "2"]).ok();
    let mut one = fleet
        .host("edge-1", "token")
        .runs_with("web", "serve", "register: {port: 80}")
        .runs_with("mail", "serve", "register: {port: 25}")
        .start();
    says(&one, "asks the issuer");
    fleet.issue("30d");
    eventually("the first host to be registered", || {
        fleet.has("hosts/edge-1") && fleet.has("services/web/edge-1/web")
    });
    // The name is not in the token; the others do not suffer.
    eventually("the host to say what it may not register", || {
        let list: serde_json::Value = one.ctl(&["registry", "-o", "json"]).json();
        let mail = list.as_array().into_iter().flatten().find(|one| one["service"] == "mail").cloned();
        mail.is_some_and(|mail| {
            mail["problem"].as_str().is_some_and(|why| why.contains("does not allow to register mail"))
        })
    });
    let mut two =
        fleet.host("edge-2", "token").runs_with("main", "serve", "register: {name: db-main}").start();
    eventually("the second host to be registered", || {
        fleet.has("hosts/edge-2") && fleet.has("services/db-main/edge-2/main")
    });
    let mut three = fleet.host("edge-3", "token").start();
    says(&three, "the token is used up");

    let connected = status(&one);
    assert!(
        connected["certificateUntil"].is_string() && connected["certificateProblem"].is_null(),
        "{connected}"
    );
    let own = one.path("lib/fleet/certificate.pem");
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(own).expect("a file").permissions());
    assert_eq!(mode & 0o777, 0o600);

    stolen_key(&fleet, &one);

    // Without its user the certificate is worth nothing, and all of the host is gone.
    let access = fleet.text("access");
    fleet.ctl(&["fleet", "remove", "--access", &access, "edge-1"]).ok();
    assert!(!fleet.has("hosts/edge-1") && !fleet.has("services/web/edge-1/web"));
    assert!(fleet.as_host(&one, &["get", "--prefix", "/kelson/v1/hosts/"]).is_err());
    // Also where the name has joined again meanwhile.
    fleet.token("next", &["--host", "edge-1", "--services", "web"]).ok();
    let mut new = fleet.host("edge-1", "next").start();
    eventually("the name to be registered again", || fleet.has("hosts/edge-1"));
    assert!(fleet.as_host(&one, &["get", "--prefix", "/kelson/v1/hosts/"]).is_err());
    assert!(fleet.as_host(&new, &["get", "--prefix", "/kelson/v1/hosts/"]).is_ok());
    for host in [&mut one, &mut two, &mut three, &mut new] {
        host.poweroff();
    }
}

/// What somebody can do who has the key of `edge-1`.
fn stolen_key(fleet: &Fleet, host: &Host) {
    let may = |words: &[&str]| fleet.as_host(host, words);
    // Read the registry, and lie about itself.
    assert!(may(&["get", "--prefix", "/kelson/v1/services/"]).expect("it may read").contains("db-main"));
    assert!(may(&["put", "/kelson/v1/services/web/edge-1/other", "{}"]).is_ok());
    assert!(may(&["del", "/kelson/v1/services/web/edge-1/other"]).is_ok());
    for denied in [
        &["put", "/kelson/v1/hosts/edge-2", "{}"][..],
        &["del", "/kelson/v1/hosts/edge-2"],
        &["put", "/kelson/v1/hosts/edge-11", "{}"],
        &["put", "/kelson/v1/services/db-main/edge-2/main", "{}"],
        &["put", "/kelson/v1/services/web/edge-2/web", "{}"],
        &["put", "/kelson/v1/plans/edge-2/first/0000", "{}"],
        // A name that its token does not allow.
        &["put", "/kelson/v1/services/mail/edge-1/mail", "{}"],
        &["del", "--prefix", "/kelson/v1/"],
        // Requests, answers and tokens, of others and of the issuer.
        &["get", "--prefix", "/kelson/v1/certificates/"],
        &["get", "--prefix", "/kelson/v1/certificates/requests/"],
        &["put", "/kelson/v1/certificates/requests/edge-2_0/edge-2", "{}"],
        &["put", "/kelson/v1/certificates/members/edge-1", "{}"],
        &["put", "/kelson/v1/certificates/tokens/_join_0", "{}"],
        &["get", "--prefix", "/"],
        &["put", "/other", "1"],
        &["user", "add", "thief", "--no-password"],
        &["role", "grant-permission", "edge-1", "readwrite", "/kelson/v1/hosts/edge-2"],
        &["auth", "disable"],
    ] {
        let refused = may(denied).expect_err(&denied.join(" "));
        assert!(refused.contains("permission denied"), "{denied:?}: {refused}");
    }
    // Its certificate signs nothing: etcd lets in no client that it has signed.
    let own = host.path("lib/fleet/certificate.pem");
    let text = fs::read_to_string(&own).expect("a file");
    let split = text.find("-----BEGIN PRIVATE").expect("a key");
    fs::write(fleet.path("thief.pem"), &text[..split]).expect("a file");
    fs::write(fleet.path("thief.key"), &text[split..]).expect("a file");
    let (ca, out) = (fleet.text("thief.pem"), fleet.text("made"));
    let refused =
        fleet.ctl(&["gen", "cert", "--ca", &ca, "--role", "os:admin", "--name", "root", "--out", &out]);
    assert!(refused.status != 0 && refused.stderr.contains("not of a CA"), "{}", refused.stderr);
}

#[test]
fn a_token_that_is_wrong_or_expired_is_named() {
    let Some(mut fleet) = Fleet::start("fleet-token") else { return };
    fleet.issue("30d");
    fleet.token("short", &["--host", "edge-1", "--for", "1s"]).ok();
    fleet.token("edge", &["--host", "edge-*", "--uses", "9"]).ok();
    fs::write(fleet.path("garbage"), "not a token").expect("a file");
    std::thread::sleep(Duration::from_secs(2));
    let mut late = fleet.host("edge-1", "short").runs("web", "serve").start();
    says(&late, "has expired; `kelsonctl fleet token` makes another");
    // Services do not wait for it.
    assert!(late.service("web").up);
    let mut wrong = fleet.host("edge-1", "garbage").start();
    says(&wrong, "is no token");
    let mut missing = fleet.host("edge-1", "none").start();
    says(&missing, "no such file or directory");
    let mut lab = fleet.host("lab-1", "edge").start();
    says(&lab, "the token lets in edge-*, and not lab-1");
    let mut first = fleet.host("edge-1", "edge").start();
    eventually("the first host to be registered", || fleet.has("hosts/edge-1"));
    let mut second = fleet.host("edge-1", "edge").start();
    says(&second, "the name edge-1 is taken");
    // A token of another CA.
    let other = Authority::new("fleet-stranger");
    let (mut text, token) = (String::new(), fs::read_to_string(fleet.path("edge")).expect("a token"));
    text.push_str(token.split("-----BEGIN").next().expect("lines"));
    for file in ["machine.pem", "machine.key"] {
        text.push_str(&fs::read_to_string(other.path(file)).expect("a file"));
    }
    fs::write(fleet.path("foreign"), text).expect("a file");
    let mut stranger = fleet.host("edge-4", "foreign").start();
    says(&stranger, "refuse the certificate");
    for host in [&mut late, &mut wrong, &mut missing, &mut lab, &mut first, &mut second, &mut stranger] {
        host.poweroff();
    }
}

#[test]
fn a_certificate_is_renewed_and_no_registration_changes() {
    let Some(mut fleet) = Fleet::start("fleet-renewal") else { return };
    fleet.issue("9s");
    fleet.token("token", &["--host", "edge-1", "--services", "web"]).ok();
    let mut host = fleet.host("edge-1", "token").runs_with("web", "serve", "register: {port: 80}").start();
    eventually("the service to be registered", || fleet.has("services/web/edge-1/web"));
    host.ctl(&["health", "--wait"]).ok();
    eventually("the facts to be in the store", || {
        fleet.etcd.value("/kelson/v1/hosts/edge-1").contains("\"architecture\"")
    });
    let revisions = || {
        ["hosts/edge-1", "services/web/edge-1/web"].map(|key| {
            let text = fleet.etcd.ctl(&["get", &format!("{PREFIX}/{key}"), "-w", "json"]);
            let answer: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            (answer["kvs"][0]["mod_revision"].clone(), answer["kvs"][0]["version"].clone())
        })
    };
    let (before, lease) = (revisions(), status(&host)["lease"].clone());
    let until = || status(&host)["certificateUntil"].clone();
    for _ in 0..2 {
        let last = until();
        eventually("the next certificate", || until() != last && until().is_string());
    }
    // The next connection comes with it.
    let helper = host.pid_of("fleet");
    host.kill(helper, libc::SIGKILL);
    host.wait_for("fleet", "another helper", |now| now.up && now.pid.is_some_and(|pid| pid != helper));
    eventually("the host to be connected again", || status(&host)["connected"] == true);
    assert_eq!((revisions(), status(&host)["lease"].clone()), (before.clone(), lease));
    // Without an issuer it says until when it is good, and goes on.
    fleet.issuer = None;
    says(&host, "the issuer of the fleet has not answered");
    assert!(until().is_string());
    host.poweroff();
}
