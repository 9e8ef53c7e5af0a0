//! Signals to PID 1 that ask for no end of the host. In a container they are meant for the main service.

use super::context::Context;
use crate::signals::{Meaning, Signal, without_main};

impl Context {
    /// Does what the signal asks for.
    pub(super) fn signalled(&self, signal: &Signal) {
        let main = self.configuration.machine().main;
        let meaning = match (signal.meaning, &main) {
            (Meaning::Main, None) => without_main(signal.number),
            (meaning, _) => Some(meaning),
        };
        match (meaning, main) {
            (Some(Meaning::Main), Some(main)) => self.pass(signal, main),
            (Some(Meaning::Shutdown(action)), _) => {
                let answer = self.intents.ask(action, &signal.to_string());
                tracing::info!("{signal}: {answer}");
            }
            (Some(Meaning::Reload), _) if self.intents.current().is_none() => {
                self.manager.host_event(&format!("reading the files again: asked for by {signal}"));
                self.files.reload(None);
            }
            (Some(Meaning::Reload | Meaning::Child | Meaning::Main) | None, _) => {}
        }
    }

    /// Passes a signal on to the main service, beside all else.
    fn pass(&self, signal: &Signal, main: String) {
        let (manager, signal) = (self.manager.clone(), signal.clone());
        kelson_sys::spawn(async move {
            let asked_by = format!("{}, who sent it to PID 1", signal.sender);
            if let Err(why) = manager.signal(&main, signal.number, asked_by).await {
                manager.service_event(&main, &format!("{signal} was not passed on: {why}"));
            }
        });
    }
}
