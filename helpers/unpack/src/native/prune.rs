//! Images of containers that PID 1 runs itself, and of volumes, go away when no service names them any more, and what
//! containers have written when they are there no more.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kelson_image::{ImageConfig, Pruned, Reference, Report};
use kelson_spec::service::{ImageSource, Volume};

use super::Store;
use super::store::names;
use crate::Context;
use crate::blocking::blocking;
use crate::error::UnpackError;

/// Removes the images that are none of `keep`, and the layers that nothing needs then.
pub async fn prune(context: &Context, keep: &[Reference], dry_run: bool) -> Result<(), UnpackError> {
    let store = Store::below(&context.state_dir)?;
    for image in store.images()? {
        if Reference::parse(&image.name).is_ok_and(|name| keep.contains(&name)) {
            continue;
        }
        if !dry_run {
            store.forget(&image.name)?;
        }
        context.reporter.send(&Report::Pruned(Pruned { reference: image.name, size: image.size }));
    }
    if dry_run {
        return Ok(());
    }
    let containers = context.containers.clone();
    let remove = move || {
        let there = containers_of(&containers)?;
        // One may run from an image that is another by now.
        let volumes = volumes_of(&containers)?;
        store.remove_layers(&there.values().flatten().cloned().chain(volumes).collect())?;
        store.remove_written(|service| there.contains_key(service))
    };
    blocking(remove).await?
}

/// The containers that there are, by their services, each with its layers.
fn containers_of(folder: &Path) -> Result<BTreeMap<String, Vec<String>>, UnpackError> {
    let mut there = BTreeMap::new();
    for service in names(folder)? {
        if let Some(text) = read(folder.join(&service).join("image"))? {
            let image = serde_json::from_slice::<ImageConfig>(&text);
            there.insert(service, image.map(|image| image.layers).unwrap_or_default());
        }
    }
    Ok(there)
}

/// The layers that services have as volumes.
fn volumes_of(folder: &Path) -> Result<Vec<String>, UnpackError> {
    let mut layers = Vec::new();
    for service in names(folder)? {
        let path = folder.join(&service).join(ImageSource::RECORD);
        let Some(text) = read(path.clone())? else { continue };
        let text = String::from_utf8_lossy(&text);
        let volumes: Option<Vec<Volume>> = text.lines().map(Volume::from_word).collect();
        let volumes =
            volumes.ok_or_else(|| UnpackError::Store { path, error: ErrorKind::InvalidData.into() })?;
        let folders =
            volumes.iter().filter_map(|volume| volume.source.image()).flat_map(|image| &image.layers);
        let names = folders.filter_map(|folder| Some(folder.file_name()?.to_str()?.to_owned()));
        layers.extend(names);
    }
    Ok(layers)
}

/// A file, where it is there.
fn read(path: PathBuf) -> Result<Option<Vec<u8>>, UnpackError> {
    match fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some).map_err(|error| UnpackError::Store { path, error }),
    }
}
