//! Blobs that are proved while they pass.

use std::collections::HashMap;
use std::convert::Infallible;

use kelson_image::Digest;

use super::error::Trouble;
use super::image::{Blob, Place};
use super::store::{Stop, Store};
use super::{BlobSink, Hasher};

/// Reads `blobs` into `sink`, in the order in which they lie, each place once; a blob ends only if it is what it is
/// called.
pub(super) fn read_proved<S: BlobSink>(
    store: &Store,
    blobs: &[Blob],
    sink: &mut S,
) -> Result<(), Stop<S::Error>> {
    let mut wanted: Vec<&Blob> = Vec::new();
    for blob in blobs {
        if !wanted.iter().any(|other| other.digest == blob.digest) {
            wanted.push(blob);
        }
    }
    store.stream(&wanted, &mut Proving { sink, hasher: Hasher::new() }).map_err(|stop| match stop {
        Stop::Trouble(trouble) | Stop::Sink(Refused::Wrong(trouble)) => Stop::Trouble(trouble),
        Stop::Sink(Refused::Sink(error)) => Stop::Sink(error),
    })
}

/// Stands before a sink.
struct Proving<'a, S: BlobSink> {
    sink: &'a mut S,
    hasher: Hasher,
}

enum Refused<E> {
    Sink(E),
    Wrong(Trouble),
}

impl<S: BlobSink> BlobSink for Proving<'_, S> {
    type Error = Refused<S::Error>;

    fn begin(&mut self, blob: &Blob) -> Result<bool, Self::Error> {
        self.hasher = Hasher::new();
        self.sink.begin(blob).map_err(Refused::Sink)
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        self.hasher.update(bytes);
        self.sink.bytes(bytes).map_err(Refused::Sink)
    }

    fn end(&mut self, blob: &Blob) -> Result<(), Self::Error> {
        let found = std::mem::take(&mut self.hasher).finish();
        if found != blob.digest {
            let (name, expected) = (format!("blob {}", blob.digest), blob.digest);
            return Err(Refused::Wrong(Trouble::Digest { blob: name, expected, found }));
        }
        self.sink.end(blob).map_err(Refused::Sink)
    }
}

/// The digests of blobs that nothing tells but their bytes, by place.
pub(super) fn digests(store: &Store, blobs: &[Blob]) -> Result<HashMap<Place, Digest>, Trouble> {
    let mut sink = Measuring { hasher: Hasher::new(), found: HashMap::new() };
    let wanted: Vec<&Blob> = blobs.iter().collect();
    match store.stream(&wanted, &mut sink) {
        Ok(()) => Ok(sink.found),
        Err(Stop::Trouble(trouble)) => Err(trouble),
        Err(Stop::Sink(never)) => match never {},
    }
}

struct Measuring {
    hasher: Hasher,
    found: HashMap<Place, Digest>,
}

impl BlobSink for Measuring {
    type Error = Infallible;

    fn begin(&mut self, _: &Blob) -> Result<bool, Infallible> {
        self.hasher = Hasher::new();
        Ok(true)
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.hasher.update(bytes);
        Ok(())
    }

    fn end(&mut self, blob: &Blob) -> Result<(), Infallible> {
        self.found.insert(blob.place.clone(), std::mem::take(&mut self.hasher).finish());
        Ok(())
    }
}
