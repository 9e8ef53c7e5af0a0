//! `images`: the images of archives and of containerd, and the removal of those that no service needs.

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use kelson_proto::v1::{Image, ListImagesRequest, PruneImagesRequest, PruneImagesResponse, PrunedImage};

use crate::call::{Call, Run};
use crate::failure::{Failure, answer_within};
use crate::output::{Page, Table, Tone, cell, escape, object, or_dash, size, some, toned, views};

/// The host reads every archive for it.
const TIMEOUT: Duration = Duration::from_secs(300);

/// List the images of services with source and state
///
/// Examples:
///   kelsonctl images
///   kelsonctl images -o json | jq -r '.[] | select(.trouble).reference'
///   kelsonctl images prune --dry-run
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
}

/// The action besides listing.
#[derive(Debug, Clone, Copy, clap::Subcommand)]
enum Action {
    /// Remove from containerd the images that no service names
    Prune {
        /// Only report the images that would be removed
        #[arg(long)]
        dry_run: bool,
    },
}

views! {
    // `archive`: null where no archive holds it, only containerd. `trouble`: null where it can be used. `services`: those
    // whose files name it.
    Image: image {
        reference, digest, archive: some(&image.archive), platform, size, unpacked, trouble: some(&image.trouble),
        services,
    }
    // `size`: bytes of its blobs; other images may still need some of them.
    PrunedImage: image { reference, size }
}

impl Run for Arguments {
    async fn run(self, call: &Call) -> Result<(), Failure> {
        let mut images = call.client()?.images();
        let mut progress = call.progress();
        match self.action {
            None => {
                progress.show("the host reads its archives");
                let listing = answer_within(TIMEOUT, images.list(ListImagesRequest {})).await?;
                drop(progress);
                listing.notes.iter().for_each(|text| call.note(text));
                call.show(&listing.images, || Page::Table(table(&listing.images)))
            }
            Some(Action::Prune { dry_run }) => {
                progress.show("containerd removes what no service names");
                let pruned = answer_within(TIMEOUT, images.prune(PruneImagesRequest { dry_run })).await?;
                drop(progress);
                pruned.notes.iter().for_each(|text| call.note(text));
                call.show(&object!(dry_run: dry_run, images: pruned.images), || {
                    Page::Lines(summary(&pruned, dry_run))
                })
            }
        }
    }
}

fn table(images: &[Image]) -> Table {
    Table::of(images)
        .left("IMAGE", |image| &image.reference)
        .cut("ARCHIVE", |image| or_dash(archive(image)))
        .right("SIZE", |image| size(image.size))
        .left("UNPACKED", |image| if image.unpacked { toned(Tone::Good, "yes") } else { cell("no") })
        .cut("SERVICES", |image| image.services.join(", "))
        .cut("TROUBLE", |image| toned(Tone::Bad, &image.trouble))
        .into()
}

/// The file's name; the other formats have its folder.
fn archive(image: &Image) -> Option<Cow<'_, str>> {
    Some(Path::new(&image.archive).file_name()?.to_string_lossy())
}

fn summary(pruned: &PruneImagesResponse, dry_run: bool) -> String {
    let verb = if dry_run { "would remove" } else { "removed" };
    if pruned.images.is_empty() {
        return "nothing to remove: containerd has no image that no service names\n".to_owned();
    }
    pruned
        .images
        .iter()
        .map(|image| format!("{verb} {} ({})\n", escape(&image.reference), size(image.size)))
        .collect()
}
