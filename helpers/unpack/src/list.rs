//! All images: those of the archives, and those that containerd alone has.

use kelson_sys::ordered;
use std::collections::HashMap;

use kelson_containerd::{Record, Result as CallResult};
use kelson_image::{ImageRow, Reference, Report};

use crate::Context;
use crate::archive::Found;
use crate::blocking::blocking;
use crate::error::UnpackError;
use crate::judge::Judge;
use crate::native::Store;
use crate::present::{self, Present};

pub async fn run(context: &Context) -> Result<Report, UnpackError> {
    let (scan, _) = context.scan(None).await?;
    let own = Store::below(&context.state_dir)?.images()?;
    let looked = if context.socket.exists() { look(context).await } else { Ok(HashMap::new()) };
    let mut present = match looked {
        Ok(present) => present,
        Err(error) => {
            let note = format!("which images are unpacked is not known: {error}");
            context.reporter.send(&Report::Note(note));
            HashMap::new()
        }
    };
    let mut judge = Judge::new(context);
    for found in &scan.images {
        for reference in &found.references {
            let name = reference.to_string();
            let is_own = own.iter().any(|image| image.name == name && image.manifest == found.manifest);
            let unpacked = is_own
                || matches!(present.get(reference), Some((_, Ok(image)))
                if image.complete && image.digest == found.manifest);
            let same = |image: &Result<Present, UnpackError>| {
                image.as_ref().is_ok_and(|image| image.digest == found.manifest)
            };
            if present.get(reference).is_some_and(|(_, image)| same(image)) {
                present.remove(reference);
            }
            let row = archive_row(found, reference, unpacked);
            context.reporter.send(&Report::Image(judged(&mut judge, row, reference, Some(found)).await?));
        }
    }
    let mut rest: Vec<_> = present.into_iter().collect();
    ordered::sort_by(&mut rest, |(a, _), (b, _)| a.cmp(b));
    for (reference, (record, image)) in rest {
        let row = containerd_row(record, image);
        context.reporter.send(&Report::Image(judged(&mut judge, row, &reference, None).await?));
    }
    Ok(Report::Done)
}

/// A row with what the rules say of its image; what is wrong with the image itself goes before that.
async fn judged(
    judge: &mut Judge,
    row: ImageRow,
    name: &Reference,
    found: Option<&Found>,
) -> Result<ImageRow, UnpackError> {
    let (mut own, name, found) = (std::mem::take(judge), name.clone(), found.cloned());
    // It may read a whole archive.
    let work = move || {
        let signer = own.signer(&name, found.as_ref());
        (own, signer)
    };
    let signer;
    (*judge, signer) = blocking(work).await?;
    Ok(match signer {
        Ok(signer) => ImageRow { signer, ..row },
        Err(trouble) => ImageRow { trouble: row.trouble.or(Some(trouble)), ..row },
    })
}

type Looked = (Record, Result<Present, UnpackError>);

/// Returns containerd's images, by their names.
async fn look(context: &Context) -> CallResult<HashMap<Reference, Looked>> {
    let snapshotter = context.containerd.snapshotter().await?;
    let mut all = HashMap::new();
    for record in context.containerd.images().await? {
        // A name that is none was made by another tool; no service can ask for it.
        let Ok(name) = Reference::parse(&record.name) else { continue };
        let image = present::look(&context.containerd, &record, &snapshotter.name, &context.host).await;
        let image = image.and_then(|image| image.ok_or(UnpackError::Incomplete));
        all.insert(name, (record, image));
    }
    Ok(all)
}

fn archive_row(found: &Found, reference: &Reference, unpacked: bool) -> ImageRow {
    ImageRow {
        reference: reference.to_string(),
        digest: found.manifest.to_string(),
        archive: Some(found.archive.display().to_string()),
        platform: found.platform.to_string(),
        size: found.size,
        unpacked,
        trouble: found.trouble.clone(),
        signer: None,
    }
}

fn containerd_row(record: Record, image: Result<Present, UnpackError>) -> ImageRow {
    match image {
        Ok(image) => ImageRow {
            reference: record.name,
            digest: image.digest.to_string(),
            archive: None,
            platform: image.settings.platform.to_string(),
            size: image.size,
            unpacked: image.complete,
            trouble: (!image.complete).then(|| UnpackError::Incomplete.to_string()),
            signer: None,
        },
        Err(trouble) => ImageRow {
            reference: record.name,
            digest: record.digest,
            trouble: Some(trouble.to_string()),
            ..ImageRow::default()
        },
    }
}
