//! One image, from its name to a whole image in the store: at its mirrors, then at its registry.

use std::collections::HashSet;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use kelson_image::{Digest, Pulled, Reference, Remote, Report};
use kelson_unpack::trust::Needed;

use crate::Context;
use crate::blob::{Wanted, fetch};
use crate::error::PullError;
use crate::manifest::{Document, Resolved, judge, resolve};
use crate::registry::Registry;
use crate::retry::Retry;
use crate::signature;
use crate::store::{Entries, Entry, Name};

/// Layers that arrive at the same time.
const TOGETHER: usize = 3;
/// Failures in a row of the registry, and of a mirror.
const TRIES: u32 = 5;
const TRIES_OF_MIRROR: u32 = 2;
/// Room that is left to the others on the disk.
const RESERVE: u64 = 16 << 20;

/// Pulls an image; `dry_run`: only tells what would come.
///
/// # Errors
/// Why neither its mirrors nor its registry give it. What has arrived stays where another try can use it.
pub async fn run(
    context: &Context,
    image: &str,
    dry_run: bool,
    keep: Option<&[String]>,
) -> Result<Pulled, PullError> {
    let name = Reference::parse(image)?;
    let remote = Remote::parse(image).ok_or_else(|| PullError::NoRegistry(image.to_owned()))?;
    let keep: Option<HashSet<Reference>> = keep.map(|keep| {
        keep.iter().filter_map(|name| Reference::parse(name).ok()).chain([name.clone()]).collect()
    });
    let pulled = from_any(context, &name, &remote, dry_run, keep.as_ref()).await;
    if let Err(error) = &pulled
        && !dry_run
        && !error.keeps_parts()
    {
        context.store.collect(&context.store.entries()?, &[], false)?;
    }
    pulled
}

async fn from_any(
    context: &Context,
    name: &Reference,
    remote: &Remote,
    dry_run: bool,
    keep: Option<&HashSet<Reference>>,
) -> Result<Pulled, PullError> {
    let spec = &context.registries;
    let mirrors = spec.mirrors.iter().filter(|(registry, _)| *registry == remote.registry);
    let mirrors = mirrors.flat_map(|(_, mirrors)| mirrors).map(|mirror| (mirror, TRIES_OF_MIRROR));
    let (mut failures, mut keeps) = (Vec::new(), false);
    for (host, tries) in mirrors.chain([(&remote.registry, TRIES)]) {
        let secure = !spec.insecure.contains(host);
        let credentials = context.credentials.of(host);
        let registry = Registry::new(&context.network, host, secure, &remote.repository, credentials);
        match (Pull { context, registry, name, tries, dry_run }).run(remote, keep).await {
            Err(error) if !error.is_own() => {
                keeps |= error.keeps_parts();
                failures.push(error.to_string());
            }
            other => {
                for failure in failures {
                    context.reporter.send(&Report::Note(format!("image {name}: {failure}")));
                }
                return other;
            }
        }
    }
    Err(PullError::Sources(failures.join("; "), keeps))
}

struct Pull<'a> {
    context: &'a Context,
    registry: Registry<'a>,
    name: &'a Reference,
    tries: u32,
    dry_run: bool,
}

impl Pull<'_> {
    async fn run(&self, remote: &Remote, keep: Option<&HashSet<Reference>>) -> Result<Pulled, PullError> {
        let Context { store, reporter, host, .. } = self.context;
        let resolved = resolve(&self.registry, &remote.version, host, self.tries).await?;
        let signed = match &self.context.needed {
            Needed::Cosign(key, signed_as) => {
                let signed = resolved.top.digest;
                let signatures = signature::fetch(&self.registry, key, signed_as, signed, self.tries).await?;
                Some((signatures, key.name()))
            }
            _ => None,
        };
        let mut entries = store.entries()?;
        let before = entries.find(self.name).map(|entry| entry.digest);
        let size_before = before.map_or(0, |digest| store.size(digest));
        let known = before == Some(resolved.top.digest);
        let blobs = blobs(&resolved);
        let mut missing = Vec::new();
        let mut there = 0_u64;
        for blob in &blobs {
            if self.has(blob, !known).await? {
                there = there.saturating_add(blob.size);
            } else {
                missing.push(blob.clone());
            }
        }
        let total = size(&blobs);
        let pulled = |bytes| Pulled {
            digest: resolved.top.digest.to_string(),
            before: before.map(|digest| digest.to_string()),
            bytes,
            size: documents(&resolved).fold(total, |sum, one| sum.saturating_add(one.bytes.len() as u64)),
            size_before,
            signer: signed.as_ref().map(|(_, signer)| signer.clone()),
        };
        reporter.begin(total, resolved.manifest.layers.0.len());
        reporter.add_bytes(there);
        let needed = size(&missing);
        if self.dry_run {
            return Ok(pulled(needed));
        }
        self.make_room(&mut entries, &resolved, &blobs, needed, keep)?;
        let signatures = signed.iter().flat_map(|(signatures, _)| signatures.documents());
        for Document { digest, bytes, .. } in documents(&resolved).chain(signatures) {
            if !store.has(*digest, bytes.len() as u64, true) {
                store.put(*digest, bytes)?;
            }
        }
        let config = resolved.manifest.config.digest;
        let (first, layers): (Vec<_>, Vec<_>) = missing.into_iter().partition(|blob| blob.digest == config);
        let mut bytes = 0_u64;
        for blob in &first {
            bytes = bytes.saturating_add(self.fetch(blob).await?);
        }
        judge(&resolved, &store.document(config)?, host, &self.registry.host)?;
        let done = std::cell::Cell::new(0_usize);
        let fetches = layers.iter().map(|blob| async {
            let came = self.fetch(blob).await?;
            done.set(done.get().saturating_add(1));
            reporter.at_layer(done.get());
            Ok::<u64, PullError>(came)
        });
        let came: Vec<u64> = stream::iter(fetches).buffer_unordered(TOGETHER).try_collect().await?;
        let bytes = came.into_iter().fold(bytes, u64::saturating_add);
        let held = entries.find(self.name).filter(|entry| entry.digest == resolved.top.digest);
        let held = held.and_then(|entry| entry.annotations.signature);
        let signature = signed.as_ref().map(|(signatures, _)| signatures.list.digest).or(held);
        let entry = self.entry(&resolved.top, signature);
        if !entries.manifests.contains(&entry) {
            entries.take(entry);
            store.save(&entries)?;
        }
        store.collect(&entries, &[], false)?;
        Ok(pulled(bytes))
    }

    async fn fetch(&self, blob: &Wanted) -> Result<u64, PullError> {
        let Context { store, reporter, .. } = self.context;
        fetch(&self.registry, store, reporter, blob, Retry::new(self.tries)).await
    }

    /// Whether a blob is there; `prove`: by its digest.
    async fn has(&self, blob: &Wanted, prove: bool) -> Result<bool, PullError> {
        let (store, digest, size) = (self.context.store.clone(), blob.digest, blob.size);
        let has = tokio::task::spawn_blocking(move || store.has(digest, size, prove));
        has.await.map_err(|_| PullError::Thread)
    }

    /// Images that no service needs leave until the new one has room, the oldest first.
    fn make_room(
        &self,
        entries: &mut Entries,
        resolved: &Resolved,
        blobs: &[Wanted],
        needed: u64,
        keep: Option<&HashSet<Reference>>,
    ) -> Result<(), PullError> {
        let store = &self.context.store;
        let also: Vec<Digest> =
            blobs.iter().map(|blob| blob.digest).chain(documents(resolved).map(|one| one.digest)).collect();
        loop {
            let (used, free) = store.room()?;
            let limit = self.context.registries.max_size.map_or(u64::MAX, |most| most.saturating_sub(used));
            let disk = free.saturating_sub(RESERVE);
            let room = limit.min(disk);
            if needed <= room {
                return Ok(());
            }
            let is_unused = |entry: &Entry| keep.is_some_and(|keep| !keep.contains(&entry.annotations.name));
            let unused = entries.manifests.iter().position(is_unused);
            let Some(unused) = unused else {
                return Err(PullError::Room { needed, room, disk: disk < limit });
            };
            entries.manifests.remove(unused);
            store.save(entries)?;
            store.collect(entries, &also, true)?;
        }
    }

    fn entry(&self, top: &Document, signature: Option<Digest>) -> Entry {
        Entry {
            media_type: top.media_type.clone(),
            digest: top.digest,
            size: top.bytes.len() as u64,
            annotations: Name { name: self.name.clone(), signature },
        }
    }
}

/// The manifest, and the index where there is one.
fn documents(resolved: &Resolved) -> impl Iterator<Item = &Document> {
    resolved.child.iter().chain([&resolved.top])
}

fn size(blobs: &[Wanted]) -> u64 {
    blobs.iter().fold(0, |sum, blob| sum.saturating_add(blob.size))
}

/// The config and the layers of an image, each once.
fn blobs(resolved: &Resolved) -> Vec<Wanted> {
    let manifest = &resolved.manifest;
    let layers = manifest.layers.0.len();
    let config = (&manifest.config, "its config".to_owned());
    let named = manifest.layers.0.iter().zip(1_usize..);
    let named = named.map(|(layer, number)| (layer, format!("layer {number} of {layers}")));
    let mut seen = HashSet::new();
    [config]
        .into_iter()
        .chain(named)
        .filter(|(blob, _)| seen.insert(blob.digest))
        .map(|(blob, what)| Wanted { digest: blob.digest, size: blob.size, what })
        .collect()
}
