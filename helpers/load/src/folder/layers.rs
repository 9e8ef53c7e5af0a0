//! Layers over the configuration folder: a folder of each source that gave something.
//!
//! A key of the machine file of a layer replaces that key, and a file of a service, a group or a volume the file of that name. A
//! layer with a mistake is left out as a whole: half of what somebody meant may be worse than nothing of it.

use std::path::Path;

use super::Reading;
use crate::grammar::DecodedMachine;
use crate::sources::Sources;
use kelson_spec::loaded::Diagnostic;
use kelson_spec::sources::SourceKind;
use kelson_sys::ordered;

impl Reading {
    /// Lays the sources that the machine file names over what was read so far. Returns the machine file that comes of it.
    pub(super) fn lay_over(
        &mut self,
        folder: &Path,
        sources: &Sources,
        mut machine: DecodedMachine,
    ) -> DecodedMachine {
        let kinds: Vec<SourceKind> = machine.spec.sources.iter().flat_map(|spec| spec.kinds()).collect();
        for kind in kinds {
            let folder = folder.join(kind.name());
            if folder.symlink_metadata().is_err() {
                continue;
            }
            let mut layer = Reading { is_layer: true, ..Reading::new(sources) };
            let over = layer.files(&folder, sources, machine.clone());
            if layer.diagnostics.is_empty() {
                machine = over;
                self.take(layer);
            } else {
                self.leave_out(kind, layer.diagnostics);
            }
        }
        machine
    }

    fn take(&mut self, layer: Reading) {
        let replaced = |name: &str| layer.services.iter().any(|decoded| decoded.spec.name == name);
        let is_group = |name: &str| layer.groups.iter().any(|(_, group, _)| group == name);
        let is_volume = |name: &str| layer.volumes.iter().any(|(_, volume, _)| volume == name);
        self.services.retain(|decoded| !replaced(&decoded.spec.name));
        self.members.retain(|member| !replaced(&member.service));
        self.spared.retain(|name| !replaced(name));
        self.groups.retain(|(_, name, _)| !is_group(name));
        self.volumes.retain(|(_, name, _)| !is_volume(name));
        // The mistakes of a file that does not count any more.
        self.diagnostics.retain(|found| {
            let stem = found.file.file_stem().and_then(std::ffi::OsStr::to_str);
            let of_group = found.is_of_a_group() && stem.is_some_and(is_group);
            let of_volume = found.is_of_a_volume() && stem.is_some_and(is_volume);
            !of_group && !of_volume && !found.service.as_deref().is_some_and(replaced)
        });
        self.services.extend(layer.services);
        self.members.extend(layer.members);
        self.spared.extend(layer.spared);
        self.groups.extend(layer.groups);
        ordered::sort_by(&mut self.groups, |one, other| one.1.cmp(&other.1));
        self.volumes.extend(layer.volumes);
        self.warnings.extend(layer.warnings);
    }

    /// Its mistakes are none of the services of the host, which run by other files.
    fn leave_out(&mut self, kind: SourceKind, mistakes: Vec<Diagnostic>) {
        self.skipped.push(kind);
        self.warnings.extend(mistakes.into_iter().map(|found| Diagnostic {
            service: None,
            message: format!("{}; the source {} is skipped as a whole", found.message, kind.name()),
            ..found
        }));
    }
}
