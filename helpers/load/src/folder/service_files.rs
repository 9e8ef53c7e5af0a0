//! The files of services: most are one service, and one with `instances` is several.

use std::path::Path;

use super::{Reading, Source, instances};
use crate::grammar::{self, Mapping};
use crate::member::Ties;
use crate::read::ReadError;
use crate::tree::Node;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::ServiceSpec;

impl Reading {
    pub(super) fn service_files(&mut self, folder: &Path) {
        let keys = grammar::service_file();
        for (path, stem) in self.files_of(folder, true) {
            self.service_file(&keys, &path, &stem);
        }
    }

    /// Reads a file of services.
    pub(super) fn service_file(&mut self, keys: &Mapping<ServiceSpec>, path: &Path, stem: &str) {
        let source = Source::read(path);
        let instances = match &source {
            Ok(source) if OWN.has(Feature::Units) => instances::of(source.tree(), &source.text),
            _ => Vec::new(),
        };
        if instances.is_empty() {
            self.service(keys, path, stem, None, &source);
        }
        for instance in instances {
            self.service(keys, path, stem, Some(&instance), &source);
        }
    }

    /// The service of a file, or one of those that it has instances for.
    pub(super) fn service(
        &mut self,
        keys: &Mapping<ServiceSpec>,
        path: &Path,
        stem: &str,
        instance: Option<&str>,
        source: &Result<Source, ReadError>,
    ) {
        let full = instance.map(|instance| instances::name(stem, instance));
        let of_instance = |root: &Node| instance.map(|instance| instances::tree(root, stem, instance));
        let stem = full.as_deref().unwrap_or(stem);
        let service = grammar::service_name(stem);
        let mut ties = Ties::default();
        let sound = self.decoded(path, service, source, |d, root, text| match root {
            Some(root) => {
                let own = of_instance(root);
                let decoded = grammar::service(d, keys, stem, own.as_ref().unwrap_or(root));
                ties = std::mem::take(&mut d.ties);
                decoded
            }
            None => {
                ties = Ties::guessed(stem, d.file, text);
                None
            }
        });
        if let Some(name) = service {
            self.members.extend(ties.member);
            self.spared.extend((ties.required == Some(false)).then(|| name.to_owned()));
        }
        let twin = self.services.iter().position(|other| other.spec.name == stem);
        if let Some(twin) = twin {
            let other = self.services.remove(twin).spec.file;
            let text =
                format!("{} has a service of the name {stem} too; rename one of them", other.display());
            self.note(path, service, text);
        }
        match sound.filter(|_| twin.is_none()) {
            Some(decoded) => self.services.push(decoded),
            None => self.known.extend(service.map(str::to_owned)),
        }
    }
}
