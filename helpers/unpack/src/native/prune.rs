//! Images of containers that PID 1 runs itself go away when no service names them any more, and what containers have written
//! when they are there no more.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use kelson_image::{ImageConfig, Pruned, Reference, Report};

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
        store.remove_layers(&there.values().flatten().cloned().collect())?;
        store.remove_written(|service| there.contains_key(service))
    };
    blocking(remove).await?
}

/// The containers that there are, by their services, each with its layers.
fn containers_of(folder: &Path) -> Result<BTreeMap<String, Vec<String>>, UnpackError> {
    let mut there = BTreeMap::new();
    for service in names(folder)? {
        let path = folder.join(&service).join("image");
        match fs::read(&path) {
            Ok(text) => {
                let image = serde_json::from_slice::<ImageConfig>(&text);
                there.insert(service, image.map(|image| image.layers).unwrap_or_default());
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(UnpackError::Store { path, error }),
        }
    }
    Ok(there)
}
