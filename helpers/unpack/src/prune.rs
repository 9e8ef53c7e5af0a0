//! Images that no service names any more go away: from Kelson's own folders, and from containerd.

use kelson_image::{Pruned, Reference, Report};

use crate::Context;
use crate::error::UnpackError;
use crate::lease::end_dead;
use crate::{native, present};

pub async fn run(context: &Context, keep: Vec<String>, dry_run: bool) -> Result<Report, UnpackError> {
    // A name that is kept but cannot be read keeps nothing: all that containerd has was once read.
    let keep: Vec<Reference> = keep.iter().filter_map(|name| Reference::parse(name).ok()).collect();
    native::prune(context, &keep, dry_run).await?;
    if !context.socket.exists() {
        return Ok(Report::Done);
    }
    end_dead(context).await?;
    let snapshotter = context.containerd.snapshotter().await?;
    for record in context.containerd.images().await? {
        let kept = Reference::parse(&record.name).is_ok_and(|name| keep.contains(&name));
        if kept {
            continue;
        }
        // One that is damaged goes as well; its size is that of what is known.
        let size = match present::look(&context.containerd, &record, &snapshotter.name, &context.host).await {
            Ok(Some(image)) => image.size,
            Err(error) if error.is_away() => return Err(error),
            _ => record.size,
        };
        if dry_run || context.containerd.remove_image(&record.name).await? {
            context.reporter.send(&Report::Pruned(Pruned { reference: record.name, size }));
        }
    }
    Ok(Report::Done)
}
