//! One `kelson-unpack` or `kelson-pull`, and its reports.

use std::time::Duration;

use kelson_helper::answer::{Answers, Bounds, Unanswered};
use kelson_helper::{CONTROL, Launcher, Start};
use tokio::time::Instant;

use crate::frame::{self, FRAME_MAX};
use crate::report::Report;

/// It says something every second; one that is silent for long hangs.
const BOUNDS: Bounds =
    Bounds { start: Duration::from_secs(30), silence: Duration::from_secs(60), frame: FRAME_MAX };
/// Rows and notes that one may tell.
const MOST_ROWS: u32 = 8192;
/// Signs of life that one may give at once, and then in a second.
const PROGRESS_BURST: u64 = 100;
const PROGRESS_RATE: u64 = 20;

/// Why `kelson-unpack` or `kelson-pull` did not do what it was started for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct UnpackFailure {
    /// A sentence for the operator.
    pub text: String,
    /// Another try fails as well, until the archives are no longer those for which this number stands.
    pub archives: Option<u32>,
    /// No archive has the image, and it was not unpacked before.
    pub absent: bool,
}

impl From<String> for UnpackFailure {
    fn from(text: String) -> UnpackFailure {
        UnpackFailure { text, archives: None, absent: false }
    }
}

/// Kills its process when dropped.
pub(crate) struct Hearing {
    name: &'static str,
    answers: Answers,
    began: Instant,
    rows: u32,
    progress: u64,
}

impl Hearing {
    pub(crate) async fn start(
        launcher: &dyn Launcher,
        name: &'static str,
        start: Start,
    ) -> Result<Self, UnpackFailure> {
        let answers = Answers::begin(launcher, start, CONTROL, BOUNDS).await.map_err(|why| match why {
            Unanswered::Start(error) => format!("{name} cannot be started: {error}"),
            _ => format!("{name} was not started within {} s", BOUNDS.start.as_secs()),
        })?;
        Ok(Self { name, answers, began: Instant::now(), rows: 0, progress: 0 })
    }

    /// The next report. An error is the end of the process.
    pub(crate) async fn next(&mut self) -> Result<Report, UnpackFailure> {
        let name = self.name;
        let frame = self.answers.next().await.map_err(|why| match why {
            Unanswered::Ended(how) => {
                format!("{name} ended without an answer: {}", frame::bounded(&how, 200))
            }
            Unanswered::Silent(time) => format!(
                "{name} said nothing for {} s and was killed: a disk may not answer, or the host is overloaded",
                time.as_secs()
            ),
            _ => self.nonsense(),
        })?;
        let report = frame::decode(&frame).ok_or_else(|| UnpackFailure::from(self.nonsense()))?;
        self.count(&report)?;
        Ok(match report {
            Report::Note(text) => Report::Note(frame::bounded(&text, 1024)),
            Report::Failed(text) => Report::Failed(frame::bounded(&text, 4096)),
            Report::Refused { text, archives } => {
                Report::Refused { text: frame::bounded(&text, 4096), archives }
            }
            Report::Absent { text, archives } => {
                Report::Absent { text: frame::bounded(&text, 4096), archives }
            }
            other => other,
        })
    }

    fn count(&mut self, report: &Report) -> Result<(), UnpackFailure> {
        match report {
            Report::Progress(_) => {
                self.progress = self.progress.saturating_add(1);
                let seconds = self.began.elapsed().as_secs();
                let most = seconds.saturating_mul(PROGRESS_RATE).saturating_add(PROGRESS_BURST);
                if self.progress > most {
                    return Err(self.nonsense().into());
                }
            }
            _ => {
                self.rows = self.rows.saturating_add(1);
                if self.rows > MOST_ROWS {
                    let text =
                        format!("{} sent more than {MOST_ROWS} images and notes, and was killed", self.name);
                    return Err(text.into());
                }
            }
        }
        Ok(())
    }

    pub(crate) fn nonsense(&self) -> String {
        format!("{} (PID {}) reported nonsense and was killed", self.name, self.answers.pid)
    }

    /// It has answered: it ends by itself.
    pub(crate) async fn end(mut self) {
        self.answers.end().await;
    }
}
