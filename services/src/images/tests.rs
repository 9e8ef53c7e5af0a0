use std::fs::File;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU32, Ordering};

use kelson_helper::{CONTROL, Launched, Launcher, Start};
use kelson_image::{Progress, Report, UnpackerOptions, encode};
use tokio::sync::{mpsc, watch};

use super::*;
use crate::model::{Snapshot, State};

/// A `kelson-unpack` that says what the test sends.
struct Played {
    started: mpsc::UnboundedSender<(Vec<String>, File)>,
    killed: Arc<AtomicU32>,
}

impl Launcher for Played {
    fn launch(&self, mut start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        let report = start.take(CONTROL).unwrap();
        let words = start.arguments.into_iter().map(|word| word.into_string().unwrap()).collect();
        self.started.send((words, File::from(report))).unwrap();
        let killed = Arc::clone(&self.killed);
        Box::pin(std::future::ready(Ok(Launched {
            pid: 7,
            start_time: 0,
            exit: Box::pin(std::future::ready("exited with status 0".to_owned())),
            kill: Box::new(move || {
                killed.fetch_add(1, Ordering::SeqCst);
            }),
        })))
    }
}

struct World {
    store: ImageStore,
    events: EventLog,
    started: mpsc::UnboundedReceiver<(Vec<String>, File)>,
    killed: Arc<AtomicU32>,
    _snapshot: watch::Sender<Snapshot>,
}

fn world() -> World {
    let (sender, started) = mpsc::unbounded_channel();
    let killed = Arc::new(AtomicU32::new(0));
    let options = UnpackerOptions {
        images: vec!["/images".into()],
        containerd_socket: "/containerd.sock".into(),
        runtime_dir: "/run".into(),
        state_dir: "/state".into(),
        verify: Vec::new(),
    };
    let launcher = Played { started: sender, killed: Arc::clone(&killed) };
    let (events, registry) = (EventLog::new(None), Registry::default());
    let (publisher, snapshot) = watch::channel(Snapshot {
        state: State::Preparing,
        run: 3,
        ..crate::manager::failed_snapshot(&Arc::from("web"), "", false)
    });
    registry.add(Arc::from("web"), snapshot);
    let store = ImageStore::new(Unpacker::new(Arc::new(launcher), options), None, events.clone(), registry);
    World { store, events, started, killed, _snapshot: publisher }
}

fn say(pipe: &mut File, reports: &[Report]) {
    for report in reports {
        pipe.write_all(&encode(report)).unwrap();
    }
}

fn told(events: &EventLog, service: &str) -> Vec<String> {
    events.of_service(service).iter().map(|event| event.message.to_string()).collect()
}

fn unpacked(was_there: bool) -> Report {
    let config = ImageConfig {
        image: "demo/web:1".to_owned(),
        chain_id: "sha256:12".to_owned(),
        entrypoint: vec!["/web".to_owned()],
        uid: 33,
        ..ImageConfig::default()
    };
    Report::Unpacked(Box::new(Unpacked { config, was_there, ..Unpacked::default() }))
}

/// The container of a service that runs as this user.
fn web_as(user: Option<&str>) -> ContainerSpec {
    ContainerSpec { user: user.map(str::to_owned), ..ContainerSpec::new("web:1") }
}

#[tokio::test]
async fn an_unpack_is_told_in_events_of_its_service() {
    let mut world = world();
    let store = world.store.clone();
    let work = tokio::spawn(async move { store.prepare("web", &web_as(Some("www"))).await });
    let (words, mut pipe) = world.started.recv().await.unwrap();
    assert!(words.ends_with(&["--user", "www", "--", "web:1"].map(str::to_owned)), "{words:?}");
    let progress = Report::Progress(Progress { bytes_done: 1, bytes_total: 2, layer: 1, layers: 1 });
    let note = Report::Note("bad.tar: it ends in the middle".to_owned());
    // An unpack that is over within a second reports its end alone.
    tokio::time::sleep(Duration::from_secs(1)).await;
    say(&mut pipe, &[progress.clone(), note.clone(), progress, note, unpacked(false)]);
    let config = work.await.unwrap().unwrap();
    assert_eq!(
        (config.image.as_str(), config.chain_id.as_str(), config.uid),
        ("demo/web:1", "sha256:12", 33)
    );
    let told = told(&world.events, "web");
    let (last, rest) = told.split_last().unwrap();
    assert_eq!(rest, ["unpacking web:1: 1 of 2 B, layer 1 of 1"]);
    assert_eq!(self::told(&world.events, ""), ["bad.tar: it ends in the middle"], "once");
    assert!(last.starts_with("unpacked web:1 (2 B, 1 layer) in "), "{last}");
    let event = &world.events.of_service("web")[0];
    assert_eq!((event.state, event.run), (State::Preparing, 3));
}

#[tokio::test]
async fn an_image_that_was_there_is_one_event_and_a_failure_none() {
    let mut world = world();
    for (report, expected) in [
        (unpacked(true), Ok(())),
        (Report::Failed("no archive holds web:1".to_owned()), Err("no archive holds web:1")),
    ] {
        let store = world.store.clone();
        let work = tokio::spawn(async move { store.prepare("web", &web_as(None)).await });
        let (_, mut pipe) = world.started.recv().await.unwrap();
        say(&mut pipe, &[report]);
        let result = work.await.unwrap().map(drop).map_err(|error| error.message);
        assert_eq!(result.as_ref().map_err(String::as_str).map(drop), expected);
    }
    assert_eq!(told(&world.events, "web"), ["image web:1 was unpacked before"]);
}

#[tokio::test]
async fn who_comes_when_all_turns_are_taken_waits_and_can_be_cancelled() {
    let mut world = world();
    let mut others = Vec::new();
    let mut pipes = Vec::new();
    for number in 0..UNPACKS {
        let store = world.store.clone();
        others.push(tokio::spawn(async move { store.prepare(&format!("s{number}"), &web_as(None)).await }));
        pipes.push(world.started.recv().await.unwrap().1);
    }
    let web = web_as(None);
    let mut waiting = world.store.prepare("web", &web);
    let waits = tokio::time::timeout(Duration::from_millis(20), &mut waiting).await;
    assert!(waits.is_err() && world.started.try_recv().is_err(), "nothing is started for it");
    assert_eq!(told(&world.events, "web"), ["image web:1 waits until another one is unpacked"]);
    drop(waiting);
    let store = world.store.clone();
    let next = tokio::spawn(async move { store.prepare("web", &ContainerSpec::new("web:2")).await });
    say(&mut pipes[0], &[unpacked(true)]);
    let (words, mut pipe) = world.started.recv().await.unwrap();
    assert_eq!(words.last().unwrap(), "web:2");
    say(&mut pipe, &[unpacked(true)]);
    next.await.unwrap().unwrap();
}

#[tokio::test]
async fn who_is_dropped_takes_its_process_along() {
    let mut world = world();
    let web = web_as(None);
    let mut work = world.store.prepare("web", &web);
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut work).await.is_err());
    let (_, _pipe) = world.started.recv().await.unwrap();
    drop(work);
    assert_eq!(world.killed.load(Ordering::SeqCst), 1);
    assert!(lock(&world.store.inner.busy).is_empty(), "and nobody waits for it");
}

#[test]
fn an_image_is_meant_by_any_of_its_names() {
    let digest = format!("sha256:{}", "0a".repeat(32));
    let row = ImageRow {
        reference: "docker.io/demo/web:1".to_owned(),
        digest: digest.clone(),
        ..ImageRow::default()
    };
    for (image, meant) in [
        ("demo/web:1".to_owned(), true),
        (format!("demo/web@{digest}"), true),
        ("demo/web".to_owned(), false),
        ("demo/web:2".to_owned(), false),
        ("NOT A NAME".to_owned(), false),
    ] {
        assert_eq!(means(&image, &row), meant, "{image}");
    }
    let odd = ImageRow { reference: "NOT A NAME".to_owned(), ..ImageRow::default() };
    assert!(means("NOT A NAME", &odd));
}
