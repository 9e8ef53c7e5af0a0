//! One call that may hang, made by a process of its own: `kelson-task`.
//!
//! A dead disk puts each process that touches it into a sleep that no signal ends. So PID 1 touches none: it starts
//! this helper with the [`Request`] as arguments, and waits for its answer no longer than a deadline. After that the
//! process is left behind, and PID 1 reports that.

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::time::Duration;

use kelson_helper::answer::Frames;
pub use kelson_helper::task::Request;
use kelson_helper::task::{ANSWER_MAX, read_answer};
use kelson_helper::{CONTROL, Launched, Launcher, Start};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

/// Why a task did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    #[error("kelson-task could not be started: {0}")]
    Start(#[source] io::Error),
    /// A failure that the task reports itself.
    #[error("{0}")]
    Failed(String),
    #[error("kelson-task {0} ended without an answer")]
    Vanished(&'static str),
    /// The process is left behind.
    #[error("kelson-task {verb} did not answer within {} s and is left behind", .deadline.as_secs_f32())]
    Late { verb: &'static str, deadline: Duration },
}

/// Makes a call in this very process: the helper's own code, which `main.rs` passes to the initramfs. Nothing else runs
/// there yet, and without a root nothing ever will.
pub type Perform = fn(&Request) -> Result<String, String>;

/// Does what `request` says in a process of its own. Returns what it did, as a text.
///
/// Dropping the future leaves the process behind.
///
/// # Errors
/// When it failed, or has not answered by the deadline.
pub async fn run(
    launcher: &dyn Launcher,
    request: &Request,
    deadline: Duration,
) -> Result<String, TaskError> {
    run_with(launcher, request, Vec::new(), deadline).await
}

/// As [`run`], with descriptors that the request works on.
///
/// # Errors
/// As [`run`].
pub async fn run_with(
    launcher: &dyn Launcher,
    request: &Request,
    descriptors: Vec<(RawFd, OwnedFd)>,
    deadline: Duration,
) -> Result<String, TaskError> {
    let work = async { Started::new(launcher, request, descriptors).await?.answer().await };
    let late = TaskError::Late { verb: request.verb(), deadline };
    tokio::time::timeout(deadline, work).await.unwrap_or(Err(late))
}

/// A process that does what a request says.
pub struct Started {
    verb: &'static str,
    frames: Frames,
    pub process: Launched,
}

impl Started {
    /// # Errors
    /// When it cannot be started.
    pub async fn new(
        launcher: &dyn Launcher,
        request: &Request,
        mut descriptors: Vec<(RawFd, OwnedFd)>,
    ) -> Result<Started, TaskError> {
        let (frames, output) = Frames::pipe(ANSWER_MAX).map_err(TaskError::Start)?;
        descriptors.push((libc::STDOUT_FILENO, output));
        let start = Start { arguments: request.to_arguments(), descriptors, network: None };
        let process = launcher.launch(start).await.map_err(TaskError::Start)?;
        Ok(Started { verb: request.verb(), frames, process })
    }

    /// What it did, as a text. Cancelled by dropping.
    ///
    /// # Errors
    /// When it failed.
    pub async fn answer(&mut self) -> Result<String, TaskError> {
        let answer = self.first().await;
        // Its end: from then on it holds no disk.
        let _ = self.frames.next().await;
        answer
    }

    async fn first(&mut self) -> Result<String, TaskError> {
        let answer = self.frames.next().await.ok().and_then(|answer| read_answer(&answer));
        answer.ok_or(TaskError::Vanished(self.verb))?.map_err(TaskError::Failed)
    }
}

/// A process that has answered, and keeps what it has made until this is dropped.
pub struct Held {
    started: Started,
    control: OwnedFd,
}

impl Held {
    /// Lets go of it, and waits for the end of the process.
    ///
    /// # Errors
    /// When that takes longer than `deadline`. The process is left behind.
    pub async fn release(mut self, deadline: Duration) -> Result<(), TaskError> {
        drop(self.control);
        let ended = tokio::time::timeout(deadline, self.started.frames.next()).await;
        ended.map(drop).map_err(|_| TaskError::Late { verb: self.started.verb, deadline })
    }
}

/// Has a process do what `request` says, and keep it. Returns what it did, as a text.
///
/// # Errors
/// As [`run`].
pub async fn hold(
    launcher: &dyn Launcher,
    request: &Request,
    deadline: Duration,
) -> Result<(String, Held), TaskError> {
    let work = async {
        let flags = SockFlag::SOCK_CLOEXEC;
        let pair = socketpair(AddressFamily::Unix, SockType::Stream, None, flags);
        let (control, theirs) = pair.map_err(|errno| TaskError::Start(errno.into()))?;
        let mut started = Started::new(launcher, request, vec![(CONTROL, theirs)]).await?;
        Ok((started.first().await?, Held { started, control }))
    };
    let late = TaskError::Late { verb: request.verb(), deadline };
    tokio::time::timeout(deadline, work).await.unwrap_or(Err(late))
}

#[cfg(test)]
pub mod testing {
    use std::fs::File;
    use std::io::Write;
    use std::sync::Mutex;

    use kelson_helper::{BoxFuture, Launched};

    use super::*;

    /// Answers by itself instead of starting anything.
    pub struct Scripted<F>(pub F, pub Mutex<Vec<String>>);

    impl<F: Fn(&str) -> Option<&'static str> + Send + Sync> Scripted<F> {
        pub fn new(answer: F) -> Self {
            Scripted(answer, Mutex::new(Vec::new()))
        }
    }

    impl<F: Fn(&str) -> Option<&'static str> + Send + Sync> Launcher for Scripted<F> {
        fn launch(&self, mut start: Start) -> BoxFuture<'static, io::Result<Launched>> {
            let words: Vec<&str> = start.arguments.iter().map(|word| word.to_str().unwrap()).collect();
            let line = words.join(" ");
            let answer = (self.0)(&line);
            self.1.lock().unwrap().push(line);
            let output = start.take(libc::STDOUT_FILENO).unwrap();
            match answer {
                Some(answer) => {
                    let frame = kelson_helper::answer::frame(answer.trim_end().as_bytes());
                    File::from(output).write_all(&frame).unwrap();
                }
                // Hangs: the write end stays open.
                None => std::mem::forget(output),
            }
            let exit = Box::pin(std::future::pending());
            Box::pin(async { Ok(Launched { pid: 7, start_time: 0, exit, kill: Box::new(|| {}) }) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::Scripted;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answers_come_back_and_silence_ends_at_the_deadline() {
        let launcher = Scripted::new(|line| match line {
            "sync" => Some("done all is written"),
            "umount /a" => Some("failed /a is busy"),
            "stat /b" => Some(""),
            _ => None,
        });
        let second = Duration::from_secs(1);
        assert_eq!(run(&launcher, &Request::Sync, second).await.unwrap(), "all is written");
        let failed = run(&launcher, &Request::Unmount { target: "/a".into() }, second).await.unwrap_err();
        assert_eq!(failed.to_string(), "/a is busy");
        let gone = run(&launcher, &Request::Stat { path: "/b".into() }, second).await.unwrap_err();
        assert_eq!(gone.to_string(), "kelson-task stat ended without an answer");
        let late = run(&launcher, &Request::Stat { path: "/c".into() }, second).await.unwrap_err();
        assert_eq!(late.to_string(), "kelson-task stat did not answer within 1 s and is left behind");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_held_is_let_go_before_its_deadline_or_left_behind() {
        let second = Duration::from_secs(1);
        let answers = Scripted::new(|_| Some("done ext4 /dev/vdb"));
        let (text, held) = hold(&answers, &Request::Sync, second).await.unwrap();
        assert_eq!(text, "ext4 /dev/vdb");
        held.release(second).await.unwrap();
        let silent = Scripted::new(|_| None);
        let late = hold(&silent, &Request::Sync, second).await.err().unwrap();
        assert_eq!(late.to_string(), "kelson-task sync did not answer within 1 s and is left behind");
    }
}
