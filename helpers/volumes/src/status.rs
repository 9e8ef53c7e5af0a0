//! One volume as its file and its plugin describe it, whether it is in use or not.

use kelson_proto::v1::VolumeStatusResponse;
use kelson_spec::volume_file::VolumeFile;

use crate::job::{Failure, InUse};
use crate::provider;
use crate::world::Host;

impl Host {
    /// Nothing of it is secret: it has neither context nor parameters.
    ///
    /// # Errors
    /// It has no file, and nothing of it is left.
    pub async fn status(
        &self,
        file: Result<VolumeFile, Failure>,
        in_use: &InUse,
    ) -> Result<VolumeStatusResponse, Failure> {
        let mut status = VolumeStatusResponse::default();
        match file {
            Ok(file) => {
                let mut plugins = self.plugins.all();
                plugins.retain(|plugin| plugin.id == file.plugin);
                status.providers = provider::all(plugins, self.deadlines.identity).await;
                let VolumeFile { plugin, id, fs_type, mount_flags, .. } = file;
                (status.plugin, status.id, status.fs_type) = (plugin, id, fs_type);
                status.mount_flags = mount_flags;
            }
            Err(failure) if in_use.is_known => status.file_error = failure.text,
            Err(failure) => return Err(failure),
        }
        Ok(status)
    }
}
