//! `kelson-unpack` as a process, against a containerd that is played.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that panics has failed, as it should"
)]
#![expect(clippy::arithmetic_side_effects, reason = "small numbers")]

mod daemon;
mod image;

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use kelson_containerd::testing::{Fake, Fault, State};
use kelson_helper::{BoxFuture, CONTROL, Launched, Launcher, Start};
use kelson_image::{News, Purpose, Unpacked, Unpacker, UnpackerOptions};
use kelson_tests::child::{self, Child};
use tokio::sync::watch;

/// How the test's own file knows that it is to be `kelson-unpack`.
const WORDS: &str = "KELSON_TEST_UNPACK";

/// Not a test of its own: the process that the others start.
#[test]
fn the_process_itself() {
    if let Some(words) = std::env::var_os(WORDS) {
        let words =
            words.as_bytes().split(|byte| *byte == 0x1f).map(|word| OsString::from_vec(word.to_vec()));
        std::process::exit(kelson_unpack::main(words));
    }
}

#[derive(Clone, Default)]
struct Itself {
    /// How many live.
    alive: watch::Sender<usize>,
}

impl Launcher for Itself {
    fn launch(&self, mut start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        let report = start.take(CONTROL).unwrap();
        let arguments = start.arguments;
        let alive = self.alive.clone();
        Box::pin(async move {
            let mut command = Command::new("/proc/self/exe");
            command.args(["the_process_itself", "--exact", "--nocapture", "--test-threads=1"]);
            command.env(WORDS, arguments.join(std::ffi::OsStr::new("\x1f")));
            alive.send_modify(|alive| *alive += 1);
            let (told, exit) = tokio::sync::oneshot::channel();
            let ended = move |how| {
                alive.send_modify(|alive| *alive -= 1);
                let _ = told.send(how);
            };
            let Child { pid, kill } = child::start(command, report, || Ok(()), ended)?;
            Ok(Launched { pid, start_time: 0, exit: Box::pin(async move { exit.await.unwrap() }), kill })
        })
    }
}

/// A host with one containerd and one folder of archives.
struct Host {
    folder: tempfile::TempDir,
    fake: Fake,
    launcher: Itself,
}

impl Host {
    fn new() -> Host {
        let folder = tempfile::tempdir().unwrap();
        for name in ["images", "root"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let root = folder.path().join("root").display().to_string();
        std::fs::create_dir(folder.path().join("root/etc")).unwrap();
        let state = Arc::new(Mutex::new(State { root, ..State::default() }));
        let fake = Fake::start(&folder.path().join("c.sock"), state);
        Host { folder, fake, launcher: Itself::default() }
    }

    fn archive(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("images").join(name)
    }

    fn unpacker(&self) -> Unpacker {
        let at = |name: &str| self.folder.path().join(name);
        let options = UnpackerOptions {
            images: vec![at("images")],
            containerd_socket: at("c.sock"),
            runtime_dir: at("run"),
            state_dir: at("state"),
            verify: Vec::new(),
        };
        Unpacker::new(Arc::new(self.launcher.clone()), options)
    }

    async fn unpack(&self, image: &str) -> Result<Unpacked, String> {
        let unpacker = self.unpacker();
        let work = unpacker.unpack(image, AS_IT_IS, |_| {});
        tokio::time::timeout(Duration::from_secs(60), work).await.unwrap().map_err(|failure| failure.text)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.fake.state.lock().unwrap()
    }

    fn fault(&self, call: &str, faults: &[Fault]) {
        self.state().fault(call, faults);
    }

    /// Nothing is left but what stands.
    fn assert_tidy(&self) {
        let state = self.state();
        assert!(state.leases.is_empty(), "{:?}", state.leases);
        assert!(state.active.is_empty(), "{:?}", state.active);
        assert!(state.ingests.is_empty(), "{:?}", state.ingests);
    }
}

/// For a container of containerd, with the user of the image.
const AS_IT_IS: Purpose = Purpose::Container { user: None };

#[tokio::test]
async fn an_image_is_unpacked_once() {
    let host = Host::new();
    let image = image::write(&host.archive("web.tar"), "demo/web:1", &[b"one", b"two"]);
    let unpacker = host.unpacker();
    let mut last = None;
    let tell = |news: News| {
        if let News::Progress(progress) = news {
            last = Some(progress);
        }
    };
    let unpacked = unpacker.unpack("docker.io/demo/web:1", AS_IT_IS, tell).await.unwrap();
    assert!(last.is_some(), "a sign of life");
    assert_eq!((unpacked.config.uid, unpacked.config.stop_signal, unpacked.was_there), (33, Some(3), false));
    assert_eq!(unpacked.digest, image.manifest);
    assert_eq!(unpacked.config.command, ["/bin/web"]);
    {
        let state = host.state();
        assert_eq!(state.images.get("demo/web:1"), Some(&image.manifest));
        assert!(state.committed.contains(&unpacked.config.chain_id));
        assert_eq!(state.committed.len(), 2);
        let labels = |digest: &str| state.blobs[digest].1.clone();
        assert_eq!(labels(&image.layers[0])["containerd.io/uncompressed"], image.layers[0]);
        assert_eq!(
            labels(&image.config)["containerd.io/gc.ref.snapshot.overlayfs"],
            unpacked.config.chain_id
        );
        let manifest = labels(&image.manifest);
        assert_eq!(manifest["containerd.io/gc.ref.content.config"], image.config);
        assert_eq!(manifest["containerd.io/gc.ref.content.l.1"], image.layers[1]);
    }
    host.assert_tidy();

    let writes = host.state().count("Content/Write");
    let again = host.unpack("demo/web:1").await.unwrap();
    assert_eq!(again, Unpacked { was_there: true, ..unpacked.clone() });
    assert_eq!(host.state().count("Content/Write"), writes);
    assert_eq!(host.state().count("Diff/Apply"), 2);
    assert!(host.unpacker().list().await.unwrap().images[0].unpacked);

    std::fs::remove_file(host.archive("web.tar")).unwrap();
    assert!(host.unpack("demo/web:1").await.unwrap().was_there, "what containerd has whole needs no archive");
    host.assert_tidy();

    let would = host.unpacker().prune(vec![], true).await.unwrap().removed;
    assert_eq!((would.len(), host.state().images.len()), (1, 1));
    assert!(host.unpacker().prune(vec!["demo/web:1".to_owned()], false).await.unwrap().removed.is_empty());
    assert_eq!(host.unpacker().prune(vec!["other".to_owned()], false).await.unwrap().removed, would);
    assert!(host.state().images.is_empty());
}

#[tokio::test]
async fn a_layer_that_is_not_on_the_disk_is_not_called_whole() {
    let host = Host::new();
    image::write(&host.archive("web.tar"), "web:1", &[b"one"]);
    let root = std::mem::replace(&mut host.state().root, String::from("/no/such/folder"));
    let error = host.unpack("web:1").await.unwrap_err();
    assert!(error.contains("layer 1 of 1: its files could not be written to the disk"), "{error}");
    let calls = ["Diff/Apply", "Snapshots/Commit"].map(|call| host.state().count(call));
    assert_eq!(calls, [1, 0]);
    host.assert_tidy();
    host.state().root = root;
    assert!(!host.unpack("web:1").await.unwrap().was_there);
}

#[tokio::test]
async fn what_two_want_at_once_is_done_once() {
    let host = Host::new();
    let shared: &[u8] = b"shared";
    image::write(&host.archive("a.tar"), "a:1", &[shared, b"a"]);
    image::write(&host.archive("b.tar"), "b:1", &[shared, b"b"]);
    host.fault("Content/Write", &[Fault::Slow(Duration::from_millis(300)); 8]);
    host.fault("Diff/Apply", &[Fault::Slow(Duration::from_millis(300)); 8]);
    let (a, b, c) = tokio::join!(host.unpack("a:1"), host.unpack("b:1"), host.unpack("a:1"));
    for unpacked in [a, b, c] {
        unpacked.unwrap();
    }
    let state = host.state();
    assert_eq!(state.count("Diff/Apply"), 3, "one of each layer: {:?}", state.calls);
    assert_eq!(state.count("committed"), 7, "one of each blob: {:?}", state.calls);
    drop(state);
    host.assert_tidy();
}

#[tokio::test]
async fn who_is_cancelled_half_way_leaves_nothing_that_breaks_the_next() {
    for call in ["Content/Write", "Diff/Apply", "Snapshots/Commit", "Leases/AddResource", "Images/Create"] {
        let host = Host::new();
        image::write(&host.archive("a.tar"), "a:1", &[b"one", b"two"]);
        host.fault(call, &[Fault::Hangs]);
        let unpacker = host.unpacker();
        let work = tokio::spawn(async move { unpacker.unpack("a:1", AS_IT_IS, |_| {}).await });
        host.fake.hanging.notified().await;
        work.abort();
        assert!(work.await.unwrap_err().is_cancelled());
        host.launcher.alive.subscribe().wait_for(|alive| *alive == 0).await.unwrap();
        let unpacked = host.unpack("a:1").await.unwrap_or_else(|error| panic!("{call}: {error}"));
        assert!(!unpacked.was_there);
        host.assert_tidy();
    }
}

#[tokio::test]
async fn a_connection_that_is_lost_is_made_again() {
    for call in ["Content/Write", "Content/Info", "Diff/Apply", "Snapshots/Commit", "Images/Create"] {
        let host = Host::new();
        image::write(&host.archive("a.tar"), "a:1", &[b"one", b"two"]);
        host.fault(call, &[Fault::LostRequest; 2]);
        host.unpack("a:1").await.unwrap_or_else(|error| panic!("{call}: {error}"));
        assert!(host.state().count(call) > 2);
        host.assert_tidy();
    }
}

#[tokio::test]
async fn containerd_may_come_a_little_later() {
    let host = Host::new();
    image::write(&host.archive("a.tar"), "a:1", &[b"one"]);
    let socket = host.folder.path().join("c.sock");
    let aside = host.folder.path().join("aside");
    std::fs::rename(&socket, &aside).unwrap();
    let back = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        std::fs::rename(&aside, &socket).unwrap();
    };
    let (unpacked, ()) = tokio::join!(host.unpack("a:1"), back);
    unpacked.unwrap();
}

#[tokio::test]
async fn another_image_of_the_same_name_replaces_the_first() {
    let host = Host::new();
    image::write(&host.archive("a.tar"), "a:1", &[b"one"]);
    let first = host.unpack("a:1").await.unwrap();
    let image = image::write(&host.archive("a.tar"), "a:1", &[b"one", b"other"]);
    let second = host.unpack("a:1").await.unwrap();
    assert!(!second.was_there && second.config.chain_id != first.config.chain_id);
    assert_eq!(host.state().images.get("a:1"), Some(&image.manifest));
    assert_eq!(host.state().count("Diff/Apply"), 2, "the layer of both is unpacked once");
}

#[tokio::test]
async fn what_goes_wrong_is_told_in_a_sentence() {
    let host = Host::new();
    let image = image::write(&host.archive("a.tar"), "demo/web:2", &[b"one", b"two"]);
    let error = host.unpack("demo/wep:2").await.unwrap_err();
    assert!(error.contains("holds image \"demo/wep:2\"; there are demo/web:2"), "{error}");

    host.fault("Diff/Apply", &[Fault::DiskFull]);
    let error = host.unpack("demo/web:2").await.unwrap_err();
    assert!(error.starts_with("image demo/web:2, layer 1 of 2: containerd's disk is full"), "{error}");

    let host = Host::new();
    image::damage(&host.archive("a.tar"), "demo/web:2", &[b"one", b"two"]);
    let error = host.unpack("demo/web:2").await.unwrap_err();
    assert!(error.contains("a.tar") && error.contains("damaged"), "{error}");
    assert!(!host.state().blobs.contains_key(&image.layers[1]) && host.state().images.is_empty());
    host.assert_tidy();
}

#[tokio::test]
async fn a_real_containerd_finds_the_image_whole() {
    let host = Host::new();
    // Its socket takes the place of the one that is played.
    let name = "a_real_containerd_finds_the_image_whole";
    let Some(daemon) = daemon::Daemon::start(name, host.folder.path()) else { return };
    let image = image::write(&host.archive("a.tar"), "demo/a:1", &[b"one", b"two", b"three"]);
    let unpacked = host.unpack("demo/a:1").await.unwrap();
    assert_eq!((unpacked.config.uid, unpacked.was_there), (33, false));
    let check = daemon.ctr(&["images", "check"]);
    assert!(
        check.contains("demo/a:1") && check.contains("complete (4/4)") && check.contains("true"),
        "{check}"
    );
    assert!(check.contains(&image.manifest), "{check}");
    assert!(daemon.ctr(&["snapshots", "ls"]).contains(&unpacked.config.chain_id));
    assert_eq!(daemon.ctr(&["leases", "ls", "-q"]), "");
    assert_eq!(daemon.ctr(&["snapshots", "ls"]).lines().count(), 4, "a heading, and a snapshot a layer");
    // The same archive, by its own client: nothing is different.
    let archive = host.archive("a.tar").display().to_string();
    daemon.ctr(&["images", "import", "--base-name", "other", &archive]);
    assert_eq!(daemon.ctr(&["snapshots", "ls"]).lines().count(), 4, "the same snapshots serve");
    assert!(host.unpack("demo/a:1").await.unwrap().was_there);
    host.unpacker().prune(vec![], false).await.unwrap();
    assert_eq!(daemon.ctr(&["content", "ls", "-q"]), "", "garbage collection took the rest");
}
