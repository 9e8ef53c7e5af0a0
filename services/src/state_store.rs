//! What PID 1 must remember, on `/run/kelson/state`: one record a service and the ring of events.
//!
//! A record is written before the action it tells of takes effect. Each has two slots that are written in turn, with
//! a number and a checksum: a torn write leaves the older one. The file belongs to one life of the host: its header
//! bears the boot id and the start time of PID 1, which `execve` keeps and a new PID namespace does not.
//!
//! Writes are `pwrite` to a tmpfs of our own: they never wait for a disk, and cost no memory of the process.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::model::{Event, State};

const VERSION: u32 = 1;
const HEADER: u64 = 4096;
/// One of the two slots of a service.
const SLOT: usize = 512;
const EVENT_SLOT: usize = 256;
const MAGIC: &[u8; 8] = b"KELSONST";

/// Which life of the host a state belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifeId {
    /// `/proc/sys/kernel/random/boot_id`.
    pub boot: String,
    /// Field 22 of `/proc/1/stat`, in clock ticks since boot.
    pub start_time: u64,
}

impl LifeId {
    /// The life this process is part of.
    ///
    /// # Errors
    /// When `/proc` is not mounted.
    pub fn current() -> io::Result<LifeId> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned();
        let stat = std::fs::read_to_string("/proc/self/stat")?;
        let start_time = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_ascii_whitespace().nth(19))
            .and_then(|field| field.parse().ok())
            .ok_or_else(|| io::Error::other("/proc/self/stat has no start time"))?;
        Ok(LifeId { boot, start_time })
    }
}

/// What is remembered of one service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub name: String,
    pub state: State,
    pub run: u64,
    pub pid: Option<i32>,
    /// With the PID it names the process for good.
    pub start_time: u64,
    /// Its preparations stand and must be undone.
    pub opened: bool,
    /// A stop was asked for.
    pub stopped: bool,
    pub finished: bool,
    pub restarts: u32,
    /// The raw exit that was learnt and not yet acted on: status, or the negated signal.
    pub exit: Option<i32>,
    /// Seconds since 1970.
    pub since: u64,
}

#[derive(Serialize, Deserialize)]
struct EventRecord<'a> {
    seq: u64,
    micros: u64,
    service: &'a str,
    state: State,
    run: u64,
    message: &'a str,
}

/// The files. Cheap to clone.
#[derive(Clone)]
pub struct StateStore {
    inner: Arc<Inner>,
}

struct Inner {
    services: File,
    events: File,
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    by_name: HashMap<Arc<str>, Place>,
    free: Vec<u32>,
    next: u32,
    /// The first failure is told, not each.
    failed: bool,
}

#[derive(Clone, Copy)]
struct Place {
    index: u32,
    writes: u64,
}

impl StateStore {
    /// Makes new, empty files in `directory` for this life.
    ///
    /// # Errors
    /// When they cannot be made.
    pub fn create(directory: &Path, life: &LifeId) -> io::Result<StateStore> {
        std::fs::create_dir_all(directory)?;
        let open = |name: &str| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(directory.join(name))
        };
        let (services, events) = (open("services")?, open("events")?);
        let header = seal(0, life).ok_or_else(|| io::Error::other("the boot id is too long"))?;
        for file in [&services, &events] {
            file.write_all_at(MAGIC, 0)?;
            file.write_all_at(&VERSION.to_le_bytes(), 8)?;
            file.write_all_at(&header, 16)?;
        }
        Ok(StateStore { inner: Arc::new(Inner { services, events, places: Mutex::default() }) })
    }

    fn places(&self) -> std::sync::MutexGuard<'_, Places> {
        self.inner.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the record of a service. A failure is logged once: the host runs on without a memory.
    pub fn record(&self, name: &Arc<str>, record: &Record) {
        let (offset, number) = {
            let mut places = self.places();
            let known = places.by_name.get(name).copied();
            let mut place = known.unwrap_or_else(|| {
                let index = places.free.pop().unwrap_or_else(|| {
                    let index = places.next;
                    places.next = index.saturating_add(1);
                    index
                });
                Place { index, writes: 0 }
            });
            place.writes = place.writes.saturating_add(1);
            places.by_name.insert(Arc::clone(name), place);
            (slot_offset(place.index, place.writes), place.writes)
        };
        let result = seal(number, record)
            .ok_or_else(|| io::Error::other("record too large"))
            .and_then(|bytes| self.inner.services.write_all_at(&bytes, offset));
        self.report(result);
    }

    /// The service is gone for good.
    pub fn remove(&self, name: &str) {
        let place = {
            let mut places = self.places();
            let Some(place) = places.by_name.remove(name) else { return };
            places.free.push(place.index);
            place
        };
        for turn in 0..2 {
            self.report(self.inner.services.write_all_at(&[0; SLOT], slot_offset(place.index, turn)));
        }
    }

    /// Writes an event into its place in the ring.
    pub fn event(&self, event: &Event) {
        let ring = u64::try_from(crate::events::KEPT).unwrap_or(u64::MAX);
        let index = event.seq.checked_rem(ring).unwrap_or_default();
        let micros = event
            .time
            .duration_since(std::time::UNIX_EPOCH)
            .ok()
            .and_then(|since| u64::try_from(since.as_micros()).ok())
            .unwrap_or_default();
        let mut record = EventRecord {
            seq: event.seq,
            micros,
            service: &event.service,
            state: event.state,
            run: event.run,
            message: &event.message,
        };
        let mut bytes = seal_into::<_, EVENT_SLOT>(event.seq, &record);
        if bytes.is_none() {
            // The whole text is in memory and in the kernel log; what must survive is the number.
            let mut end = record.message.len().min(96);
            while !record.message.is_char_boundary(end) {
                end = end.saturating_sub(1);
            }
            record.message = record.message.get(..end).unwrap_or_default();
            bytes = seal_into::<_, EVENT_SLOT>(event.seq, &record);
        }
        let offset = HEADER.saturating_add(index.saturating_mul(EVENT_SLOT as u64));
        let result = bytes
            .ok_or_else(|| io::Error::other("event too large"))
            .and_then(|bytes| self.inner.events.write_all_at(&bytes, offset));
        self.report(result);
    }

    fn report(&self, result: io::Result<()>) {
        if let Err(error) = result {
            let first = !std::mem::replace(&mut self.places().failed, true);
            if first {
                tracing::error!(
                    "the state of the services cannot be written: {error}; a crash would lose it"
                );
            }
        }
    }
}

fn slot_offset(index: u32, turn: u64) -> u64 {
    let slot = SLOT as u64;
    let pair = u64::from(index).saturating_mul(slot).saturating_mul(2);
    HEADER.saturating_add(pair).saturating_add(slot.saturating_mul(turn & 1))
}

/// `crc32 of the rest, length of the payload, number, payload`, zero padded to a whole slot.
fn seal_into<T: Serialize, const N: usize>(number: u64, value: &T) -> Option<[u8; N]> {
    let mut bytes = [0_u8; N];
    let payload = {
        let place = bytes.get_mut(16..)?;
        postcard::to_slice(value, place).ok()?.len()
    };
    bytes.get_mut(4..8)?.copy_from_slice(&u32::try_from(payload).ok()?.to_le_bytes());
    bytes.get_mut(8..16)?.copy_from_slice(&number.to_le_bytes());
    let end = payload.checked_add(16)?;
    let crc = crc32fast::hash(bytes.get(4..end)?);
    bytes.get_mut(..4)?.copy_from_slice(&crc.to_le_bytes());
    Some(bytes)
}

fn seal<T: Serialize>(number: u64, value: &T) -> Option<[u8; SLOT]> {
    seal_into::<T, SLOT>(number, value)
}

/// Number and payload of a slot that is whole; `None` for one that is empty, torn or foreign.
fn unseal(slot: &[u8]) -> Option<(u64, &[u8])> {
    let word = |range: std::ops::Range<usize>| slot.get(range)?.try_into().ok().map(u32::from_le_bytes);
    let length = usize::try_from(word(4..8)?).ok()?;
    let end = length.checked_add(16)?;
    if length == 0 || word(0..4)? != crc32fast::hash(slot.get(4..end)?) {
        return None;
    }
    let number = u64::from_le_bytes(slot.get(8..16)?.try_into().ok()?);
    Some((number, slot.get(16..end)?))
}

/// What a file of records says, as far as it can be trusted.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    pub records: Vec<Record>,
    /// What could not be trusted, a sentence each.
    pub doubts: Vec<String>,
}

/// Reads the records that an earlier part of the same life left.
///
/// # Errors
/// When the file cannot be read at all. A file of another life, another version or without sense gives no records
/// and a doubt that says so.
pub fn read(directory: &Path, life: &LifeId) -> io::Result<Recovered> {
    let path = directory.join("services");
    let bytes = std::fs::read(&path)?;
    let mut recovered = Recovered::default();
    let mut doubt = |text: String| recovered.doubts.push(format!("{}: {text}", path.display()));
    if bytes.get(..8) != Some(MAGIC.as_slice()) {
        doubt("is no state of Kelson, not used".into());
        return Ok(recovered);
    }
    let version = bytes.get(8..12).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
    if version != Some(VERSION) {
        doubt(format!("has version {version:?}, this is version {VERSION}, not used"));
        return Ok(recovered);
    }
    let of: Option<LifeId> = bytes
        .get(16..16_usize.saturating_add(SLOT))
        .and_then(unseal)
        .and_then(|(_, payload)| postcard::from_bytes(payload).ok());
    if of.as_ref() != Some(life) {
        doubt("belongs to another life of the host, not used".into());
        return Ok(recovered);
    }
    let slots = bytes.get(usize::try_from(HEADER).unwrap_or(usize::MAX)..).unwrap_or_default();
    for (index, pair) in slots.chunks(SLOT.saturating_mul(2)).enumerate() {
        let used = pair.iter().any(|byte| *byte != 0);
        let newest = pair.chunks(SLOT).filter_map(unseal).max_by_key(|(number, _)| *number);
        match newest.map(|(_, payload)| postcard::from_bytes::<Record>(payload)) {
            Some(Ok(record)) => recovered.records.push(record),
            Some(Err(error)) => {
                recovered.doubts.push(format!("{}: record {index} makes no sense: {error}", path.display()));
            }
            None if used => {
                recovered.doubts.push(format!("{}: record {index} is torn", path.display()));
            }
            None => {}
        }
    }
    Ok(recovered)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, run: u64) -> Record {
        Record {
            name: name.into(),
            state: State::Running,
            run,
            pid: Some(42),
            start_time: 7,
            opened: true,
            stopped: false,
            finished: false,
            restarts: 3,
            exit: Some(-9),
            since: 1_800_000_000,
        }
    }

    fn place(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("kelson-state-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn what_was_written_last_is_read_and_a_torn_write_leaves_the_one_before() {
        let dir = place("torn");
        let life = LifeId::current().unwrap();
        let store = StateStore::create(&dir, &life).unwrap();
        let (a, b): (Arc<str>, Arc<str>) = (Arc::from("a"), Arc::from("b"));
        for run in 1..=3 {
            store.record(&a, &record("a", run));
        }
        store.record(&b, &record("b", 1));
        assert_eq!(read(&dir, &life).unwrap().records, [record("a", 3), record("b", 1)]);

        // The third write of "a" went to slot 1; tear it.
        let file = OpenOptions::new().write(true).open(dir.join("services")).unwrap();
        file.write_all_at(&[0xff; 20], slot_offset(0, 3) + 10).unwrap();
        let recovered = read(&dir, &life).unwrap();
        assert_eq!(recovered.records, [record("a", 2), record("b", 1)]);

        store.remove("a");
        store.record(&Arc::from("c"), &record("c", 1));
        assert_eq!(read(&dir, &life).unwrap().records, [record("c", 1), record("b", 1)]);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn another_life_another_version_and_nonsense_are_not_used() {
        let dir = place("life");
        let life = LifeId::current().unwrap();
        let store = StateStore::create(&dir, &life).unwrap();
        store.record(&Arc::from("a"), &record("a", 1));
        let other = LifeId { boot: life.boot.clone(), start_time: life.start_time + 1 };
        let recovered = read(&dir, &other).unwrap();
        assert!(recovered.records.is_empty() && recovered.doubts[0].contains("another life"));

        let file = OpenOptions::new().write(true).open(dir.join("services")).unwrap();
        file.write_all_at(&99_u32.to_le_bytes(), 8).unwrap();
        assert!(read(&dir, &life).unwrap().doubts[0].contains("version"));
        file.set_len(0).unwrap();
        assert!(read(&dir, &life).unwrap().doubts[0].contains("no state of Kelson"));
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_long_event_keeps_its_number() {
        let dir = place("event");
        let store = StateStore::create(&dir, &LifeId::current().unwrap()).unwrap();
        let event = Event {
            seq: 4097,
            time: std::time::SystemTime::now(),
            service: Arc::from("web"),
            state: State::Failed,
            message: Arc::from("ä".repeat(500)),
            run: 1,
        };
        store.event(&event);
        let bytes = std::fs::read(dir.join("events")).unwrap();
        let offset = 4096 + EVENT_SLOT;
        let (number, payload) = unseal(&bytes[offset..offset + EVENT_SLOT]).unwrap();
        assert_eq!(number, 4097);
        let back: EventRecord = postcard::from_bytes(payload).unwrap();
        assert!(back.message.len() >= 94 && "ä".repeat(500).starts_with(back.message));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
