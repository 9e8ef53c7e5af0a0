//! A later incarnation of PID 1: what the one before has left is taken up, and nothing of the boot is done again.

use kelson_services::host::BootReport;
use kelson_services::state_store::{self, Kind, Past};
use kelson_spec::Loaded;
use tokio::sync::mpsc;

use super::environment::Environment;
use super::incarnation::Incarnation;
use super::intent::Intent;
use super::serve::{Ended, serve};
use super::trial::Paper;
use crate::crash::report;
use crate::error::Result;
use crate::signals::Signal;

impl Incarnation {
    pub(super) async fn resume(mut self, mut past: Past, signals: mpsc::Receiver<Signal>) -> Result<Ended> {
        let mut environment = Environment::of(&mut past);
        if let Some(crash) = &self.boot_reason.crash {
            self.reexec_state.crashes = self.reexec_state.crashes.saturating_add(1);
            self.reexec_state.reason = report::what(crash);
            environment.write(Kind::ReexecState, &self.reexec_state);
        }
        let cgroups = environment.cgroups();
        let personalities = self.personalities(cgroups, environment.store.as_ref())?;
        if let Some(report) = past.paper::<BootReport>(Kind::Boot, "") {
            self.sequence.restore(report);
        }
        if let Some(intent) = past.paper::<Intent>(Kind::Intent, "") {
            self.intents.resume(intent);
        }
        let (mut specs, missing) = past.specs();
        let configuration = past.paper::<Loaded>(Kind::Configuration, "");
        // The previous incarnation ended while it took the services in: those that are missing are taken in now. Where
        // its configuration is there and cannot be trusted, it was past that, and nothing new is taken in.
        let applied = past.paper::<Paper>(Kind::Applied, "");
        let half_begun = !past.store.has(Kind::Configuration, "");
        let loaded = match configuration {
            Some(loaded) if missing.is_empty() => loaded,
            configuration => {
                // Reading the files needs children that are reaped.
                self.reaper.set(&personalities.processes, environment.store.as_ref());
                let read = self.load(&personalities, false).await;
                for spec in read.services.iter().filter(|spec| missing.contains(&spec.name)) {
                    specs.entry(spec.name.clone()).or_insert_with(|| spec.clone());
                }
                if let Ok(incarnation) = state_store::Incarnation::current() {
                    past.look_at_exits(&self.options.runtime_dir.join("state"), &incarnation);
                }
                // When the versions were read that the services go on with is lost too.
                let read_at = read.read_at.filter(|_| half_begun);
                configuration.unwrap_or(Loaded { read_at, ..read })
            }
        };
        let mut context = self.open(personalities, environment, &loaded)?;
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
            context.begin(loaded).await;
        } else {
            context.replace_programs(&loaded);
            context.configuration.write();
        }
        context.configuration.arrange_volumes(&context.manager);
        context.health.recovered();
        context.begin_fleet();
        for child in making {
            processes.forget(child);
        }
        past.close_the_rest();
        // All that this incarnation knows of is known to the reaper; what ended meanwhile has waited.
        self.reaper.set(&processes, context.store.as_ref());
        self.reaper.reap().await;
        context.tell_of(&self.boot_reason);
        let services = context.manager.list().iter().filter(|service| service.runs).count();
        let before = self.reexec_state.count.saturating_add(self.reexec_state.crashes);
        context.manager.host_event(&format!(
            "PID 1 is in its life number {}: {services} services go on running",
            before.saturating_add(1)
        ));
        for doubt in &past.doubts {
            context.manager.host_event(&format!("not all of the state could be trusted: {doubt}"));
        }
        if context.intents.current().is_none() {
            // Those that the boot had not come to yet; the others are past that.
            context.manager.begin();
            context.configuration.arrange_timers();
            context.await_disks();
            context.collect_late_source(&self.sequence);
        }
        if self.sequence.report().borrow().total.is_none() {
            context.watch_boot(&self.sequence);
        }
        if let Some(paper) = applied {
            context.files.resume(paper);
        }
        crate::heap::give_back();
        Ok(serve(context, signals, None).await)
    }
}
