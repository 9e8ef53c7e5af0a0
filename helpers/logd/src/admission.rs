//! Decides who may read logs. PID 1 answers, which knows the services and the access that their files grant.
//!
//! A client's socket goes to PID 1 once, as soon as it has connected; its calls wait for the answer.

use std::collections::HashMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tonic::Status;

/// PID 1 that re-executes itself just then loses a question: it is asked again.
const ANSWER: Duration = Duration::from_secs(2);
const ATTEMPTS: u32 = 3;

/// Asks PID 1, by way of the reader.
pub struct Admission {
    state: Mutex<State>,
    wake: Box<dyn Fn() + Send + Sync>,
}

#[derive(Default)]
struct State {
    last: u64,
    /// For the reader, which sends them.
    asked: Vec<(u64, OwnedFd)>,
    waiting: HashMap<u64, oneshot::Sender<Verdict>>,
}

/// Why not, if not.
type Verdict = Result<(), Status>;

/// PID 1's answer about one client, once it has come.
#[derive(Clone)]
pub struct Asked(watch::Receiver<Option<Verdict>>);

impl Admission {
    /// `wake` lets the reader look what it is to send.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Admission {
        Admission { state: Mutex::default(), wake: Box::new(wake) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks about the client at the other end of this socket.
    pub fn ask(self: &Arc<Self>, socket: BorrowedFd<'_>) -> Asked {
        let (sender, receiver) = watch::channel(None);
        let (admission, socket) = (Arc::clone(self), socket.try_clone_to_owned());
        kelson_sys::spawn(async move {
            let verdict = match socket {
                Ok(socket) => admission.verdict(&socket).await,
                Err(error) => Err(without(&error)),
            };
            sender.send_replace(Some(verdict));
        });
        Asked(receiver)
    }

    async fn verdict(&self, socket: &OwnedFd) -> Verdict {
        for _ in 0..ATTEMPTS {
            let copy = socket.try_clone().map_err(|error| without(&error))?;
            let (answer, answered) = oneshot::channel();
            let number = {
                let mut state = self.state();
                state.last = state.last.wrapping_add(1);
                let number = state.last;
                state.asked.push((number, copy));
                state.waiting.insert(number, answer);
                number
            };
            (self.wake)();
            match tokio::time::timeout(ANSWER, answered).await {
                Ok(Ok(verdict)) => return verdict,
                _ => drop(self.state().waiting.remove(&number)),
            }
        }
        Err(Status::unavailable(
            "PID 1 does not say whether this process may read logs; try again in a moment",
        ))
    }

    /// Takes the questions that the reader sends.
    pub fn take(&self) -> Vec<(u64, OwnedFd)> {
        std::mem::take(&mut self.state().asked)
    }

    /// PID 1 has answered.
    pub fn answer(&self, number: u64, refusal: String) {
        if let Some(waiting) = self.state().waiting.remove(&number) {
            let verdict = if refusal.is_empty() { Ok(()) } else { Err(Status::permission_denied(refusal)) };
            // The client may have gone.
            let _ = waiting.send(verdict);
        }
    }
}

fn without(error: &io::Error) -> Status {
    Status::unavailable(format!("PID 1 cannot be asked whether this process may read logs: {error}"))
}

impl Asked {
    /// Returns once PID 1 has said that it may read. Cancelled by dropping; PID 1 is waited for at most 6 s.
    ///
    /// # Errors
    /// PERMISSION_DENIED with PID 1's words, UNAVAILABLE where there are none.
    pub async fn wait(mut self) -> Result<(), Status> {
        match self.0.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(verdict)) => verdict.clone(),
            Ok(None) | Err(_) => Err(Status::unavailable("kelson-logd is ending")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_question_that_is_lost_is_asked_again_and_silence_is_no_yes() {
        let admission = Arc::new(Admission::new(|| {}));
        let (_reader, socket) = nix::unistd::pipe().unwrap();
        let asked = admission.ask(socket.as_fd());
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(admission.take().len(), 1, "lost");
        tokio::time::sleep(Duration::from_secs(2)).await;
        let again = admission.take();
        admission.answer(again[0].0, String::new());
        assert!(asked.wait().await.is_ok());

        let asked = admission.ask(socket.as_fd());
        tokio::task::yield_now().await;
        admission.answer(admission.take()[0].0, "no".to_owned());
        for _ in 0..2 {
            let denied = asked.clone().wait().await.unwrap_err();
            assert_eq!((denied.code(), denied.message()), (tonic::Code::PermissionDenied, "no"));
        }

        let silent = admission.ask(socket.as_fd());
        let began = tokio::time::Instant::now();
        assert_eq!(silent.wait().await.unwrap_err().code(), tonic::Code::Unavailable);
        assert_eq!(began.elapsed(), Duration::from_secs(6));
        assert!(admission.state().waiting.is_empty());
        admission.answer(7, String::new());
    }
}
