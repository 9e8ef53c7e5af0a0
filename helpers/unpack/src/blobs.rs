//! The blobs of an image, from its archive to containerd's content store.
//!
//! Threads read and check; for each blob a task holds its lock and writes. The bytes of a thread wait in a
//! short queue, so a slow side makes the other wait and memory stays bounded. A blob is committed only after
//! the archive has proven its digest and its layer was found sound, and it is committed once, also if others
//! want it at the same time.

mod plan;
mod readers;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use kelson_containerd::{CallError, Code, Containerd, Resource};
use kelson_image::Digest;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::archive::{Archive, Blob, Document, Image};
use crate::error::UnpackError;
use crate::lease::Lease;
use crate::locks::Locks;
use crate::reporter::Reporter;
use plan::Plan;
use readers::{Event, Piece, read};

/// Pieces of a blob that wait between its thread and its task.
const QUEUE: usize = 2;

/// The blobs of an image that are in containerd by now.
pub type There = watch::Sender<BTreeSet<Digest>>;

/// Everything that those need who bring blobs.
#[derive(Clone)]
pub struct Uploader {
    pub containerd: Containerd,
    pub lease: String,
    pub locks: Locks,
    pub reporter: Arc<Reporter>,
}

impl Uploader {
    pub fn new(lease: &Lease, locks: &Locks, reporter: &Arc<Reporter>) -> Self {
        Self {
            containerd: lease.containerd.clone(),
            lease: lease.id.clone(),
            locks: locks.clone(),
            reporter: Arc::clone(reporter),
        }
    }

    /// Writes a blob of JSON, or gives the one that is there its labels.
    pub async fn bring_document(
        &self,
        image: &str,
        document: &Document,
        labels: HashMap<String, String>,
    ) -> Result<(), UnpackError> {
        let size = document.bytes.len() as u64;
        let digest = document.digest.to_string();
        let of_image = |error| UnpackError::InImage { image: image.to_owned(), error };
        let _lock = self.locks.take(&lock_name(&document.digest)).await?;
        let call = async {
            self.containerd.hold(&self.lease, Resource::Content(&digest)).await?;
            if let Some(stored) = self.containerd.blob(&digest).await? {
                return self.containerd.label_blob(&digest, &stored.labels, &labels).await;
            }
            let name = write_name(&digest);
            self.containerd.abort_write(&name).await?;
            let mut writer = self.containerd.write_blob(&name, &digest, size);
            for piece in document.bytes.chunks(256 << 10) {
                writer.bytes(piece.to_vec()).await?;
            }
            writer.commit(labels.clone()).await
        };
        match call.await {
            Err(error) if !error.is(Code::AlreadyExists) => return Err(of_image(error)),
            _ => {}
        }
        self.reporter.add_bytes(size);
        Ok(())
    }

    /// Brings all layers of an image; `there` tells each that has come.
    pub async fn bring_layers(
        &self,
        name: &str,
        archive: &Arc<Archive>,
        image: &Image,
        space: u64,
        there: &There,
    ) -> Result<(), UnpackError> {
        let plan = Arc::new(Plan::new(name, archive, image, space));
        let mut wanted = VecDeque::new();
        let mut seen = BTreeSet::new();
        for (number, layer) in (1..).zip(&image.layers) {
            if !seen.insert(layer.blob.digest) {
                // The second of two equal layers is there with the first.
                self.reporter.add_bytes(layer.blob.size);
                continue;
            }
            let held = async {
                let digest = layer.blob.digest.to_string();
                self.containerd.hold(&self.lease, Resource::Content(&digest)).await?;
                self.containerd.blob(&digest).await
            };
            match held.await.map_err(|error| plan.in_layer(number, error))? {
                Some(_) => self.arrived(layer.blob.digest, layer.blob.size, there),
                None => wanted.push_back(layer.blob.clone()),
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let mut readers = read(&plan, archive, wanted);
        let mut tasks = JoinSet::new();
        let mut open = true;
        // After the first failure the others end what they write, and leave nothing of it.
        let (goes_on, wanted) = watch::channel(true);
        let mut failure = None;
        while open || !tasks.is_empty() {
            let failed = tokio::select! {
                event = readers.recv(), if open => match event {
                    Some(Event::Begin { .. }) if failure.is_some() => None,
                    Some(Event::Begin { blob, answer }) => {
                        let (uploader, plan, there) = (self.clone(), Arc::clone(&plan), there.clone());
                        let wanted = wanted.clone();
                        tasks.spawn(async move { uploader.bring(&plan, blob, answer, &there, wanted).await });
                        None
                    }
                    Some(Event::Failed(error)) => Some(error),
                    None => {
                        open = false;
                        None
                    }
                },
                Some(ended) = tasks.join_next() => ended.unwrap_or(Err(UnpackError::Thread)).err(),
            };
            if let Some(error) = failed {
                failure.get_or_insert(error);
                goes_on.send_replace(false);
                readers.close();
            }
        }
        if let Some(error) = failure {
            return Err(error);
        }
        // A thread that ended without a word would have those wait for ever who unpack.
        let all = there.borrow().is_superset(&seen);
        if all { Ok(()) } else { Err(UnpackError::Thread) }
    }

    /// `bytes`: those that have not been counted on their way.
    fn arrived(&self, digest: Digest, bytes: u64, there: &There) {
        self.reporter.add_bytes(bytes);
        there.send_modify(|there| {
            there.insert(digest);
        });
    }

    /// One layer: alone under its lock, unless somebody else brought it meanwhile.
    async fn bring(
        &self,
        plan: &Plan,
        blob: Blob,
        answer: oneshot::Sender<Option<mpsc::Sender<Piece>>>,
        there: &There,
        mut wanted: watch::Receiver<bool>,
    ) -> Result<(), UnpackError> {
        let number = plan.number(&blob.digest);
        let digest = blob.digest.to_string();
        let name = lock_name(&blob.digest);
        let _lock = tokio::select! {
            lock = self.locks.take(&name) => lock?,
            _ = wanted.wait_for(|wanted| !wanted) => return Ok(()),
        };
        let name = write_name(&digest);
        let ready = async {
            if self.containerd.blob(&digest).await?.is_some() {
                return Ok(true);
            }
            self.containerd.abort_write(&name).await?;
            Ok(false)
        };
        if ready.await.map_err(|error| plan.in_layer(number, error))? {
            let _ = answer.send(None);
            self.arrived(blob.digest, blob.size, there);
            return Ok(());
        }
        let (pieces, mut queue) = mpsc::channel(QUEUE);
        let _ = answer.send(Some(pieces));
        match self.write(plan, &blob, &name, &mut queue, wanted).await {
            Ok(true) => self.arrived(blob.digest, 0, there),
            // Its reader or another's gave up and says why; what was written of it is worth nothing.
            Ok(false) => {
                let _ = self.containerd.abort_write(&name).await;
            }
            Err(error) => return Err(plan.in_layer(number, error)),
        }
        Ok(())
    }

    /// `false`: the reader gave up half-way, or the whole is not wanted any more.
    async fn write(
        &self,
        plan: &Plan,
        blob: &Blob,
        name: &str,
        queue: &mut mpsc::Receiver<Piece>,
        mut wanted: watch::Receiver<bool>,
    ) -> Result<bool, CallError> {
        let digest = blob.digest.to_string();
        let mut writer = Some(self.containerd.write_blob(name, &digest, blob.size));
        let mut next = async || {
            tokio::select! {
                piece = queue.recv() => piece,
                _ = wanted.wait_for(|wanted| !wanted) => None,
            }
        };
        while let Some(piece) = next().await {
            match piece {
                Piece::Bytes(bytes) => {
                    let length = bytes.len() as u64;
                    if let Some(open) = &mut writer {
                        match open.bytes(bytes).await {
                            Ok(()) => {}
                            // Another tool brought it: the rest is read and dropped.
                            Err(error) if error.is(Code::AlreadyExists) => writer = None,
                            Err(error) => return Err(error),
                        }
                    }
                    self.reporter.add_bytes(length);
                }
                Piece::End => {
                    let labels = plan.labels(&blob.digest);
                    match writer.take() {
                        Some(writer) => writer.commit(labels).await?,
                        None => self.containerd.label_blob(&digest, &HashMap::new(), &labels).await?,
                    }
                    return Ok(true);
                }
            }
        }
        if let Some(open) = writer {
            open.give_up().await;
        }
        Ok(false)
    }
}

fn lock_name(digest: &Digest) -> String {
    format!("blob-{}", digest.hex())
}

/// The name of a write: one a blob, so that what is left of a killed writer is found.
fn write_name(digest: &str) -> String {
    format!("kelson-{digest}")
}
