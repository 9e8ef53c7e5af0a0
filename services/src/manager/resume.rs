//! All services in the next incarnation of PID 1.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kelson_runner::{Leftover, service_id};
use kelson_spec::{Loaded, ServiceSpec};
use tokio::sync::mpsc;

use super::faulty::faults;
use super::{Entry, Kind, Manager, tell};
use crate::groups::GroupRequest;
use crate::service_runner::notify;
use crate::service_runner::sockets::SUPPORTED;
use crate::service_runner::table::{Input, Phase, Stage};
use crate::service_runner::task::{Command, Making, Resumed, resume};
use crate::state_store::{self, Descriptor, Past, Record};

/// Names a run: service and number.
type RunName = (String, u64);

impl Past {
    /// The specs of the services as they were taken up, also of those whose record is lost. Of those whose spec is lost
    /// only the names.
    pub fn specs(&mut self) -> (BTreeMap<String, ServiceSpec>, Vec<String>) {
        let mut specs = BTreeMap::new();
        for name in self.store.specs() {
            if let Some(spec) = self.paper::<ServiceSpec>(state_store::Kind::Spec, &name) {
                specs.insert(name.clone(), ServiceSpec { name, ..spec });
            }
        }
        let names = self.records.iter().map(|record| &record.name);
        let missing = names.filter(|name| !specs.contains_key(*name)).cloned().collect();
        (specs, missing)
    }

    /// Takes the descriptors over which runs speak.
    fn notify_sources(&mut self) -> HashMap<RunName, OwnedFd> {
        let notify_sources = self.take_inherited(|what| match what {
            Descriptor::Notify { service, run } | Descriptor::Readiness { service, run } => {
                Ok((service, run))
            }
            other => Err(other),
        });
        notify_sources.into_iter().collect()
    }

    /// Takes the sockets that were held for services: by service, each with where it listens.
    fn sockets(&mut self) -> HashMap<String, Vec<(String, OwnedFd)>> {
        if !SUPPORTED {
            return HashMap::new();
        }
        let taken = self.take_inherited(|what| match what {
            Descriptor::Socket { service, listen } => Ok((service, listen)),
            other => Err(other),
        });
        let mut sockets: HashMap<String, Vec<(String, OwnedFd)>> = HashMap::new();
        for ((service, listen), socket) in taken {
            sockets.entry(service).or_default().push((listen, socket));
        }
        sockets
    }
}

impl Manager {
    /// Goes on with all services of the previous incarnation. `specs` are theirs; `started` tells when a child that was
    /// just being made was started, if it is ours; `read` is what the last reading of the files found. All services are
    /// there before anything else of this process runs. Returns once the reaper knows all of their processes:
    /// nothing may be reaped before.
    pub async fn resume(
        &self,
        past: &mut Past,
        specs: &mut BTreeMap<String, ServiceSpec>,
        making: &[Leftover],
        started: impl Fn(i32) -> Option<u64>,
        read: &Loaded,
    ) {
        let request_ids =
            past.records.iter().map(|record| record.service.request_id).max().unwrap_or_default();
        self.inner.request_ids.fetch_max(request_ids, Ordering::Relaxed);
        let mut notify_sources = past.notify_sources();
        let mut sockets = past.sockets();
        let told = self.log().latest();
        let (attached, mut all_attached) = mpsc::channel::<()>(1);
        let (mut cut_off, mut leaving) = (BTreeMap::new(), Vec::new());
        for record in std::mem::take(&mut past.records) {
            let name: Arc<str> = Arc::from(record.name.as_str());
            let Some(spec) = specs.remove(&record.name).map(Arc::new) else {
                if matches!(record.service.phase, Phase::Rest(_)) && record.service.leaving {
                    // It was just being forgotten.
                    past.store.remove(&name);
                    continue;
                }
                self.host_event(&format!(
                    "service {name} is forgotten: what it was started from is lost; what runs of it is left as it is"
                ));
                // A service that gets this name later has no part in it.
                past.store.remove(&name);
                continue;
            };
            let next_spec: Option<ServiceSpec> = past.paper(state_store::Kind::NextSpec, &name);
            let next_spec = next_spec.map(Arc::new);
            let known = next_spec.clone().unwrap_or_else(|| Arc::clone(&spec));
            let resumed = Resumed {
                making: child_of(&record, making).and_then(|pid| match started(pid) {
                    Some(start_time) => Some(Making::Child(pid, start_time)),
                    None => past.exits.get(&pid).map(|exit| Making::Ended(pid, *exit)),
                }),
                exit: record.service.pid().and_then(|pid| past.exits.get(&pid).copied()),
                notify_source: notify_sources.remove(&(record.name.clone(), record.service.run)),
                sockets: sockets.remove(&record.name).unwrap_or_default(),
                told: told.of(&name),
                closing: self.closing(),
                checks: past.take_checks(&name),
                attached: attached.clone(),
                spec,
                next_spec,
                record,
            };
            let builtin = resumed.record.builtin;
            if resumed.record.service.leaving {
                leaving.push(Arc::clone(&name));
            }
            if let Some(group) =
                resumed.spec.group.as_deref().filter(|_| resumed.record.service.group_restarts())
            {
                let begun = resumed.record.service.awaits_group();
                let entry = cut_off.entry(group.to_owned()).or_insert((Arc::clone(&name), false));
                entry.1 |= begun;
            }
            match resume(resumed, &self.inner.host_context) {
                Ok(handle) => {
                    let entry = Entry { spec: Some(known), kind: Kind::Live(handle) };
                    self.entries_mut().insert(name, entry);
                }
                Err(why) => self.add_faulty(&name, &why.to_string(), Some(known), builtin),
            }
        }
        drop(attached);
        drop(notify_sources);
        notify::remove_abandoned(&self.inner.host_context.notify_directory);
        for (name, spec) in std::mem::take(specs) {
            // The next one to open it ends what still runs of it.
            self.service_event(&name, "its record is lost; it starts without it");
            let builtin = spec.file.as_os_str().is_empty();
            self.add(Arc::new(spec), builtin);
        }
        self.resume_faulty(read);
        while all_attached.recv().await.is_some() {}
        for (name, phase) in std::mem::take(&mut past.unknown_phases) {
            let pid = self.get(&name).and_then(|service| service.pid);
            let fate = pid.map_or_else(
                || "nothing of it runs".to_owned(),
                |pid| format!("its process {pid} is taken up as running"),
            );
            let text = format!("it was in phase {phase}, which this version of Kelson does not know: {fate}");
            self.service_event(&name, &text);
        }
        self.remove(leaving);
        // The task that restarted them is gone: they are begun again, from their stop.
        for (group, (member, begun)) in cut_off {
            let (group, text) = (Arc::from(group), "its restart was cut off".to_owned());
            let (member, after) = (Some(member), Duration::ZERO);
            self.ask_for_group_restart(GroupRequest { group, member, text, after, begun });
        }
    }

    /// Has a built-in service run with another release's program and spec from now on. Its run with the old ones is
    /// ended, and followed by the next.
    pub fn replace(&self, spec: Arc<ServiceSpec>, why: &str) {
        let Some(handle) = self.live(&spec.name) else { return };
        let input = Input::Replace { text: why.to_owned() };
        // Where its mailbox is full, the next incarnation of PID 1 asks again.
        let _ = handle.mailbox.send(Command::NewSpec(Arc::clone(&spec)));
        tell(&handle, input);
        if let Some(entry) = self.entries_mut().get_mut(spec.name.as_str()) {
            entry.spec = Some(spec);
        }
    }

    /// Shows the services again whose files have mistakes.
    fn resume_faulty(&self, read: &Loaded) {
        self.note_mistakes(read);
        for (name, text) in faults(&read.diagnostics) {
            if self.get(&name).is_none() {
                self.show_faulty(&name, &text, None, false);
            }
        }
    }
}

/// The child that was made for the run that is recorded, and is not recorded itself: its start was under way, or a stop
/// met that start and the child has yet to get its signal.
pub fn child_of(record: &Record, making: &[Leftover]) -> Option<i32> {
    let (service, run) = (service_id(&record.name), record.service.run);
    let of_it = |child: &&Leftover| child.service == service && child.run == run;
    let unrecorded = matches!(record.service.phase, Phase::Spawning { .. })
        || matches!(record.service.stage(), Some(Stage::Ending { pid: None, .. }));
    let child = making.iter().find(of_it).filter(|_| unrecorded);
    child.map(|child| child.pid)
}
