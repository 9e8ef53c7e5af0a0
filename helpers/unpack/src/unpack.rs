//! One image, from a reference to everything that a container of it needs.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kelson_containerd::{Mount, Record, Resource, Snapshotter};
use kelson_image::{Digest, ImageConfig, Reference, Report, Unpacked};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::Context;
use crate::account::{self, Account};
use crate::archive::{Archive, Config, Found, Image, Scan};
use crate::blobs::Uploader;
use crate::blocking::blocking;
use crate::chain::chain_ids;
use crate::error::UnpackError;
use crate::judge::judge;
use crate::lease::Lease;
use crate::nearest::nearest;
use crate::present::{self, Present};
use crate::{layers, rootfs, stop_signal};

/// How long containerd may be away before the work is given up, and how often it may go away.
const AWAY: Duration = Duration::from_secs(30);
const MOST_TRIES: u32 = 8;
/// So many notes of archives stand in the text of a failure.
const MOST_NOTES: usize = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Files of the host that programs with the host's network want.
const HOST_FILES: [&str; 2] = ["/etc/hosts", "/etc/resolv.conf"];

/// Where the archives have the image.
#[derive(Clone, Copy)]
struct Source<'a> {
    found: &'a Found,
    /// Its archive, where that is open already.
    opened: Option<&'a Arc<Archive>>,
}

pub async fn run(context: &Context, image: &str, user: Option<&str>) -> Result<Report, UnpackError> {
    let wanted = Reference::parse(image)?;
    let (scan, opened) = context.scan(Some(wanted.clone())).await?;
    let archives = scan.archives;
    let missing = || no_archive(context, &wanted, &scan);
    let end = match judge(context, &wanted, &scan, opened, missing).await {
        Ok(opened) => bring(context, &wanted, user, scan, opened).await,
        Err(error) => Err(error),
    };
    report(end, archives)
}

/// What PID 1 gets to know of the end, with the number that stands for the archives.
pub fn report(end: Result<Unpacked, UnpackError>, archives: u32) -> Result<Report, UnpackError> {
    match end {
        Ok(unpacked) => Ok(Report::Unpacked(Box::new(Unpacked { archives, ..unpacked }))),
        Err(UnpackError::NoArchive { text, whole }) => {
            Ok(Report::Absent { text, archives: whole.then_some(archives) })
        }
        Err(error) if error.lasts() => Ok(Report::Refused { text: error.to_string(), archives }),
        Err(error) => Err(error),
    }
}

/// Tries until containerd stays.
async fn bring(
    context: &Context,
    wanted: &Reference,
    user: Option<&str>,
    scan: Scan,
    opened: Option<Archive>,
) -> Result<Unpacked, UnpackError> {
    let opened = opened.map(Arc::new);
    let found = scan.find(wanted).map(|found| Source { found, opened: opened.as_ref() });
    let missing = || no_archive(context, wanted, &scan);
    let (mut tries, mut pause) = (0_u32, FIRST_PAUSE);
    let mut reached = Instant::now();
    loop {
        let began = Instant::now();
        match attempt(context, wanted, found, user, &missing).await {
            // All of it can be done again; what stands is found and used.
            Err(error) if error.is_away() => {
                if began.elapsed() > Duration::from_secs(1) {
                    // It worked for a while: this is another time that it went away.
                    tries = tries.saturating_add(1);
                    (reached, pause) = (Instant::now(), FIRST_PAUSE);
                }
                if tries >= MOST_TRIES || reached.elapsed() >= AWAY {
                    return Err(error);
                }
                tokio::time::sleep(pause).await;
                pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
            }
            other => return other,
        }
    }
}

/// It may be in one of those that cannot be read.
pub fn no_archive(context: &Context, wanted: &Reference, scan: &Scan) -> UnpackError {
    let name = wanted.to_string();
    let names: Vec<String> =
        scan.images.iter().flat_map(|image| &image.references).map(Reference::to_string).collect();
    let folders: Vec<String> = context.images.iter().map(|folder| folder.display().to_string()).collect();
    let held = match names.as_slice() {
        [] => String::from("there is none at all"),
        _ => format!("there are {}", nearest(&name, names.iter().map(String::as_str))),
    };
    let folders = if folders.is_empty() { String::from("no folder") } else { folders.join(" or ") };
    let mut text = format!("no archive in {folders} holds image {name:?}; {held}");
    for note in scan.notes.iter().take(MOST_NOTES) {
        text.push_str("; ");
        text.push_str(note);
    }
    UnpackError::NoArchive { text, whole: scan.whole }
}

async fn attempt(
    context: &Context,
    wanted: &Reference,
    source: Option<Source<'_>>,
    user: Option<&str>,
    missing: &impl Fn() -> UnpackError,
) -> Result<Unpacked, UnpackError> {
    let name = wanted.to_string();
    context.containerd.make_namespace().await?;
    let snapshotter = context.containerd.snapshotter().await?;
    let present = match context.containerd.image(&name).await? {
        Some(record) => present::look(&context.containerd, &record, &snapshotter.name, &context.host).await,
        None => Ok(None),
    };
    let usable = |present: &Present| {
        present.complete && source.is_none_or(|source| source.found.manifest == present.digest)
    };
    let lease = Lease::begin(context).await?;
    let work = async {
        let (image, was_there) = match (present, source) {
            (Ok(Some(present)), _) if usable(&present) => {
                context.reporter.begin(present.size, present.chain_ids.len());
                context.reporter.add_bytes(present.size);
                context.reporter.at_layer(present.chain_ids.len());
                (present, true)
            }
            // The archive has it whole, whatever containerd has.
            (_, Some(source)) => (import(context, &lease, &name, wanted, source, &snapshotter).await?, false),
            (Err(error), None) => return Err(error),
            (Ok(_), None) => return Err(missing()),
        };
        let unpacked = describe(context, &lease, name.clone(), image, &snapshotter.name, user).await?;
        Ok(Unpacked { was_there, ..unpacked })
    };
    let unpacked = work.await;
    // When containerd is away there is nothing to give back to.
    if !matches!(&unpacked, Err(error) if error.is_away()) {
        lease.end(context).await;
    }
    unpacked
}

/// Brings an image from its archive.
async fn import(
    context: &Context,
    lease: &Lease,
    name: &str,
    wanted: &Reference,
    source: Source<'_>,
    snapshotter: &Snapshotter,
) -> Result<Present, UnpackError> {
    let (archive, image, space) = open(context, name, wanted, source, snapshotter).await?;
    let chain_ids = chain_ids(&image.settings.diff_ids);
    context.reporter.begin(image.size(), image.layers.len());
    let uploader = Uploader::new(lease, &context.locks, &context.reporter);
    uploader.bring_document(name, &image.config, config_labels(&chain_ids, &snapshotter.name)).await?;
    uploader.bring_document(name, &image.manifest, manifest_labels(&image)).await?;
    let there = watch::Sender::new(BTreeSet::new());
    let arrivals = there.subscribe();
    tokio::try_join!(
        uploader.bring_layers(name, &archive, &image, space, &there),
        layers::unpack(context, lease, name, &image, &chain_ids, snapshotter, arrivals),
    )?;
    let record = Record {
        name: name.to_owned(),
        media_type: image.manifest.media_type.clone(),
        digest: image.manifest.digest.to_string(),
        size: image.manifest.bytes.len() as u64,
    };
    // Last, so that a name stands for a whole image at any time.
    lease
        .containerd
        .set_image(&record)
        .await
        .map_err(|error| UnpackError::InImage { image: name.to_owned(), error })?;
    let (digest, size) = (image.manifest.digest, image.size());
    Ok(Present { digest, settings: image.settings, chain_ids, size, complete: true })
}

/// Opens the archive and asks how much room containerd's disk has, where both may have to wait for a disk.
async fn open(
    context: &Context,
    name: &str,
    wanted: &Reference,
    source: Source<'_>,
    snapshotter: &Snapshotter,
) -> Result<(Arc<Archive>, Image, u64), UnpackError> {
    let (path, wanted, host) = (source.found.archive.clone(), wanted.clone(), context.host.clone());
    let opened = source.opened.cloned();
    let (name, root) = (name.to_owned(), snapshotter.root.clone());
    let work = move || {
        let in_image = |error| UnpackError::Archive { image: name.clone(), error };
        let archive = match opened {
            Some(archive) => archive,
            None => Arc::new(Archive::open(&path).map_err(in_image)?),
        };
        let image = archive.program(&wanted, &host).map_err(in_image)?;
        Ok((archive, image, root.map_or(u64::MAX, |root| space(Path::new(&root)))))
    };
    blocking(work).await?
}

/// Bytes that the disk of this folder has, where it tells.
fn space(folder: &Path) -> u64 {
    nix::sys::statvfs::statvfs(folder)
        .map_or(u64::MAX, |disk| disk.blocks_available().saturating_mul(disk.fragment_size()))
}

/// The labels of the config's references, for containerd's garbage collection.
fn config_labels(chain_ids: &[Digest], snapshotter: &str) -> HashMap<String, String> {
    let label = |id: &Digest| (format!("containerd.io/gc.ref.snapshot.{snapshotter}"), id.to_string());
    chain_ids.last().map(label).into_iter().collect()
}

fn manifest_labels(image: &Image) -> HashMap<String, String> {
    let mut labels = HashMap::from([(
        String::from("containerd.io/gc.ref.content.config"),
        image.config.digest.to_string(),
    )]);
    for (number, layer) in image.layers.iter().enumerate() {
        labels.insert(format!("containerd.io/gc.ref.content.l.{number}"), layer.blob.digest.to_string());
    }
    labels
}

async fn describe(
    context: &Context,
    lease: &Lease,
    name: String,
    image: Present,
    snapshotter: &str,
    user: Option<&str>,
) -> Result<Unpacked, UnpackError> {
    let Present { digest, settings, chain_ids, .. } = image;
    let chain_id = chain_ids.last().map(Digest::to_string).unwrap_or_default();
    let user = user.unwrap_or(&settings.user);
    let account = look_up(context, lease, &name, &chain_id, snapshotter, user).await?;
    let config = Described { name, settings, account }.config().await?;
    let config = ImageConfig { chain_id, snapshotter: snapshotter.to_owned(), ..config };
    Ok(Unpacked { config, digest: digest.to_string(), was_there: false, archives: 0 })
}

/// An image, wherever it was unpacked, with its user looked up.
pub struct Described {
    pub name: String,
    pub settings: Config,
    pub account: Account,
}

impl Described {
    /// The report to PID 1, except the place of its layers.
    pub async fn config(self) -> Result<ImageConfig, UnpackError> {
        let Described { name, settings, account } = self;
        let stop_signal = match &settings.stop_signal {
            None => None,
            Some(signal) => Some(stop_signal::number(signal).ok_or_else(|| UnpackError::StopSignal {
                image: name.clone(),
                signal: signal.chars().take(100).collect(),
            })?),
        };
        let exists =
            || HOST_FILES.iter().filter(|path| Path::new(path).is_file()).map(|path| (*path).to_owned());
        let host_files = blocking(move || exists().collect()).await?;
        Ok(ImageConfig {
            image: name,
            entrypoint: settings.entrypoint,
            command: settings.command,
            environment: settings.environment,
            working_directory: settings.working_directory,
            uid: account.uid,
            gid: account.gid,
            groups: account.groups,
            home: account.home,
            stop_signal,
            host_files,
            ..ImageConfig::default()
        })
    }
}

/// Looks a user up in the image's files.
async fn look_up(
    context: &Context,
    lease: &Lease,
    name: &str,
    chain_id: &str,
    snapshotter: &str,
    user: &str,
) -> Result<Account, UnpackError> {
    let in_image = |error| UnpackError::InImage { image: name.to_owned(), error };
    if chain_id.is_empty() {
        return account(context, name, user, Vec::new(), context.folder.clone()).await;
    }
    lease.hold(Resource::Snapshot { snapshotter, name: chain_id }).await?;
    let key = lease.name("users");
    lease.containerd.remove_snapshot(snapshotter, &key).await.map_err(in_image)?;
    let mounts = lease.containerd.view(snapshotter, &key, chain_id).await.map_err(in_image)?;
    let found = account(context, name, user, mounts, context.folder.join(&key)).await;
    lease.containerd.remove_snapshot(snapshotter, &key).await.map_err(in_image)?;
    found
}

/// Looks a user up in the files that these mounts show at `point`; without mounts there are none.
pub async fn account(
    context: &Context,
    name: &str,
    user: &str,
    mounts: Vec<Mount>,
    point: PathBuf,
) -> Result<Account, UnpackError> {
    let of = |passwd: &[u8], group: &[u8]| {
        account::look_up(user, passwd, group)
            .map_err(|error| UnpackError::Account { image: name.to_owned(), error })
    };
    if mounts.is_empty() {
        return of(b"", b"");
    }
    match rootfs::account_files(mounts, point).await {
        Ok(files) => of(&files.passwd, &files.group),
        // Numbers do without the files.
        Err(error) if !account::needs_names(user) => {
            context
                .reporter
                .send(&Report::Note(format!("image {name}: its users cannot be looked up: {error}")));
            of(b"", b"")
        }
        Err(error) => Err(UnpackError::Rootfs { image: name.to_owned(), error }),
    }
}
