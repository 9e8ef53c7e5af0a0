//! The state that PID 1 keeps on `/run/kelson/state` for its next incarnation, the one after `execve`.
//!
//! | file | what |
//! |---|---|
//! | `services` | a [`Record`] of each service in two slots, written in turn: a torn write leaves the older one |
//! | `events` | the ring of events |
//! | `checks` | the last ten results of each check, and how it stands after each |
//! | `health` | how the host and each group stand, and since when each culprit is not up |
//! | `exits` | how the last children ended, written before the kernel forgets them |
//! | `descriptors` | which open descriptors are what |
//! | `spawns` | the children that are just being made (`runner` maps it, the kernel writes to it) |
//! | `papers/` | files that are written once: the spec of each service, the configuration of the machine, the boot's report |
//!
//! Releases before and after this one read all of it. Records are tagged protobuf (`kelson.state.v1`), papers are JSON
//! ([`paper`]); `exits` and `spawns`, which are written where nothing may fail, have a fixed layout with a version and
//! lengths. `docs/recovery.md` tells what may change from one release to the next.
//!
//! A record is written before the action it tells of takes effect. Each slot has a number and a checksum. Each file
//! belongs to one incarnation of the host: its header bears the boot id and the start time of PID 1, which `execve`
//! keeps and a new PID namespace does not.
//!
//! Writes are `pwrite` to a tmpfs of our own: they never wait for a disk, and cost no memory of the process. Each file
//! has room beyond its last slot before that room is needed ([`file`]). A record that finds no room all the same is kept and
//! written later ([`unwritten`]).

mod checks;
mod descriptors;
mod file;
mod health;
mod incarnation;
pub(crate) mod numbers;
mod paper;
mod part;
mod past;
mod record;
mod ring;
mod rings;
pub(crate) mod service;
mod tree;
mod unwritten;

use kelson_sys::ordered;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use paper::Paper;
use part::{Part, Places};
use unwritten::Writer;

pub use checks::{CheckRecord, PastCheck, PastChecks};
pub use descriptors::{Descriptor, Inherited, KeptDescriptor};
pub use file::VERSION;
pub use health::{PastHealth, StoredBreak, StoredCulprit, StoredRestarts, StoredScope};
pub use incarnation::Incarnation;
pub use part::EVENTS;
pub use past::{Past, Recovered, read};
pub use record::Record;

/// The files. Cheap to clone.
#[derive(Clone)]
pub struct StateStore {
    inner: Arc<Inner>,
}

struct Inner {
    writer: Writer,
    records_folder: PathBuf,
    spawns: PathBuf,
    places: Mutex<Places>,
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
        File::create(directory.join("spawns"))?;
        // That of the services last: without it the host boots again.
        let files = Part::ALL.into_iter().rev().map(|part| Ok((part, part.create(directory, life)?)));
        let writer = Writer::new(files.collect::<io::Result<_>>()?);
        Ok(StateStore::of(directory, writer, Places::default()))
    }

    fn of(directory: &Path, writer: Writer, places: Places) -> StateStore {
        let (records_folder, spawns) = (records_folder(directory), directory.join("spawns"));
        let inner = Inner { writer, records_folder, spawns, places: Mutex::new(places) };
        StateStore { inner: Arc::new(inner) }
    }

    /// Writes a slot, now or when there is room. `None`: `what` has no bytes that fit into one.
    fn put(&self, part: Part, index: u64, what: &str, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.inner.writer.put(part, index, bytes),
            None => tracing::error!("{what} is too large to be written down; a crash would lose it"),
        }
    }

    /// Why another incarnation could not go on with what is written; `None`: it could.
    pub fn trouble(&self) -> Option<String> {
        self.inner.writer.trouble()
    }

    /// Looks after what could not be written, for as long as the host runs; `tell` is called when
    /// that begins and when it is over.
    pub async fn keep_up(self, tell: impl Fn(&str)) {
        self.inner.writer.keep_up(tell).await;
    }

    fn places(&self) -> std::sync::MutexGuard<'_, Places> {
        self.inner.places.lock().unwrap_or_else(PoisonError::into_inner)
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
        let (slot, number, unknown) = {
            let mut places = self.places();
            let (slot, number) = places.services.next(Arc::clone(name));
            (slot, number, places.unknown.get(name).cloned().unwrap_or_default())
        };
        let bytes = record.seal(number, &unknown);
        self.put(Part::Services, slot, "the record of a service", bytes.as_deref());
    }

    /// The service is gone permanently.
    pub fn remove(&self, name: &str) {
        for kind in [Kind::Spec, Kind::NextSpec] {
            self.discard(kind, name);
        }
        self.forget_checks(name);
        let slots = {
            let mut places = self.places();
            places.unknown.remove(name);
            let name: Arc<str> = Arc::from(name);
            places.services.remove(Arc::clone(&name)..=name)
        };
        self.clear(Part::Services, &slots);
    }

    /// Nothing stands in these slots any more.
    fn clear(&self, part: Part, slots: &[u64]) {
        let empty = vec![0; part.slot()];
        for slot in slots {
            self.put(part, *slot, "the end of a record", Some(&empty));
        }
    }

    fn paper(&self, kind: Kind, name: &str) -> Paper {
        kind.paper(&self.inner.records_folder, name)
    }

    /// Writes a paper down, in place of an earlier one.
    pub fn write(&self, kind: Kind, name: &str, payload: &impl serde::Serialize) {
        let paper = self.paper(kind, name);
        match serde_json::to_vec(payload) {
            Ok(bytes) => self.inner.writer.put_paper(&paper, &bytes),
            Err(error) => tracing::error!("{}: {error}", paper.0.display()),
        }
    }

    /// Whether it is there, whole or not.
    pub fn has(&self, kind: Kind, name: &str) -> bool {
        self.paper(kind, name).0.exists()
    }

    /// Removes a paper whose contents no longer hold.
    pub fn discard(&self, kind: Kind, name: &str) {
        let paper = self.paper(kind, name);
        self.inner.writer.forget_paper(&paper.0);
        paper.remove();
    }

    /// The names of all services whose spec is written down.
    pub fn specs(&self) -> Vec<String> {
        let files = std::fs::read_dir(&self.inner.records_folder).into_iter().flatten().flatten();
        let names = files.filter_map(|file| file.file_name().into_string().ok());
        let mut names: Vec<String> =
            names.filter_map(|name| name.strip_suffix(".spec").map(str::to_owned)).collect();
        ordered::sort(&mut names);
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
    /// The number of the next incarnation, and the reason for it.
    ReexecState,
    /// The configuration that is being applied, or is on trial.
    Applied,
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
            Kind::Applied => "applied".to_owned(),
        };
        Paper(folder.join(file))
    }
}

#[cfg(test)]
mod releases;
#[cfg(test)]
mod tests;
