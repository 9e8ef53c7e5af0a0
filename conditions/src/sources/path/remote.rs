//! The paths of one mount that is no memory, as PID 1 follows them: through a process that may hang on it.
//!
//! This task asks for such a process, tells it the paths, passes its answers on, and asks for another when it is gone.
//! It waits for nothing but its own channels, sockets and timers, whatever the process is stuck in.

use kelson_sys::ordered;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kelson_helper::task::WATCH_PATHS;
use kelson_helper::{Launcher, Lease, Start};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::tree::until;
use super::walk::Question;
use super::wire::{Connection, Found, Frame};
use crate::condition::BoxFuture;

/// After this long without an answer a path says that its file system does not answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Between the end of one process and the next.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// PATH_MAX: nobody can open a longer one.
const LONGEST_PATH: usize = 4096;

/// A process that runs [`path_helper`](crate::path_helper) on the other end of `socket`. It is killed when this is dropped,
/// and left behind where even that does not end it.
struct Helper {
    socket: UnixStream,
    lease: Lease,
}

/// Starts one more. Cancelled by dropping.
fn spawn(launcher: &dyn Launcher) -> BoxFuture<'static, io::Result<Helper>> {
    let started = UnixStream::pair()
        .map(|(socket, its)| (socket, launcher.launch(Start::new(vec![WATCH_PATHS.into()], its.into()))));
    Box::pin(async move {
        let (socket, launching) = started?;
        Ok(Helper { socket, lease: Lease(launching.await?.kill) })
    })
}

#[derive(Debug)]
pub(super) enum Command {
    Watch { id: u64, path: PathBuf, question: Question, allowed: Vec<u32> },
    Forget { id: u64 },
}

#[derive(Debug)]
pub(super) enum Answer {
    Found(Found),
    /// An earlier answer is no longer known.
    Unknown,
    /// No answer for too long.
    Silent,
    /// Nobody can be asked.
    Failed(Arc<str>),
}

/// Serves one mount until `commands` closes.
pub(super) async fn serve(
    launcher: Arc<dyn Launcher>,
    mut commands: mpsc::UnboundedReceiver<Command>,
    answers: mpsc::UnboundedSender<(u64, Answer)>,
) {
    let mut remote = Remote {
        wanted: HashMap::new(),
        due: VecDeque::new(),
        link: Link::Spawning(spawn(&*launcher)),
        pause: SHORTEST_PAUSE,
        answers,
    };
    loop {
        let due = remote.next_due();
        tokio::select! {
            command = commands.recv() => match command {
                Some(command) => remote.take(command),
                None => return,
            },
            news = remote.link.next() => remote.hear(news, &*launcher),
            () = until(due) => remote.say_silent(),
        }
    }
}

struct Remote {
    wanted: HashMap<u64, Wanted>,
    /// When which path must have been answered, earliest first.
    due: VecDeque<(Instant, u64)>,
    link: Link,
    /// Before the next process.
    pause: Duration,
    answers: mpsc::UnboundedSender<(u64, Answer)>,
}

struct Wanted {
    path: PathBuf,
    question: Question,
    allowed: Vec<u32>,
    /// The moment it was last asked for, until it is answered.
    asked: Option<Instant>,
}

impl Wanted {
    fn frame(&self, id: u64) -> Frame {
        let Wanted { path, question, allowed, .. } = self;
        Frame::Watch { id, allowed: allowed.clone(), question: question.clone(), path: path.clone() }
    }
}

enum Link {
    Pausing(Option<Instant>),
    Spawning(BoxFuture<'static, io::Result<Helper>>),
    Open { connection: Box<Connection>, _lease: Lease, since: Instant },
}

enum News {
    Rested,
    Spawned(io::Result<Helper>),
    Said(io::Result<Frame>),
}

impl Link {
    async fn next(&mut self) -> News {
        match self {
            Link::Pausing(time) => {
                until(*time).await;
                News::Rested
            }
            Link::Spawning(spawning) => News::Spawned(spawning.await),
            Link::Open { connection, .. } => News::Said(connection.next().await),
        }
    }
}

impl Remote {
    fn take(&mut self, command: Command) {
        let frame = match command {
            Command::Watch { id, path, question, .. }
                if path.as_os_str().len() > LONGEST_PATH || !question.is_sound() =>
            {
                return self.answer(id, Answer::Found(Found::Missing));
            }
            Command::Watch { id, path, question, allowed } => {
                let wanted = Wanted { path, question, allowed, asked: None };
                let frame = wanted.frame(id);
                self.wanted.insert(id, wanted);
                self.expect_answer(id);
                frame
            }
            Command::Forget { id } => {
                self.wanted.remove(&id);
                Frame::Forget { id }
            }
        };
        if let Link::Open { connection, .. } = &mut self.link
            && let Err(error) = connection.send(&frame)
        {
            self.lose(&error);
        }
    }

    fn hear(&mut self, news: News, launcher: &dyn Launcher) {
        match news {
            News::Rested => self.link = Link::Spawning(spawn(launcher)),
            News::Spawned(helper) => {
                let opened = helper.and_then(|helper| self.open(helper));
                if let Err(error) = opened {
                    self.fail(&error);
                }
            }
            News::Said(Ok(Frame::Found { id, found })) => {
                if let Some(wanted) = self.wanted.get_mut(&id) {
                    wanted.asked = None;
                    self.answer(id, Answer::Found(found));
                }
            }
            News::Said(Ok(_)) => self.lose(&io::Error::other("it sent what only PID 1 sends")),
            News::Said(Err(error)) => self.lose(&error),
        }
    }

    fn open(&mut self, helper: Helper) -> io::Result<()> {
        let mut connection = Box::new(Connection::new(helper.socket.into())?);
        let mut ids: Vec<u64> = self.wanted.keys().copied().collect();
        ordered::sort(&mut ids);
        for id in &ids {
            if let Some(wanted) = self.wanted.get(id) {
                connection.send(&wanted.frame(*id))?;
            }
        }
        // Those that have waited since before the process ran go on from then.
        let unasked = |id: &u64| self.wanted.get(id).is_some_and(|wanted| wanted.asked.is_none());
        for id in ids.into_iter().filter(unasked).collect::<Vec<_>>() {
            self.expect_answer(id);
        }
        self.link = Link::Open { connection, _lease: helper.lease, since: Instant::now() };
        Ok(())
    }

    /// The process is gone, or of no use: its answers are worth nothing any more.
    fn lose(&mut self, error: &io::Error) {
        if let Link::Open { since, .. } = &self.link
            && since.elapsed() >= LONGEST_PAUSE
        {
            self.pause = SHORTEST_PAUSE;
        }
        let pause = self.rest();
        tracing::warn!(
            "the process that watches paths on a disk is gone, another follows in {pause:?}: {error}"
        );
        let ids: Vec<u64> = self.wanted.keys().copied().collect();
        for id in ids {
            self.answer(id, Answer::Unknown);
            self.expect_answer(id);
        }
    }

    /// No process could be started.
    fn fail(&mut self, error: &io::Error) {
        let pause = self.rest();
        tracing::warn!("no process to watch paths on a disk, trying again in {pause:?}: {error}");
        let text: Arc<str> = error.to_string().into();
        for (id, wanted) in &mut self.wanted {
            wanted.asked = None;
            let _ = self.answers.send((*id, Answer::Failed(Arc::clone(&text))));
        }
    }

    fn rest(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        // Drops the socket and the lease.
        self.link = Link::Pausing(Instant::now().checked_add(pause));
        pause
    }

    fn expect_answer(&mut self, id: u64) {
        let now = Instant::now();
        if let (Some(wanted), Some(due)) = (self.wanted.get_mut(&id), now.checked_add(ANSWER_WITHIN)) {
            wanted.asked = Some(now);
            self.due.push_back((due, id));
        }
    }

    /// Drops what has been answered meanwhile.
    fn next_due(&mut self) -> Option<Instant> {
        while let Some((due, id)) = self.due.front() {
            let asked = self.wanted.get(id).and_then(|wanted| wanted.asked);
            if asked.and_then(|asked| asked.checked_add(ANSWER_WITHIN)) == Some(*due) {
                return Some(*due);
            }
            self.due.pop_front();
        }
        None
    }

    fn say_silent(&mut self) {
        let now = Instant::now();
        while let Some(due) = self.next_due() {
            if due > now {
                return;
            }
            if let Some((_, id)) = self.due.pop_front() {
                if let Some(wanted) = self.wanted.get_mut(&id) {
                    wanted.asked = None;
                }
                self.answer(id, Answer::Silent);
            }
        }
    }

    fn answer(&self, id: u64, answer: Answer) {
        // The hub is gone only when this task is about to go.
        let _ = self.answers.send((id, answer));
    }
}
