//! PID 1's side: starts a `kelson-unpack` for each piece of work, hears of it, and kills it when nobody waits any more.
//!
//! Whatever the process does, PID 1 comes to no harm by it: what it sends is bounded, nonsense and silence end it, and
//! a future that is dropped takes its process with it. What it had done stays done; the next one goes on from there.

mod hearing;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use kelson_helper::Launcher;

use crate::arguments::{Arguments, Work};
use crate::report::{ImageRow, Progress, Pruned, Report, Unpacked};
use hearing::Hearing;

/// Where images come from and go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpackerOptions {
    /// Folders of archives; the first that holds a reference counts.
    pub images: Vec<PathBuf>,
    pub containerd_socket: PathBuf,
    /// `/run/kelson`: locks are in `unpack/` below it.
    pub runtime_dir: PathBuf,
    /// What is remembered of archives between boots.
    pub state_dir: PathBuf,
}

/// Has images unpacked, listed and pruned. Cheap to clone.
#[derive(Clone)]
pub struct Unpacker {
    launcher: Arc<dyn Launcher>,
    options: Arc<UnpackerOptions>,
}

/// What is heard of an unpack before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    Progress(Progress),
    /// Something an operator should know that stops nothing.
    Note(String),
}

/// What `list` found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    pub images: Vec<ImageRow>,
    /// What an operator should know: archives that cannot be read.
    pub notes: Vec<String>,
}

/// What `prune` removed, or would remove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PruneResult {
    pub removed: Vec<Pruned>,
    pub notes: Vec<String>,
}

/// Why an image could not be unpacked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct UnpackFailure {
    /// A sentence for the operator.
    pub text: String,
    /// Another try fails as well, until the archives are no longer those for which this number stands.
    pub archives: Option<u32>,
}

impl From<String> for UnpackFailure {
    fn from(text: String) -> UnpackFailure {
        UnpackFailure { text, archives: None }
    }
}

impl Unpacker {
    pub fn new(launcher: Arc<dyn Launcher>, options: UnpackerOptions) -> Self {
        Self { launcher, options: Arc::new(options) }
    }

    pub fn options(&self) -> &UnpackerOptions {
        &self.options
    }

    /// The image, complete in containerd; unpacked now where that is missing. `user` instead of the config's. Progress
    /// comes about once a second, also when nothing moves. Must be called within a Tokio runtime with I/O and time.
    ///
    /// # Errors
    /// A sentence for the operator, and whether another try can help.
    pub async fn unpack(
        &self,
        image: &str,
        user: Option<&str>,
        mut on_news: impl FnMut(News) + Send,
    ) -> Result<Unpacked, UnpackFailure> {
        let work = Work::Unpack { image: image.to_owned(), user: user.map(str::to_owned) };
        let mut hearing = self.start(work).await?;
        loop {
            match hearing.next().await? {
                Report::Progress(progress) => on_news(News::Progress(progress)),
                Report::Note(note) => on_news(News::Note(note)),
                Report::Unpacked(unpacked) => {
                    hearing.end().await;
                    return Ok(*unpacked);
                }
                Report::Failed(text) => {
                    hearing.end().await;
                    return Err(text.into());
                }
                Report::Refused { text, archives } => {
                    hearing.end().await;
                    return Err(UnpackFailure { text, archives: Some(archives) });
                }
                Report::Image(_) | Report::Pruned(_) | Report::Archives(_) | Report::Done => {
                    return Err(hearing.nonsense().into());
                }
            }
        }
    }

    /// All images of the archives and of containerd.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub async fn list(&self) -> Result<Listing, String> {
        let mut hearing = self.start(Work::List).await?;
        let mut listing = Listing::default();
        loop {
            match hearing.next().await? {
                Report::Image(row) => listing.images.push(row),
                Report::Note(note) => listing.notes.push(note),
                Report::Progress(_) => {}
                Report::Done => {
                    hearing.end().await;
                    return Ok(listing);
                }
                Report::Failed(text) => {
                    hearing.end().await;
                    return Err(text);
                }
                Report::Unpacked(_) | Report::Pruned(_) | Report::Archives(_) | Report::Refused { .. } => {
                    return Err(hearing.nonsense());
                }
            }
        }
    }

    /// A number that stands for the archives as they are. None is opened. A disk that does not answer is waited for.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub async fn look(&self) -> Result<u32, String> {
        let mut hearing = self.start(Work::Look).await?;
        loop {
            match hearing.next().await? {
                Report::Archives(archives) => {
                    hearing.end().await;
                    return Ok(archives);
                }
                Report::Progress(_) | Report::Note(_) => {}
                Report::Failed(text) => {
                    hearing.end().await;
                    return Err(text);
                }
                _ => return Err(hearing.nonsense()),
            }
        }
    }

    /// Removes the images of Kelson's namespace whose reference is none of `keep`; with `dry_run` it only tells them.
    ///
    /// # Errors
    /// A sentence for the operator; what was removed before stays removed.
    pub async fn prune(&self, keep: Vec<String>, dry_run: bool) -> Result<PruneResult, String> {
        let mut hearing = self.start(Work::Prune { keep, dry_run }).await?;
        let mut result = PruneResult::default();
        loop {
            match hearing.next().await? {
                Report::Pruned(pruned) => result.removed.push(pruned),
                Report::Note(note) => result.notes.push(note),
                Report::Progress(_) => {}
                Report::Done => {
                    hearing.end().await;
                    return Ok(result);
                }
                Report::Failed(text) => {
                    hearing.end().await;
                    return Err(text);
                }
                Report::Unpacked(_) | Report::Image(_) | Report::Archives(_) | Report::Refused { .. } => {
                    return Err(hearing.nonsense());
                }
            }
        }
    }

    async fn start(&self, work: Work) -> Result<Hearing, String> {
        let options = &self.options;
        let arguments = Arguments {
            work,
            images: options.images.clone(),
            containerd_socket: options.containerd_socket.clone(),
            runtime_dir: options.runtime_dir.clone(),
            state_dir: options.state_dir.clone(),
        };
        Hearing::start(&*self.launcher, arguments.words()).await
    }
}
