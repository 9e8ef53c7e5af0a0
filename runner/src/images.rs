//! Where containers get their images from.

pub use kelson_spec::image::ImageConfig;
use kelson_spec::service::ContainerSpec;

use crate::runner::{BoxFuture, RunnerError};

/// Has images pulled and unpacked. Implemented above, where an unpack can be reported to the operator.
pub trait Images: Send + Sync {
    /// The image of a container, complete for its runtime, and what its config says; pulled and unpacked now where that is
    /// missing. The user of the service file is looked up in the image's own files instead of the config's. Dropping the
    /// future ends the work.
    fn prepare<'a>(
        &'a self,
        service: &'a str,
        container: &'a ContainerSpec,
    ) -> BoxFuture<'a, Result<ImageConfig, RunnerError>>;

    /// Returns once the archives are no longer those for which this number stands, and have come to rest. Never, where
    /// there are none.
    fn changed(&self, archives: u32) -> BoxFuture<'_, ()> {
        let _ = archives;
        Box::pin(std::future::pending())
    }
}
