//! Reading the signals of PID 1 and reaping its children, for as long as it lives.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kelson_runner::Processes;
use kelson_services::state_store::StateStore;
use tokio::sync::mpsc;

use super::intent::Intents;
use crate::options::Mode;
use crate::signals::{Meaning, Signal, Signals};

/// The maker of children, and the store that records their exits.
type Whose = (Processes, Option<StateStore>);

/// The children to reap: set again when the boot has mounted the folders that the services need. Cheap to
/// clone.
#[derive(Clone, Default)]
pub struct Reaper(Arc<Mutex<Option<Whose>>>);

impl Reaper {
    /// From now on; each exit is written down before the kernel forgets it.
    pub fn set(&self, processes: &Processes, store: Option<&StateStore>) {
        let whose = (processes.clone(), store.cloned());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(whose);
    }

    /// Reaps all that has ended, in batches, and lets others have a turn in between.
    pub async fn reap(&self) {
        loop {
            let whose = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let Some((processes, store)) = whose else { return };
            let report = processes.reap_recording(&mut |pid, exit| {
                if let Some(store) = &store {
                    store.exit(pid, exit);
                }
            });
            if !report.more {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Reads signals and reaps, for an end without services.
///
/// # Errors
/// When signals cannot be read.
pub fn attend(mode: Mode, processes: &Processes, intents: &Intents) -> io::Result<()> {
    let reaper = Reaper::default();
    reaper.set(processes, None);
    let signals = Signals::new(mode)?;
    let (intents, (requests, _)) = (intents.clone(), mpsc::channel(1));
    kelson_sys::spawn(async move {
        // Children that ended before.
        reaper.reap().await;
        listen(signals, reaper, intents, requests).await;
    });
    Ok(())
}

/// Reads signals for as long as PID 1 lives.
pub(super) async fn listen(
    mut signals: Signals,
    reaper: Reaper,
    intents: Intents,
    requests: mpsc::Sender<Signal>,
) {
    loop {
        match signals.next().await {
            Ok(signal) => match signal.meaning {
                Meaning::Child => reaper.reap().await,
                Meaning::Shutdown(action) => {
                    let answer = intents.ask(action, &signal.to_string());
                    tracing::info!("{signal}: {answer}");
                }
                // Where many wait, one more of the same number changes little: the kernel merges them too.
                Meaning::Reload | Meaning::Main => drop(requests.try_send(signal)),
            },
            Err(error) => {
                tracing::error!("signals cannot be read: {error}");
                tokio::time::sleep(Duration::from_secs(1)).await;
                reaper.reap().await;
            }
        }
    }
}
