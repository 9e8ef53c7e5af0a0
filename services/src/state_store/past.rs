//! What the previous incarnation has left, as far as it can be trusted.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex};

use kelson_runner::Exit;
use serde::de::DeserializeOwned;

use super::checks::{self, PastChecks};
use super::descriptors::{self, Descriptor, Inherited};
use super::file::{SlotFile, is_used, unseal};
use super::health::{self, PastHealth};
use super::paper::understand;
use super::record::{FoundRecord, Record, SLOT};
use super::unwritten::Unwritten;
use super::{Incarnation, Inner, Kind, Place, Places, StateStore, records_folder, ring};
use crate::model::Event;

/// The records of a file, as far as they can be trusted.
#[derive(Debug, Default, PartialEq)]
pub struct Recovered {
    pub records: Vec<Record>,
    /// Services that were in a phase that this version does not know, and its number.
    pub unknown_phases: Vec<(String, i32)>,
    /// What could not be trusted, a sentence each.
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
    /// What could not be trusted, a sentence each.
    pub doubts: Vec<String>,
}

impl Past {
    /// Takes over what stands in `directory`. To be called once, before anything else is opened: the descriptors that
    /// are written down become its own.
    ///
    /// # Errors
    /// A sentence: there is no state of this incarnation, and nothing can be gone on with.
    pub fn take(directory: &Path, life: &Incarnation) -> Result<Past, String> {
        let services = SlotFile::open(&directory.join("services"), SLOT, life)?;
        let mut places = Places::default();
        let Recovered { records, unknown_phases, mut doubts } = records(&services, &mut places);
        let is_blank = |index: &u32| {
            let first = usize::try_from(*index).unwrap_or(usize::MAX).saturating_mul(2);
            !services.slots().skip(first).take(2).any(is_used)
        };
        let untrusted: Vec<u32> = places.free.iter().copied().filter(|index| !is_blank(index)).collect();
        // Each of the others is made again where it cannot be trusted: what it held is lost, and said.
        let mut open = |name: &str, slot: usize| match SlotFile::open(&directory.join(name), slot, life) {
            Ok(found) => Ok((None, Some(found))),
            Err(doubt) => {
                doubts.push(doubt);
                let made = SlotFile::create(&directory.join(name), slot, life);
                made.map(|file| (Some(file), None)).map_err(|error| format!("{name}: {error}"))
            }
        };
        let (new_events, old_events) = open("events", ring::EVENT_SLOT)?;
        let (new_exits, old_exits) = open("exits", ring::EXIT_SLOT)?;
        let (new_descriptors, old_descriptors) = open("descriptors", descriptors::SLOT)?;
        let (new_checks, old_checks) = open("checks", checks::SLOT)?;
        let (new_health, old_health) = open("health", health::SLOT)?;
        let (mut past_checks, check_places) = old_checks.as_ref().map(checks::checks).unwrap_or_default();
        let (past_health, health_places, torn) = old_health.as_ref().map(health::health).unwrap_or_default();
        if !torn.is_empty() {
            doubts.push("a record of the health of the host or of a group is torn, not used".to_owned());
        }
        let events = old_events.as_ref().map(ring::events).unwrap_or_default();
        let (exits, last_exit) = old_exits.as_ref().map(ring::exits).unwrap_or_default();
        places.exits = last_exit;
        let inherited =
            old_descriptors.as_ref().map(|found| descriptors::take(found, &mut doubts)).unwrap_or_default();
        let file = |new: Option<SlotFile>, old: Option<super::file::Found>| {
            new.or(old.map(|found| found.file)).ok_or_else(|| "a file of the state is missing".to_owned())
        };
        let store = StateStore {
            inner: Arc::new(Inner {
                services: services.file,
                events: file(new_events, old_events)?,
                exits: file(new_exits, old_exits)?,
                descriptors: file(new_descriptors, old_descriptors)?,
                checks: file(new_checks, old_checks)?,
                health: file(new_health, old_health)?,
                records_folder: records_folder(directory),
                spawns: directory.join("spawns"),
                places: Mutex::new(places),
                check_places: Mutex::new(check_places),
                health_places: Mutex::new(health_places),
                unwritten: Unwritten::default(),
            }),
        };
        // What cannot be trusted is said once, and not in each incarnation again.
        for index in untrusted {
            store.clear(index);
        }
        store.clear_health(&torn);
        let exits = exits.into_iter().collect();
        let health = past_health.with_runs_of(&records).with_checks_of(&mut past_checks);
        Ok(Past {
            store,
            records,
            unknown_phases,
            events,
            exits,
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
        if let Ok(found) = SlotFile::open(&directory.join("exits"), ring::EXIT_SLOT, life) {
            self.exits = ring::exits(&found).0.into_iter().collect();
        }
    }

    /// A paper. `None`: there is none, or none that can be trusted, and then that is said.
    pub fn paper<T: DeserializeOwned>(&mut self, kind: Kind, name: &str) -> Option<T> {
        let doubts = &mut self.doubts;
        let read = self.store.paper(kind, name).read().and_then(|bytes| {
            let Some(bytes) = bytes else { return Ok(None) };
            let told = |doubt: String| format!("{kind:?} {name}: {doubt}");
            understand(&bytes, |doubt| doubts.push(told(doubt))).map(Some).map_err(told)
        });
        read.unwrap_or_else(|doubt| {
            self.doubts.push(doubt);
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
    let path = directory.join("services");
    std::fs::metadata(&path)?;
    Ok(match SlotFile::open(&path, SLOT, life) {
        Ok(found) => records(&found, &mut Places::default()),
        Err(doubt) => Recovered { doubts: vec![doubt], ..Recovered::default() },
    })
}

fn records(found: &super::file::Found, places: &mut Places) -> Recovered {
    let mut recovered = Recovered::default();
    let slots: Vec<&[u8]> = found.slots().collect();
    let mut by_index = BTreeMap::new();
    for (index, pair) in (0_u32..).zip(slots.chunks(2)) {
        places.next = index.saturating_add(1);
        let newest = pair.iter().filter_map(|slot| unseal(slot)).max_by_key(|(number, _)| *number);
        match newest.map(|(number, payload)| (number, Record::read(payload))) {
            Some((writes, Ok(FoundRecord { record, unknown, unknown_phase }))) => {
                if let Some(phase) = unknown_phase {
                    recovered.unknown_phases.push((record.name.clone(), phase));
                }
                by_index.insert(index, (writes, record, unknown));
                continue;
            }
            Some((_, Err(error))) => {
                recovered.doubts.push(format!("the record {index} of a service makes no sense: {error}"));
            }
            None if pair.iter().any(|slot| is_used(slot)) => {
                recovered.doubts.push(format!("the record {index} of a service is torn"));
            }
            None => {}
        }
        places.free.push(index);
    }
    for (index, (writes, record, unknown)) in by_index {
        let place = Place { index, writes, unknown: Arc::from(unknown) };
        places.by_name.insert(Arc::from(record.name.as_str()), place);
        recovered.records.push(record);
    }
    recovered
}
