//! Looking at the machine: PID 1's side of `kelson-inspect`.
//!
//! One process answers one question. Its answers come in frames, which PID 1 passes on as they are: PID 1
//! parses no data of the kernel or of a disk. Dropping the [`Answers`] kills it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kelson_conditions::{BoxFuture, FactSource, FactsAnswer};
use kelson_helper::answer::{self, Bounds, Unanswered};
use kelson_helper::inspect::{FRAME_MAX, Kind, NAME, content};
use kelson_helper::{Launcher, Start};
use kelson_proto::v1::inspect_question::Question;
use kelson_proto::v1::{FactsRequest, FactsResponse, InspectQuestion, InspectService, WriteFileBegin};
use kelson_sys::text::harmless;
use nix::fcntl::OFlag;
use prost::Message as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::Manager;
use crate::helpers::HelperKind;

/// Many times what it takes, and little for a host.
pub const INSPECT: HelperKind = HelperKind::limited(NAME, "_inspect", 64 << 20);

/// Questions at the same time, on the whole host.
const MOST: usize = 8;
/// A helper that is silent for this long waits for a disk, or is broken.
const SILENCE: Duration = Duration::from_secs(10);
/// A kind, and what it is.
const BOUNDS: Bounds = Bounds { start: SILENCE, silence: SILENCE, frame: FRAME_MAX + 1 };

/// Why there is no answer, or no more of it.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    #[error(
        "{MOST} questions about the machine are being answered, which are all at the same time: try again"
    )]
    Busy,
    #[error("{NAME} could not be started: {0}")]
    Start(#[source] io::Error),
    #[error("nothing came for {} s: a disk does not answer, or the host has no time for it", SILENCE.as_secs())]
    Silent,
    #[error("{NAME} ended before it had said all: {0}")]
    Broken(String),
    /// There is no such path.
    #[error("{0}")]
    Missing(String),
    /// There is something else than was asked for.
    #[error("{0}")]
    Unfit(String),
    /// It could not be read.
    #[error("{0}")]
    Failed(String),
}

impl From<Unanswered> for InspectError {
    fn from(why: Unanswered) -> InspectError {
        match why {
            Unanswered::Start(error) => InspectError::Start(error),
            Unanswered::NotStarted(_) | Unanswered::Silent(_) => InspectError::Silent,
            Unanswered::Senseless => senseless(),
            Unanswered::Ended(how) => InspectError::Broken(how),
        }
    }
}

fn senseless() -> InspectError {
    InspectError::Broken(format!("the answer of {NAME} makes no sense"))
}

/// Its input, which holds the question; the other end of it for a file that it writes.
fn input(question: &[u8], writes: bool) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    if writes {
        let question = answer::frame(question);
        // A path and some numbers: an empty pipe takes them whole.
        let (input, data) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        let mut data = File::from(data);
        if question.len() > libc::PIPE_BUF.saturating_mul(4) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        data.write_all(&question)?;
        return Ok((input, Some(data.into())));
    }
    Ok((answer::input(question)?, None))
}

/// Answers questions about the machine. Cheap to clone.
#[derive(Clone)]
pub struct Inspector {
    launcher: Arc<dyn Launcher>,
    /// Path of the cgroup of all services; empty: there is none.
    cgroups: Arc<str>,
    places: Arc<Semaphore>,
}

impl Inspector {
    /// `cgroups`: where those of services are.
    pub fn new(launcher: Arc<dyn Launcher>, cgroups: Option<&Path>) -> Inspector {
        let cgroups = cgroups.map(|path| path.to_string_lossy().into()).unwrap_or_default();
        Inspector { launcher, cgroups, places: Arc::new(Semaphore::new(MOST)) }
    }

    /// Has it looked at. Dropping the future or the answers ends the looking.
    ///
    /// # Errors
    /// When too many look already, or it cannot be started.
    pub async fn ask(&self, manager: &Manager, question: Question) -> Result<Answers, InspectError> {
        let by_service = matches!(question, Question::Processes(_) | Question::Sockets(_));
        let known = if by_service { manager.list() } else { Vec::new() };
        let named = known.into_iter().filter_map(|snapshot| {
            Some(InspectService { name: snapshot.name.to_string(), pid: snapshot.pid? })
        });
        let asked = InspectQuestion {
            cgroups_path: self.cgroups.to_string(),
            services: named.collect(),
            question: Some(question),
        };
        self.begin(asked.encode_to_vec()).await
    }

    /// Has a file written, whose bytes are then put into what this returns.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn write(&self, begin: WriteFileBegin) -> Result<Writing, InspectError> {
        let question = Some(Question::WriteFile(begin));
        let asked = InspectQuestion { question, ..InspectQuestion::default() };
        let (answers, input) = self.start(asked.encode_to_vec(), true).await?;
        let input = input.map(pipe::Sender::from_owned_fd).transpose().map_err(InspectError::Start)?;
        Ok(Writing { answers, input })
    }

    /// The facts of the host, each with its value.
    async fn facts(&self) -> Result<BTreeMap<String, String>, InspectError> {
        let question = Some(Question::Facts(FactsRequest {}));
        let asked = InspectQuestion { question, ..InspectQuestion::default() };
        let mut answers = self.begin(asked.encode_to_vec()).await?;
        let mut found = BTreeMap::new();
        while let Some(page) = answers.next().await? {
            let page = FactsResponse::decode(page.as_slice()).map_err(|_| senseless())?;
            found.extend(page.facts.into_iter().map(|fact| (fact.name, fact.value)));
        }
        Ok(found)
    }

    /// Has an encoded question answered.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn begin(&self, question: Vec<u8>) -> Result<Answers, InspectError> {
        Ok(self.start(question, false).await?.0)
    }

    async fn start(
        &self,
        question: Vec<u8>,
        writes: bool,
    ) -> Result<(Answers, Option<OwnedFd>), InspectError> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| InspectError::Busy)?;
        let (input, data) = input(&question, writes).map_err(InspectError::Start)?;
        let start = Start { descriptors: vec![(libc::STDIN_FILENO, input)], ..Start::default() };
        let answers = answer::Answers::begin(&*self.launcher, start, libc::STDOUT_FILENO, BOUNDS).await?;
        Ok((Answers { answers, _place: place }, data))
    }
}

impl FactSource for Inspector {
    fn read(&self) -> BoxFuture<'_, FactsAnswer> {
        Box::pin(async move { self.facts().await.map_err(|error| Arc::from(error.to_string())) })
    }
}

/// The answers of one helper, message after message.
#[derive(Debug)]
pub struct Answers {
    answers: answer::Answers,
    _place: OwnedSemaphorePermit,
}

impl Answers {
    /// The next message of the API, as bytes. `None`: that was all.
    ///
    /// # Errors
    /// Why there is no more.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, InspectError> {
        let frame = self.answers.next().await?;
        let (kind, content) = content(&frame).ok_or_else(senseless)?;
        let sentence = || harmless(&String::from_utf8_lossy(content), None).collect();
        match kind {
            Kind::Message => Ok(Some(content.to_vec())),
            Kind::End => Ok(None),
            Kind::Missing => Err(InspectError::Missing(sentence())),
            Kind::Unfit => Err(InspectError::Unfit(sentence())),
            Kind::Failed => Err(InspectError::Failed(sentence())),
        }
    }
}

/// A file on its way to one that writes it.
pub struct Writing {
    answers: Answers,
    input: Option<pipe::Sender>,
}

impl Writing {
    /// Hands the next bytes on. False: it takes no more, and [`Self::end`] tells why.
    ///
    /// # Errors
    /// It takes nothing for long.
    pub async fn put(&mut self, bytes: &[u8]) -> Result<bool, InspectError> {
        let Some(input) = &mut self.input else { return Ok(false) };
        match timeout(SILENCE, input.write_all(bytes)).await {
            Err(_) => Err(InspectError::Silent),
            Ok(written) => Ok(written.is_ok()),
        }
    }

    /// Returns the outcome. Removes the file again if bytes of it are missing.
    ///
    /// # Errors
    /// Why it is not written.
    pub async fn end(mut self) -> Result<Vec<u8>, InspectError> {
        self.input = None;
        let answer = self.answers.next().await?;
        answer.ok_or_else(|| InspectError::Broken("it has said nothing".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use kelson_helper::inspect::frame;
    use kelson_helper::{BoxFuture, Launched};

    use super::*;

    /// Says what a test wants, and counts how often it is killed.
    #[derive(Default)]
    struct Played {
        says: Vec<u8>,
        ends: bool,
        killed: Arc<AtomicUsize>,
    }

    impl Launcher for Played {
        fn launch(&self, mut start: Start) -> BoxFuture<'static, io::Result<Launched>> {
            let mut answer = File::from(start.take(libc::STDOUT_FILENO).unwrap());
            answer.write_all(&self.says).unwrap();
            if !self.ends {
                std::mem::forget(answer);
            }
            let killed = Arc::clone(&self.killed);
            let kill = Box::new(move || {
                killed.fetch_add(1, Ordering::Relaxed);
            });
            let exit = Box::pin(std::future::ready("was killed by signal 9".to_owned()));
            Box::pin(std::future::ready(Ok(Launched { pid: 7, start_time: 0, exit, kill })))
        }
    }

    async fn said(says: Vec<u8>, ends: bool) -> (Vec<Vec<u8>>, Option<InspectError>) {
        let played = Played { says, ends, ..Played::default() };
        let killed = Arc::clone(&played.killed);
        let mut answers = Inspector::new(Arc::new(played), None).begin(Vec::new()).await.unwrap();
        let mut messages = Vec::new();
        let error = loop {
            match answers.next().await {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        drop(answers);
        assert_eq!(killed.load(Ordering::Relaxed), 1, "nobody is left behind");
        (messages, error)
    }

    fn frames(frames: &[(Kind, &[u8])]) -> Vec<u8> {
        frames.iter().flat_map(|(kind, content)| frame(*kind, content)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn messages_come_until_the_end_or_until_there_are_no_more() {
        let (messages, error) =
            said(frames(&[(Kind::Message, b"one"), (Kind::Message, b""), (Kind::End, b"")]), true).await;
        assert_eq!((messages, error.is_none()), (vec![b"one".to_vec(), Vec::new()], true));
        let (messages, error) =
            said(frames(&[(Kind::Message, b"one"), (Kind::Missing, b"no\n\x1b[2J")]), true).await;
        assert_eq!((messages.len(), error.unwrap().to_string().as_str()), (1, "no[2J"));
        let (_, error) = said(frames(&[(Kind::Message, b"one")]), true).await;
        let text = "kelson-inspect ended before it had said all: was killed by signal 9";
        assert_eq!(error.unwrap().to_string(), text);
        let (_, error) = said(b"xxxxm".to_vec(), false).await;
        assert!(matches!(error, Some(InspectError::Broken(_))), "a frame of two gigabytes is not waited for");
        let (messages, error) = said(frames(&[(Kind::Message, b"one")]), false).await;
        assert!(messages.len() == 1 && matches!(error, Some(InspectError::Silent)));
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_look_at_the_same_time() {
        let inspector = Inspector::new(Arc::new(Played::default()), None);
        let mut looking = Vec::new();
        for _ in 0..MOST {
            looking.push(inspector.begin(Vec::new()).await.unwrap());
        }
        assert!(matches!(inspector.begin(Vec::new()).await, Err(InspectError::Busy)));
        looking.pop();
        assert!(inspector.begin(Vec::new()).await.is_ok());
    }

    #[test]
    fn a_question_is_there_whole_and_at_its_beginning() {
        use std::io::Read as _;
        let question = vec![7; 300_000];
        let (made, data) = input(&question, false).unwrap();
        let mut read = Vec::new();
        File::from(made).read_to_end(&mut read).unwrap();
        assert_eq!(read, answer::frame(&question));
        assert!(data.is_none() && input(&question, true).is_err(), "more than a pipe takes at once");
    }
}
