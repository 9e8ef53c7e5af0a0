//! The sockets that are held for the runs of a service.

use std::os::fd::OwnedFd;

use kelson_runner::{BoxFuture, RunnerError};

use super::{Core, Next};
use crate::service_runner::sockets::{HeldSockets, SUPPORTED, awaits_connection};
use crate::service_runner::table::{After, Down, Input, Phase, Work};

impl Core {
    /// Makes the sockets of the spec that are not held, and closes those that it does not have. `None`: there is nothing
    /// to do.
    pub(super) fn arrange_sockets(
        &mut self,
    ) -> Option<BoxFuture<'static, Result<Vec<OwnedFd>, RunnerError>>> {
        let specs = &self.spec.sockets;
        if !SUPPORTED || (specs.is_empty() && self.sockets.is_none()) {
            return None;
        }
        let held = self.sockets.get_or_insert_default();
        if held.are(specs) {
            return None;
        }
        let (closed, missing) = (held.keep_only(specs), held.missing(specs));
        let runners = std::sync::Arc::clone(&self.host_context.runners);
        Some(Box::pin(async move {
            runners.remove_sockets(closed).await?;
            runners.make_sockets(missing).await
        }))
    }

    /// The sockets for this work are there, or could not be made.
    pub(super) fn sockets_made(&mut self, work: Work, made: Result<Vec<OwnedFd>, RunnerError>) -> Next {
        match made {
            Ok(made) => {
                if SUPPORTED {
                    let held = self.sockets.get_or_insert_default();
                    held.fill(&self.name, &self.spec.sockets, made, self.host_context.store.as_ref());
                }
                Next::Work(work, false)
            }
            Err(error) if work == Work::Open => self.step(Input::Opened(Err(error))),
            Err(error) => self.step(Input::Spawned(Err(error))),
        }
    }

    /// Closes the sockets and removes their files, unless it runs again after that. `None`: there is nothing to do.
    pub(super) fn close_sockets(&mut self) -> Option<BoxFuture<'static, Result<(), RunnerError>>> {
        if !SUPPORTED {
            return None;
        }
        let runs_again =
            matches!(self.service.phase, Phase::Down(Down { after: After::Gate | After::Again(_), .. }));
        let mut sockets = self.sockets.take_if(|_| !runs_again)?;
        let runners = std::sync::Arc::clone(&self.host_context.runners);
        Some(runners.remove_sockets(sockets.keep_only(&[])))
    }

    /// Those that an earlier incarnation of PID 1 held.
    pub(super) fn take_up_sockets(&mut self, sockets: Vec<(String, OwnedFd)>) {
        if SUPPORTED && !sockets.is_empty() && self.service.has_opened() {
            let store = self.host_context.store.as_ref();
            let held = HeldSockets::inherited(&self.name, &self.spec.sockets, sockets, store);
            self.sockets = Some(Box::new(held));
        }
    }

    /// Whether its sockets listen, and the first connection starts it.
    pub(super) fn listens(&self) -> bool {
        SUPPORTED && awaits_connection(self.service.missing())
    }
}
