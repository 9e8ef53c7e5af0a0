//! A CA of a test's own, whose certificates hold for seconds: `kelsonctl gen` makes none of less than a minute.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// The CA, and the folder with the files of the machine.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Authority {
    /// Makes the CA and the machine's certificate, for the loopback and the name `edge.test`, in a new folder of this name.
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        let own_key = key.serialize_pem();
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a CA");
        let folder = std::env::temp_dir().join(format!("kelson-authority-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the folder of temporary files is writable");
        let authority = Authority { issuer, folder };
        let machine = CertificateParams::new(["127.0.0.1", "edge.test"].map(str::to_owned)).expect("names");
        let (certificate, key) = authority.sign(machine);
        for (file, text) in [
            ("ca.pem", authority.ca()),
            ("ca.key", own_key),
            ("machine.pem", certificate),
            ("machine.key", key),
        ] {
            std::fs::write(authority.path(file), text).expect("the folder is writable");
        }
        authority
    }

    /// The certificate of the CA.
    pub fn ca(&self) -> String {
        self.issuer.pem()
    }

    /// One of `ca.pem`, `ca.key`, `machine.pem` and `machine.key`.
    pub fn path(&self, file: &str) -> PathBuf {
        self.folder.join(file)
    }

    /// A machine file with the door at a free port of the loopback, and more keys of `api`.
    pub fn machine(&self, more: &str) -> String {
        let file = |name| self.path(name).display().to_string();
        format!(
            "api: {{listen: ['127.0.0.1:0'], ca: {}, certificate: {}, key: {}{more}}}\n",
            file("ca.pem"),
            file("machine.pem"),
            file("machine.key")
        )
    }

    /// Writes a file of contexts with an administrator's keys, which hold for so long, for the door at this port.
    pub fn contexts(&self, port: u16, valid: Duration, file: &Path) {
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("no names");
        params.distinguished_name.push(DnType::OrganizationName, "os:admin");
        params.distinguished_name.push(DnType::CommonName, "ann");
        // It knows whole seconds.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs();
        let end = Duration::from_secs(now) + valid;
        params.not_after = rcgen::date_time_ymd(1970, 1, 1) + end;
        let (certificate, key) = self.sign(params);
        let block = |pem: String| pem.lines().map(|line| format!("      {line}\n")).collect::<String>();
        let text = format!(
            "current: it\ncontexts:\n  it:\n    endpoint: '127.0.0.1:{port}'\n    ca: {}\n    certificate: |\n{}    key: |\n{}",
            self.path("ca.pem").display(),
            block(certificate),
            block(key)
        );
        std::fs::write(file, text).expect("the test's folder is writable");
    }

    fn sign(&self, params: CertificateParams) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
