//! The service Images: what archives and containerd hold, and the removal of what no service needs.

use kelson_proto::v1;
use kelson_proto::v1::images_server::Images;
use kelson_services::Manager;
use kelson_services::images::{ImageStore, Listed, Updated};
use tonic::{Request, Response, Status};

use super::audit::record;
use super::model::status_of_images as status;
use super::services::{about, caller};

pub struct ImagesApi {
    pub manager: Manager,
    pub images: ImageStore,
}

fn image(listed: Listed) -> v1::Image {
    let Listed { row, services } = listed;
    v1::Image {
        reference: row.reference,
        digest: row.digest,
        archive: row.archive.unwrap_or_default(),
        platform: row.platform,
        size: row.size,
        unpacked: row.unpacked,
        trouble: row.trouble.unwrap_or_default(),
        services,
        signer: row.signer.unwrap_or_default(),
    }
}

#[tonic::async_trait]
#[deny(clippy::missing_trait_methods, reason = "a call without a body here would be refused as unknown")]
impl Images for ImagesApi {
    async fn list(
        &self,
        _: Request<v1::ListImagesRequest>,
    ) -> Result<Response<v1::ListImagesResponse>, Status> {
        let (images, notes) = self.images.list(&self.manager).await.map_err(status)?;
        Ok(Response::new(v1::ListImagesResponse { images: images.into_iter().map(image).collect(), notes }))
    }

    async fn prune(
        &self,
        request: Request<v1::PruneImagesRequest>,
    ) -> Result<Response<v1::PruneImagesResponse>, Status> {
        let (caller, record) = (caller(&request), record(&request));
        let v1::PruneImagesRequest { dry_run } = request.into_inner();
        about(record.as_deref(), if dry_run { "nothing: it is only asked what would go" } else { "" });
        if !dry_run {
            tracing::info!("{caller} asks to prune images");
        }
        let pruned = self.images.prune(&self.manager, dry_run).await.map_err(status)?;
        if let Some(record) = record {
            let references = pruned.removed.iter().map(|image| image.reference.as_str());
            record.outcome(&references.collect::<Vec<_>>().join(", "));
        }
        let images = pruned.removed.into_iter();
        let images = images.map(|image| v1::PrunedImage { reference: image.reference, size: image.size });
        Ok(Response::new(v1::PruneImagesResponse { images: images.collect(), notes: pruned.notes }))
    }

    async fn update(
        &self,
        request: Request<v1::UpdateImageRequest>,
    ) -> Result<Response<v1::UpdateImageResponse>, Status> {
        let (caller, record) = (caller(&request), record(&request));
        let v1::UpdateImageRequest { reference, dry_run } = request.into_inner();
        about(
            record.as_deref(),
            if dry_run { "nothing: it is only asked what would come" } else { &reference },
        );
        if !dry_run {
            tracing::info!("{caller} asks to update image {}", kelson_services::spec::quoted(&reference));
        }
        let Updated { pulled, services } =
            self.images.update(&self.manager, &reference, dry_run).await.map_err(status)?;
        if let Some(record) = record {
            record.outcome(&pulled.digest);
        }
        Ok(Response::new(v1::UpdateImageResponse {
            digest: pulled.digest,
            digest_before: pulled.before.unwrap_or_default(),
            size: pulled.size,
            size_before: pulled.size_before,
            fetched: pulled.bytes,
            services,
        }))
    }
}
