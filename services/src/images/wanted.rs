//! The images that services need, by their containers and their volumes.

use kelson_image::{Digest, ImageRow, Purpose, Reference};
use kelson_spec::registries::PullPolicy;
use kelson_spec::service::{ContainerSpec, ImageSource};

use crate::Manager;

/// An image that a service needs.
pub struct Wanted<'a> {
    pub service: &'a str,
    /// The volume that it is. `None`: the service's container.
    pub volume: Option<&'a str>,
    pub image: &'a str,
    pub pull: PullPolicy,
    pub purpose: Purpose,
}

impl<'a> Wanted<'a> {
    pub fn by_container(service: &'a str, container: &'a ContainerSpec) -> Wanted<'a> {
        let user = container.user.clone();
        let purpose = if container.is_native() {
            Purpose::Native { user, service: service.to_owned() }
        } else {
            Purpose::Container { user }
        };
        Wanted { service, volume: None, image: &container.image, pull: container.pull, purpose }
    }

    pub fn by_volume(service: &'a str, volume: &'a str, source: &'a ImageSource) -> Wanted<'a> {
        let ImageSource { image, pull, .. } = source;
        Wanted { service, volume: Some(volume), image, pull: *pull, purpose: Purpose::Volume }
    }
}

/// A service with each image that its file names.
pub fn images_of(manager: &Manager, service: &str) -> Vec<(String, String)> {
    let Some(spec) = manager.spec(service) else { return Vec::new() };
    let container = spec.container().map(|container| &container.image);
    let volumes = spec.volumes.iter().filter_map(|volume| volume.source.image()).map(|source| &source.image);
    container.into_iter().chain(volumes).map(|image| (service.to_owned(), image.clone())).collect()
}

/// Whether a service file that says `image` means this one.
pub fn means(image: &str, row: &ImageRow) -> bool {
    match (Reference::parse(image), Reference::parse(&row.reference)) {
        (Ok(wanted), Ok(held)) => {
            let digest: Vec<Digest> = Digest::parse(&row.digest).into_iter().collect();
            wanted.means(&held, &digest)
        }
        _ => image == row.reference,
    }
}
