//! Images of containers that PID 1 runs itself go away when no service names them any more.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use kelson_image::{ImageConfig, Pruned, Reference, Report};

use super::Store;
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
    let used = in_use(&context.containers);
    blocking(move || store.remove_layers(&used)).await?
}

/// The layers of the containers that there are: one may run from an image that is another by now.
fn in_use(containers: &Path) -> BTreeSet<String> {
    let folders = fs::read_dir(containers).into_iter().flatten().flatten();
    let texts = folders.filter_map(|folder| fs::read(folder.path().join("image")).ok());
    let images = texts.filter_map(|text| serde_json::from_slice::<ImageConfig>(&text).ok());
    images.flat_map(|image| image.layers).collect()
}
