//! PID 1's side: starts a `kelson-unpack` for each piece of work, reads its reports, and kills it when nobody waits any
//! more.
//!
//! The process cannot harm PID 1: its messages are bounded, nonsense and silence end it, and a future that is
//! dropped takes its process with it. Its work so far stays done; the next process goes on from there.

pub(crate) mod hearing;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use kelson_helper::{Launcher, Start};

use crate::arguments::{Arguments, NAME, Purpose, UnpackerOptions, Work};
use crate::report::{ImageRow, Progress, Pruned, Report, Unpacked};
use Part::{End, More, Nonsense};
use hearing::Hearing;
pub use hearing::UnpackFailure;

/// Has images unpacked, listed and pruned. Cheap to clone.
#[derive(Clone)]
pub struct Unpacker {
    launcher: Arc<dyn Launcher>,
    options: Arc<UnpackerOptions>,
}

/// A report of an unpack before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    Progress(Progress),
    /// Something an operator should know that stops nothing.
    Note(String),
}

/// The result of `list`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    pub images: Vec<ImageRow>,
    /// Notes for an operator: archives that cannot be read.
    pub notes: Vec<String>,
}

/// The images that `prune` removed, or would remove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PruneResult {
    pub removed: Vec<Pruned>,
    pub notes: Vec<String>,
}

impl Unpacker {
    pub fn new(launcher: Arc<dyn Launcher>, options: UnpackerOptions) -> Self {
        Self { launcher, options: Arc::new(options) }
    }

    pub fn options(&self) -> &UnpackerOptions {
        &self.options
    }

    /// The image, complete where its purpose needs it: in containerd or in Kelson's own folders; unpacked now where that is
    /// missing. Progress comes about once a second, also when nothing moves. Must be called within a Tokio runtime with I/O
    /// and time.
    ///
    /// # Errors
    /// A sentence for the operator, and whether another try can help.
    pub async fn unpack(
        &self,
        image: &str,
        purpose: Purpose,
        mut on_news: impl FnMut(News) + Send,
    ) -> Result<Unpacked, UnpackFailure> {
        self.follow(Work::Unpack { image: image.to_owned(), purpose }, |report| match report {
            Report::Progress(progress) => {
                on_news(News::Progress(progress));
                More
            }
            Report::Note(note) => {
                on_news(News::Note(note));
                More
            }
            Report::Unpacked(unpacked) => End(*unpacked),
            _ => Nonsense,
        })
        .await
    }

    /// All images of the archives and of containerd.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub async fn list(&self) -> Result<Listing, UnpackFailure> {
        let mut listing = Listing::default();
        let work = self.follow(Work::List, |report| match report {
            Report::Image(row) => {
                listing.images.push(row);
                More
            }
            Report::Note(note) => {
                listing.notes.push(note);
                More
            }
            Report::Progress(_) => More,
            Report::Done => End(()),
            _ => Nonsense,
        });
        work.await?;
        Ok(listing)
    }

    /// A number that stands for the archives as they are. None is opened. A disk that does not answer is waited for.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub async fn look(&self) -> Result<u32, UnpackFailure> {
        let work = self.follow(Work::Look, |report| match report {
            Report::Archives(archives) => End(archives),
            Report::Progress(_) | Report::Note(_) => More,
            _ => Nonsense,
        });
        work.await
    }

    /// Removes the images of Kelson's namespace whose reference is none of `keep`; with `dry_run` it only tells them.
    ///
    /// # Errors
    /// A sentence for the operator; what was removed before stays removed.
    pub async fn prune(&self, keep: Vec<String>, dry_run: bool) -> Result<PruneResult, UnpackFailure> {
        let mut result = PruneResult::default();
        let work = self.follow(Work::Prune { keep, dry_run }, |report| match report {
            Report::Pruned(pruned) => {
                result.removed.push(pruned);
                More
            }
            Report::Note(note) => {
                result.notes.push(note);
                More
            }
            Report::Progress(_) => More,
            Report::Done => End(()),
            _ => Nonsense,
        });
        work.await?;
        Ok(result)
    }

    /// Starts a process for the work and passes its reports on until one of them is the end of it.
    async fn follow<T>(
        &self,
        work: Work,
        mut take: impl FnMut(Report) -> Part<T> + Send,
    ) -> Result<T, UnpackFailure> {
        let arguments = Arguments { work, places: (*self.options).clone() };
        let start = Start { arguments: arguments.words(), ..Start::default() };
        let mut hearing = Hearing::start(&*self.launcher, NAME, start).await?;
        let heard = loop {
            match hearing.next().await? {
                Report::Failed(text) => break Err(text.into()),
                Report::Refused { text, archives } => {
                    break Err(UnpackFailure { archives: Some(archives), ..text.into() });
                }
                Report::Absent { text, archives } => {
                    break Err(UnpackFailure { text, archives, absent: true });
                }
                report => match take(report) {
                    More => {}
                    End(heard) => break Ok(heard),
                    Nonsense => return Err(hearing.nonsense().into()),
                },
            }
        };
        hearing.end().await;
        heard
    }
}

/// The meaning of a report for the task that waits for it.
enum Part<T> {
    More,
    End(T),
    /// It does not answer what was asked for.
    Nonsense,
}
