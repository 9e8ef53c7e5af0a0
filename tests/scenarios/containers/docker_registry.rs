//! Images from Debian's docker-registry, with TLS and a password that is a secret of the host.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command};

use kelson_tests::image::hex_digest;
use kelson_tests::signer::{self, Signed};
use kelson_tests::{Authority, Image, PATIENCE, Signer, archive, free_port, until};

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

/// Pushes what `from` means to skopeo under this name. Returns its digest.
fn push(folder: &Path, registry: &Served, authority: &Authority, from: &str, name: &str) -> String {
    let certificates = folder.join("certificates");
    fs::create_dir_all(&certificates).expect("the test's folder has room");
    fs::copy(authority.path("ca.pem"), certificates.join("ca.crt")).expect("the test's folder has room");
    let output = Command::new("skopeo")
        .args(["--insecure-policy", "copy", "--dest-creds", "ann:secret", "--dest-cert-dir"])
        .args([
            &certificates.display().to_string(),
            "--digestfile",
            &folder.join("digest").display().to_string(),
        ])
        .args([from, &format!("docker://{}/{name}", registry.host)])
        .output()
        .expect("skopeo is installed (hack/deps)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read_to_string(folder.join("digest")).expect("skopeo has written it")
}

/// Pushes an image as `app:1`.
fn push_image(folder: &Path, registry: &Served, authority: &Authority, image: Image) -> String {
    let file = folder.join("app.tar");
    fs::write(&file, archive(&[image])).expect("the test's folder has room");
    push(folder, registry, authority, &format!("oci-archive:{}", file.display()), "app:1")
}

/// Pushes a signature of an image as cosign does, from a layout.
fn push_signature(folder: &Path, registry: &Served, authority: &Authority, digest: &str, signed: Signed) {
    let (manifest, blobs) = signer::parts(&[signed]);
    let layout = folder.join("signature");
    let folder_of_blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&folder_of_blobs).expect("the test's folder has room");
    let write = |path: &Path, bytes: &[u8]| fs::write(path, bytes).expect("the test's folder has room");
    let (tag, hex) = (signer::tag(digest), hex_digest(&manifest));
    write(&folder_of_blobs.join(&hex), &manifest);
    for (digest, bytes) in &blobs {
        write(&folder_of_blobs.join(digest.trim_start_matches("sha256:")), bytes);
    }
    let index = serde_json::json!({"schemaVersion": 2, "manifests": [{
        "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": format!("sha256:{hex}"),
        "size": manifest.len(), "annotations": {"org.opencontainers.image.ref.name": tag},
    }]});
    write(&layout.join("index.json"), index.to_string().as_bytes());
    write(&layout.join("oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#);
    let from = format!("oci:{}:{tag}", layout.display());
    push(folder, registry, authority, &from, &format!("app:{tag}"));
}

fn i1_an_image_of_docker_registry_is_pulled_with_a_password_that_is_a_secret() {
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Authority::new(&format!("docker-registry-{}", RUNTIME.get() as u8));
    let registry = serve(folder.path(), &authority);
    let image = Image::new("app:1", &["print=pulled", "serve"]).gzip();
    let digest = push_image(folder.path(), &registry, &authority, image);
    let (signer, key) = (Signer::default(), folder.path().join("release.pem"));
    fs::write(&key, signer.public()).expect("the test's folder has room");
    let (ca, key) = (authority.path("ca.pem"), key.display());
    let rules = format!("images: {{verify: [{{match: '{}/*', cosignKey: {key}}}]}}\n", registry.host);
    let mut host = builder()
        .machine(&format!("registries: {{ca: {}, secret: registries}}\n{rules}", ca.display()))
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
    let unsigned = "it has no signature by cosign";
    host.wait_for("app", unsigned, |service| service.message.contains(unsigned));
    let signed = signer.sign(&format!("{}/app", registry.host), &digest);
    push_signature(folder.path(), &registry, &authority, &digest, signed);
    host.wait_up("app");
    host.wait_log("app", "pulled");
    host.poweroff();
}
