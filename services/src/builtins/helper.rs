//! A helper of PID 1 as one of the built-in services.
//!
//! Its supervisor runs it, and no ServiceRunner does. It is shown like every other service all the same: from what its
//! supervisor publishes come its snapshots and its events.

use std::sync::Arc;

use kelson_helper::supervisor::Status;
use tokio::sync::{mpsc, watch};

use crate::events::EventLog;
use crate::manager::{Manager, SupervisedHelper};
use crate::model::{Details, Snapshot, State, wall};

/// A helper as a service, whose supervisor publishes `S` and reports `R`.
pub struct HelperService<S, R> {
    pub name: &'static str,
    pub status: watch::Receiver<S>,
    /// The service as the status has it, on a host that is stopping or is not.
    pub snapshot: fn(&S, bool) -> Snapshot,
    pub reports: mpsc::Receiver<R>,
    /// The service that a report is about, and the message and the details of its event.
    pub event: fn(R) -> (Arc<str>, String, Details),
    /// An operator's restart.
    pub restart: Box<dyn Fn() + Send + Sync>,
}

impl<S: Send + Sync + 'static, R: Send + 'static> HelperService<S, R> {
    /// Shows the helper among the services once it has something to do, and makes events of what it reports.
    pub fn show(self, manager: &Manager, events: &EventLog) {
        let HelperService { name, mut status, snapshot, mut reports, event, restart } = self;
        let mut first = snapshot(&status.borrow_and_update(), manager.closing());
        if let Some(reported) = events.of_service(name).last().filter(|_| first.up) {
            // It was started by an earlier incarnation of PID 1.
            first.since = reported.time;
        }
        let idle = |now: &Snapshot| now.state.at_rest();
        let begins = !idle(&first);
        let (publisher, receiver) = watch::channel(first);
        let mut hidden = Some(SupervisedHelper { snapshot: receiver, restart });
        if begins && let Some(helper) = hidden.take() {
            manager.add_helper(name, helper);
        }
        let (events, shown_by, reported_to) = (events.clone(), manager.clone(), manager.clone());
        kelson_sys::spawn(async move {
            let name: Arc<str> = Arc::from(name);
            while status.changed().await.is_ok() {
                let now = snapshot(&status.borrow_and_update(), shown_by.closing());
                let before = publisher.borrow().clone();
                if before == now {
                    continue;
                }
                publisher.send_replace(now.clone());
                if !idle(&now)
                    && let Some(helper) = hidden.take()
                {
                    shown_by.add_helper(&name, helper);
                }
                if hidden.is_none() && (before.message != now.message || before.pid != now.pid) {
                    events.add(&name, now.state, Arc::clone(&now.message), now.run);
                }
            }
        });
        kelson_sys::spawn(async move {
            while let Some(report) = reports.recv().await {
                let (service, message, details) = event(report);
                reported_to.detailed_event(&service, &message, details);
            }
        });
    }
}

/// The service of a helper in this status. `wanted`: there is something to do for the helper.
pub fn snapshot(name: &str, status: &Status, wanted: bool, closing: bool) -> Snapshot {
    let ended = status.pid.is_none() && (closing || !wanted);
    let state = match status.up {
        true => State::Running,
        false if ended && closing => State::Stopped,
        false if ended => State::Finished,
        false => State::Starting,
    };
    Snapshot {
        up: status.up,
        // One that has ended on a host that goes on runs again as soon as it is wanted.
        down: ended && closing,
        restarts: status.restarts,
        runs: status.pid.is_some(),
        pid: status.pid,
        since: wall(status.since),
        entered: status.since,
        builtin: true,
        stopped: ended && closing,
        run: u64::from(status.restarts).saturating_add(1),
        ..Snapshot::new(Arc::from(name), state, Arc::clone(&status.message))
    }
}
