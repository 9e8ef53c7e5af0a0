//! The two rings: the events of the host, and the exits of its last children.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kelson_proto::state::v1 as stored;
use kelson_runner::Exit;
use kelson_sys::ordered;
use kelson_sys::text::start_of;
use prost::Message as _;

use super::StateStore;
use super::file::{Found, seal, unseal};
use super::numbers::{Numbered as _, nanos};
use super::part::{EXITS, Part};
use crate::model::{Details, Event, State};

pub const EVENT_SLOT: usize = Part::Events.slot();
/// The length to which a long text is cut: with all other fields the slot is full then.
const TEXT: usize = 180;
const EXIT_SLOT: usize = Part::Exits.slot();

/// How a child ended, in four numbers of four bytes, little end first: PID, what kind of end, status or signal, whether it
/// left a core. A later release may write more behind them.
const EXIT: usize = 16;

fn exit_bytes(pid: i32, exit: Exit) -> [u8; EXIT] {
    let (kind, number, core) = match exit {
        Exit::Lost => (0, 0, 0),
        Exit::Status(status) => (1, status, 0),
        Exit::Signal { signal, core } => (2, signal, i32::from(core)),
    };
    let mut bytes = [0; EXIT];
    for (to, number) in bytes.chunks_exact_mut(4).zip([pid, kind, number, core]) {
        to.copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

fn exit_of_bytes(bytes: &[u8]) -> Option<(i32, Exit)> {
    let mut numbers = bytes.get(..EXIT)?.chunks_exact(4).filter_map(|bytes| bytes.try_into().ok());
    let mut number = || numbers.next().map(i32::from_le_bytes);
    let (pid, kind, value, core) = (number()?, number()?, number()?, number()?);
    let exit = match kind {
        1 => Exit::Status(value),
        2 => Exit::Signal { signal: value, core: core != 0 },
        _ => Exit::Lost,
    };
    Some((pid, exit))
}

impl StateStore {
    /// Writes an event into a slot.
    pub fn event(&self, slot: u64, event: &Event) {
        let since = event.time.duration_since(UNIX_EPOCH).unwrap_or_default();
        // The whole text is in the kernel log; what must survive is the number.
        let room = TEXT.saturating_sub(event.service.len());
        let mut record = stored::EventRecord {
            seq: event.seq,
            nanos: nanos(since),
            service: event.service.to_string(),
            state: event.state.number(),
            run: event.run,
            message: start_of(&event.message, room).to_owned(),
            details: event.details.iter().flat_map(|details| details.iter().cloned()).collect(),
        };
        let bytes = seal(event.seq, &record.encode_to_vec(), EVENT_SLOT).or_else(|| {
            record.details.clear();
            seal(event.seq, &record.encode_to_vec(), EVENT_SLOT)
        });
        self.put(Part::Events, slot, "an event", bytes.as_deref());
    }

    /// Writes down how a child ended, before the kernel forgets it.
    pub fn exit(&self, pid: i32, exit: Exit) {
        let number = {
            let mut places = self.places();
            places.exits = places.exits.saturating_add(1);
            places.exits
        };
        let bytes = seal(number, &exit_bytes(pid, exit), EXIT_SLOT);
        let index = number.checked_rem(EXITS as u64).unwrap_or_default();
        self.put(Part::Exits, index, "how a child ended", bytes.as_deref());
    }
}

fn details(stored: HashMap<String, String>) -> Details {
    let mut details: Vec<(String, String)> = stored.into_iter().collect();
    ordered::sort(&mut details);
    (!details.is_empty()).then(|| details.into())
}

/// The events that are whole with their slots, in the order of their numbers.
pub(super) fn events(found: &Found) -> Vec<(u64, Event)> {
    let mut events: Vec<(u64, Event)> = (0..)
        .zip(found.slots())
        .filter_map(|(slot, bytes)| Some((slot, unseal(bytes)?.1)))
        .filter_map(|(slot, payload)| Some((slot, stored::EventRecord::decode(payload).ok()?)))
        .map(|(slot, record)| {
            let event = Event {
                seq: record.seq,
                time: UNIX_EPOCH
                    .checked_add(Duration::from_nanos(record.nanos))
                    .unwrap_or_else(SystemTime::now),
                service: Arc::from(record.service),
                state: State::of_number(record.state).unwrap_or_default(),
                message: Arc::from(record.message),
                run: record.run,
                details: details(record.details),
            };
            (slot, event)
        })
        .collect();
    ordered::sort_by_key(&mut events, |(_, event)| event.seq);
    // A number that stands in two slots is damage.
    events.dedup_by_key(|(_, event)| event.seq);
    events
}

/// The last exits with their PIDs, oldest first, and the number of the last.
pub(super) fn exits(found: &Found) -> (Vec<(i32, Exit)>, u64) {
    let mut exits: Vec<(u64, (i32, Exit))> = found
        .slots()
        .filter_map(unseal)
        .filter_map(|(number, payload)| Some((number, exit_of_bytes(payload)?)))
        .collect();
    ordered::sort_by_key(&mut exits, |(number, _)| *number);
    let last = exits.last().map_or(0, |(number, _)| *number);
    (exits.into_iter().map(|(_, exit)| exit).collect(), last)
}
