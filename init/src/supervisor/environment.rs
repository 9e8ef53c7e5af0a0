//! The environment of a host: the state, and the parts of it that an earlier incarnation of PID 1 has left
//! open.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kelson_api::server;
use kelson_runner::cgroup::CgroupRoot;
use kelson_services::collector::{DescriptorStore, InheritedLog};
use kelson_services::events::EventLog;
use kelson_services::state_store::{
    Descriptor, Incarnation, KeptDescriptor, Kind, Past, PastHealth, StateStore,
};
use serde::Serialize;

use crate::error::Result;
use crate::shutdown::cgroups::remove_empty;
use crate::watchdog::{self, Watchdog};

/// The state of the host, and the descriptors that came with it.
pub struct Environment {
    pub store: Option<StateStore>,
    pub events: EventLog,
    pub logs: Vec<InheritedLog>,
    pub watchdog: watchdog::Place,
    /// `None`: the host begins.
    pub health: Option<PastHealth>,
    listener: Option<OwnedFd>,
    cgroups: Option<CgroupRoot>,
}

impl Environment {
    /// Of a host that begins, with its runtime folder if there is one.
    pub fn lay(runtime: Option<&PathBuf>) -> Environment {
        let store = runtime.and_then(|runtime| {
            let directory = runtime.join("state");
            let store =
                Incarnation::current().and_then(|incarnation| StateStore::create(&directory, &incarnation));
            store
                .map_err(|error| {
                    tracing::error!("{}: {error}; a crash would lose all state", directory.display());
                })
                .ok()
        });
        let events = EventLog::new(store.clone());
        let watchdog = watchdog::Place::default();
        Environment { store, events, logs: Vec::new(), watchdog, health: None, listener: None, cgroups: None }
    }

    /// Of a host that goes on.
    pub fn of(past: &mut Past) -> Environment {
        // First of all: it has waited since the old incarnation's last turn.
        let watchdog = past.take_inherited(|what| match what {
            Descriptor::Watchdog => Ok(()),
            other => Err(other),
        });
        let watchdog = watchdog.into_iter().map(|(_, device)| Watchdog::again(device)).next();
        let logs = past.take_inherited(|what| match what {
            Descriptor::Log(what) => Ok(what),
            other => Err(other),
        });
        let listener = past.take_inherited(|what| match what {
            Descriptor::Api => Ok(()),
            other => Err(other),
        });
        Environment {
            store: Some(past.store.clone()),
            events: EventLog::restore(past.store.clone(), std::mem::take(&mut past.events)),
            watchdog: watchdog::Place::of(watchdog),
            health: Some(std::mem::take(&mut past.health)),
            logs: logs.into_iter().map(|(what, descriptor)| InheritedLog { what, descriptor }).collect(),
            listener: listener.into_iter().map(|(_, listener)| listener).next(),
            cgroups: cgroups(past),
        }
    }

    /// Below which the services have their cgroups.
    pub fn cgroups(&mut self) -> Option<CgroupRoot> {
        if let Some(cgroups) = self.cgroups.take() {
            return Some(cgroups);
        }
        let found = CgroupRoot::discover()
            .map_err(|error| tracing::warn!("{error}; strays are found by their KELSON_RUN, best effort"))
            .ok()?;
        // Cgroups that another host has left here count for nobody: neither their CPU time nor their kills
        // for memory.
        remove_empty(found.path());
        if let Some(store) = &self.store {
            store.keep(found.claim(), Descriptor::Cgroups { path: found.path().to_owned() });
        }
        Some(found)
    }

    /// The store that remembers the descriptors of the logs.
    pub fn descriptor_store(&self) -> Arc<dyn DescriptorStore> {
        match &self.store {
            Some(store) => Arc::new(store.clone()),
            None => kelson_services::collector::forgetful(),
        }
    }

    /// The socket of the API, which stays open from one incarnation to the next: a client that connects in between
    /// waits a moment.
    pub fn listener(&mut self, socket: &Path, group: Option<u32>) -> Result<KeptDescriptor> {
        let listener = match self.listener.take() {
            Some(listener) => listener,
            None => server::bind(socket, group)?.into(),
        };
        Ok(KeptDescriptor::new(listener, self.store.as_ref(), || Descriptor::Api))
    }

    /// Writes down what the next incarnation needs.
    pub fn write(&self, kind: Kind, payload: &impl Serialize) {
        if let Some(store) = &self.store {
            store.write(kind, "", payload);
        }
    }
}

/// The root of the services' cgroups, as the incarnation before has left it open.
pub fn cgroups(past: &mut Past) -> Option<CgroupRoot> {
    let found = past.take_inherited(|what| match what {
        Descriptor::Cgroups { path } => Ok(path),
        other => Err(other),
    });
    found.into_iter().map(|(path, folder)| CgroupRoot::again(path, folder)).next()
}

/// A second descriptor of the same listener, for the server.
pub fn for_server(listener: &KeptDescriptor) -> std::io::Result<std::os::unix::net::UnixListener> {
    Ok(listener.as_fd().try_clone_to_owned()?.into())
}
