//! What a source gave is remembered in the state folder, for boots at which its disk is not there.

use std::fs;
use std::path::Path;

use kelson_load::read_tree;
use kelson_secrets::{SecretError, held};
use kelson_spec::sources::{FOLDER, SourceKind};
use kelson_sys::removed;

use crate::{SourceError, layer};

/// The file beside those of a layer that names the instance.
const INSTANCE: &str = "instance-id";

/// Notes in its layer for which instance a source gave it.
///
/// # Errors
/// When it cannot be written.
pub fn note_instance(layer: &Path, instance: &str) -> Result<(), SourceError> {
    let failed = |error| SourceError::Write { path: layer.to_owned(), error };
    // A seed may name its instance and nothing else.
    fs::create_dir_all(layer).map_err(failed)?;
    fs::write(layer.join(INSTANCE), instance).map_err(failed)
}

fn instance_of(layer: &Path) -> Option<String> {
    fs::read_to_string(layer.join(INSTANCE)).ok()
}

/// Remembers in the state folder what a source gave; where it gave nothing, because its disk has not come, takes what is
/// remembered. `folder`: where the sources bring what they give. Returns what it did.
///
/// # Errors
/// When one of them cannot be read or written.
pub fn keep(kind: SourceKind, folder: &Path, state: &Path) -> Result<String, SourceError> {
    let (layer, kept) = (&folder.join(kind.name()), &state.join(FOLDER).join(kind.name()));
    let before = instance_of(kept);
    let Some(instance) = instance_of(layer) else {
        if layer.exists() {
            return Ok("it gave nothing that could be remembered".to_owned());
        }
        let Some(instance) = before else { return Ok("nothing is remembered".to_owned()) };
        copy(kept, layer, &instance, || held::recall(folder, kind, state))?;
        return Ok(format!("instance {instance}, as remembered"));
    };
    let is_same = before.as_ref() == Some(&instance) && tree(layer)? == tree(kept)?;
    if is_same && held::is_remembered(folder, kind, state)? {
        return Ok(format!("instance {instance}, as before"));
    }
    copy(layer, kept, &instance, || held::remember(folder, kind, state))?;
    Ok(match before {
        Some(before) if before != instance => format!("instance {instance} replaces instance {before}"),
        _ => format!("instance {instance} is remembered"),
    })
}

fn tree(folder: &Path) -> Result<Vec<kelson_spec::applied::TreeFile>, SourceError> {
    read_tree(folder).map_err(SourceError::Files)
}

/// Copies the files, then the secrets.
fn copy(
    from: &Path,
    to: &Path,
    instance: &str,
    secrets: impl FnOnce() -> Result<(), SecretError>,
) -> Result<(), SourceError> {
    let files = tree(from)?;
    // Without the name of its instance a copy that was broken off counts for nothing.
    let failed = |error| SourceError::Write { path: to.to_owned(), error };
    removed(fs::remove_file(to.join(INSTANCE))).map_err(failed)?;
    layer::write(to, &files)?;
    let names = files.iter().map(|file| file.name.as_str());
    let sync = |name: &str| fs::File::open(to.join(name)).and_then(|file| file.sync_all()).map_err(failed);
    names.clone().try_for_each(sync)?;
    secrets()?;
    note_instance(to, instance)?;
    sync(INSTANCE)
}

#[cfg(test)]
mod tests {
    use kelson_spec::applied::TreeFile;

    use super::*;

    fn give(layer: &Path, instance: &str, hostname: &str) {
        let file =
            TreeFile { name: "machine.yaml".to_owned(), content: format!("hostname: {hostname}\n").into() };
        layer::write(layer, &[file]).unwrap();
        note_instance(layer, instance).unwrap();
    }

    #[test]
    fn what_was_given_is_taken_where_the_disk_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let (run, state) = (folder.path().join("run"), folder.path().join("state"));
        let (layer, kept) = (run.join("noCloud"), state.join("sources/noCloud"));
        let keep = || keep(SourceKind::NoCloud, &run, &state);
        assert_eq!(keep().unwrap(), "nothing is remembered");
        give(&layer, "i-1", "a");
        assert_eq!(keep().unwrap(), "instance i-1 is remembered");
        assert_eq!(keep().unwrap(), "instance i-1, as before");
        fs::remove_dir_all(&layer).unwrap();
        assert_eq!(keep().unwrap(), "instance i-1, as remembered");
        assert_eq!(fs::read_to_string(layer.join("machine.yaml")).unwrap(), "hostname: a\n");
        give(&layer, "i-1", "b");
        assert_eq!(keep().unwrap(), "instance i-1 is remembered");
        give(&layer, "i-2", "c");
        assert_eq!(keep().unwrap(), "instance i-2 replaces instance i-1");
        assert_eq!(fs::read_to_string(kept.join("machine.yaml")).unwrap(), "hostname: c\n");
    }

    #[test]
    fn a_source_with_a_mistake_is_neither_remembered_nor_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (run, state) = (folder.path().to_owned(), folder.path().join("state"));
        let (layer, kept) = (run.join("noCloud"), state.join("sources/noCloud"));
        let keep = || keep(SourceKind::NoCloud, &run, &state);
        give(&kept, "i-1", "a");
        fs::create_dir(&layer).unwrap();
        assert_eq!(keep().unwrap(), "it gave nothing that could be remembered");
        assert!(!layer.join("machine.yaml").exists() && kept.join("machine.yaml").exists());
    }

    #[test]
    fn a_copy_that_was_broken_off_counts_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (run, state) = (folder.path().to_owned(), folder.path().join("state"));
        let (layer, kept) = (run.join("noCloud"), state.join("sources/noCloud"));
        let keep = || keep(SourceKind::NoCloud, &run, &state);
        give(&kept, "i-1", "a");
        fs::remove_file(kept.join(INSTANCE)).unwrap();
        assert_eq!(keep().unwrap(), "nothing is remembered");
        assert!(!layer.exists());
    }
}
