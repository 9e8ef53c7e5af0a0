//! One call that may hang, made by a process of its own: `kelson-task`.
//!
//! A dead disk puts whoever touches it into a sleep that no signal ends. So PID 1 touches none: it starts this
//! helper with the [`Request`] as arguments, and waits for its answer no longer than a deadline. After that the
//! process is left behind, and that is said.
//!
//! The answer is one line on standard output, `done` or `failed` and a text; an end without it is a failure.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use kelson_helper::BoxFuture;
pub use kelson_helper::task::Request;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

/// Answers are one sentence; whoever says more is cut off.
const ANSWER_MAX: u64 = 16 * 1024;

/// Starts the helper. Somebody else reaps it.
pub trait Launcher: Send + Sync {
    /// Starts Kelson's own file with these arguments (`argv[0]` first) and this standard output.
    fn launch(&self, arguments: Vec<CString>, output: OwnedFd) -> BoxFuture<'_, io::Result<()>>;
}

/// Why a task did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    #[error("kelson-task could not be started: {0}")]
    Start(#[source] io::Error),
    /// What the task itself says.
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
    let verb = request.verb();
    let work = async {
        let unfit = || TaskError::Start(io::Error::other("a word of the request holds a NUL"));
        let arguments = request.to_arguments().ok_or_else(unfit)?;
        let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)
            .map_err(|errno| TaskError::Start(errno.into()))?;
        launcher.launch(arguments, writer).await.map_err(TaskError::Start)?;
        let reader = pipe::Receiver::from_owned_fd(reader).map_err(TaskError::Start)?;
        let mut answer = Vec::new();
        reader.take(ANSWER_MAX).read_to_end(&mut answer).await.map_err(TaskError::Start)?;
        parse_answer(verb, &String::from_utf8_lossy(&answer))
    };
    match tokio::time::timeout(deadline, work).await {
        Ok(result) => result,
        Err(_) => Err(TaskError::Late { verb, deadline }),
    }
}

fn parse_answer(verb: &'static str, answer: &str) -> Result<String, TaskError> {
    let (word, text) = answer.trim_end().split_once(' ').unwrap_or((answer.trim_end(), ""));
    match word {
        "done" => Ok(text.to_owned()),
        "failed" => Err(TaskError::Failed(text.to_owned())),
        _ => Err(TaskError::Vanished(verb)),
    }
}

#[cfg(test)]
pub mod testing {
    use super::*;
    use std::io::Write;
    use std::sync::Mutex;

    /// Answers by itself instead of starting anything.
    pub struct Scripted<F>(pub F, pub Mutex<Vec<String>>);

    impl<F: Fn(&str) -> Option<&'static str> + Send + Sync> Scripted<F> {
        pub fn new(answer: F) -> Self {
            Scripted(answer, Mutex::new(Vec::new()))
        }
    }

    impl<F: Fn(&str) -> Option<&'static str> + Send + Sync> Launcher for Scripted<F> {
        fn launch(&self, arguments: Vec<CString>, output: OwnedFd) -> BoxFuture<'_, io::Result<()>> {
            let words: Vec<&str> = arguments.iter().skip(1).map(|word| word.to_str().unwrap()).collect();
            let line = words.join(" ");
            let answer = (self.0)(&line);
            self.1.lock().unwrap().push(line);
            match answer {
                Some(answer) => std::fs::File::from(output).write_all(answer.as_bytes()).unwrap(),
                // Hangs: the write end stays open.
                None => std::mem::forget(output),
            }
            Box::pin(async { Ok(()) })
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
            "sync" => Some("done all is written\n"),
            "umount /a" => Some("failed /a is busy\n"),
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
}
