//! The way of a layer's bytes from its archive into a folder: uncompressed and checked, then unpacked by a thread of its own.
//! A layer of an artifact that is a file is written as it is.

use std::fs::File;
use std::io::{self, PipeReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use kelson_image::Digest;

use super::extract::{ExtractError, extract, new_file};
use crate::archive::{Blob, BlobSink, LayerCheck, LayerError};
use crate::reporter::Reporter;

/// Takes the bytes of one layer.
pub struct Sink {
    folder: PathBuf,
    /// The folders of the layers below, the lowest first.
    below: Vec<PathBuf>,
    /// Bytes that the disk has.
    space: u64,
    reporter: Arc<Reporter>,
    /// From the beginning of the layer to its end.
    check: Option<LayerCheck>,
    /// Where the layer is a file itself.
    file: Option<(PathBuf, File)>,
    failure: Option<ExtractError>,
    thread: Option<JoinHandle<Result<(), ExtractError>>>,
    /// Of the layer, uncompressed.
    diff_id: Option<Digest>,
}

impl Sink {
    pub fn new(folder: &Path, below: Vec<PathBuf>, space: u64, reporter: Arc<Reporter>) -> Sink {
        Sink {
            folder: folder.to_owned(),
            below,
            space,
            reporter,
            check: None,
            file: None,
            failure: None,
            thread: None,
            diff_id: None,
        }
    }

    /// Waits for the thread. The digest of the uncompressed layer, where it is a tar and all of it has passed.
    pub fn finish(self) -> Result<Option<Digest>, ExtractError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        // The thread ends when no more bytes can come.
        drop(self.check);
        let done = self.thread.map_or(Ok(Ok(())), JoinHandle::join);
        done.unwrap_or(Err(ExtractError::Thread)).map(|()| self.diff_id)
    }

    fn fail(&mut self, failure: ExtractError) -> Option<LayerError> {
        self.failure = Some(failure);
        None
    }
}

/// `None`: the thread has ended, and knows why.
fn reason(error: LayerError) -> Option<LayerError> {
    Some(error).filter(|error| *error != LayerError::Unwanted)
}

impl BlobSink for Sink {
    /// `None`: the thread has ended, and knows why.
    type Error = Option<LayerError>;

    fn begin(&mut self, blob: &Blob) -> Result<bool, Self::Error> {
        if let Some(name) = &blob.file {
            if blob.size > self.space {
                return Err(Some(LayerError::Space { needed: blob.size, space: self.space }));
            }
            let file = new_file(&self.folder, Path::new(name)).map_err(|failure| self.fail(failure))?;
            self.file = Some((PathBuf::from(name), file));
            return Ok(true);
        }
        let (reader, writer) = io::pipe().map_err(|_| None)?;
        let (folder, below) = (self.folder.clone(), self.below.clone());
        let work = move || run(reader, &folder, below);
        let thread = std::thread::Builder::new().name("extract".to_owned()).spawn(work).map_err(|_| None)?;
        self.thread = Some(thread);
        self.check = Some(LayerCheck::new(self.space).passing_to(writer));
        Ok(true)
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        match &mut self.file {
            Some((path, file)) => {
                let written = file.write_all(bytes);
                let path = path.clone();
                written.map_err(|error| self.fail(ExtractError::Write { path, error }))?;
            }
            None => self.check.as_mut().map_or(Err(None), |check| check.update(bytes).map_err(reason))?,
        }
        self.reporter.add_bytes(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        Ok(())
    }

    fn end(&mut self, _: &Blob) -> Result<(), Self::Error> {
        self.file = None;
        if let Some(check) = self.check.take() {
            self.diff_id = Some(check.finish().map_err(reason)?.diff_id);
        }
        Ok(())
    }
}

fn run(mut reader: PipeReader, folder: &Path, below: Vec<PathBuf>) -> Result<(), ExtractError> {
    extract(&mut reader, folder, below)?;
    // What follows the end of the tar; the writer must not wait for a reader.
    io::copy(&mut reader.by_ref(), &mut io::sink()).map_err(ExtractError::Read)?;
    Ok(())
}
