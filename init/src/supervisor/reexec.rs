//! From one incarnation of PID 1 to the next: how the old one ends, and how the new one begins.

use std::time::Duration;

use kelson_services::host::{BootReport, Reexecution};
use kelson_services::state_store::{Incarnation, Kind, Past};
use kelson_spec::Loaded;
use tokio::sync::{mpsc, oneshot};

use super::context::Context;
use super::environment::Environment;
use super::intent::Intent;
use super::opening::open;
use super::{Ended, Running, personalities, serve};
use crate::crash::report;
use crate::reexec::{self, Candidate, ReexecState};

/// The answer that PID 1 re-executes itself has so long to leave before it does.
const ANSWER: Duration = Duration::from_millis(50);

/// A program for the next incarnation was found fit.
pub struct Fit {
    candidate: Candidate,
    reason: String,
    reply: oneshot::Sender<Result<Reexecution, String>>,
}

impl Context {
    /// Looks for a program beside all else; what is fit comes back to [`Context::reborn`].
    pub(super) fn reexec(&mut self, reason: String, reply: oneshot::Sender<Result<Reexecution, String>>) {
        let refusal = if self.intents.current().is_some() {
            Some("the host is stopping".to_owned())
        } else if self.fit.as_ref().is_some_and(|fit| !fit.is_closed()) {
            Some("it is being done already".to_owned())
        } else {
            self.nothing_to_go_on_with()
        };
        if let Some(refusal) = refusal {
            // Whoever asked may have gone away.
            let _ = reply.send(Err(refusal));
            return;
        }
        let (found, fit) = mpsc::channel(1);
        self.fit = Some(fit);
        let (personalities, manager) = (self.personalities.clone(), self.manager.clone());
        tokio::spawn(async move {
            match reexec::find(&personalities).await {
                Ok(candidate) => drop(found.send(Fit { candidate, reason, reply }).await),
                Err(why) => {
                    manager.host_event(&format!(
                        "PID 1 does not re-execute itself, as asked for by {reason}: {why}"
                    ));
                    let _ = reply.send(Err(why));
                }
            }
        });
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

    /// The end of this incarnation. Returns only if the next one cannot begin.
    pub(super) async fn reborn(&mut self, fit: Fit) {
        let Fit { candidate, reason, reply } = fit;
        let count = self.reexec_state.count.saturating_add(1);
        let reexec_state = ReexecState { count, reason: reason.clone(), ..self.reexec_state.clone() };
        if let Some(store) = &self.store {
            store.write(Kind::ReexecState, "", &reexec_state);
        }
        if let Some(why) = self.nothing_to_go_on_with() {
            self.manager
                .host_event(&format!("PID 1 does not re-execute itself, as asked for by {reason}: {why}"));
            let _ = reply.send(Err(why));
            return;
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
        // Whoever asked may have gone away; one that has not hears of it before the connection breaks.
        if reply.send(Ok(told)).is_ok() {
            tokio::time::sleep(ANSWER).await;
        }
        let why = reexec::execute(&candidate);
        if let Some(store) = &self.store {
            store.write(Kind::ReexecState, "", &self.reexec_state);
        }
        self.manager.host_event(&format!("PID 1 could not re-execute itself and continues unchanged: {why}"));
    }
}

impl Running {
    /// A later incarnation: what the one before has left is taken up, and nothing of the boot is done again.
    pub(super) async fn go_on(
        self,
        mut past: Past,
        reloads: mpsc::Receiver<String>,
    ) -> Result<Ended, String> {
        let Running { options, sequence, mut reexec_state, binary, intents, reaper, boot_reason } = self;
        let mut environment = Environment::of(&mut past);
        if let Some(crash) = &boot_reason.crash {
            reexec_state.crashes = reexec_state.crashes.saturating_add(1);
            reexec_state.reason = report::what(crash);
            environment.write(Kind::ReexecState, &reexec_state);
        }
        let cgroups = environment.cgroups();
        let personalities = personalities(&binary, &reexec_state, cgroups, environment.store.as_ref())?;
        if let Some(report) = past.paper::<BootReport>(Kind::Boot, "") {
            sequence.restore(report);
        }
        if let Some(intent) = past.paper::<Intent>(Kind::Intent, "") {
            intents.resume(intent);
        }
        let (mut specs, missing) = past.specs();
        let configuration = past.paper::<Loaded>(Kind::Configuration, "");
        // The previous incarnation ended while it took the services in: those that are missing are taken in now. Where
        // its configuration is there and cannot be trusted, it was past that, and nothing new is taken in.
        let half_begun = !past.store.has(Kind::Configuration, "");
        let loaded = match configuration {
            Some(loaded) if missing.is_empty() => loaded,
            configuration => {
                // Reading the files needs children that are reaped.
                reaper.set(&personalities.processes, environment.store.as_ref());
                let read = personalities.load(&options.config, options.mode).await;
                for spec in read.services.iter().filter(|spec| missing.contains(&spec.name)) {
                    specs.entry(spec.name.clone()).or_insert_with(|| spec.clone());
                }
                if let Ok(incarnation) = Incarnation::current() {
                    past.look_at_exits(&options.runtime_dir.join("state"), &incarnation);
                }
                // When the versions were read that the services go on with is lost too.
                let read_at = read.read_at.filter(|_| half_begun);
                configuration.unwrap_or(Loaded { read_at, ..read })
            }
        };
        let context = open(options, personalities, intents, &loaded, &sequence, environment, reexec_state)?;
        if context.intents.current().is_some() {
            context.manager.starts_nothing_more();
        }
        let processes = context.personalities.processes.clone();
        let making = processes.leftovers().to_vec();
        let nothing = Loaded::default();
        let read = if half_begun { &nothing } else { &loaded };
        let started = |pid| processes.child_started(pid);
        context.manager.resume(&mut past, &mut specs, &making, started, read).await;
        context.later_mounts.services.notify_one();
        if half_begun {
            context.begin(loaded);
        } else {
            context.replace_apid(&loaded);
            context.configuration.write();
        }
        context.health.recovered();
        for child in making {
            processes.forget(child);
        }
        past.close_the_rest();
        // All that this incarnation knows of is known to the reaper; what ended meanwhile has waited.
        reaper.set(&processes, context.store.as_ref());
        reaper.reap().await;
        context.tell_of(&boot_reason);
        let services = context.manager.list().iter().filter(|service| service.pid.is_some()).count();
        context.manager.host_event(&format!(
            "PID 1 is in its life number {}: {services} services go on running",
            context.reexec_state.count.saturating_add(context.reexec_state.crashes).saturating_add(1)
        ));
        for doubt in &past.doubts {
            context.manager.host_event(&format!("not all of the state could be trusted: {doubt}"));
        }
        if context.intents.current().is_none() {
            // Those that the boot had not come to yet; the others are past that.
            context.manager.begin();
        }
        if sequence.report().borrow().total.is_none() {
            context.watch_boot(&sequence);
        }
        let context = context;
        crate::heap::give_back();
        Ok(serve(context, reloads, None).await)
    }
}
