//! The files of volumes.

use std::path::Path;

use super::Reading;
use crate::grammar;
use crate::sources::Sources;
use kelson_spec::names::{VOLUMES, is_name};
use kelson_spec::quote::shown;
use kelson_spec::sources::SourceKind;
use kelson_spec::volume_file::VolumeFile;

impl Reading {
    pub(super) fn volume_files(&mut self, folder: &Path) {
        for (path, name) in self.files_of(folder, false) {
            if !is_name(&name) {
                let text = format!("{} is not the name of a volume; use a-z, 0-9 and -", shown(&name));
                self.note(&path, None, text);
                continue;
            }
            let volume = self.volume_file(&path, &name);
            self.volumes.push((path, name, volume));
        }
    }

    pub(super) fn volume_file(&mut self, path: &Path, name: &str) -> Option<VolumeFile> {
        self.file(path, None, |d, root, _| grammar::volume(d, name, root?))
    }
}

/// The volume `name` by the file that counts: of the last sound layer that has one, or that of the configuration folder.
pub(crate) fn volume(name: &str, config: &Path, layers: Option<&Path>) -> Result<VolumeFile, String> {
    let sources = Sources::default();
    let file = format!("{name}.yaml");
    let is_there = |folder: &Path| folder.join(VOLUMES).join(&file).symlink_metadata().is_ok();
    let with_file: Vec<SourceKind> = SourceKind::ALL
        .into_iter()
        .rev()
        .filter(|kind| layers.is_some_and(|layers| is_there(&layers.join(kind.name()))))
        .collect();
    if let Some(layers) = layers.filter(|_| !with_file.is_empty()) {
        let mut below = Reading::new(&sources);
        let machine = below.machine_file(config, sources.mode.machine_defaults());
        let used: Vec<SourceKind> = machine.spec.sources.iter().flat_map(|spec| spec.kinds()).collect();
        for kind in with_file.into_iter().filter(|kind| used.contains(kind)) {
            let mut layer = Reading { is_layer: true, ..Reading::new(&sources) };
            layer.files(&layers.join(kind.name()), &sources, machine.clone());
            if layer.diagnostics.is_empty() {
                let found = layer.volumes.into_iter().find(|(_, stem, _)| stem == name);
                return found.and_then(|(_, _, volume)| volume).ok_or_else(|| missing(name, config));
            }
        }
    }
    let path = config.join(VOLUMES).join(&file);
    if !is_there(config) {
        return Err(missing(name, config));
    }
    let mut reading = Reading::new(&sources);
    let volume = reading.volume_file(&path, name);
    volume.ok_or_else(|| {
        let mistakes: Vec<String> = reading.diagnostics.iter().map(ToString::to_string).collect();
        mistakes.join("; ")
    })
}

fn missing(name: &str, config: &Path) -> String {
    let path = config.join(VOLUMES).join(format!("{name}.yaml"));
    format!("there is no volume {name}: {} does not exist; write that file", path.display())
}
