use std::fs::File;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use kelson_helper::{BoxFuture, CONTROL, Launched, Start};

use kelson_spec::image::ImageConfig;

use super::*;

/// The conduct of the process at its pipe.
type Act = Box<dyn FnOnce(File) + Send>;

struct Fake {
    act: Mutex<Option<Act>>,
    killed: Arc<AtomicBool>,
    gone: Arc<Notify>,
}

fn unpacker(act: impl FnOnce(File) + Send + 'static) -> (Unpacker, Arc<Fake>) {
    let fake =
        Arc::new(Fake { act: Mutex::new(Some(Box::new(act))), killed: Arc::default(), gone: Arc::default() });
    let options = UnpackerOptions {
        images: vec![],
        containerd_socket: "/c".into(),
        runtime_dir: "/r".into(),
        state_dir: "/s".into(),
        verify: Vec::new(),
    };
    (Unpacker::new(Arc::clone(&fake) as Arc<dyn Launcher>, options), fake)
}

impl Launcher for Fake {
    fn launch(&self, mut start: Start) -> BoxFuture<'static, io::Result<Launched>> {
        let report = start.take(CONTROL).unwrap();
        let act = self.act.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap();
        let (killed, gone) = (Arc::clone(&self.killed), Arc::clone(&self.gone));
        let exit = Arc::clone(&gone);
        Box::pin(async move {
            std::thread::spawn(move || act(File::from(report)));
            Ok(Launched {
                pid: 7,
                start_time: 0,
                exit: Box::pin(async move {
                    exit.notified().await;
                    String::from("killed by SIGKILL")
                }),
                kill: Box::new(move || {
                    killed.store(true, Ordering::SeqCst);
                    gone.notify_one();
                }),
            })
        })
    }
}

fn send(pipe: &mut File, report: &Report) {
    // The other side may have given up already; that is what some tests want.
    let _ = pipe.write_all(&crate::frame::encode(report));
}

#[tokio::test]
async fn an_unpack_tells_its_progress_and_its_end() {
    let (unpacker, fake) = unpacker(|mut pipe| {
        send(&mut pipe, &Report::Progress(Progress { bytes_done: 1, bytes_total: 2, layer: 1, layers: 1 }));
        send(&mut pipe, &Report::Note("odd".to_owned()));
        send(
            &mut pipe,
            &Report::Unpacked(Box::new(Unpacked {
                config: ImageConfig { uid: 33, ..ImageConfig::default() },
                ..Unpacked::default()
            })),
        );
    });
    let mut seen = Vec::new();
    let unpacked = unpacker.unpack("a:1", Purpose::Volume, |news| seen.push(news)).await.unwrap();
    let progress = Progress { bytes_done: 1, bytes_total: 2, layer: 1, layers: 1 };
    assert_eq!(
        (unpacked.config.uid, seen),
        (33, vec![News::Progress(progress), News::Note("odd".to_owned())])
    );
    assert!(fake.killed.load(Ordering::SeqCst), "it is killed in any case once it has answered");
}

#[tokio::test]
async fn a_failure_is_told_as_it_is_without_what_moves_a_terminal() {
    let (unpacker, _) =
        unpacker(|mut pipe| send(&mut pipe, &Report::Failed("bad\x1b[2J archive".to_owned())));
    assert_eq!(unpacker.unpack("a:1", Purpose::Volume, |_| {}).await.unwrap_err().text, "bad [2J archive");
}

#[tokio::test]
async fn garbage_ends_it() {
    for garbage in [&[0xff; 64][..], &[0; 8], &[3, 0, 0, 0, 0xee, 0xee, 0xee]] {
        let (unpacker, fake) = unpacker(move |mut pipe| {
            let _ = pipe.write_all(garbage);
        });
        let error = unpacker.list().await.unwrap_err().text;
        assert!(error.contains("nonsense"), "{error}");
        assert!(fake.killed.load(Ordering::SeqCst));
    }
}

#[tokio::test]
async fn a_report_that_answers_something_else_ends_it() {
    let (unpacker, fake) = unpacker(|mut pipe| send(&mut pipe, &Report::Done));
    assert!(unpacker.unpack("a:1", Purpose::Volume, |_| {}).await.unwrap_err().text.contains("nonsense"));
    assert!(fake.killed.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_death_is_told_with_its_reason() {
    let (unpacker, fake) = unpacker(|mut pipe| {
        let _ = pipe.write_all(&[9, 0]);
    });
    fake.gone.notify_one();
    let error = unpacker.list().await.unwrap_err().text;
    assert_eq!(error, "kelson-unpack ended without an answer: killed by SIGKILL");
}

#[tokio::test(start_paused = true)]
async fn silence_ends_it() {
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let (unpacker, fake) = unpacker(move |pipe| {
        let _ = held.recv();
        drop(pipe);
    });
    let began = tokio::time::Instant::now();
    let error = unpacker.list().await.unwrap_err().text;
    assert!(error.contains("said nothing for 60 s"), "{error}");
    assert_eq!(began.elapsed().as_secs(), 60);
    assert!(fake.killed.load(Ordering::SeqCst));
    drop(hold);
}

#[tokio::test]
async fn a_flood_ends_it() {
    let (unpacker, fake) = unpacker(|mut pipe| {
        let bytes = crate::frame::encode(&Report::Progress(Progress::default()));
        while pipe.write_all(&bytes).is_ok() {}
    });
    assert!(unpacker.unpack("a:1", Purpose::Volume, |_| {}).await.unwrap_err().text.contains("nonsense"));
    assert!(fake.killed.load(Ordering::SeqCst));
    let (unpacker, _) = self::unpacker(|mut pipe| {
        let bytes = crate::frame::encode(&Report::Image(ImageRow::default()));
        while pipe.write_all(&bytes).is_ok() {}
    });
    assert!(unpacker.list().await.unwrap_err().text.contains("more than 8192"));
}

#[tokio::test]
async fn dropping_the_future_kills_the_process() {
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let (started, start) = tokio::sync::oneshot::channel();
    let (unpacker, fake) = unpacker(move |pipe| {
        let _ = started.send(());
        let _ = held.recv();
        drop(pipe);
    });
    let work = tokio::spawn(async move { unpacker.unpack("a:1", Purpose::Volume, |_| {}).await });
    start.await.unwrap();
    work.abort();
    assert!(work.await.unwrap_err().is_cancelled());
    assert!(fake.killed.load(Ordering::SeqCst));
    drop(hold);
}
