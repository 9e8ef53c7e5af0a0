//! The files of slots, and where the entries of each stand.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::Incarnation;
use super::file::{Found, SlotFile};
use super::rings::{Key, Rings};
use crate::error::ServicesError;

/// How many events of the host are kept.
pub const EVENTS: usize = 4096;
/// How many exits are kept that no task may have acted on yet.
pub const EXITS: usize = 1024;

/// A file of slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Services,
    Events,
    Exits,
    Descriptors,
    Checks,
    Health,
}

impl Part {
    pub const ALL: [Part; 6] =
        [Part::Services, Part::Events, Part::Exits, Part::Descriptors, Part::Checks, Part::Health];

    /// Its name and the length of a slot.
    pub const fn layout(self) -> (&'static str, usize) {
        match self {
            Part::Services => ("services", 1024),
            Part::Events => ("events", 256),
            Part::Exits => ("exits", 32),
            Part::Descriptors => ("descriptors", 256),
            Part::Checks => ("checks", 192),
            Part::Health => ("health", 512),
        }
    }

    /// The length of one of its slots.
    pub const fn slot(self) -> usize {
        self.layout().1
    }

    pub fn create(self, directory: &Path, life: &Incarnation) -> io::Result<SlotFile> {
        let (name, slot) = self.layout();
        SlotFile::create(&directory.join(name), slot, life)
    }

    pub fn open(self, directory: &Path, life: &Incarnation) -> Result<Found, ServicesError> {
        let (name, slot) = self.layout();
        SlotFile::open(&directory.join(name), slot, life)
    }
}

/// Where a service has its slots, by its name.
pub type ServicePlaces = Rings<Arc<str>, 2>;

/// Where a check has its slots, by the names of its service and of itself: one for each of its last results.
pub type CheckPlaces = Rings<Key, 10>;

/// Where scopes, culprits and the restarts of groups have their slots.
pub type HealthPlaces = Rings<Key, 2>;

/// Where the next entries of the files are written.
#[derive(Default)]
pub struct Places {
    pub services: ServicePlaces,
    /// Fields of the records of services that this version does not know, which are written back.
    pub unknown: HashMap<Arc<str>, Arc<[u8]>>,
    pub checks: CheckPlaces,
    pub health: HealthPlaces,
    /// Exits written so far.
    pub exits: u64,
}
