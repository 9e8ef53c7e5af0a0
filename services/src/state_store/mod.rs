//! What PID 1 must remember, on `/run/kelson/state`, for the life of it that comes after `execve`.
//!
//! | file | what |
//! |---|---|
//! | `services` | a [`Record`] of each service in two slots that are written in turn: a torn write leaves the older one
//! |
//! | `events` | the ring of events |
//! | `checks` | the last ten results of each check, and how it stands after each |
//! | `health` | how the host and each group stand, and since when each culprit is not up |
//! | `exits` | how the last children ended, written before the kernel forgets them |
//! | `descriptors` | which open descriptors are what |
//! | `spawns` | the children that are just being made (`runner` maps it, the kernel writes to it) |
//! | `records_folder/` | what is written once: the spec of each service, the machine's, the boot's report |
//!
//! Releases before and after this one read all of it. Records are tagged protobuf (`kelson.state.v1`), papers are JSON
//! ([`paper`]); `exits` and `spawns`, which are written where nothing may fail, have a fixed layout with a version and
//! lengths. `docs/recovery.md` tells what may change from one release to the next.
//!
//! A record is written before the action it tells of takes effect. Each slot has a number and a checksum. Each file
//! belongs to one incarnation of the host: its header bears the boot id and the start time of PID 1, which `execve`
//! keeps and a new PID namespace does not.
//!
//! Writes are `pwrite` to a tmpfs of our own: they never wait for a disk, and cost no memory of the process. Room for
//! what is written all the time is taken at once. What finds no room all the same is kept and written later
//! ([`unwritten`]).

mod checks;
mod descriptors;
mod file;
mod health;
mod incarnation;
pub(crate) mod numbers;
mod paper;
mod past;
mod record;
mod ring;
mod rings;
pub(crate) mod service;
mod unwritten;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use checks::CheckPlaces;
use file::SlotFile;
use health::HealthPlaces;
use paper::Paper;
use record::SLOT;
use unwritten::{Part, Unwritten};

pub use checks::{CheckEntry, CheckRecord, PastCheck, PastChecks, PastResult};
pub use descriptors::{Descriptor, Inherited, KeptDescriptor};
pub use file::VERSION;
pub use health::{PastHealth, StoredBreak, StoredCulprit, StoredRestarts, StoredScope};
pub use incarnation::Incarnation;
pub use past::{Past, Recovered, read};
pub use record::{Record, start_of};

/// Slots for which room is taken at once: two a service, one a descriptor.
const USUAL_SERVICES: u64 = 128;
const USUAL_DESCRIPTORS: u64 = 512;

/// The files. Cheap to clone.
#[derive(Clone)]
pub struct StateStore {
    inner: Arc<Inner>,
}

struct Inner {
    services: SlotFile,
    events: SlotFile,
    exits: SlotFile,
    descriptors: SlotFile,
    checks: SlotFile,
    health: SlotFile,
    records_folder: PathBuf,
    spawns: PathBuf,
    places: Mutex<Places>,
    check_places: Mutex<CheckPlaces>,
    health_places: Mutex<HealthPlaces>,
    unwritten: Unwritten,
}

impl Inner {
    fn file(&self, part: Part) -> &SlotFile {
        match part {
            Part::Services => &self.services,
            Part::Events => &self.events,
            Part::Exits => &self.exits,
            Part::Descriptors => &self.descriptors,
            Part::Checks => &self.checks,
            Part::Health => &self.health,
        }
    }
}

#[derive(Default)]
struct Places {
    by_name: HashMap<Arc<str>, Place>,
    free: Vec<u32>,
    next: u32,
    /// Exits written so far.
    exits: u64,
}

#[derive(Clone)]
struct Place {
    index: u32,
    writes: u64,
    /// Fields of its record that this version does not know, which are written back.
    unknown: Arc<[u8]>,
}

fn records_folder(directory: &Path) -> PathBuf {
    directory.join("papers")
}

impl StateStore {
    /// Makes new, empty files in `directory` for this incarnation.
    ///
    /// # Errors
    /// When they cannot be made.
    pub fn create(directory: &Path, life: &Incarnation) -> io::Result<StateStore> {
        std::fs::create_dir_all(directory)?;
        let records_folder = records_folder(directory);
        match std::fs::remove_dir_all(&records_folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => std::fs::create_dir(&records_folder)?,
        }
        let spawns = directory.join("spawns");
        File::create(&spawns)?;
        let store = StateStore {
            inner: Arc::new(Inner {
                descriptors: SlotFile::create(&directory.join("descriptors"), descriptors::SLOT, life)?,
                exits: SlotFile::create(&directory.join("exits"), ring::EXIT_SLOT, life)?,
                events: SlotFile::create(&directory.join("events"), ring::EVENT_SLOT, life)?,
                checks: SlotFile::create(&directory.join("checks"), checks::SLOT, life)?,
                health: SlotFile::create(&directory.join("health"), health::SLOT, life)?,
                services: SlotFile::create(&directory.join("services"), SLOT, life)?,
                records_folder,
                spawns,
                places: Mutex::default(),
                check_places: Mutex::default(),
                health_places: Mutex::default(),
                unwritten: Unwritten::default(),
            }),
        };
        store.reserve();
        Ok(store)
    }

    /// Takes the room for all events and exits that are kept, and for a host of the usual size.
    fn reserve(&self) {
        let ring = u64::try_from(crate::events::KEPT).unwrap_or_default();
        let Inner { services, events, exits, descriptors, health, .. } = &*self.inner;
        let wanted = [
            (exits, ring::EXITS),
            (events, ring),
            (services, USUAL_SERVICES),
            (health, USUAL_SERVICES),
            (descriptors, USUAL_DESCRIPTORS),
        ];
        for (file, slots) in wanted {
            // Without it each slot gets its room when it is first written.
            if let Err(error) = file.reserve(slots) {
                tracing::warn!("no room for the state of the services is set aside: {error}");
                return;
            }
        }
    }

    fn places(&self) -> std::sync::MutexGuard<'_, Places> {
        self.inner.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn checks(&self) -> std::sync::MutexGuard<'_, CheckPlaces> {
        self.inner.check_places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn health(&self) -> std::sync::MutexGuard<'_, HealthPlaces> {
        self.inner.health_places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file in which `runner` has the kernel write the PIDs of children that are being made.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn spawn_record(&self) -> io::Result<OwnedFd> {
        Ok(File::options().read(true).write(true).open(&self.inner.spawns)?.into())
    }

    /// Writes the record of a service.
    pub fn record(&self, name: &Arc<str>, record: &Record) {
        let Place { index, writes, unknown } = {
            let mut places = self.places();
            let known = places.by_name.get(name).cloned();
            let mut place = known.unwrap_or_else(|| {
                let index = places.free.pop().unwrap_or_else(|| {
                    let index = places.next;
                    places.next = index.saturating_add(1);
                    index
                });
                Place { index, writes: 0, unknown: Arc::default() }
            });
            place.writes = place.writes.saturating_add(1);
            places.by_name.insert(Arc::clone(name), place.clone());
            place
        };
        let bytes = record.seal(writes, &unknown);
        self.put(Part::Services, slot_of(index, writes), "the record of a service", bytes.as_deref());
    }

    /// The service is gone permanently.
    pub fn remove(&self, name: &str) {
        for kind in [Kind::Spec, Kind::NextSpec] {
            self.discard(kind, name);
        }
        self.forget_checks(name);
        let place = {
            let mut places = self.places();
            let Some(place) = places.by_name.remove(name) else { return };
            places.free.push(place.index);
            place
        };
        self.clear(place.index);
    }

    /// Nothing stands at this place any more.
    fn clear(&self, index: u32) {
        for turn in 0..2 {
            self.put(Part::Services, slot_of(index, turn), "the end of a service", Some(&[0; SLOT]));
        }
    }

    fn paper(&self, kind: Kind, name: &str) -> Paper {
        kind.paper(&self.inner.records_folder, name)
    }

    /// Writes a paper down, in place of an earlier one.
    pub fn write(&self, kind: Kind, name: &str, payload: &impl serde::Serialize) {
        let paper = self.paper(kind, name);
        match serde_json::to_vec(payload) {
            Ok(bytes) => self.put_paper(&paper, &bytes),
            Err(error) => tracing::error!("{}: {error}", paper.0.display()),
        }
    }

    /// Whether it is there, whole or not.
    pub fn has(&self, kind: Kind, name: &str) -> bool {
        self.paper(kind, name).0.exists()
    }

    /// What it says holds no longer.
    pub fn discard(&self, kind: Kind, name: &str) {
        let paper = self.paper(kind, name);
        self.inner.unwritten.forget_paper(&paper.0);
        paper.remove();
    }

    /// The names of all services whose spec is written down.
    pub fn specs(&self) -> Vec<String> {
        let files = std::fs::read_dir(&self.inner.records_folder).into_iter().flatten().flatten();
        let names = files.filter_map(|file| file.file_name().into_string().ok());
        let mut names: Vec<String> =
            names.filter_map(|name| name.strip_suffix(".spec").map(str::to_owned)).collect();
        names.sort();
        names
    }
}

/// The kinds of papers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A service as it was taken up.
    Spec,
    /// A service as it is to be taken up at its next start.
    NextSpec,
    /// All that was read of the files but the services.
    Configuration,
    /// The boot, as far as it had come.
    Boot,
    /// How the run of the host is to end.
    Intent,
    /// Who asked for the next incarnation, and which one it is.
    ReexecState,
}

impl Kind {
    fn paper(self, folder: &Path, name: &str) -> Paper {
        // No name of a service has a dot.
        let file = match self {
            Kind::Spec => format!("{name}.spec"),
            Kind::NextSpec => format!("{name}.next"),
            Kind::Configuration => "configuration".to_owned(),
            Kind::Boot => "boot".to_owned(),
            Kind::Intent => "intent".to_owned(),
            Kind::ReexecState => "rebirth".to_owned(),
        };
        Paper(folder.join(file))
    }
}

fn slot_of(index: u32, turn: u64) -> u64 {
    u64::from(index).saturating_mul(2).saturating_add(turn & 1)
}

#[cfg(test)]
mod releases;
#[cfg(test)]
mod tests;
