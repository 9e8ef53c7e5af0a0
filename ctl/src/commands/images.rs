//! `images`: the images of archives and of containerd, the removal of those that no service needs, and updates from
//! registries.

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use kelson_proto::v1::{
    ActionResult, Image, ListImagesRequest, PruneImagesRequest, PruneImagesResponse, PrunedImage,
    UpdateImageRequest, UpdateImageResponse,
};

use super::acting::{self, Action as Acting, Manner};
use crate::call::{Call, Run};
use crate::failure::{Failure, answer_within};
use crate::output::{Page, Table, Tone, cell, escape, object, or_dash, size, some, toned, views};

/// The host reads every archive for it.
const TIMEOUT: Duration = Duration::from_secs(300);
/// The host pulls an image, which may be large and its registry slow.
const PULL: Duration = Duration::from_secs(6 * 3600);

/// List the images of services with source and state
///
/// Examples:
///   kelsonctl images
///   kelsonctl images -o json | jq -r '.[] | select(.trouble).reference'
///   kelsonctl images prune --dry-run
///   kelsonctl images update registry.example/app:1.4
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
}

/// The action besides listing.
#[derive(Debug, Clone, clap::Subcommand)]
enum Action {
    /// Remove the images that no service names
    Prune {
        /// Only report the images that would be removed
        #[arg(long)]
        dry_run: bool,
    },
    /// Pull what the name of an image leads to now, and restart its services
    ///
    /// The services restart one after the other, each after those that it needs.
    /// If one does not come up, the others keep running as they are.
    #[command(verbatim_doc_comment)]
    Update {
        /// The image, as the service files name it
        #[arg(value_name = "IMAGE")]
        reference: String,
        /// Only report what would be pulled and restarted
        #[arg(long)]
        dry_run: bool,
    },
}

views! {
    // `archive`: null where no archive holds it, only containerd. `trouble`: null where it can be used. `services`: those
    // whose files name it. `signer`: null where it needs no signature or has none.
    Image: image {
        reference, digest, archive: some(&image.archive), platform, size, unpacked, trouble: some(&image.trouble),
        services, signer: some(&image.signer),
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
            Some(Action::Update { reference, dry_run }) => {
                progress.show("the host asks the registry and pulls the image");
                let request = UpdateImageRequest { reference: reference.clone(), dry_run };
                let update = answer_within(PULL, images.update(request)).await?;
                drop(progress);
                updated(call, &reference, &update, dry_run).await
            }
        }
    }
}

/// Restarts the services of an image that is another one now, and reports what became of each.
async fn updated(
    call: &Call,
    reference: &str,
    update: &UpdateImageResponse,
    dry_run: bool,
) -> Result<(), Failure> {
    let client = call.client()?;
    let (mut results, mut failed) = (Vec::<ActionResult>::new(), None);
    let mut left = if dry_run { [].iter() } else { update.services.iter() };
    while !results.iter().any(acting::is_bad)
        && let Some(name) = left.next()
    {
        call.progress().show(&format!("{name} restarts"));
        let manner = Manner { wait: true, ..Manner::default() };
        match acting::request(&client, Acting::Restart, vec![name.clone()], manner).await {
            Ok(response) => results.extend(response.results),
            Err(failure) => {
                failed = Some((name, failure));
                break;
            }
        }
    }
    let page = || {
        let mut lines = changes(reference, update, dry_run);
        for result in &results {
            let line = acting::describe(Acting::Restart, true, result);
            if acting::is_bad(result) { call.note(&line) } else { lines = lines + &escape(&line) + "\n" }
        }
        Page::Lines(lines)
    };
    let left: Vec<&str> = left.map(String::as_str).collect();
    let failure = failed.map(|(name, failure)| (format!("cannot restart {name}: {failure}"), failure));
    let document = object!(
        dry_run: dry_run, digest: update.digest, digest_before: some(&update.digest_before), size: update.size,
        size_before: update.size_before, fetched: update.fetched, services: update.services, results: results,
        failure: failure.as_ref().map(|(text, _)| text.as_str()), not_restarted: left
    );
    call.show(&document, page)?;
    let end = match failure {
        Some((text, failure)) => {
            call.note(&text);
            Err(Failure::Ended(failure.exit_status()))
        }
        None if results.iter().any(acting::is_bad) => Err(Failure::Reported),
        None => Ok(()),
    };
    if end.is_err() && !left.is_empty() {
        let names = left.join(" ");
        call.note(&format!("not restarted: {names}; `kelsonctl restart {names}` gives the new image"));
    }
    end
}

/// What an update has found.
fn changes(reference: &str, update: &UpdateImageResponse, dry_run: bool) -> String {
    let UpdateImageResponse { digest, digest_before, size: now, size_before, fetched, services } = update;
    let image = |digest: &str, bytes| format!("{} ({})", escape(digest), size(bytes));
    let reference = escape(reference);
    if digest == digest_before {
        return format!("{reference} is {}, as before\n", image(digest, *now));
    }
    let mut lines = format!("{reference}: {}", image(digest, *now));
    if !digest_before.is_empty() {
        lines = lines + ", before " + &image(digest_before, *size_before);
    }
    lines = lines + if dry_run { "\nwould pull " } else { "\npulled " } + &size(*fetched) + "\n";
    if dry_run && !services.is_empty() {
        lines = lines + "would restart " + &escape(&services.join(", ")) + "\n";
    }
    lines
}

fn table(images: &[Image]) -> Table {
    let signed = images.iter().any(|image| !image.signer.is_empty());
    let table = Table::of(images)
        .left("IMAGE", |image| &image.reference)
        .cut("ARCHIVE", |image| or_dash(archive(image)))
        .right("SIZE", |image| size(image.size))
        .left("UNPACKED", |image| if image.unpacked { toned(Tone::Good, "yes") } else { cell("no") });
    let table = if signed { table.cut("SIGNER", |image| or_dash(some(&image.signer))) } else { table };
    table
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
        return "nothing to remove: services name all images\n".to_owned();
    }
    pruned
        .images
        .iter()
        .map(|image| format!("{verb} {} ({})\n", escape(&image.reference), size(image.size)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(digest: &str, before: &str, services: &[&str]) -> UpdateImageResponse {
        UpdateImageResponse {
            digest: digest.to_owned(),
            digest_before: before.to_owned(),
            size: 3 << 20,
            size_before: 2 << 20,
            fetched: 1 << 20,
            services: services.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    #[test]
    fn an_update_shows_what_changes() {
        let of = |update: &UpdateImageResponse, dry_run| changes("r.example/app:1", update, dry_run);
        let moved = update("sha256:2", "sha256:1", &["db", "web"]);
        assert_eq!(
            of(&moved, true),
            "r.example/app:1: sha256:2 (3.0 MiB), before sha256:1 (2.0 MiB)\nwould pull 1.0 MiB\nwould restart db, web\n"
        );
        assert_eq!(
            of(&moved, false),
            "r.example/app:1: sha256:2 (3.0 MiB), before sha256:1 (2.0 MiB)\npulled 1.0 MiB\n"
        );
        let first = update("sha256:2", "", &[]);
        assert_eq!(of(&first, false), "r.example/app:1: sha256:2 (3.0 MiB)\npulled 1.0 MiB\n");
        let same = update("sha256:1", "sha256:1", &[]);
        assert_eq!(of(&same, true), "r.example/app:1 is sha256:1 (3.0 MiB), as before\n");
    }
}
