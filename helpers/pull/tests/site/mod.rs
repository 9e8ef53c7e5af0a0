//! A folder of pulled images, a registry, and the process between them.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kelson_helper::{BoxFuture, CONTROL, Launched, Launcher, Start};
use kelson_image::{Digest, News, Pruned, Pulled, Puller, PullerOptions};
use kelson_spec::registries::RegistriesSpec;
use kelson_spec::sources::SourceKind;
use kelson_spec::verify::{Demand, VerifyRule};
use kelson_tests::child::{self, Child};
use kelson_tests::image::{hex_digest, noise};
use kelson_tests::signer::Signed;
use kelson_tests::{Authority, Image, Registry, Signer, Tar};
use kelson_unpack::archive::{Archive, Catalog, Platform};

/// How the test's own file knows that it is to be `kelson-pull`.
pub const ITSELF: &str = "KELSON_TEST_PULL";
/// `ann:secret`.
pub const BASIC: &str = "Basic YW5uOnNlY3JldA==";

pub struct Site {
    pub authority: Arc<Authority>,
    pub registry: Registry,
    pub registries: RegistriesSpec,
    pub keep: Option<Vec<String>>,
    pub verify: Vec<VerifyRule>,
    folder: tempfile::TempDir,
    notes: Arc<Mutex<Vec<String>>>,
}

/// A small image.
pub fn image(name: &str) -> Image {
    of_size(name, 50_000)
}

/// An image of 3 MiB.
pub fn big(name: &str) -> Image {
    of_size(name, 3 << 20)
}

pub fn of_size(name: &str, size: usize) -> Image {
    // Each has other bytes.
    let mut bytes = noise(size);
    bytes.extend_from_slice(name.as_bytes());
    Image::without_layers(name, &["serve"]).layer(Tar::new().file("file", 0o644, &bytes))
}

struct Itself;

impl Launcher for Itself {
    fn launch(&self, mut start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        let (report, question) = (start.take(CONTROL).unwrap(), start.take(0).unwrap());
        Box::pin(async move {
            let mut command = Command::new("/proc/self/exe");
            command.args(["the_process_itself", "--exact", "--nocapture", "--test-threads=1"]);
            command.env(ITSELF, "1");
            let (exited, exit) = tokio::sync::oneshot::channel();
            let ended = move |how| {
                let _ = exited.send(how);
            };
            let before = move || Ok(nix::unistd::dup2_stdin(&question)?);
            let Child { pid, kill } = child::start(command, report, before, ended)?;
            Ok(Launched { pid, start_time: 0, exit: Box::pin(async move { exit.await.unwrap() }), kill })
        })
    }
}

impl Site {
    pub fn new() -> Site {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().file_name().unwrap().to_string_lossy().into_owned();
        let authority = Arc::new(Authority::new(&name));
        let registry = Registry::start(Some(&authority));
        let registries = RegistriesSpec { ca: Some(authority.path("ca.pem")), ..RegistriesSpec::default() };
        Site {
            authority,
            registry,
            registries,
            keep: None,
            verify: Vec::new(),
            folder,
            notes: Arc::default(),
        }
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("registries")
    }

    fn puller(&self) -> Puller {
        let options = PullerOptions {
            registries: self.registries.clone(),
            state_dir: self.folder.path().to_owned(),
            runtime_dir: self.folder.path().join("run"),
            verify: self.verify.clone(),
        };
        Puller::new(Arc::new(Itself), options)
    }

    fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { tokio::time::timeout(limit, work).await.ok() })
    }

    /// Pulls an image of the registry.
    pub fn pull(&self, name: &str) -> Result<Pulled, String> {
        self.pull_from(&self.registry, name)
    }

    pub fn pull_from(&self, registry: &Registry, name: &str) -> Result<Pulled, String> {
        self.pull_name(&format!("{}/{name}", registry.host))
    }

    pub fn pull_name(&self, name: &str) -> Result<Pulled, String> {
        self.ask(name, false)
    }

    /// What a pull of an image of the registry would bring.
    pub fn look(&self, name: &str) -> Result<Pulled, String> {
        self.ask(&format!("{}/{name}", self.registry.host), true)
    }

    fn ask(&self, name: &str, dry_run: bool) -> Result<Pulled, String> {
        let puller = self.puller();
        let notes = Arc::clone(&self.notes);
        let on_news = move |news| {
            if let News::Note(note) = news {
                notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
            }
        };
        let pulled =
            self.within(Duration::from_secs(120), puller.pull(name, dry_run, self.keep.clone(), on_news));
        pulled.expect("it ends in time").map_err(|failure| failure.text)
    }

    /// Begins a pull and kills the process after this time.
    pub fn pull_and_kill(&self, name: &str, after: Duration) {
        let (puller, name) = (self.puller(), format!("{}/{name}", self.registry.host));
        let _ = self.within(after, puller.pull(&name, false, None, |_| {}));
    }

    pub fn prune(&self, dry_run: bool) -> Vec<Pruned> {
        let puller = self.puller();
        let keep = self.keep.clone().unwrap();
        self.within(Duration::from_secs(60), puller.prune(keep, dry_run)).unwrap().unwrap()
    }

    pub fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap().clone()
    }

    /// Names a file with the password.
    pub fn credentials(&mut self) {
        let path = self.folder.path().join("auth.json");
        fs::write(&path, self.login()).unwrap();
        self.registries.credentials = Some(path);
    }

    /// Wants a signature by this key for all images.
    pub fn wants(&mut self, signer: &Signer) {
        let path = self.folder.path().join("release.pem");
        fs::write(&path, signer.public()).unwrap();
        self.verify = vec![VerifyRule { pattern: None, demand: Demand::CosignKey(path), signed_as: None }];
    }

    /// Signs the image `app` of a registry.
    pub fn signed(&self, signer: &Signer, digest: &str) -> Signed {
        signer.sign(&format!("{}/app", self.registry.host), digest)
    }

    /// Has a source give a secret with the password.
    pub fn give_secret(&self, name: &str) {
        let sources = self.folder.path().join("run").join(kelson_spec::sources::FOLDER);
        let folder = kelson_spec::secrets::source_folder(&sources, SourceKind::Credentials);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(name), self.login()).unwrap();
    }

    fn login(&self) -> String {
        let auth = BASIC.strip_prefix("Basic ").unwrap();
        format!("{{\"auths\":{{\"{}\":{{\"auth\":\"{auth}\"}}}}}}", self.registry.host)
    }

    /// The images as `kelson-unpack` sees them: their names, and what is wrong with each.
    pub fn scan(&self) -> Vec<(String, Option<String>)> {
        let catalog = Catalog::open(&self.folder.path().join("catalog"));
        let scan = catalog.scan(&[self.store()], &Platform::host());
        assert!(scan.notes.is_empty(), "{:?}", scan.notes);
        let images = scan.images.into_iter();
        images
            .flat_map(|image| {
                image.references.into_iter().map(move |name| (name.to_string(), image.trouble.clone()))
            })
            .collect()
    }

    /// The names of the images, all of which are sound.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .scan()
            .into_iter()
            .map(|(name, trouble)| {
                assert_eq!(trouble, None, "{name}");
                name
            })
            .collect();
        names.sort();
        names
    }

    /// No part of an image stands around, and each blob has the name of its content.
    pub fn nothing_left_over(&self) {
        assert_eq!(fs::read_dir(self.store().join(".partial")).unwrap().count(), 0);
        let index = fs::read(self.store().join("pulled/index.json")).unwrap_or_default();
        for blob in fs::read_dir(self.store().join("pulled/blobs/sha256")).unwrap() {
            let blob = blob.unwrap();
            assert!(!index.is_empty(), "{blob:?} belongs to no image");
            assert_eq!(blob.file_name().to_str().unwrap(), hex_digest(&fs::read(blob.path()).unwrap()));
        }
    }

    /// How many signatures are kept beside the image of this digest.
    pub fn signatures(&self, digest: &str) -> usize {
        let archive = Archive::open(&self.store().join("pulled")).unwrap();
        archive.signatures(Digest::parse(digest).unwrap()).unwrap().len()
    }

    /// How many blobs there are.
    pub fn blobs(&self) -> usize {
        fs::read_dir(self.store().join("pulled/blobs/sha256")).map_or(0, Iterator::count)
    }

    /// Leaves this as what has arrived of the blob with these bytes.
    pub fn leave_part(&self, whole: &[u8], part: &[u8]) {
        self.pull("nothing:1").unwrap_err();
        let path = self.store().join(".partial").join(hex_digest(whole));
        fs::write(&path, part).unwrap();
        let owner = fs::metadata(self.store()).unwrap();
        std::os::unix::fs::chown(path, Some(owner.uid()), Some(owner.gid())).unwrap();
    }

    /// Removes what was pulled.
    pub fn forget(&self) {
        for folder in ["pulled", ".partial"] {
            fs::remove_dir_all(self.store().join(folder)).unwrap();
        }
    }
}
