//! Images from registries: pulled for the containers that start, and once more where an operator asks for that.

use std::path::{Path, PathBuf};

use kelson_image::{Listing, Pulled, Puller, Remote, UnpackFailure};
use kelson_runner::{ImageConfig, RunnerError};
use kelson_spec::registries::PullPolicy;
use kelson_spec::service::ImageSource;
use kelson_sys::ordered;

use super::messages::{Messages, PULLING};
use super::wanted::{Wanted, images_of, means};
use super::{Busy, ImageStore, ImagesError, as_error};
use crate::Manager;

/// In the place of a service: its events are those of the host.
pub(super) const OPERATOR: &str = "";

/// What an operator's update of an image has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Updated {
    pub pulled: Pulled,
    /// The services that run from it, each after those that it needs; none where the image is as before.
    pub services: Vec<String>,
}

impl ImageStore {
    /// Asks the registry what the name of an image leads to now, and has that pulled; with `dry_run` nothing comes. The next
    /// run of each service takes the new image; no service is restarted. Dropping the future ends the work.
    ///
    /// # Errors
    /// When the name leads to no registry, an archive goes before it, or it cannot be pulled.
    pub async fn update(
        &self,
        manager: &Manager,
        image: &str,
        dry_run: bool,
    ) -> Result<Updated, ImagesError> {
        let Some(puller) = &self.inner.puller else {
            let text = "this init was built without the feature pull; use the full init";
            return Err(ImagesError::NotNow(text.to_owned()));
        };
        if Remote::parse(image).is_none() {
            return Err(ImagesError::NotNow(format!(
                "{} names no registry, such as registry.example/app:1.4 does",
                kelson_spec::quoted(image)
            )));
        }
        let Listing { images, .. } = self.ask(self.inner.unpacker.list()).await?;
        let archives = images.iter().filter(|row| means(image, row)).filter_map(|row| row.archive.as_deref());
        let mut archives = archives.filter(|archive| !Path::new(archive).starts_with(puller.folder()));
        if let Some(archive) = archives.next() {
            return Err(ImagesError::NotNow(format!(
                "{archive} holds {image}, and an archive goes before a registry; replace or remove it"
            )));
        }
        let pulled = self.pull(puller, OPERATOR, image, dry_run).await;
        let pulled = pulled.map_err(|failure| ImagesError::Failed(failure.text))?;
        let services = match pulled.before.as_ref() {
            Some(before) if *before == pulled.digest => Vec::new(),
            _ => self.users(manager, image),
        };
        if !dry_run {
            manager.prepare_again(&services);
        }
        Ok(Updated { pulled, services })
    }

    /// The services that run from an image or have it as a volume, or are about to.
    fn users(&self, manager: &Manager, image: &str) -> Vec<String> {
        let row = kelson_image::ImageRow { reference: image.to_owned(), ..Default::default() };
        let services = manager.list().into_iter().filter(|service| !service.state.at_rest());
        let users = services.filter(|service| {
            images_of(manager, &service.name).iter().any(|(_, wanted)| means(wanted, &row))
        });
        manager.in_order(&ordered::set(users.map(|service| service.name)))
    }

    /// Has the image of a volume of a service unpacked, and pulled where its source wants that. Returns the folders of its
    /// layers, the upper ones first. Dropping the future ends the work.
    ///
    /// # Errors
    /// A sentence for the operator, and whether another try can help.
    pub async fn prepare_volume(
        &self,
        service: &str,
        volume: &str,
        source: &ImageSource,
    ) -> Result<Vec<PathBuf>, RunnerError> {
        let wanted = Wanted::by_volume(service, volume, source);
        let ImageConfig { store, layers, .. } = self.provide(&wanted).await.map_err(as_error)?;
        Ok(layers.iter().map(|layer| Path::new(&store).join(layer)).collect())
    }

    /// Has an image pulled where the service's file wants that, and unpacked.
    pub(super) async fn provide(&self, wanted: &Wanted<'_>) -> Result<ImageConfig, UnpackFailure> {
        let Wanted { service, image, pull, .. } = *wanted;
        let remote = pull != PullPolicy::Never && Remote::parse(image).is_some();
        let Some(puller) = self.inner.puller.as_ref().filter(|_| remote) else {
            return self.unpack(wanted).await;
        };
        let pull_it = async || {
            self.keep(wanted);
            self.pull(puller, service, image, false).await
        };
        let mut pulled = None;
        if pull == PullPolicy::Always {
            let result = pull_it().await;
            if let Err(failure) = &result {
                // It may have been pulled before.
                self.tell(service, &failure.text);
            }
            pulled = Some(result);
        }
        match self.unpack(wanted).await {
            Err(UnpackFailure { absent: true, .. }) => {}
            done => return done,
        }
        match pulled {
            Some(Err(failure)) => return Err(failure),
            _ => drop(pull_it().await?),
        }
        self.unpack(wanted).await
    }

    /// Has an image pulled, and reports it as events of the service; with `dry_run` nothing comes.
    async fn pull(
        &self,
        puller: &Puller,
        service: &str,
        image: &str,
        dry_run: bool,
    ) -> Result<Pulled, UnpackFailure> {
        let mut messages = Messages::new(&PULLING, image);
        let _permit = self.permit(&self.inner.pulls, service, &messages).await?;
        let _busy = Busy::new(&self.inner.busy, service, image);
        let keep = self.kept();
        messages.begin();
        let pulled = puller.pull(image, dry_run, keep, |news| self.news(service, &mut messages, news));
        let pulled = pulled.await.map_err(|failure| UnpackFailure {
            text: format!("image {image} cannot be pulled: {}", failure.text),
            ..failure
        })?;
        if !dry_run {
            self.tell(service, &messages.pulled(&pulled));
        }
        Ok(pulled)
    }

    /// The images that services need. `None`: nobody knows all of them.
    fn kept(&self) -> Option<Vec<String>> {
        let manager = self.inner.manager.get().filter(|manager| manager.unsound_files().is_empty())?;
        Some(self.needed(manager))
    }
}
