//! PID 1's side of a pull: starts a `kelson-pull` for each image, reads its reports, and kills it when nobody waits any
//! more.

use std::path::PathBuf;
use std::sync::Arc;

use kelson_helper::answer::input;
use kelson_helper::{Launcher, Start};
use kelson_spec::registries::RegistriesSpec;
use kelson_spec::verify::VerifyRule;
use kelson_spec::wire;
use serde::{Deserialize, Serialize};

use crate::report::{Pruned, Pulled, Report};
use crate::unpacker::hearing::Hearing;
use crate::unpacker::{News, UnpackFailure};

/// The name by which the personality is called.
pub const PULL: &str = "kelson-pull";

/// The request to one `kelson-pull`, which reads it from its standard input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullQuestion {
    pub work: PullWork,
    /// References of the images that services need: the others may go where room is short. `None`: nobody knows.
    pub keep: Option<Vec<String>>,
    pub places: PullerOptions,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PullWork {
    /// Resolves the name of an image and fetches all of it that is missing; `dry_run`: only tells that.
    Pull { image: String, dry_run: bool },
    /// Removes the images that are not kept; `dry_run`: only tells them.
    Prune { dry_run: bool },
}

/// Where images come from and go to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullerOptions {
    pub registries: RegistriesSpec,
    pub state_dir: PathBuf,
    /// It has the secrets of sources.
    pub runtime_dir: PathBuf,
    /// Which images may run: the others are not pulled.
    pub verify: Vec<VerifyRule>,
}

impl PullerOptions {
    /// The folder of the pulled images.
    pub fn folder(&self) -> PathBuf {
        self.state_dir.join(RegistriesSpec::FOLDER)
    }
}

/// Has images pulled. Cheap to clone.
#[derive(Clone)]
pub struct Puller {
    launcher: Arc<dyn Launcher>,
    options: Arc<PullerOptions>,
}

impl Puller {
    pub fn new(launcher: Arc<dyn Launcher>, options: PullerOptions) -> Puller {
        Puller { launcher, options: Arc::new(options) }
    }

    /// The folder of the pulled images.
    pub fn folder(&self) -> PathBuf {
        self.options.folder()
    }

    /// Pulls an image into the folder of pulled images, whole; with `dry_run` only tells what would come. Progress comes about
    /// once a second, also when nothing moves.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub async fn pull(
        &self,
        image: &str,
        dry_run: bool,
        keep: Option<Vec<String>>,
        mut on_news: impl FnMut(News) + Send,
    ) -> Result<Pulled, UnpackFailure> {
        let mut hearing = self.ask(PullWork::Pull { image: image.to_owned(), dry_run }, keep).await?;
        let pulled = loop {
            match hearing.next().await? {
                Report::Progress(progress) => on_news(News::Progress(progress)),
                Report::Note(note) => on_news(News::Note(note)),
                Report::Pulled(pulled) => break Ok(pulled),
                Report::Failed(text) => break Err(text.into()),
                _ => return Err(hearing.nonsense().into()),
            }
        };
        hearing.end().await;
        pulled
    }

    /// Removes the pulled images that are none of `keep`; with `dry_run` it only tells them.
    ///
    /// # Errors
    /// A sentence for the operator; what was removed before stays removed.
    pub async fn prune(&self, keep: Vec<String>, dry_run: bool) -> Result<Vec<Pruned>, UnpackFailure> {
        let mut hearing = self.ask(PullWork::Prune { dry_run }, Some(keep)).await?;
        let mut removed = Vec::new();
        let done = loop {
            match hearing.next().await? {
                Report::Pruned(pruned) => removed.push(pruned),
                Report::Progress(_) | Report::Note(_) => {}
                Report::Done => break Ok(removed),
                Report::Failed(text) => break Err(text.into()),
                _ => return Err(hearing.nonsense().into()),
            }
        };
        hearing.end().await;
        done
    }

    async fn ask(&self, work: PullWork, keep: Option<Vec<String>>) -> Result<Hearing, UnpackFailure> {
        let question = PullQuestion { work, keep, places: (*self.options).clone() };
        let cannot = |error: &dyn std::fmt::Display| format!("{PULL} cannot be started: {error}");
        let question = wire::encode(&question).map_err(|error| cannot(&error))?;
        let input = input(&question).map_err(|error| cannot(&error))?;
        let start = Start { descriptors: vec![(0, input)], ..Start::default() };
        Hearing::start(&*self.launcher, PULL, start).await
    }
}
