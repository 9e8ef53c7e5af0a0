//! Records of containers.

use std::collections::HashMap;

use api::container::Runtime;
use containerd_client::services::v1 as api;
use prost_types::{Any, FieldMask};

use crate::{Containerd, Result, found};

/// A container record to be made; its snapshot has its name.
pub struct NewContainer {
    pub id: String,
    pub image: String,
    pub runtime: String,
    pub options: Any,
    pub spec: Any,
    pub snapshotter: String,
    /// By its name.
    pub extension: (String, Any),
}

impl Containerd {
    pub async fn make_container(&self, new: NewContainer) -> Result<()> {
        let NewContainer { id, image, runtime, options, spec, snapshotter, extension } = new;
        let container = api::Container {
            id: id.clone(),
            image,
            runtime: Some(Runtime { name: runtime, options: Some(options) }),
            spec: Some(spec),
            snapshotter,
            snapshot_key: id,
            extensions: HashMap::from([extension]),
            ..Default::default()
        };
        self.call(api::CreateContainerRequest { container: Some(container) }).await.map(drop)
    }

    pub async fn container(&self, id: &str) -> Result<Option<api::Container>> {
        let answer = found(self.call(api::GetContainerRequest { id: id.to_owned() }).await)?;
        Ok(answer.and_then(|answer| answer.container))
    }

    pub async fn set_spec(&self, id: &str, spec: Any) -> Result<()> {
        let container = api::Container { id: id.to_owned(), spec: Some(spec), ..Default::default() };
        let mask = FieldMask { paths: vec![String::from("spec")] };
        let request = api::UpdateContainerRequest { container: Some(container), update_mask: Some(mask) };
        self.call(request).await.map(drop)
    }

    pub async fn remove_container(&self, id: &str) -> Result<()> {
        found(self.call(api::DeleteContainerRequest { id: id.to_owned() }).await).map(drop)
    }
}
