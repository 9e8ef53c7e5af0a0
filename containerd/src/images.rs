//! Records of images: a name and the manifest that it stands for.

use std::collections::HashMap;

use containerd_client::services::v1 as api;
use containerd_client::types::Descriptor;
use prost_types::FieldMask;

use crate::{Containerd, Result, found, there};

/// The record of an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    pub name: String,
    pub media_type: String,
    /// Of the manifest, or of an index where another tool made the record.
    pub digest: String,
    pub size: u64,
}

impl From<api::Image> for Record {
    fn from(image: api::Image) -> Self {
        let target = image.target.unwrap_or_default();
        Self {
            name: image.name,
            media_type: target.media_type,
            digest: target.digest,
            size: u64::try_from(target.size).unwrap_or(0),
        }
    }
}

impl Record {
    fn message(&self) -> api::Image {
        let target = Descriptor {
            media_type: self.media_type.clone(),
            digest: self.digest.clone(),
            size: i64::try_from(self.size).unwrap_or(i64::MAX),
            annotations: HashMap::new(),
        };
        api::Image { name: self.name.clone(), target: Some(target), ..Default::default() }
    }
}

impl Containerd {
    pub async fn image(&self, name: &str) -> Result<Option<Record>> {
        let answer = found(self.call(api::GetImageRequest { name: name.to_owned() }).await)?;
        Ok(answer.and_then(|answer| answer.image).map(Record::from))
    }

    pub async fn images(&self) -> Result<Vec<Record>> {
        let images = self.call(api::ListImagesRequest::default()).await?.images;
        Ok(images.into_iter().map(Record::from).collect())
    }

    /// Makes the record, or has it stand for this manifest from now on.
    pub async fn set_image(&self, record: &Record) -> Result<()> {
        let create = api::CreateImageRequest { image: Some(record.message()), source_date_epoch: None };
        if there(self.call(create).await)?.is_some() {
            return Ok(());
        }
        let update = api::UpdateImageRequest {
            image: Some(record.message()),
            update_mask: Some(FieldMask { paths: vec![String::from("target")] }),
            source_date_epoch: None,
        };
        self.call(update).await.map(drop)
    }

    /// Removes the record, and what nothing else refers to. `false`: it was not there any more.
    pub async fn remove_image(&self, name: &str) -> Result<bool> {
        let request = api::DeleteImageRequest { name: name.to_owned(), sync: true, target: None };
        Ok(found(self.call(request).await)?.is_some())
    }
}
