//! Images of containers that PID 1 runs itself, and of volumes: unpacked into folders of Kelson's own, without containerd.

mod extract;
mod prune;
mod sink;
mod store;

use std::path::Path;
use std::sync::Arc;

use kelson_containerd::Mount;
use kelson_image::{Digest, ImageConfig, Reference, Report, Unpacked};
use tokio::runtime::Handle;

use crate::Context;
use crate::archive::{Archive, ArchiveError, Config, Found, Hasher, Layer, ReadError};
use crate::blocking::blocking;
use crate::chain::chain_ids;
use crate::error::{LayerOf, UnpackError};
use crate::judge::judge;
use crate::unpack::{self, Described};
pub use extract::ExtractError;
pub use prune::prune;
use sink::Sink;
use store::Record;
pub use store::Store;

/// Has an image unpacked for the container of a service, as a user; what that wrote before goes. `None`: for a volume, which
/// has its files alone.
pub async fn run(
    context: &Context,
    image: &str,
    container: Option<(&str, Option<&str>)>,
) -> Result<Report, UnpackError> {
    let wanted = Reference::parse(image)?;
    let (scan, opened) = context.scan(Some(wanted.clone())).await?;
    let archives = scan.archives;
    let work = async {
        let missing = || unpack::no_archive(context, &wanted, &scan);
        let opened = judge(context, &wanted, &scan, opened, missing).await?;
        let store = Store::below(&context.state_dir)?;
        if let Some((service, _)) = container {
            let (of_service, service_name) = (store.clone(), service.to_owned());
            blocking(move || of_service.discard(&service_name)).await??;
        }
        let name = wanted.to_string();
        let found = scan.find(&wanted);
        let record = store.record(&name)?.filter(|record| {
            found.is_none_or(|found| found.manifest == record.manifest)
                && store.is_whole(record)
                && (container.is_none() || !record.is_artifact())
        });
        let (record, was_there) = match (record, found) {
            (Some(record), _) => (record, true),
            (None, Some(found)) => {
                (bring(context, &store, &wanted, found, opened, container.is_some()).await?, false)
            }
            (None, None) => return Err(missing()),
        };
        context.reporter.begin(record.size, record.chain_ids.len());
        context.reporter.add_bytes(record.size);
        context.reporter.at_layer(record.chain_ids.len());
        let digest = record.manifest.to_string();
        let names = record.chain_ids.iter().rev().map(Store::folder_name);
        let (layers, folder) = (names.collect(), store.layers().display().to_string());
        let config = match container {
            Some((service, user)) => describe(context, &store, name, record, user, service).await?,
            None => ImageConfig { image: name, ..ImageConfig::default() },
        };
        let config = ImageConfig { store: folder, layers, ..config };
        Ok(Unpacked { config, digest, was_there, archives: 0 })
    };
    unpack::report(work.await, archives)
}

/// Brings an image from its archive: each layer that is missing, then the record that names them.
async fn bring(
    context: &Context,
    store: &Store,
    wanted: &Reference,
    found: &Found,
    opened: Option<Archive>,
    is_program: bool,
) -> Result<Record, UnpackError> {
    let name = wanted.to_string();
    let (path, wanted, host) = (found.archive.clone(), wanted.clone(), context.host.clone());
    let in_image = {
        let name = name.clone();
        move |error: ArchiveError| UnpackError::Archive { image: name.clone(), error }
    };
    let (store, locks, reporter) = (store.clone(), context.locks.clone(), Arc::clone(&context.reporter));
    let runtime = Handle::current();
    let work = move || {
        let archive = match opened {
            Some(archive) => archive,
            None => Archive::open(&path).map_err(&in_image)?,
        };
        let image = if is_program { archive.program(&wanted, &host) } else { archive.image(&wanted, &host) };
        let image = image.map_err(&in_image)?;
        reporter.begin(image.size(), image.layers.len());
        let is_artifact = !image.platform.is_some();
        // The files of an artifact lie beside one another, and often there are many.
        let (chain_ids, at_once) = if is_artifact {
            (vec![Hasher::of(format!("artifact {}", image.manifest.digest).as_bytes())], image.layers.len())
        } else {
            (chain_ids(&image.settings.diff_ids), 1)
        };
        let mut number = 0_usize;
        for (place, (id, layers)) in chain_ids.iter().zip(image.layers.chunks(at_once.max(1))).enumerate() {
            reporter.at_layer(number.saturating_add(1));
            // One at a time: the second process finds the layer there.
            let lock = format!("layer-{}", id.hex());
            let _lock = runtime.block_on(locks.take(&lock))?;
            if store.has(id) {
                reporter.add_bytes(layers.iter().fold(0, |sum, layer| sum.saturating_add(layer.blob.size)));
                number = number.saturating_add(layers.len());
                continue;
            }
            let (new, below) = (store.begin(id)?, chain_ids.get(..place).unwrap_or_default());
            for layer in layers {
                number = number.saturating_add(1);
                reporter.at_layer(number);
                let at = || {
                    Box::new(LayerOf {
                        image: name.clone(),
                        layer: number,
                        layers: image.layers.len(),
                        archive: Some(path.clone()),
                    })
                };
                let sink = Sink::new(&new, store.folders(below), store.space(), Arc::clone(&reporter));
                let diff_id = extract(&archive, layer, sink, &at)?;
                // The digest of its blob is proved, and an artifact tells no other one.
                if !is_artifact && diff_id != Some(layer.diff_id) {
                    let found = diff_id.map(|digest| digest.to_string()).unwrap_or_default();
                    return Err(UnpackError::DiffId { at: at(), expected: layer.diff_id.to_string(), found });
                }
            }
            store.commit(new, id)?;
        }
        let record = Record {
            name: name.clone(),
            manifest: image.manifest.digest,
            size: image.size(),
            chain_ids,
            config: String::from_utf8_lossy(&image.config.bytes).into_owned(),
        };
        // Last, so that a record stands for a whole image at any time. Others may write it for the same image.
        let _lock = runtime.block_on(locks.take(&store.lock_name(&name)))?;
        store.put(&record)?;
        Ok(record)
    };
    blocking(work).await?
}

/// Unpacks one layer. The digest of its tar, where it is one.
fn extract(
    archive: &Archive,
    layer: &Layer,
    mut sink: Sink,
    at: &dyn Fn() -> Box<LayerOf>,
) -> Result<Option<Digest>, UnpackError> {
    let read = archive.read(std::slice::from_ref(&layer.blob), &mut sink);
    // What the sink says is nearer to the cause than that it takes no more bytes.
    let unpacked = sink.finish().map_err(|error| UnpackError::Extract { at: at(), error });
    match read {
        Ok(()) | Err(ReadError::Sink(None)) => unpacked,
        Err(ReadError::Archive(error)) => Err(UnpackError::Archive { image: at().image, error }),
        Err(ReadError::Sink(Some(error))) => Err(UnpackError::Layer { at: at(), error: Box::new(error) }),
    }
}

async fn describe(
    context: &Context,
    store: &Store,
    name: String,
    record: Record,
    user: Option<&str>,
    service: &str,
) -> Result<ImageConfig, UnpackError> {
    let settings = Config::parse("its config", record.config.as_bytes())
        .map_err(|trouble| UnpackError::Damaged { image: name.clone(), text: trouble.to_string() })?;
    let mounts = look_mounts(&store.folders(&record.chain_ids));
    let user = user.unwrap_or(&settings.user).to_owned();
    let point = context.folder.join(format!("users-{service}"));
    let account = unpack::account(context, &name, &user, mounts, point).await?;
    let described = Described { name, settings, account };
    let writable = store.writable(service).display().to_string();
    Ok(ImageConfig { writable, ..described.config().await? })
}

/// The mount that shows layers, the lowest first, to be read alone.
fn look_mounts(folders: &[std::path::PathBuf]) -> Vec<Mount> {
    let text = |folder: &Path| folder.display().to_string();
    match folders {
        [] => Vec::new(),
        [one] => vec![Mount { r#type: "bind".to_owned(), source: text(one), ..Mount::default() }],
        many => {
            let lower: Vec<String> = many.iter().rev().map(|folder| text(folder)).collect();
            let options = vec![format!("lowerdir={}", lower.join(":"))];
            vec![Mount { r#type: "overlay".to_owned(), options, ..Mount::default() }]
        }
    }
}
