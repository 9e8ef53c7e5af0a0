//! The state that the previous incarnation has left, as far as it can be trusted.

use kelson_sys::ordered;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use kelson_runner::Exit;
use serde::de::DeserializeOwned;

use super::checks::{self, PastChecks};
use super::descriptors::{self, Descriptor, Inherited};
use super::file::Found;
use super::health::{self, PastHealth};
use super::paper::understand;
use super::part::{Part, Places, ServicePlaces};
use super::record::{FoundRecord, Record};
use super::unwritten::Writer;
use super::{Incarnation, Kind, StateStore, ring};
use crate::error::ServicesError;
use crate::model::Event;

/// The records of a file, as far as they can be trusted.
#[derive(Debug, Default, PartialEq)]
pub struct Recovered {
    pub records: Vec<Record>,
    /// Services that were in a phase that this version does not know, and its number.
    pub unknown_phases: Vec<(String, i32)>,
    /// The contents that could not be trusted, a sentence each.
    pub doubts: Vec<String>,
}

/// All that the previous incarnation has left.
pub struct Past {
    /// The same files, to be written on.
    pub store: StateStore,
    pub records: Vec<Record>,
    /// Services that were in a phase that this version does not know, and its number.
    pub unknown_phases: Vec<(String, i32)>,
    /// Each with its slot, in the order of their numbers.
    pub events: Vec<(u64, Event)>,
    /// How a child ended that nobody has acted on; the newest of each PID.
    pub exits: HashMap<i32, Exit>,
    pub inherited: Vec<Inherited>,
    checks: HashMap<u64, PastChecks>,
    /// To be taken.
    pub health: PastHealth,
    /// The contents that could not be trusted, a sentence each.
    pub doubts: Vec<String>,
}

impl Past {
    /// Takes over what stands in `directory`. To be called once, before anything else is opened: the descriptors that
    /// are written down become its own.
    ///
    /// # Errors
    /// There is no state of this incarnation, and nothing can be gone on with.
    pub fn take(directory: &Path, life: &Incarnation) -> Result<Past, ServicesError> {
        let services = Part::Services.open(directory, life)?;
        let (recovered, mut places, untrusted) = records(&services);
        let Recovered { records, unknown_phases, mut doubts } = recovered;
        let mut files = ordered::map([(Part::Services, services.file)]);
        // Each of the others is made again where it cannot be trusted: its content is lost, and that is reported.
        let mut open = |part: Part| {
            part.open(directory, life).or_else(|doubt| {
                doubts.push(doubt.to_string());
                let made = part.create(directory, life).map(Found::empty);
                made.map_err(|error| ServicesError::Untrusted(format!("{}: {error}", part.layout().0)))
            })
        };
        let (old_events, old_exits) = (open(Part::Events)?, open(Part::Exits)?);
        let (old_descriptors, old_checks) = (open(Part::Descriptors)?, open(Part::Checks)?);
        let old_health = open(Part::Health)?;
        let (mut past_checks, check_places) = checks::checks(&old_checks);
        let (past_health, health_places, torn) = health::health(&old_health);
        let (exits, last_exit) = ring::exits(&old_exits);
        (places.checks, places.health, places.exits) = (check_places, health_places, last_exit);
        if !torn.is_empty() {
            doubts.push("a record of the health of the host or of a group is torn, not used".to_owned());
        }
        let events = ring::events(&old_events);
        let inherited = descriptors::take(&old_descriptors, &mut doubts);
        let others = [
            (Part::Events, old_events),
            (Part::Exits, old_exits),
            (Part::Descriptors, old_descriptors),
            (Part::Checks, old_checks),
            (Part::Health, old_health),
        ];
        files.extend(others.map(|(part, found)| (part, found.file)));
        let store = StateStore::of(directory, Writer::new(files), places);
        // Damage is reported once, and not in each incarnation again.
        store.clear(Part::Services, &untrusted);
        store.clear(Part::Health, &torn);
        let health = past_health.with_runs_of(&records).with_checks_of(&mut past_checks);
        Ok(Past {
            store,
            records,
            unknown_phases,
            events,
            exits: exits.into_iter().collect(),
            inherited,
            checks: past_checks,
            health,
            doubts,
        })
    }

    /// Takes what is known of the checks of a service.
    pub fn take_checks(&mut self, service: &str) -> PastChecks {
        checks::of_service(&mut self.checks, service)
    }

    /// Takes the descriptors of one kind.
    pub fn take_inherited<T>(
        &mut self,
        wanted: impl Fn(Descriptor) -> Result<T, Descriptor>,
    ) -> Vec<(T, OwnedFd)> {
        let mut taken = Vec::new();
        for Inherited { what, descriptor } in std::mem::take(&mut self.inherited) {
            match wanted(what) {
                Ok(what) => taken.push((what, descriptor)),
                Err(what) => self.inherited.push(Inherited { what, descriptor }),
            }
        }
        taken
    }

    /// Lets go of the descriptors that nobody has taken.
    pub fn close_the_rest(&mut self) {
        for Inherited { descriptor, .. } in self.inherited.drain(..) {
            self.store.let_go(descriptor.as_fd());
        }
    }

    /// Looks again how children ended: this incarnation has reaped some as well.
    pub fn look_at_exits(&mut self, directory: &Path, life: &Incarnation) {
        if let Ok(found) = Part::Exits.open(directory, life) {
            self.exits = ring::exits(&found).0.into_iter().collect();
        }
    }

    /// A record. `None`: there is none, or none that can be trusted, and then that is reported.
    pub fn paper<T: DeserializeOwned>(&mut self, kind: Kind, name: &str) -> Option<T> {
        let doubts = &mut self.doubts;
        let read = self.store.paper(kind, name).read().and_then(|bytes| {
            let Some(bytes) = bytes else { return Ok(None) };
            let told = |doubt: &str| format!("{kind:?} {name}: {doubt}");
            let read = understand(&bytes, |doubt| doubts.push(told(&doubt)));
            read.map(Some).map_err(|doubt| ServicesError::Untrusted(told(&doubt.to_string())))
        });
        read.unwrap_or_else(|doubt| {
            self.doubts.push(doubt.to_string());
            None
        })
    }
}

/// Reads the records that an earlier part of the same incarnation left, and leaves them as they are.
///
/// # Errors
/// When the file cannot be read at all. A file of another incarnation, another version or without sense gives no
/// records and a doubt that says so.
pub fn read(directory: &Path, life: &Incarnation) -> io::Result<Recovered> {
    std::fs::metadata(directory.join(Part::Services.layout().0))?;
    Ok(match Part::Services.open(directory, life) {
        Ok(found) => records(&found).0,
        Err(doubt) => Recovered { doubts: vec![doubt.to_string()], ..Recovered::default() },
    })
}

/// Also where the services have their slots, and the slots of records that cannot be trusted.
fn records(found: &Found) -> (Recovered, Places, Vec<u64>) {
    let mut recovered = Recovered::default();
    let mut places = Places::default();
    let (services, untrusted) = ServicePlaces::of(found, |index, whole| {
        let Some(newest) = whole.last() else {
            recovered.doubts.push(format!("the record {index} of a service is torn"));
            return None;
        };
        let FoundRecord { record, unknown, unknown_phase } = match Record::read(newest) {
            Ok(found) => found,
            Err(error) => {
                recovered.doubts.push(format!("the record {index} of a service makes no sense: {error}"));
                return None;
            }
        };
        let name: Arc<str> = Arc::from(record.name.as_str());
        if let Some(phase) = unknown_phase {
            recovered.unknown_phases.push((record.name.clone(), phase));
        }
        if !unknown.is_empty() {
            places.unknown.insert(Arc::clone(&name), Arc::from(unknown));
        }
        recovered.records.push(record);
        Some(name)
    });
    places.services = services;
    (recovered, places, untrusted)
}
