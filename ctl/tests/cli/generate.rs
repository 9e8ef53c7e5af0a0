//! `gen`: a whole PKI, judged by openssl and by TLS.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

use crate::fake::serve_tls;
use crate::samples::Folder;
use crate::transcript::transcript;
use crate::{Done, ENVIRONMENT, done, kelsonctl, two};

/// A folder in which `kelsonctl` runs; it goes away at the end.
pub struct Place(pub Folder);

impl Place {
    pub fn new() -> Place {
        Place(Folder::new())
    }

    /// The program with these words, here; a word in quotes may have spaces.
    pub fn run(&self, words: &str) -> Done {
        let script = format!("umask 0; exec {} {words}", env!("CARGO_BIN_EXE_kelsonctl"));
        let mut shell = Command::new("sh");
        for name in ENVIRONMENT.split(' ') {
            shell.env_remove(name);
        }
        done(shell.args(["-c", &script]).current_dir(&self.0).output().unwrap())
    }

    /// The same, which must do what it is asked; what it prints.
    pub fn ok(&self, words: &str) -> String {
        self.run(words).silent(0).out
    }

    /// The same, which must fail; what it says.
    pub fn fails(&self, words: &str, status: i32) -> String {
        self.run(words).refused(status).err
    }

    /// [`transcript`] of calls here.
    #[track_caller]
    pub fn transcript(&self, name: &str) {
        transcript(name, &self.0, |words| (self.run(words), Vec::new()));
    }

    pub fn json(&self, words: &str) -> serde_json::Value {
        serde_json::from_str(&self.ok(&format!("-o json {words}"))).unwrap()
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    pub fn mode(&self, name: &str) -> u32 {
        std::fs::symlink_metadata(self.0.join(name)).unwrap().mode() & 0o777
    }

    /// The names of what lies in a folder of this one.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.join(folder)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// openssl with these words, here.
    fn openssl(&self, words: &str) -> Done {
        let script = format!("exec openssl {words}");
        done(Command::new("sh").args(["-c", &script]).current_dir(&self.0).output().unwrap())
    }

    /// Whether a certificate serves this purpose, in the eyes of openssl.
    fn verify(&self, purpose: &str, ca: &str, certificate: &str) -> bool {
        let words = format!("verify -x509_strict -purpose {purpose} -CAfile {ca} {certificate}");
        self.openssl(&words).status == 0
    }

    fn text(&self, certificate: &str) -> String {
        self.openssl(&format!("x509 -in {certificate} -noout -text")).out
    }

    /// A machine with a certificate of this PKI: its port.
    fn machine(&self, ca: &str, name: &str) -> u16 {
        let identity =
            Identity::from_pem(self.read(&format!("{name}.pem")), self.read(&format!("{name}.key")));
        let roots = Certificate::from_pem(self.read(ca));
        serve_tls(two(), ServerTlsConfig::new().identity(identity).client_ca_root(roots))
    }
}

#[test]
fn a_machine_and_a_client_of_one_pki_talk() {
    for (algorithm, kind) in [("p256", "prime256v1"), ("ed25519", "ED25519")] {
        let place = Place::new();
        place.ok(&format!("gen ca --out pki --algorithm {algorithm}"));
        place.ok(&format!(
            "gen cert --ca pki --out pki --server --host 127.0.0.1 edge-1 --algorithm {algorithm}"
        ));
        assert_eq!(place.names("pki"), ["127.0.0.1.key", "127.0.0.1.pem", "ca.key", "ca.pem"]);
        let port = place.machine("pki/ca.pem", "pki/127.0.0.1");
        let told =
            place.ok(&format!("gen config --ca pki -e 127.0.0.1:{port} --algorithm {algorithm} --name ann"));
        assert!(
            told.starts_with("wrote kelsonconfig: the context \"127.0.0.1\" of \"ann\" as os:admin"),
            "{told}"
        );
        let (_, export) = told.split_once("use it by: export ").unwrap();
        let (export, _) = export.split_once(", or: kelsonctl config merge ").unwrap();
        let (config, path) = export.trim_end().split_once('=').unwrap();
        let output = kelsonctl().env(config, path.trim_matches('\'')).arg("version").output().unwrap();
        let version = done(output);
        assert_eq!((version.status, version.err.as_str()), (0, ""), "{algorithm}");
        assert!(version.out.contains("kelson     9.8.7 "), "{version:?}");
        for certificate in ["pki/ca.pem", "pki/127.0.0.1.pem"] {
            assert!(place.text(certificate).contains(kind), "{algorithm}: {}", place.text(certificate));
        }
        assert_eq!(place.mode("kelsonconfig"), 0o600);
    }
}

#[test]
fn openssl_finds_each_certificate_good_for_its_purpose_alone() {
    let place = Place::new();
    place.ok("gen ca --name 'Harbour CA'");
    place.ok("gen cert --ca . --server --host 192.0.2.7 2001:db8::7 --host edge-1.example --name edge-1");
    place.ok("gen cert --ca ca.pem --role os:operator --name 'Ann Smith'");
    let client = "'Ann Smith.pem'";
    assert!(place.verify("sslclient", "ca.pem", client) && place.verify("sslserver", "ca.pem", "edge-1.pem"));
    assert!(
        !place.verify("sslserver", "ca.pem", client) && !place.verify("sslclient", "ca.pem", "edge-1.pem")
    );
    let text = place.text(client);
    for part in ["Issuer: CN = Harbour CA", "Subject: O = os:operator, CN = Ann Smith", "CA:FALSE"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = place.text("edge-1.pem");
    let hosts = "IP Address:192.0.2.7, IP Address:2001:DB8:0:0:0:0:0:7, DNS:edge-1.example";
    assert!(text.contains(hosts) && text.contains("Subject: CN = edge-1\n"), "{text}");
    assert!(place.text("ca.pem").contains("CA:TRUE, pathlen:0"));
    // Nothing but the key's own user may read it, whatever the umask says.
    for (name, mode) in [("ca.pem", 0o644), ("ca.key", 0o600), ("edge-1.pem", 0o644), ("edge-1.key", 0o600)] {
        assert_eq!(place.mode(name), mode, "{name}");
    }
    assert_eq!(place.names("").len(), 6, "nothing else is left: {:?}", place.names(""));
    // Each holds as long as it says.
    for (name, days) in [("ca.pem", 3650), ("edge-1.pem", 365), (client, 30)] {
        let ends = |days: u32| {
            place.openssl(&format!("x509 -in {name} -noout -checkend {}", days * 86_400)).status == 1
        };
        assert!(!ends(days - 1) && ends(days), "{name}");
    }
}

#[test]
fn nothing_is_overwritten_unasked() {
    let place = Place::new();
    place.ok("gen ca");
    place.ok("gen cert --ca . --role os:reader");
    let before = ["ca.pem", "ca.key", "reader.pem", "reader.key"].map(|name| place.read(name));
    for words in ["gen ca", "gen cert --ca . --role os:reader"] {
        let said = place.fails(words, 1);
        assert!(said.contains("is there already and is not overwritten"), "{said}");
    }
    let said = place.fails("gen cert --ca . --role os:admin --name ca --force", 2);
    assert!(said.contains("ca.pem is the CA's own and is not overwritten"), "{said}");
    std::fs::remove_file(place.0.join("reader.key")).unwrap();
    let said = place.fails("gen cert --ca . --role os:reader", 1);
    assert!(said.contains("reader.pem is there already"), "{said}");
    assert_eq!(place.names(""), ["ca.key", "ca.pem", "reader.pem"], "both, or none");
    assert_eq!(place.read("reader.pem"), before[2]);
    place.ok("gen cert --ca . --role os:reader --force");
    assert!(place.verify("sslclient", "ca.pem", "reader.pem"));
    assert_ne!(place.read("reader.pem"), before[2]);
    assert_eq!((place.read("ca.pem"), place.read("ca.key")), (before[0].clone(), before[1].clone()));
    let said = place.fails("gen ca --out ca.pem", 1);
    assert!(said.contains("cannot make the folder ca.pem"), "{said}");
}

#[test]
fn a_ca_of_another_program_signs_too() {
    let place = Place::new();
    for (name, key) in
        [("p384", "ec -pkeyopt ec_paramgen_curve:P-384"), ("rsa", "rsa:2048"), ("ed", "ed25519")]
    {
        let made = place.openssl(&format!(
            "req -x509 -newkey {key} -nodes -days 9 -keyout {name}.key -out {name}.pem \
             -subj '/C=IS/O=Harbour/OU=Cranes/emailAddress=ca@example.com/CN=Old CA' \
             -addext basicConstraints=critical,CA:true -addext keyUsage=critical,keyCertSign"
        ));
        assert_eq!(made.status, 0, "{made:?}");
        let words = format!("gen cert --ca {name}.pem --role os:admin --name of-{name}");
        let done = place.run(&words);
        assert_eq!(done.status, 0, "{done:?}");
        // Its thirty days would be longer than those of the CA.
        assert!(done.err.contains("the certificate ends with it"), "{done:?}");
        assert!(place.verify("sslclient", &format!("{name}.pem"), &format!("of-{name}.pem")), "{name}");
        let end = |name: &str| place.openssl(&format!("x509 -in {name}.pem -noout -enddate")).out;
        assert_eq!(end(name), end(&format!("of-{name}")));
    }
    // Key and certificate in other files; the certificate's own has a key in it that is nobody's business.
    place.write("both.pem", &(place.read("rsa.key") + &place.read("rsa.pem")));
    place.run("gen config --ca both.pem --ca-key rsa.key -e h:1 --out config");
    let config = place.read("config");
    assert_eq!(config.matches("PRIVATE KEY-----").count(), 2, "{config}");
    place.run("gen cert --ca both.pem --ca-key both.pem --role os:reader");
    assert!(place.verify("sslclient", "rsa.pem", "reader.pem"));
}

/// A certificate with this change, and its key.
fn made(place: &Place, name: &str, change: impl FnOnce(&mut CertificateParams)) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    place.write(&format!("{name}.pem"), &params.self_signed(&key).unwrap().pem());
    place.write(&format!("{name}.key"), &key.serialize_pem());
}

#[test]
fn a_ca_that_cannot_sign_is_refused_with_its_reason() {
    let place = Place::new();
    made(&place, "good", |_| {});
    made(&place, "leaf", |params| params.is_ca = IsCa::ExplicitNoCa);
    made(&place, "old", |params| params.not_after = rcgen::date_time_ymd(2001, 2, 3));
    made(&place, "other", |_| {});
    made(&place, "keyless", |_| {});
    std::fs::remove_file(place.0.join("keyless.key")).unwrap();
    place.write("locked.pem", &place.read("good.pem"));
    let locked = "pkcs8 -topk8 -in good.key -passout pass:secret -out locked.key";
    assert_eq!(place.openssl(locked).status, 0);
    let twice = "req -x509 -newkey ed25519 -nodes -keyout twice.key -out twice.pem -subj /DC=a/DC=b/CN=c";
    assert_eq!(place.openssl(twice).status, 0);
    place.write("none.pem", "no certificate\n");
    place.write("none.key", "no key\n");
    for (words, said) in [
        ("leaf.pem", "leaf.pem: it is the certificate of somebody, not of a CA"),
        ("old.pem", "old.pem: the CA has expired on 2001-02-03T00:00:00.000Z"),
        ("good.pem --ca-key other.key", "the key in other.key is not that of the certificate in good.pem"),
        ("keyless.pem", "cannot read the CA's key keyless.key: No such file"),
        ("locked.pem", "locked.key: it holds no key that can sign"),
        ("good.pem --ca-key none.key", "none.key: it holds no key that can sign"),
        ("none.pem", "none.pem: it holds no certificate"),
        ("twice.pem", "twice.pem: the CA's subject has a form that cannot be written again"),
        (".", "cannot read the CA's certificate ./ca.pem: No such file"),
    ] {
        for words in
            [format!("gen cert --ca {words} --role os:admin"), format!("gen config --ca {words} -e h:1")]
        {
            let err = place.fails(&words, 1);
            assert!(err.starts_with(&format!("kelsonctl: {said}")), "{words}: {err}");
        }
    }
    assert!(!place.0.join("admin.key").exists() && !place.0.join("kelsonconfig").exists());
}

#[test]
fn a_context_joins_those_that_are_there() {
    let place = Place::new();
    place.ok("gen ca");
    place.write("config", "contexts:\n  here: {endpoint: 'unix:///k.sock'}\n");
    let at =
        |path: &Path| std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o644));
    at(&place.0.join("config")).unwrap();
    let gen_config = "gen config --ca . --endpoint 192.0.2.7:50000 --out config";
    let made = place.json(&format!("{gen_config} --context edge-1 --role os:reader --valid 2h"));
    assert_eq!(
        (&made["files"][0], &made["context"], &made["role"], &made["commonName"]),
        (&"config".into(), &"edge-1".into(), &"os:reader".into(), &"reader".into())
    );
    assert_eq!(place.mode("config"), 0o600, "there is a key in it now");
    let before = place.read("config");
    assert!(before.starts_with("current: edge-1\n") && before.contains("unix:///k.sock"), "{before}");
    let said = place.fails(&format!("{gen_config} --context edge-1"), 1);
    assert!(said.contains("config has a context \"edge-1\" already"), "{said}");
    assert_eq!(place.read("config"), before);
    place.ok(&format!("{gen_config} --context edge-1 --force"));
    let told = place.ok(gen_config);
    assert!(told.ends_with("make it the current one by: kelsonctl config use '192.0.2.7'\n"), "{told}");
    let roles: Vec<_> = place.json("config contexts --file config").as_array().unwrap().clone();
    let roles: Vec<_> = roles.iter().map(|context| (&context["name"], &context["role"])).collect();
    assert_eq!(
        roles,
        [
            (&"192.0.2.7".into(), &"os:admin".into()),
            (&"edge-1".into(), &"os:admin".into()),
            (&"here".into(), &serde_json::Value::Null)
        ]
    );
    for (words, status, said) in [
        (
            "gen config --ca . --out config",
            2,
            "give the machine that the context is for: --endpoint HOST:PORT",
        ),
        ("gen config --ca . -e unix:///k.sock --out config", 2, "is a socket, which needs no certificate"),
        ("gen config --ca . -e edge: --out config", 2, "\"edge:\" is no endpoint: the port must be a number"),
        ("gen config --ca . -e h:1 --out ca.key", 2, "ca.key:"),
        ("gen config --ca . -e h:1 --out no/config", 1, "cannot write no/config: No such file"),
    ] {
        let err = place.fails(words, status);
        assert!(err.contains(said), "{words}: {err}");
    }
}

#[test]
fn an_expired_certificate_is_told_as_such() {
    let place = Place::new();
    place.ok("gen ca");
    place.ok("gen cert --ca . --server --host 127.0.0.1");
    let port = place.machine("ca.pem", "127.0.0.1");
    place.ok(&format!("gen config --ca . -e 127.0.0.1:{port} --context edge --out config"));
    place.ok(&format!("gen config --ca . -e 127.0.0.1:{port} --context gone --out config"));
    // Certificates of `gen` have not expired, so another hand signs with the CA's key.
    let key = KeyPair::from_pem(&place.read("ca.key")).unwrap();
    let mut ca = CertificateParams::default();
    ca.distinguished_name = rcgen::DistinguishedName::new();
    ca.distinguished_name.push(DnType::CommonName, "kelson-ca");
    let mut params = CertificateParams::default();
    (params.not_before, params.not_after) =
        (rcgen::date_time_ymd(2001, 1, 1), rcgen::date_time_ymd(2001, 2, 3));
    params.distinguished_name.push(DnType::OrganizationName, "os:admin");
    let own = KeyPair::generate().unwrap();
    let old = params.signed_by(&own, &rcgen::Issuer::new(ca, key)).unwrap();
    place.write("old.pem", &old.pem());
    place.write("old.key", &own.serialize_pem());
    place.ok(&format!(
        "config add gone --force -e 127.0.0.1:{port} --ca ca.pem --certificate old.pem --key old.key --file config"
    ));
    let call = |context: &str| {
        let mut command = kelsonctl();
        command.env("KELSONCONFIG", place.0.join("config")).args(["--context", context, "version"]);
        done(command.output().unwrap())
    };
    assert_eq!(call("edge").status, 0);
    let gone = call("gone");
    assert_eq!(
        (gone.status, gone.err.as_str()),
        (
            4,
            "kelsonctl: the machine refuses our certificate: it has expired, or a clock is wrong; `kelsonctl config \
             contexts` tells until when it holds, and `kelsonctl gen config` makes a new one\n"
        )
    );
    let listed = place.json("config contexts --file config");
    assert_eq!(
        (&listed[0]["trouble"], &listed[1]["until"]),
        (&serde_json::Value::Null, &"2001-02-03T00:00:00.000Z".into())
    );
    assert!(listed[1]["trouble"].as_str().unwrap().starts_with("its certificate has expired"), "{listed}");
    let table = place.ok("config contexts --file config");
    assert!(table.lines().any(|line| line.contains("gone") && line.contains(" ago ")), "{table}");
}
