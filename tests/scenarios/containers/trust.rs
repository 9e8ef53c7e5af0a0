//! Which images may run: signatures by cosign and by minisign, and digests.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kelson_tests::{Authority, Host, HostBuilder, Image, Registry, Signer, archive, eventually};
use serde_json::Value;

use super::{RUNTIME, builder, runtime};

both!(t1_an_image_runs_with_a_signature_of_the_key_and_with_no_other);
both!(t2_an_archive_runs_as_it_was_signed_by_minisign);
both!(t3_a_rule_that_comes_later_holds_for_what_is_there);
both!(t4_an_image_is_updated_and_rolled_back_with_its_signatures);

const RESTART: &str = "restart: {policy: forever, delay: 10ms, maxDelay: 500ms}\n";

/// A registry, and a folder for keys.
struct Site {
    authority: Authority,
    registry: Registry,
    folder: tempfile::TempDir,
}

impl Site {
    fn new(test: &str) -> Site {
        let authority = Authority::new(&format!("{test}-{}", RUNTIME.get() as u8));
        let registry = Registry::start(Some(&authority));
        Site { authority, registry, folder: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes it the key of releases.
    fn install(&self, signer: &Signer) {
        fs::write(self.path("release.pem"), signer.public()).expect("the folder is writable");
    }

    fn sign(&self, signer: &Signer, digest: &str) {
        let signed = signer.sign(&format!("{}/app", self.registry.host), digest);
        self.registry.attach("app", digest, &[signed]);
    }

    /// With these rules.
    fn host(&self, rules: &str) -> HostBuilder {
        let ca = self.authority.path("ca.pem");
        builder().machine(&format!("registries: {{ca: {}}}\nimages: {{verify: [{rules}]}}\n", ca.display()))
    }

    /// Images of the registry need a signature by the key of releases, all others none.
    fn rules(&self) -> String {
        let (host, key) = (&self.registry.host, self.path("release.pem"));
        format!("{{match: '{host}/*', cosignKey: {}}}, {{accept: true}}", key.display())
    }

    fn service(&self, image: &str, more: &str) -> String {
        format!("container: {{{}image: '{}/{image}'{more}}}\n{RESTART}", runtime(), self.registry.host)
    }
}

fn image(text: &str) -> Image {
    Image::new("app:1", &[&format!("print={text}"), "serve"]).gzip()
}

/// The rows of `kelsonctl images` with this part in their names: signer and trouble.
fn rows(host: &Host, part: &str) -> Vec<(Option<String>, String)> {
    let images = host.ctl(&["-o", "json", "images"]).ok().json::<Vec<Value>>();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let named = images.iter().filter(|row| row["reference"].as_str().is_some_and(|name| name.contains(part)));
    named.map(|row| (text(&row["signer"]), text(&row["trouble"]).unwrap_or_default())).collect()
}

/// Waits until it does not run for this reason.
#[track_caller]
fn refused(host: &Host, name: &str, why: &str) {
    let service = host.wait_for(name, why, |service| service.message.contains(why));
    assert!(service.pid.is_none() && !service.up, "{service:?}");
}

/// Stops and starts it, which prepares it once more.
fn start_again(host: &Host, name: &str) {
    host.ctl(&["stop", name]).ok();
    host.wait_down(name);
    host.ctl(&["start", name]).ok();
}

fn t1_an_image_runs_with_a_signature_of_the_key_and_with_no_other() {
    let (site, signer, other) = (Site::new("trust-cosign"), Signer::default(), Signer::default());
    site.install(&signer);
    let digest = site.registry.push(&[image("pulled")]);
    site.sign(&other, &digest);
    let state = tempfile::tempdir().expect("a folder");
    let service = site.service("app:1", "");
    let mut host = site.host(&site.rules()).state(state.path()).service("app", &service).start();
    refused(&host, "app", "release.pem verifies none of its signatures");
    assert_eq!(rows(&host, "app").len(), 0);
    let blobs = fs::read_dir(state.path().join("registries/pulled/blobs/sha256"));
    assert_eq!(blobs.expect("a layout").count(), 0);
    site.sign(&signer, &digest);
    host.wait_up("app");
    host.wait_log("app", "pulled");
    assert_eq!(rows(&host, "app"), [(Some("release.pem".to_owned()), String::new())]);
    assert!(host.events_of("app").iter().any(|event| event.message.ends_with(", signed by release.pem")));
    let table = host.ctl(&["images"]).ok().stdout;
    assert!(table.contains("SIGNER") && table.contains("release.pem"), "{table}");

    // Another key, as it is at the next preparation: what was unpacked proves nothing.
    site.install(&other);
    start_again(&host, "app");
    refused(&host, "app", "may not run: release.pem verifies none of its signatures");
    let (signer_now, trouble) = rows(&host, "app").remove(0);
    assert!(signer_now.is_none() && trouble.contains("verifies none"), "{trouble}");
    // The image is signed again, and an update fetches that.
    site.sign(&other, &digest);
    host.ctl(&["images", "update", &format!("{}/app:1", site.registry.host)]).ok();
    host.wait_up("app");
    // A key that is none.
    fs::write(site.path("release.pem"), "no key").expect("the folder is writable");
    start_again(&host, "app");
    refused(&host, "app", "release.pem is none of ECDSA P-256");
    // The right key comes, and the service with it.
    site.install(&other);
    host.wait_up("app");
    host.poweroff();
}

fn minisign(folder: &Path, words: &[&str]) {
    let output = Command::new("minisign").args(words).current_dir(folder).output();
    let output = output.expect("minisign is installed (hack/deps)");
    assert!(output.status.success(), "{output:?}");
}

fn t2_an_archive_runs_as_it_was_signed_by_minisign() {
    let site = Site::new("trust-minisign");
    let folder = site.folder.path();
    for key in ["release", "other"] {
        minisign(folder, &["-G", "-W", "-p", &format!("{key}.pub"), "-s", &format!("{key}.key")]);
    }
    let rules = format!("{{match: app, minisignKey: {}}}", site.path("release.pub").display());
    let service = |image: &str| format!("container: {{{}image: '{image}'}}\n{RESTART}", runtime());
    let mut host = site
        .host(&rules)
        .archive("app.tar", archive(&[image("first")]))
        .archive("other.tar", archive(&[Image::new("other:1", &["serve"])]))
        .service("app", &service("app:1"))
        .service("other", &service("other:1"))
        .start();
    let file = host.path("images/app.tar").display().to_string();
    refused(&host, "app", "app.tar.minisig cannot be read");
    refused(&host, "other", "no rule of images.verify holds for it");
    // The signature comes, and the service with it.
    minisign(folder, &["-S", "-W", "-s", "release.key", "-m", &file]);
    host.wait_up("app");
    host.wait_log("app", "first");
    let signed = rows(&host, "app");
    assert_eq!(signed, [(Some("release.pub".to_owned()), String::new())]);
    assert!(rows(&host, "other")[0].1.contains("no rule"));
    let stderr = host.ctl(&["images"]).ok().stderr;
    assert!(!stderr.contains("minisig"), "a signature is no archive: {stderr}");
    // Another archive under the signature of this one, and a signature by another key.
    fs::write(&file, archive(&[image("second")])).expect("the test's folder is writable");
    start_again(&host, "app");
    refused(&host, "app", "the archive is not the one that was signed");
    minisign(folder, &["-S", "-W", "-s", "other.key", "-m", &file]);
    refused(&host, "app", "another key made it");
    minisign(folder, &["-S", "-W", "-s", "release.key", "-m", &file]);
    host.wait_up("app");
    host.wait_log("app", "second");
    host.poweroff();
}

fn t3_a_rule_that_comes_later_holds_for_what_is_there() {
    let (site, signer) = (Site::new("trust-later"), Signer::default());
    site.install(&signer);
    let digest = site.registry.push(&[image("pulled")]);
    let state = tempfile::tempdir().expect("a folder");
    let host = |rules: &str| {
        site.host(rules)
            .state(state.path())
            .service("app", &site.service("app:1", ""))
            .service("exact", &site.service(&format!("app@{digest}"), ""))
            .service("never", &site.service("app:1", ", pull: never"))
            .start()
    };
    let mut first = host("{accept: true}");
    first.wait_all_up(&["app", "exact"]);
    first.poweroff();

    // Digests alone.
    let mut second = host("{digestOnly: true}");
    second.wait_up("exact");
    for name in ["app", "never"] {
        refused(&second, name, "images.verify wants it by its digest");
    }
    assert_eq!(rows(&second, "app").iter().filter(|(_, trouble)| trouble.is_empty()).count(), 1);
    second.poweroff();

    // It was pulled without a signature: a start fetches that, unless nothing may be pulled.
    site.sign(&signer, &digest);
    site.registry.fault(|faults| faults.down = true);
    let mut third = host(&site.rules());
    refused(&third, "never", "was pulled without its signature");
    refused(&third, "app", "cannot be reached");
    site.registry.fault(|faults| faults.down = false);
    third.wait_all_up(&["app", "exact", "never"]);
    third.poweroff();

    // From then on it is here.
    site.registry.fault(|faults| faults.down = true);
    let mut fourth = host(&site.rules());
    fourth.wait_all_up(&["app", "exact", "never"]);
    fourth.poweroff();
}

fn t4_an_image_is_updated_and_rolled_back_with_its_signatures() {
    let (site, signer) = (Site::new("trust-update"), Signer::default());
    site.install(&signer);
    let first = site.registry.push(&[image("first")]);
    site.sign(&signer, &first);
    let mut host = site.host(&site.rules()).service("app", &site.service("app:1", "")).up(&["app"]);
    let name = format!("{}/app:1", site.registry.host);
    let second = site.registry.push(&[image("second")]);
    for words in [&["images", "update", &name][..], &["images", "update", &name, "--dry-run"]] {
        let refused = host.ctl(words);
        let why = "it has no signature by cosign, and release.pem has to verify one";
        assert!(refused.status != 0 && refused.stderr.contains(why), "{refused:?}");
    }
    assert_eq!(host.service("app").state, "running");
    site.sign(&signer, &second);
    host.ctl(&["images", "update", &name]).ok();
    host.wait_log("app", "second");
    // Back, without the registry.
    site.registry.fault(|faults| faults.down = true);
    host.write_service("app", &site.service(&format!("app@{first}"), ""));
    host.read_again();
    host.ctl(&["restart", "app", "--wait"]).ok();
    eventually("the first program to print last", || host.log_text("app").trim_end().ends_with("first"));
    let signed = (Some("release.pem".to_owned()), String::new());
    assert_eq!(rows(&host, "app"), [signed.clone(), signed]);
    host.poweroff();
}

#[test]
fn t5_no_image_runs_where_the_machine_file_cannot_be_read() {
    let state = tempfile::tempdir().expect("a folder");
    let app = format!("container: {{runtime: kelson, image: 'app:1'}}\n{RESTART}");
    let host = |machine: &str| {
        Host::builder()
            .without_containerd()
            .state(state.path())
            .machine(machine)
            .archive("app.tar", archive(&[image("first")]))
            .service("app", &app)
            .runs("beside", "hang")
            .start()
    };
    let broken = "images: {verify: [{accept: true}]\n";
    let mut sound = host("images: {verify: [{accept: true}]}\n");
    sound.wait_up("app");
    // The rules that the boot has read still hold.
    fs::write(sound.path("config/machine.yaml"), broken).expect("the test's folder is writable");
    assert_eq!(sound.ctl(&["reload"]).status, 1);
    start_again(&sound, "app");
    sound.wait_up("app");
    sound.poweroff();

    let mut host = host(broken);
    refused(
        &host,
        "app",
        "may not run: machine.yaml cannot be read, so nobody knows the rules of images.verify",
    );
    assert!(rows(&host, "app")[0].1.contains("machine.yaml cannot be read"));
    host.wait_up("beside");
    assert_eq!(host.processes_with("/program").len(), 0, "{:?}", host.processes());
    host.poweroff();
}
