//! From the findings of `kelson-load` to services: at the boot, and when the files are read again.

use kelson_sys::ordered;
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use kelson_spec::Loaded;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::{ServiceSpec, StartMode};
use tokio::sync::watch;

use super::faulty::faults;
use super::{Entry, Kind, Manager, SupervisedHelper, failed_snapshot, tell};
use crate::error::ServicesError;
use crate::host::ReloadReport;
use crate::model::State;
use crate::pace::Pace;
use crate::service_runner::table::{Input, StopReason};
use crate::service_runner::task::{Command, Prepared, prepare};

/// A service that was written down; an error where this host cannot run it.
type NewService = (Arc<ServiceSpec>, Result<Prepared, ServicesError>);

impl Manager {
    /// Takes the services in; none is started before [`Manager::begin`]. Other tasks have their turns meanwhile, and see all
    /// of them, or none.
    pub async fn take_in(&self, loaded: Loaded) {
        self.inner.taking_in.send_replace(true);
        let services = self.prepare_all(loaded.services).await;
        let loaded = Loaded { services: Vec::new(), ..loaded };
        self.note_mistakes(&loaded);
        for (spec, prepared) in services {
            self.launch(spec, prepared, false);
        }
        for (name, text) in faults(&loaded.diagnostics) {
            self.add_faulty(&name, &text, None, false);
        }
        self.inner.taking_in.send_replace(false);
    }

    /// Waits while [`Manager::take_in`] is at work: who looks before that has ended sees a host without services.
    pub async fn taken_in(&self) {
        // The sender is ours.
        let _ = self.inner.taking_in.subscribe().wait_for(|taking_in| !taking_in).await;
    }

    /// Adds a service that is run by a ServiceRunner.
    pub fn add(&self, spec: Arc<ServiceSpec>, builtin: bool) {
        let prepared = self.prepare(&spec, builtin);
        self.launch(spec, prepared, builtin);
    }

    fn prepare(&self, spec: &Arc<ServiceSpec>, builtin: bool) -> Result<Prepared, ServicesError> {
        let will_start = spec.start == StartMode::Auto;
        prepare(Arc::clone(spec), builtin, will_start, &self.inner.host_context)
    }

    /// Writes services down. Ten thousand take seconds, so the other tasks of PID 1 have their turns meanwhile.
    async fn prepare_all(&self, specs: Vec<ServiceSpec>) -> Vec<NewService> {
        let mut pace = Pace::new();
        let mut services = Vec::with_capacity(specs.len());
        for spec in specs.into_iter().map(Arc::new) {
            let prepared = self.prepare(&spec, false);
            services.push((spec, prepared));
            pace.step().await;
        }
        services
    }

    fn launch(&self, spec: Arc<ServiceSpec>, prepared: Result<Prepared, ServicesError>, builtin: bool) {
        let name: Arc<str> = Arc::from(spec.name.as_str());
        match prepared.map(Prepared::launch) {
            Ok(handle) => {
                let entry = Entry { spec: Some(spec), kind: Kind::Live(handle) };
                self.entries_mut().insert(name, entry);
            }
            Err(why) => self.add_faulty(&name, &why.to_string(), Some(spec), builtin),
        }
    }

    /// Adds a built-in service to a host that runs already, and starts it.
    pub fn bring_in(&self, spec: Arc<ServiceSpec>) {
        let name = spec.name.clone();
        self.add(spec, true);
        if !self.closing() {
            self.tell(&name, Input::Begin);
        }
    }

    /// Adds a helper that its supervisor runs.
    pub(crate) fn add_helper(&self, name: &str, helper: SupervisedHelper) {
        let name: Arc<str> = Arc::from(name);
        let registry = self.inner.host_context.registry.clone();
        let (mut snapshot, changed) = (helper.snapshot.clone(), Arc::clone(&name));
        registry.add(Arc::clone(&name), snapshot.clone());
        kelson_sys::spawn(async move {
            while snapshot.changed().await.is_ok() {
                registry.changed(&changed);
            }
        });
        self.entries_mut().insert(name, Entry { spec: None, kind: Kind::Helper(helper) });
    }

    /// Its spec is known where this host cannot run it, and not where its file has mistakes.
    pub(super) fn add_faulty(&self, name: &str, text: &str, spec: Option<Arc<ServiceSpec>>, builtin: bool) {
        self.log().add(&Arc::from(name), State::Failed, text, 0);
        self.show_faulty(name, text, spec, builtin);
    }

    /// As it was reported already.
    pub(super) fn show_faulty(&self, name: &str, text: &str, spec: Option<Arc<ServiceSpec>>, builtin: bool) {
        let name: Arc<str> = Arc::from(name);
        let mut snapshot = failed_snapshot(&name, text, builtin);
        if let Some(spec) = &spec {
            snapshot.group = spec.group.as_deref().map(Arc::from);
            snapshot.required = spec.required;
        }
        if let Some(told) = self.log().of_service(&name).last() {
            // The same in every incarnation of PID 1.
            snapshot.since = told.time;
        }
        let run_end = &self.inner.host_context.run_end;
        if run_end.is_by(&name, spec.as_deref()) {
            run_end.ended(&snapshot);
        }
        let (publisher, receiver) = watch::channel(snapshot);
        self.inner.host_context.registry.add(Arc::clone(&name), receiver);
        self.entries_mut().insert(name, Entry { spec, kind: Kind::Faulty(publisher) });
    }

    /// Starts all that were added to be started and have not been yet.
    pub fn begin(&self) {
        self.follow_asked_facts();
        self.entries().values().filter_map(Entry::live).for_each(|handle| tell(handle, Input::Begin));
    }

    /// Takes up what has changed in the files: new services start, removed ones stop, changed ones are named and
    /// take their new file up with their next run, or at once where they wait.
    ///
    /// # Errors
    /// A folder could not be read, or the host is stopping: nothing was changed.
    pub async fn reload(&self, mut loaded: Loaded) -> Result<ReloadReport, ServicesError> {
        // A file that could not be read is not gone, and its contents are not known.
        if let Some(unread) = loaded.unread() {
            return Err(ServicesError::NotNow(format!("the files could not be read: {unread}")));
        }
        // A service that is on its way out is not the one that a new file of its name means.
        let removals = std::mem::take(&mut *self.removals());
        for removal in removals {
            let _ = removal.await;
        }
        let read: Vec<ServiceSpec> = std::mem::take(&mut loaded.services);
        let names: Vec<String> = read.iter().map(|spec| spec.name.clone()).collect();
        let (known, fresh): (Vec<_>, Vec<_>) =
            read.into_iter().partition(|spec| self.live(&spec.name).is_some());
        let fresh = self.prepare_all(fresh).await;
        if self.closing() {
            let store = self.store().into_iter();
            store.for_each(|store| fresh.iter().for_each(|(spec, _)| store.remove(&spec.name)));
            return Err(ServicesError::NotNow("the host is stopping".to_owned()));
        }
        let otherwise = self.note_mistakes(&loaded);
        let faulty = faults(&loaded.diagnostics);
        let mut report = ReloadReport {
            faulty: faulty.keys().cloned().collect(),
            errors: loaded.diagnostics.iter().map(ToString::to_string).collect(),
            ..ReloadReport::default()
        };
        let wanted = ordered::set(names.into_iter().chain(faulty.keys().cloned()));
        for spec in known {
            let spec = Arc::new(spec);
            let Some(handle) = self.live(&spec.name) else { continue };
            if self.spec(&spec.name).is_some_and(|known| known.runs_like(&spec)) {
                // An earlier change that was taken back is no change any more; the task finds out.
                let _ = handle.mailbox.send(Command::NewSpec(Arc::clone(&spec)));
                // Its file may be elsewhere now.
                if let Some(entry) = self.entries_mut().get_mut(spec.name.as_str()) {
                    entry.spec = Some(spec);
                }
                continue;
            }
            let (refused, state) = {
                let now = handle.snapshot.borrow();
                (now.refused, now.state)
            };
            let list = if refused { &mut report.started } else { &mut report.changed };
            list.push(spec.name.clone());
            if matches!(state, State::Waiting | State::Preparing | State::Backoff) {
                report.next_run.push(spec.name.clone());
            }
            let _ = handle.mailbox.send(Command::NewSpec(Arc::clone(&spec)));
            if let Some(entry) = self.entries_mut().get_mut(spec.name.as_str()) {
                entry.spec = Some(spec);
            }
        }
        for (spec, prepared) in fresh {
            let starts = spec.start == StartMode::Auto;
            let name = spec.name.clone();
            self.launch(spec, prepared, false);
            // A service that this host cannot run shows as failed, and is not started.
            if starts && self.live(&name).is_some() {
                report.started.push(name.clone());
            }
            report.added.push(name);
        }
        for (name, text) in faulty {
            // A running service continues with the file that it was started with.
            if self.live(&name).is_none() {
                self.add_faulty(&name, &text, None, false);
            }
        }
        self.tell_mistakes(&otherwise);
        let gone: Vec<Arc<str>> = self
            .entries()
            .iter()
            .filter(|(name, entry)| !wanted.contains(&***name) && !entry.snapshot().builtin)
            .map(|(name, _)| Arc::clone(name))
            .collect();
        report.stopped = gone.iter().map(ToString::to_string).collect();
        self.remove(gone);
        // A reload does not wait for the stop of others.
        let (manager, started) = (self.clone(), report.started.clone());
        if const { OWN.has(Feature::Units) } && !started.is_empty() {
            kelson_sys::spawn(async move { manager.stop_conflicting(&started, &Input::Begin).await });
        }
        report.started.iter().for_each(|name| self.tell(name, Input::Begin));
        for handle in self.entries().values().filter_map(Entry::live) {
            let _ = handle.mailbox.send(Command::Regate);
        }
        self.follow_asked_facts();
        Ok(report)
    }

    /// Stops services whose files are gone, each after those of them that need it, then forgets them.
    pub(super) fn remove(&self, names: Vec<Arc<str>>) {
        let mut members = BTreeSet::new();
        for name in names {
            match self.live(&name) {
                Some(handle) => {
                    // It is written down at once: its own stop may be a while off, and a crash of PID 1 in between.
                    tell(&handle, Input::Leaving);
                    members.insert(name);
                }
                None => self.forget(&name),
            }
        }
        let mut wave = self.wave(&members);
        let manager = self.clone();
        let removal = kelson_sys::spawn(async move {
            let reason = |_: &str| StopReason::Removed;
            wave.start(&manager, &reason);
            while let Some(name) = wave.next().await {
                wave.rested(&manager, &name, &reason);
                manager.leave(&name).await;
            }
        });
        self.removals().push(removal);
    }

    /// Forgets a service that is at rest. One that was started again meanwhile stays.
    async fn leave(&self, name: &Arc<str>) {
        let Some(handle) = self.live(name) else { return };
        let (left, gone) = tokio::sync::oneshot::channel();
        if handle.mailbox.send(Command::Leave { left }).is_ok() && gone.await == Ok(true) {
            self.forget(name);
        }
    }

    fn removals(&self) -> std::sync::MutexGuard<'_, Vec<tokio::task::JoinHandle<()>>> {
        self.inner.removals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, name: &Arc<str>) {
        self.entries_mut().remove(name);
        let host_context = &self.inner.host_context;
        host_context.registry.remove(name);
        host_context.logs.forget(name);
        if let Some(store) = &host_context.store {
            store.remove(name);
        }
        // Waiters learn of its end from its snapshot, whose other end is gone.
    }
}
