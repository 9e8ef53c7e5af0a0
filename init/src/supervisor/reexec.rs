//! The end of an incarnation: PID 1 looks for a program for the next one, and executes it.

use std::time::Duration;

use kelson_services::ServicesError;
use kelson_services::host::Reexecution;
use kelson_services::manager::Manager;
use kelson_services::state_store::{Kind, StateStore};
use tokio::sync::{mpsc, oneshot};

use super::intent::Intents;
use super::launchers::Personalities;
use crate::reexec::{self, Candidate, ReexecState};

/// The answer that PID 1 re-executes itself has so long to leave before it does.
const ANSWER: Duration = Duration::from_millis(50);

type Reply = oneshot::Sender<Result<Reexecution, ServicesError>>;

/// A program for the next incarnation was found fit.
pub(super) struct Fit {
    candidate: Candidate,
    reason: String,
    reply: Reply,
}

/// The parts that a re-execution needs.
pub(super) struct Reexec {
    pub(super) personalities: Personalities,
    pub(super) manager: Manager,
    pub(super) intents: Intents,
    pub(super) store: Option<StateStore>,
    pub(super) state: ReexecState,
    /// A program for the next incarnation is being looked for.
    fit: Option<mpsc::Receiver<Fit>>,
}

impl Reexec {
    pub(super) fn new(
        personalities: Personalities,
        manager: Manager,
        intents: Intents,
        store: Option<StateStore>,
        state: ReexecState,
    ) -> Reexec {
        Reexec { personalities, manager, intents, store, state, fit: None }
    }

    /// Looks for a program beside all else; what is fit comes to [`Reexec::found`].
    pub(super) fn ask(&mut self, reason: String, reply: Reply) {
        let refusal = if self.intents.current().is_some() {
            Some("the host is stopping".to_owned())
        } else if self.fit.as_ref().is_some_and(|fit| !fit.is_closed()) {
            Some("it is being done already".to_owned())
        } else {
            self.nothing_to_go_on_with()
        };
        if let Some(refusal) = refusal {
            // The caller may be gone.
            let _ = reply.send(Err(ServicesError::NotNow(refusal)));
            return;
        }
        let (found, fit) = mpsc::channel(1);
        self.fit = Some(fit);
        let (personalities, manager) = (self.personalities.clone(), self.manager.clone());
        kelson_sys::spawn(async move {
            match reexec::find(&personalities).await {
                Ok(candidate) => drop(found.send(Fit { candidate, reason, reply }).await),
                Err(why) => refuse(&manager, &reason, why.to_string(), reply),
            }
        });
    }

    /// `None`: nothing was asked for.
    pub(super) async fn found(&mut self) -> Option<Fit> {
        self.fit.as_mut()?.recv().await
    }

    /// Why the next incarnation would not find what it needs.
    fn nothing_to_go_on_with(&self) -> Option<String> {
        match &self.store {
            Some(store) => store.trouble().map(|trouble| format!("{trouble}; what runs would be lost")),
            None => Some(
                "nothing of this host is written down (its state folder cannot be written), so it would be lost"
                    .to_owned(),
            ),
        }
    }

    fn write(&self, state: &ReexecState) {
        if let Some(store) = &self.store {
            store.write(Kind::ReexecState, "", state);
        }
    }

    /// The end of this incarnation. Returns only if the next one cannot begin.
    pub(super) async fn execute(&mut self, fit: Fit) {
        let Fit { candidate, reason, reply } = fit;
        let count = self.state.count.saturating_add(1);
        self.write(&ReexecState { count, reason: reason.clone(), ..self.state.clone() });
        if let Some(why) = self.nothing_to_go_on_with() {
            return refuse(&self.manager, &reason, why, reply);
        }
        let told = Reexecution {
            program: candidate.description.clone(),
            old_version: reexec::OWN_VERSION.to_owned(),
            new_version: candidate.version.clone(),
        };
        self.manager.host_event(&format!(
            "PID 1 of version {} re-executes itself from {}: asked for by {reason}",
            told.old_version, told.program
        ));
        // The caller may be gone; one that is not gets the answer before the connection breaks.
        if reply.send(Ok(told)).is_ok() {
            tokio::time::sleep(ANSWER).await;
        }
        let why = reexec::execute(&candidate);
        self.write(&self.state);
        self.manager.host_event(&format!("PID 1 could not re-execute itself and continues unchanged: {why}"));
    }
}

fn refuse(manager: &Manager, reason: &str, why: String, reply: Reply) {
    manager.host_event(&format!("PID 1 does not re-execute itself, as asked for by {reason}: {why}"));
    let _ = reply.send(Err(ServicesError::NotNow(why)));
}
