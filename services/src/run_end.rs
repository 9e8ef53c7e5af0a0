//! The end of the host that a service brings about: its main service, and each with `onExit: stop`.
//!
//! A service is looked at whenever it is published, which is after it was recorded. So a later incarnation of PID 1 finds
//! the same end, wherever the one before it crashed.

use std::sync::Arc;

use kelson_runner::Exit;
use kelson_spec::ServiceSpec;
use kelson_spec::service::OnExit;
use tokio::sync::watch;

use crate::model::{Snapshot, State};

/// The exit status of a service that was never started, as of a container that Docker cannot start.
const NOT_STARTED: u8 = 125;
/// The exit status of a service that has failed with status 0, or with one that is not known.
const FAILED: u8 = 1;

/// The service whose end is the end of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceEnd {
    pub name: Arc<str>,
    /// How it has ended, in words.
    pub message: Arc<str>,
    pub status: u8,
}

/// Learns of services that end the host. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RunEnd {
    /// The name of the main service.
    pub main: Option<Arc<str>>,
    /// The first of them.
    end: Arc<watch::Sender<Option<ServiceEnd>>>,
}

impl RunEnd {
    pub fn new(main: Option<&str>) -> RunEnd {
        RunEnd { main: main.map(Arc::from), end: Arc::new(watch::channel(None).0) }
    }

    /// Whether the end of this service is that of the host.
    pub fn is_by(&self, name: &str, spec: Option<&ServiceSpec>) -> bool {
        self.main.as_deref() == Some(name) || spec.is_some_and(|spec| spec.on_exit == OnExit::Stop)
    }

    /// A service by whose end the host ends has ended.
    pub(crate) fn ended(&self, service: &Snapshot) {
        self.end.send_if_modified(|end| {
            let is_first = end.is_none();
            end.get_or_insert_with(|| ServiceEnd {
                name: Arc::clone(&service.name),
                message: Arc::clone(&service.message),
                status: exit_status(service),
            });
            is_first
        });
    }

    /// Returns once a service has ended by whose end the host ends. Cancelled by dropping, without loss.
    pub async fn next(&self) -> ServiceEnd {
        let mut end = self.end.subscribe();
        loop {
            if let Some(end) = end.borrow_and_update().clone() {
                return end;
            }
            if end.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// The exit status that stands for the end of a service, as a shell has it: its own, and 128 + the number of a signal.
pub(crate) fn exit_status(service: &Snapshot) -> u8 {
    let status = match service.exit {
        Some(Exit::Status(status)) => u8::try_from(status & 0xff).unwrap_or(FAILED),
        Some(Exit::Signal { signal, .. }) => {
            u8::try_from(signal).ok().and_then(|signal| signal.checked_add(128)).unwrap_or(FAILED)
        }
        Some(Exit::Lost) => FAILED,
        None if service.state == State::Failed => NOT_STARTED,
        None => 0,
    };
    match service.state {
        State::Finished | State::Skipped => 0,
        State::Failed if status == 0 => FAILED,
        _ => status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: State, exit: Option<Exit>) -> u8 {
        let snapshot = Snapshot::new(Arc::from("web"), state, Arc::from(""));
        exit_status(&Snapshot { exit, ..snapshot })
    }

    #[test]
    fn an_exit_status_is_that_of_the_service() {
        let killed = Some(Exit::Signal { signal: 15, core: false });
        assert_eq!(status(State::Finished, Some(Exit::Status(0))), 0);
        assert_eq!(status(State::Failed, Some(Exit::Status(3))), 3);
        assert_eq!(status(State::Failed, killed), 143);
        assert_eq!(status(State::Failed, Some(Exit::Signal { signal: 64, core: true })), 192);
        assert_eq!(status(State::Stopped, killed), 143);
        assert_eq!(status(State::Stopped, Some(Exit::Status(0))), 0);
        // Kelson has given it up, and it ended well on the signal.
        assert_eq!(status(State::Failed, Some(Exit::Status(0))), 1);
        assert_eq!(status(State::Failed, Some(Exit::Lost)), 1);
        assert_eq!(status(State::Failed, None), 125);
        assert_eq!((status(State::Skipped, None), status(State::Stopped, None)), (0, 0));
    }

    #[tokio::test]
    async fn the_first_end_counts() {
        let run_end = RunEnd::new(Some("web"));
        let snapshot = |name: &str| Snapshot::new(Arc::from(name), State::Finished, Arc::from("done"));
        run_end.ended(&snapshot("web"));
        run_end.ended(&snapshot("db"));
        assert_eq!(&*run_end.next().await.name, "web");
        assert!(run_end.is_by("web", None) && !run_end.is_by("db", None));
        let spec = ServiceSpec { on_exit: OnExit::Stop, ..ServiceSpec::process("db", ["db"]) };
        assert!(run_end.is_by("db", Some(&spec)));
    }
}
