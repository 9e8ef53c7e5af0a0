//! Images from Debian's docker-registry, with TLS and a password that is a secret of the host.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command};

use kelson_tests::{Authority, Image, PATIENCE, archive, free_port, until};

use super::{RUNTIME, builder, runtime};

both!(i1_an_image_of_docker_registry_is_pulled_with_a_password_that_is_a_secret);

/// The password `secret` of `ann`, by bcrypt, as docker-registry wants it.
const PASSWORDS: &str = "ann:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";
/// The same, as `docker login` writes it.
const BASIC: &str = "YW5uOnNlY3JldA==";

/// A docker-registry of its own, until it is dropped.
struct Served {
    host: String,
    process: Child,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn serve(folder: &Path, authority: &Authority) -> Served {
    let port = free_port();
    let host = format!("127.0.0.1:{port}");
    let passwords = folder.join("passwords");
    fs::write(&passwords, PASSWORDS).expect("the test's folder has room");
    let config = format!(
        "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
         http: {{addr: '{host}', tls: {{certificate: {}, key: {}}}}}\nauth: {{htpasswd: {{realm: test, path: {}}}}}\n",
        folder.join("registry").display(),
        authority.path("machine.pem").display(),
        authority.path("machine.key").display(),
        passwords.display()
    );
    let file = folder.join("registry.yml");
    fs::write(&file, config).expect("the test's folder has room");
    let process = Command::new("docker-registry").arg("serve").arg(&file).spawn();
    let served = Served { host, process: process.expect("docker-registry is installed (hack/deps)") };
    until("docker-registry to listen", PATIENCE, || TcpStream::connect(&served.host).ok().map(drop));
    served
}

/// Pushes an image as `app:1`.
fn push(folder: &Path, registry: &Served, authority: &Authority, image: Image) {
    let file = folder.join("app.tar");
    fs::write(&file, archive(&[image])).expect("the test's folder has room");
    let certificates = folder.join("certificates");
    fs::create_dir_all(&certificates).expect("the test's folder has room");
    fs::copy(authority.path("ca.pem"), certificates.join("ca.crt")).expect("the test's folder has room");
    let output = Command::new("skopeo")
        .args(["--insecure-policy", "copy", "--dest-creds", "ann:secret", "--dest-cert-dir"])
        .args([&certificates.display().to_string(), &format!("oci-archive:{}", file.display())])
        .arg(format!("docker://{}/app:1", registry.host))
        .output()
        .expect("skopeo is installed (hack/deps)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn i1_an_image_of_docker_registry_is_pulled_with_a_password_that_is_a_secret() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(&format!("docker-registry-{}", RUNTIME.get() as u8));
    let registry = serve(folder.path(), &authority);
    push(folder.path(), &registry, &authority, Image::new("app:1", &["print=pulled", "serve"]).gzip());
    let ca = authority.path("ca.pem");
    let mut host = builder()
        .machine(&format!("registries: {{ca: {}, secret: registries}}\n", ca.display()))
        .service("app", &format!("container: {{{}image: '{}/app:1'}}\n", runtime(), registry.host))
        .start();
    host.wait_state("app", "backoff");
    let message = host.service("app").message;
    assert!(
        message.contains("registries.secret of the machine file: there is no secret registries"),
        "{message}"
    );
    let auth = folder.path().join("auth.json");
    fs::write(&auth, format!("{{\"auths\":{{\"{}\":{{\"auth\":\"{BASIC}\"}}}}}}", registry.host))
        .expect("the test's folder has room");
    host.ctl(&["secret", "set", "registries", &auth.display().to_string()]).ok();
    host.wait_up("app");
    host.wait_log("app", "pulled");
    host.poweroff();
}
