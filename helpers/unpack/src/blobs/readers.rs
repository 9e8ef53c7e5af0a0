//! The threads that read the blobs of an archive, check them, and pass their bytes on.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use kelson_image::Digest;
use tokio::sync::{mpsc, oneshot};

use super::plan::Plan;
use crate::archive::{Archive, Blob, BlobSink, LayerCheck, ReadError};
use crate::error::UnpackError;

/// Threads that read an archive that can be read side by side: the next layer comes while the present one is unpacked.
const READERS: usize = 2;

/// A message of a reading thread.
pub enum Event {
    /// A blob begins; the answer takes its bytes; `None` where nobody wants it any more.
    Begin {
        blob: Blob,
        answer: oneshot::Sender<Option<mpsc::Sender<Piece>>>,
    },
    Failed(UnpackError),
}

pub enum Piece {
    Bytes(Vec<u8>),
    /// The blob is whole and sound.
    End,
}

/// Starts the threads that read these blobs. They end when nobody listens.
pub fn read(plan: &Arc<Plan>, archive: &Arc<Archive>, wanted: VecDeque<Blob>) -> mpsc::Receiver<Event> {
    let (events, listener) = mpsc::channel(READERS);
    let side_by_side = archive.reads_side_by_side();
    // zstd looks back over as much as 16 MiB, and every reader of such a layer holds that in memory.
    let one = wanted.iter().any(|blob| blob.media_type.ends_with("zstd"));
    let readers = if side_by_side && !one { READERS.min(wanted.len()) } else { 1 };
    let wanted = Arc::new(Mutex::new(wanted));
    for _ in 0..readers {
        let (archive, wanted, plan) = (Arc::clone(archive), Arc::clone(&wanted), Arc::clone(plan));
        let mut sink = Sink { plan, events: events.clone(), open: None };
        let work = move || {
            loop {
                let mut queue = wanted.lock().unwrap_or_else(PoisonError::into_inner);
                let mine: Vec<Blob> = if side_by_side {
                    queue.pop_front().into_iter().collect()
                } else {
                    queue.drain(..).collect()
                };
                drop(queue);
                if mine.is_empty() {
                    return;
                }
                let error = match archive.read(&mine, &mut sink) {
                    Ok(()) => continue,
                    Err(ReadError::Archive(error)) => {
                        UnpackError::Archive { image: sink.plan.image.clone(), error }
                    }
                    Err(ReadError::Sink(Some(error))) => error,
                    // Nobody listens any more, and knows why.
                    Err(ReadError::Sink(None)) => return,
                };
                sink.open = None;
                let _ = sink.events.blocking_send(Event::Failed(error));
                return;
            }
        };
        if std::thread::Builder::new().spawn(work).is_err() {
            let _ = events.try_send(Event::Failed(UnpackError::Thread));
        }
    }
    listener
}

/// Takes the bytes of one thread's blobs.
struct Sink {
    plan: Arc<Plan>,
    events: mpsc::Sender<Event>,
    open: Option<Open>,
}

/// The blob that a thread is at.
struct Open {
    digest: Digest,
    check: LayerCheck,
    pieces: mpsc::Sender<Piece>,
}

impl BlobSink for Sink {
    /// `None`: nobody listens any more.
    type Error = Option<UnpackError>;

    fn begin(&mut self, blob: &Blob) -> Result<bool, Self::Error> {
        let (answer, answered) = oneshot::channel();
        self.events.blocking_send(Event::Begin { blob: blob.clone(), answer }).map_err(|_| None)?;
        let pieces = answered.blocking_recv().map_err(|_| None)?;
        self.open = pieces.map(|pieces| Open {
            digest: blob.digest,
            check: LayerCheck::new(self.plan.space),
            pieces,
        });
        Ok(self.open.is_some())
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        let Some(Open { digest, check, pieces }) = &mut self.open else { return Ok(()) };
        check.update(bytes).map_err(|error| Some(self.plan.bad_layer(digest, error)))?;
        pieces.blocking_send(Piece::Bytes(bytes.to_vec())).map_err(|_| None)
    }

    fn end(&mut self, blob: &Blob) -> Result<(), Self::Error> {
        let Some(Open { check, pieces, .. }) = self.open.take() else { return Ok(()) };
        let checked = check.finish().map_err(|error| Some(self.plan.bad_layer(&blob.digest, error)))?;
        match self.plan.known.get(&blob.digest) {
            Some((number, diff_id)) if *diff_id != checked.diff_id => Err(Some(UnpackError::DiffId {
                at: self.plan.at(*number, true),
                expected: diff_id.to_string(),
                found: checked.diff_id.to_string(),
            })),
            _ => pieces.blocking_send(Piece::End).map_err(|_| None),
        }
    }
}
