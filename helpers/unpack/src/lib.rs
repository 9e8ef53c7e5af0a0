//! `kelson-unpack`: one piece of work on images, done in a process that can do little else.
//!
//! It reads archives that others made, so it first gives away what it does not need ([`sandbox`]). Its work
//! can be cut off at any moment, by a `stop` or by the power: all of it can be done again, finished parts are
//! found and used, and the next process removes unfinished ones ([`lease`], [`locks`]). One task speaks with
//! containerd, threads read and check the archive; what is on its way between them is bounded ([`blobs`]).

mod account;
pub mod archive;
mod blobs;
mod blocking;
mod chain;
mod durable;
mod error;
mod judge;
mod layers;
mod lease;
mod list;
mod locks;
mod native;
mod nearest;
mod present;
mod prune;
pub mod reporter;
mod rootfs;
mod sandbox;
mod stop_signal;
pub mod trust;
mod unpack;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use blocking::blocking;
use error::UnpackError;
use kelson_containerd::Containerd;
use kelson_image::{Arguments, NAME, Purpose, Reference, Report, Work};
use kelson_spec::verify::VerifyRule;
use locks::Locks;
use reporter::Reporter;

use crate::archive::{Archive, Catalog, Platform, Scan};

/// A sign of life, and how far the work is.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// The tools of the work.
pub(crate) struct Context {
    pub(crate) reporter: Arc<Reporter>,
    pub(crate) containerd: Containerd,
    pub(crate) locks: Locks,
    pub(crate) host: Platform,
    pub(crate) images: Vec<PathBuf>,
    /// Which images may run.
    pub(crate) verify: Vec<VerifyRule>,
    pub(crate) state_dir: PathBuf,
    /// Where there is a containerd.
    pub(crate) socket: PathBuf,
    /// What is known of the containers that PID 1 runs itself.
    pub(crate) containers: PathBuf,
    /// For what is made for this piece of work alone, on a file system of this boot.
    pub(crate) folder: PathBuf,
}

/// Runs `kelson-unpack` with the words behind `argv[0]`; it reports to descriptor 3. The result is the exit status.
pub fn main(arguments: impl Iterator<Item = OsString>) -> i32 {
    let reporter = match Reporter::new() {
        Ok(reporter) => Arc::new(reporter),
        Err(error) => {
            eprintln!("{NAME} is started by init, with a pipe as descriptor 3: {error}");
            return 2;
        }
    };
    let arguments = match Arguments::parse(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            reporter.send(&Report::Failed(error));
            return 2;
        }
    };
    let unpacks =
        matches!(&arguments.work, Work::Unpack { purpose: Purpose::Native { .. } | Purpose::Volume, .. });
    for note in sandbox::enter(unpacks) {
        reporter.send(&Report::Note(note));
    }
    reporter.end_with_listener();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            reporter.send(&Report::Failed(format!("{NAME} cannot begin: {error}")));
            return 1;
        }
    };
    let end = runtime.block_on(run(arguments, &reporter));
    // A thread may still hang on a disk; the end of the process does not wait for it.
    runtime.shutdown_background();
    let status = i32::from(matches!(end, Report::Failed(_) | Report::Refused { .. } | Report::Absent { .. }));
    reporter.send(&end);
    status
}

async fn run(arguments: Arguments, reporter: &Arc<Reporter>) -> Report {
    let heartbeat = Arc::clone(reporter);
    let heartbeat = tokio::spawn(async move {
        let mut clock = tokio::time::interval(HEARTBEAT);
        clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            clock.tick().await;
            heartbeat.heartbeat();
        }
    });
    let work = arguments.work.clone();
    let end = match Context::new(arguments, Arc::clone(reporter)) {
        Ok(context) => match work {
            Work::Unpack { image, purpose } => {
                let end = match &purpose {
                    Purpose::Container { user } => unpack::run(&context, &image, user.as_deref()).await,
                    Purpose::Native { user, service } => {
                        native::run(&context, &image, Some((service, user.as_deref()))).await
                    }
                    Purpose::Volume => native::run(&context, &image, None).await,
                };
                // However short it was: PID 1 tells how much there was of it.
                context.reporter.heartbeat();
                end
            }
            Work::List => list::run(&context).await,
            Work::Look => {
                let (folders, rules) = (context.images.clone(), context.verify.clone());
                let look = move || judge::with_keys(archive::archives(&folders), &rules);
                blocking(look).await.map(Report::Archives)
            }
            Work::Prune { keep, dry_run } => prune::run(&context, keep, dry_run).await,
        },
        Err(error) => Err(error),
    };
    heartbeat.abort();
    end.unwrap_or_else(|error| Report::Failed(error.to_string()))
}

impl Context {
    fn new(arguments: Arguments, reporter: Arc<Reporter>) -> Result<Self, UnpackError> {
        let folder = arguments.places.runtime_dir.join("unpack");
        Ok(Self {
            reporter,
            containerd: Containerd::at(&arguments.places.containerd_socket).patient(),
            locks: Locks::below(&folder)?,
            host: Platform::host(),
            images: arguments.places.images,
            verify: arguments.places.verify,
            state_dir: arguments.places.state_dir,
            containers: arguments.places.runtime_dir.join("containers"),
            socket: arguments.places.containerd_socket,
            folder,
        })
    }

    /// Scans the archives and reports their mistakes. For the archive that comes along see
    /// [`Catalog::scan_for`].
    pub(crate) async fn scan(
        &self,
        wanted: Option<Reference>,
    ) -> Result<(Scan, Option<Archive>), UnpackError> {
        let (state_dir, images, host) = (self.state_dir.clone(), self.images.clone(), self.host.clone());
        let rules = self.verify.clone();
        let scan = move || {
            let (scan, opened) = Catalog::open(&state_dir).scan_for(&images, &host, wanted.as_ref());
            (Scan { archives: judge::with_keys(scan.archives, &rules), ..scan }, opened)
        };
        let (scan, opened) = blocking(scan).await?;
        for note in &scan.notes {
            self.reporter.send(&Report::Note(note.clone()));
        }
        Ok((scan, opened))
    }
}
