//! One `kelson-unpack` and what is heard of it.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use kelson_helper::{Launched, Launcher, Start};
use nix::fcntl::OFlag;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::{Instant, timeout};

use crate::arguments::NAME;
use crate::frame;
use crate::report::Report;

/// How long starting it may take.
const LAUNCH: Duration = Duration::from_secs(30);
/// It says something every second; one that is silent for this long hangs.
const SILENCE: Duration = Duration::from_secs(60);
/// How long it may take to end once it has said how it ended.
const END: Duration = Duration::from_secs(2);
/// Rows and notes that one may tell.
const MOST_ROWS: u32 = 8192;
/// Signs of life that one may give at once, and then in a second.
const PROGRESS_BURST: u64 = 100;
const PROGRESS_RATE: u64 = 20;

/// Kills its process when dropped.
pub(super) struct Hearing {
    pipe: pipe::Receiver,
    process: Launched,
    began: Instant,
    rows: u32,
    progress: u64,
}

impl Drop for Hearing {
    fn drop(&mut self) {
        (self.process.kill)();
    }
}

impl Hearing {
    pub(super) async fn start(launcher: &dyn Launcher, words: Vec<OsString>) -> Result<Self, String> {
        let cannot = |error: io::Error| format!("{NAME} cannot be started: {error}");
        let (ours, theirs): (OwnedFd, OwnedFd) =
            nix::unistd::pipe2(OFlag::O_CLOEXEC).map_err(|errno| cannot(errno.into()))?;
        let pipe = pipe::Receiver::from_owned_fd(ours).map_err(cannot)?;
        let process = timeout(LAUNCH, launcher.launch(Start::new(words, theirs)))
            .await
            .map_err(|_| format!("{NAME} was not started within {} s", LAUNCH.as_secs()))?
            .map_err(cannot)?;
        Ok(Self { pipe, process, began: Instant::now(), rows: 0, progress: 0 })
    }

    /// The next report. An error is the end of the process.
    pub(super) async fn next(&mut self) -> Result<Report, String> {
        let report = match timeout(SILENCE, read(&mut self.pipe)).await {
            Ok(Ok(Some(report))) => report,
            Ok(Ok(None)) => return Err(self.nonsense()),
            Ok(Err(_)) => {
                let how = match timeout(END, &mut self.process.exit).await {
                    Ok(how) => frame::bounded(&how, 200),
                    Err(_) => String::from("it closed its pipe and was killed"),
                };
                return Err(format!("{NAME} ended without an answer: {how}"));
            }
            Err(_) => {
                return Err(format!(
                    "{NAME} said nothing for {} s and was killed: a disk may not answer, or the host is overloaded",
                    SILENCE.as_secs()
                ));
            }
        };
        self.count(&report)?;
        Ok(match report {
            Report::Note(text) => Report::Note(frame::bounded(&text, 1024)),
            Report::Failed(text) => Report::Failed(frame::bounded(&text, 4096)),
            Report::Refused { text, archives } => {
                Report::Refused { text: frame::bounded(&text, 4096), archives }
            }
            other => other,
        })
    }

    fn count(&mut self, report: &Report) -> Result<(), String> {
        match report {
            Report::Progress(_) => {
                self.progress = self.progress.saturating_add(1);
                let seconds = self.began.elapsed().as_secs();
                let most = seconds.saturating_mul(PROGRESS_RATE).saturating_add(PROGRESS_BURST);
                if self.progress > most {
                    return Err(self.nonsense());
                }
            }
            _ => {
                self.rows = self.rows.saturating_add(1);
                if self.rows > MOST_ROWS {
                    return Err(format!(
                        "{NAME} sent more than {MOST_ROWS} images and notes, and was killed"
                    ));
                }
            }
        }
        Ok(())
    }

    pub(super) fn nonsense(&self) -> String {
        format!("{NAME} (PID {}) reported nonsense and was killed", self.process.pid)
    }

    /// It has answered: it ends by itself.
    pub(super) async fn end(mut self) {
        let _ = timeout(END, &mut self.process.exit).await;
    }
}

/// The next report, `None` if the bytes are none, an error at the end of the pipe.
async fn read(pipe: &mut pipe::Receiver) -> io::Result<Option<Report>> {
    let mut head = [0; 4];
    pipe.read_exact(&mut head).await?;
    let Some(length) = frame::length(head) else { return Ok(None) };
    let mut body = vec![0; length];
    pipe.read_exact(&mut body).await?;
    Ok(frame::decode(&body))
}
