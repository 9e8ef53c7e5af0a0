//! The way of a layer's bytes from its archive into a folder: checked, then unpacked by a thread of its own.

use std::io::{self, PipeReader, PipeWriter, Read, Write as _};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use kelson_image::Digest;

use super::extract::{ExtractError, extract};
use crate::archive::{Blob, BlobSink, LayerCheck, LayerError, uncompressed};

/// Takes the bytes of one layer.
pub struct Sink {
    folder: PathBuf,
    /// The folders of the layers below, the lowest first.
    below: Vec<PathBuf>,
    check: Option<LayerCheck>,
    open: Option<Open>,
    /// Of the layer, uncompressed.
    diff_id: Option<Digest>,
}

struct Open {
    bytes: PipeWriter,
    thread: JoinHandle<Result<(), ExtractError>>,
}

impl Sink {
    /// `space`: bytes that the disk has.
    pub fn new(folder: &Path, below: Vec<PathBuf>, space: u64) -> Sink {
        let check = Some(LayerCheck::new(space));
        Sink { folder: folder.to_owned(), below, check, open: None, diff_id: None }
    }

    /// Waits for the thread. The digest of the uncompressed layer, where all of it has passed.
    pub fn finish(mut self) -> Result<Option<Digest>, ExtractError> {
        self.end_thread()?;
        Ok(self.diff_id)
    }

    fn end_thread(&mut self) -> Result<(), ExtractError> {
        let Some(Open { bytes, thread }) = self.open.take() else { return Ok(()) };
        drop(bytes);
        thread.join().unwrap_or(Err(ExtractError::Thread))
    }
}

impl BlobSink for Sink {
    /// `None`: the thread has ended, and knows why.
    type Error = Option<LayerError>;

    fn begin(&mut self, _: &Blob) -> Result<bool, Self::Error> {
        let (reader, bytes) = io::pipe().map_err(|_| None)?;
        let (folder, below) = (self.folder.clone(), self.below.clone());
        let work = move || run(reader, &folder, below);
        let thread = std::thread::Builder::new().name("extract".to_owned()).spawn(work).map_err(|_| None)?;
        self.open = Some(Open { bytes, thread });
        Ok(true)
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        if let Some(check) = &mut self.check {
            check.update(bytes).map_err(Some)?;
        }
        let Some(open) = &mut self.open else { return Err(None) };
        open.bytes.write_all(bytes).map_err(|_| None)
    }

    fn end(&mut self, _: &Blob) -> Result<(), Self::Error> {
        if let Some(check) = self.check.take() {
            self.diff_id = Some(check.finish().map_err(Some)?.diff_id);
        }
        Ok(())
    }
}

fn run(reader: PipeReader, folder: &Path, below: Vec<PathBuf>) -> Result<(), ExtractError> {
    let mut reader = uncompressed(reader).map_err(ExtractError::Read)?;
    extract(&mut reader, folder, below)?;
    // What follows the end of the tar; the writer must not wait for a reader.
    io::copy(&mut reader.take(u64::MAX), &mut io::sink()).map_err(ExtractError::Read)?;
    Ok(())
}
