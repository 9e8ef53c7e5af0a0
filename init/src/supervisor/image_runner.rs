//! The volumes of a service that are images: unpacked before anything else of it is made, as the image of a container is.
//!
//! Nothing is mounted for them but in the service's own namespace. What they were prepared from is written down, for a later
//! incarnation of PID 1, and for those who remove the images that nobody needs.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kelson_runner::{BoxFuture, ErrorKind, RunContext, Runner, RunnerError, native};
use kelson_services::images::ImageStore;
use kelson_spec::ServiceSpec;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::{ImageSource, OverlaySource, Volume, VolumeSource};
use kelson_sys::removed;

use super::provided_runner::{ProvidedRunner, Provision};

/// The runner of a service, which has the images of its volumes unpacked if it has some.
pub(super) fn with_images(
    inner: Box<dyn Runner>,
    spec: &Arc<ServiceSpec>,
    images: Option<&ImageStore>,
    runtime: &Path,
) -> Box<dyn Runner> {
    if const { !(OWN.has(Feature::Volumes) && OWN.has(Feature::Containerd)) } {
        return inner;
    }
    let Some(images) = images else { return inner };
    if !spec.volumes.iter().any(|volume| volume.source.image().is_some()) {
        return inner;
    }
    let folder = native::folder(runtime, &spec.name);
    let own = ImageVolumes { images: images.clone(), spec: Arc::clone(spec), folder, found: Vec::new() };
    Box::new(ProvidedRunner::new(inner, own))
}

struct ImageVolumes {
    images: ImageStore,
    spec: Arc<ServiceSpec>,
    folder: PathBuf,
    /// Those that are images, with their layers. Known from the opening to the close.
    found: Vec<Volume>,
}

impl ImageVolumes {
    fn record(&self) -> PathBuf {
        self.folder.join(ImageSource::RECORD)
    }

    fn write_down(&self) -> std::io::Result<()> {
        let lines: Vec<String> = self.found.iter().map(Volume::to_word).collect();
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let mut file = OpenOptions::new();
        file.write(true).create(true).truncate(true).mode(0o600);
        file.open(self.record())?.write_all(lines.join("\n").as_bytes())
    }
}

impl Provision for ImageVolumes {
    async fn claim(&mut self) -> Result<(), RunnerError> {
        let mut found = Vec::new();
        for volume in &self.spec.volumes {
            let Some(source) = volume.source.image() else { continue };
            let prepared = self.images.prepare_volume(&self.spec.name, &volume.name, source).await;
            let layers = prepared.and_then(|layers| fitting(layers, &source.image)).map_err(|error| {
                RunnerError { message: format!("volume {}: {error}", volume.name), ..error }
            })?;
            let source = VolumeSource::Image(ImageSource { layers, ..source.clone() });
            found.push(Volume { source, ..volume.clone() });
        }
        self.found = found;
        self.write_down()
            .map_err(|error| RunnerError::new(format!("cannot write {}: {error}", self.record().display())))
    }

    fn resume(&mut self) {
        let text = fs::read_to_string(self.record()).unwrap_or_default();
        self.found = text.lines().map(Volume::from_word).collect::<Option<_>>().unwrap_or_default();
    }

    async fn make(
        &mut self,
        _: &mut dyn Runner,
        _: bool,
        context: &mut RunContext,
    ) -> Result<(), RunnerError> {
        if self.found.is_empty() {
            // Its record is gone.
            self.claim().await?;
        }
        context.found.extend_from_slice(&self.found);
        Ok(())
    }

    fn archives_changed(&mut self, archives: u32) -> Option<BoxFuture<'_, ()>> {
        Some(Box::pin(self.images.changed(archives)))
    }

    async fn remove(&mut self) -> Result<(), RunnerError> {
        self.found.clear();
        self.images.release_volumes(&self.spec.name);
        removed(fs::remove_file(self.record()))
            .map_err(|error| RunnerError::new(format!("cannot remove {}: {error}", self.record().display())))
    }
}

/// The layers, if the kernel takes all of them at once.
fn fitting(layers: Vec<PathBuf>, image: &str) -> Result<Vec<PathBuf>, RunnerError> {
    let length: usize = layers.iter().map(|layer| layer.as_os_str().len().saturating_add(1)).sum();
    if length > OverlaySource::LONGEST {
        let text = format!(
            "image {image} has {} layers, more than the kernel takes as a volume; build it with fewer",
            layers.len()
        );
        return Err(RunnerError::of_kind(ErrorKind::Permanent, text));
    }
    Ok(layers)
}
