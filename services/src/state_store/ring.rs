//! The two rings: the events of the host, and the exits of its last children.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kelson_runner::Exit;
use serde::{Deserialize, Serialize};

use super::StateStore;
use super::file::{Found, seal, unseal};
use super::record::start_of;
use super::unwritten::Part;
use crate::model::{Event, State};

pub const EVENT_SLOT: usize = 256;
/// What of a long text is kept: with all else in it a slot is full then.
const TEXT: usize = 180;
pub const EXIT_SLOT: usize = 32;
/// So many exits are known that no task may have acted on yet.
pub const EXITS: u64 = 1024;

#[derive(Serialize, Deserialize)]
struct EventRecord<'a> {
    seq: u64,
    nanos: u64,
    service: &'a str,
    state: State,
    run: u64,
    message: &'a str,
}

#[derive(Serialize, Deserialize)]
struct ExitRecord {
    pid: i32,
    exit: Exit,
}

impl StateStore {
    /// Writes an event into a slot.
    pub fn event(&self, slot: u64, event: &Event) {
        let since = event.time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut record = EventRecord {
            seq: event.seq,
            nanos: u64::try_from(since.as_nanos()).unwrap_or_default(),
            service: &event.service,
            state: event.state,
            run: event.run,
            message: &event.message,
        };
        let bytes = seal::<_, EVENT_SLOT>(event.seq, &record).or_else(|| {
            // The whole text is in the kernel log; what must survive is the number.
            let room = TEXT.saturating_sub(event.service.len());
            record.message = start_of(&event.message, room);
            seal(event.seq, &record)
        });
        self.put(Part::Events, slot, "an event", bytes.as_ref().map(<[u8; EVENT_SLOT]>::as_slice));
    }

    /// Writes down how a child ended, before the kernel forgets it.
    pub fn exit(&self, pid: i32, exit: Exit) {
        let number = {
            let mut places = self.places();
            places.exits = places.exits.saturating_add(1);
            places.exits
        };
        let bytes = seal::<_, EXIT_SLOT>(number, &ExitRecord { pid, exit });
        let index = number.checked_rem(EXITS).unwrap_or_default();
        self.put(Part::Exits, index, "how a child ended", bytes.as_ref().map(<[u8; EXIT_SLOT]>::as_slice));
    }
}

/// The events that are whole with their slots, in the order of their numbers.
pub(super) fn events(found: &Found) -> Vec<(u64, Event)> {
    let mut events: Vec<(u64, Event)> = (0..)
        .zip(found.slots())
        .filter_map(|(slot, bytes)| Some((slot, unseal(bytes)?.1)))
        .filter_map(|(slot, payload)| Some((slot, postcard::from_bytes::<EventRecord<'_>>(payload).ok()?)))
        .map(|(slot, record)| {
            let event = Event {
                seq: record.seq,
                time: UNIX_EPOCH
                    .checked_add(Duration::from_nanos(record.nanos))
                    .unwrap_or_else(SystemTime::now),
                service: Arc::from(record.service),
                state: record.state,
                message: Arc::from(record.message),
                run: record.run,
            };
            (slot, event)
        })
        .collect();
    events.sort_by_key(|(_, event)| event.seq);
    // A number that stands in two slots is damage.
    events.dedup_by_key(|(_, event)| event.seq);
    events
}

/// The last exits with their PIDs, oldest first, and the number of the last.
pub(super) fn exits(found: &Found) -> (Vec<(i32, Exit)>, u64) {
    let mut exits: Vec<(u64, ExitRecord)> = found
        .slots()
        .filter_map(unseal)
        .filter_map(|(number, payload)| Some((number, postcard::from_bytes(payload).ok()?)))
        .collect();
    exits.sort_by_key(|(number, _)| *number);
    let last = exits.last().map_or(0, |(number, _)| *number);
    (exits.into_iter().map(|(_, record)| (record.pid, record.exit)).collect(), last)
}
