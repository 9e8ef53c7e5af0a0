//! The sockets that are held for the runs of a service, and what starts it on demand.

use std::os::fd::OwnedFd;

use kelson_conditions::{Any, Condition};
use kelson_runner::restart::is_success;
use kelson_runner::{BoxFuture, RunnerError};
use kelson_spec::service::RestartPolicy;

use super::{Core, Next};
use crate::service_runner::paths::HeldPaths;
use crate::service_runner::sockets::{HeldSockets, SUPPORTED, awaits_demand};
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
        self.paths.take_if(|_| !runs_again);
        let mut sockets = self.sockets.take_if(|_| !runs_again)?;
        let runners = std::sync::Arc::clone(&self.host_context.runners);
        Some(runners.remove_sockets(sockets.keep_only(&[])))
    }

    /// Those that an earlier incarnation of PID 1 held; and from now on changes of its paths count.
    pub(super) fn take_up_sockets(&mut self, sockets: Vec<(String, OwnedFd)>) {
        if !SUPPORTED || !self.service.has_opened() {
            return;
        }
        self.watch_paths();
        if !sockets.is_empty() {
            let store = self.host_context.store.as_ref();
            let held = HeldSockets::inherited(&self.name, &self.spec.sockets, sockets, store);
            self.sockets = Some(Box::new(held));
        }
    }

    /// From now on changes of its paths count.
    pub(super) fn watch_paths(&mut self) {
        let specs = &self.spec.paths;
        if SUPPORTED && !specs.is_empty() && !self.paths.as_ref().is_some_and(|held| held.are(specs)) {
            self.paths = Some(Box::new(HeldPaths::new(specs, &self.host_context.sources.paths)));
        }
    }

    /// What starts it on demand.
    pub(super) fn demand(&mut self) -> Box<dyn Condition> {
        self.watch_paths();
        let has_taken = self.has_taken();
        if let Some(paths) = self.paths.as_mut().filter(|_| has_taken) {
            paths.taken(self.service.run);
        }
        let (sockets, paths) = (self.sockets.as_ref(), self.paths.as_ref());
        let sockets = sockets.filter(|held| !held.are(&[])).map(|held| held.condition());
        let paths = paths.map(|held| held.conditions(&self.host_context.sources.paths));
        let mut all: Vec<_> = sockets.into_iter().chain(paths.into_iter().flatten()).collect();
        match all.pop() {
            Some(only) if all.is_empty() => only,
            last => {
                all.extend(last);
                Box::new(Any::new(all))
            }
        }
    }

    /// Whether what had changed before its last run needs no other run.
    fn has_taken(&self) -> bool {
        let restart = &self.spec.restart;
        let exit = self.service.exit;
        exit.is_some_and(|exit| restart.policy == RestartPolicy::Once || is_success(restart, exit))
    }

    /// Whether it is up because whatever demands it starts it.
    pub(super) fn listens(&self) -> bool {
        SUPPORTED && awaits_demand(self.service.missing())
    }
}
