//! The ids of the host that those of a container are.

use std::path::{Path, PathBuf};

use kelson_spec::ServiceSpec;
use kelson_spec::id_range::IdRange;

use crate::images::ImageConfig;
use crate::places::{claim, release};
use crate::runner::{ErrorKind, RunnerError};

/// The claim of a service to a range of ids, where it has a user namespace.
#[derive(Debug)]
pub(super) struct Ids {
    service: String,
    /// The folder in which ranges are claimed. `None`: the ids of the container are those of the host.
    folder: Option<PathBuf>,
    range: Option<IdRange>,
}

impl Ids {
    pub(super) fn new(spec: &ServiceSpec, runtime_dir: &Path) -> Ids {
        let is_mapped = spec.container().is_some_and(|container| container.user_namespace);
        let folder = is_mapped.then(|| runtime_dir.join("ids"));
        Ids { service: spec.name.clone(), folder, range: None }
    }

    /// Its range, claimed now if it has none yet. `None`: it has no user namespace.
    pub(super) fn range(&mut self) -> Result<Option<IdRange>, RunnerError> {
        let Some(folder) = self.folder.as_ref().filter(|_| self.range.is_none()) else {
            return Ok(self.range);
        };
        let service = &self.service;
        let first = claim(folder, IdRange::firsts(service), service).map_err(|error| {
            RunnerError::system(format_args!("cannot claim ids for container {service}"), &error)
        })?;
        let first = first
            .ok_or_else(|| RunnerError::new(format!("no range of ids is left for container {service}")))?;
        self.range = Some(IdRange { first });
        Ok(self.range)
    }

    /// The user and the group of the host that the image's are.
    pub(super) fn owner(&mut self, image: &ImageConfig) -> Result<(u32, u32), RunnerError> {
        let Some(range) = self.range()? else {
            return Ok((image.uid, image.gid));
        };
        let on_host = |what: &str, id: u32| {
            range.on_host(id).ok_or_else(|| {
                let text = format!(
                    "{what} {id} of image {} is above {}, the last one of a container with userNamespace: true; \
                     write userNamespace: false, or another user",
                    image.image,
                    IdRange::SIZE.saturating_sub(1)
                );
                RunnerError::of_kind(ErrorKind::Image { archives: image.archives }, text)
            })
        };
        for group in &image.groups {
            on_host("group", *group)?;
        }
        Ok((on_host("user", image.uid)?, on_host("group", image.gid)?))
    }

    /// Lets other services have the range, if no other one is left.
    pub(super) fn release(&mut self) {
        if let (Some(folder), Some(range)) = (&self.folder, self.range.take()) {
            release(folder, range.first, &self.service);
        }
    }
}
