//! The record of one service.

use std::time::Duration;

use kelson_proto::state::v1 as stored;
use kelson_sys::text::start_of;
use prost::Message as _;

use super::file::{PAYLOAD, seal};
use super::numbers::nanos;
use super::part::Part;
use crate::service_runner::table::ServiceState;

/// One of the two slots of a service.
pub const SLOT: usize = Part::Services.slot();
/// The length to which a text is cut where a record would not fit otherwise, in bytes.
const SHORT: usize = 96;
/// In how many entries all failures are recorded then, and where even that is too much.
const FAILURES: [usize; 2] = [64, 16];
/// The fields of a record that this version knows: all up to this number.
pub(super) const KNOWN: u32 = 53;

/// A service as the next incarnation of PID 1 has to know it. Times count from PID 1's start, which all of them share.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub name: String,
    pub builtin: bool,
    /// As the table sees it.
    pub service: ServiceState,
    /// With the PID it names the process permanently.
    pub start_time: u64,
    /// Since when it is in this state, in nanoseconds since 1970.
    pub since: u64,
    /// The same since PID 1's start. `None`: an earlier release has not written it down.
    pub entered: Option<Duration>,
    pub status_text: Option<String>,
    pub spawned_after: Option<Duration>,
    pub up_after: Option<Duration>,
    pub start_took: Option<Duration>,
    /// The run of which that is.
    pub start_took_run: u64,
    /// The runs of those that it needs and minds, as they were when it was spawned.
    pub noted_runs: Vec<u64>,
}

/// A record as it was found.
pub(super) struct FoundRecord {
    pub record: Record,
    /// Fields that this version does not know, as they stood there. A rewrite of the record keeps them.
    pub unknown: Vec<u8>,
    /// It was in a phase that this version does not know.
    pub unknown_phase: Option<i32>,
}

impl Record {
    /// As bytes of a slot, with the fields that a later release has written. Long texts are shortened where
    /// it does not fit otherwise.
    pub(super) fn seal(&self, number: u64, unknown: &[u8]) -> Option<Vec<u8>> {
        let whole = self.bytes(unknown);
        if whole.len() <= SLOT.saturating_sub(PAYLOAD) {
            return seal(number, &whole, SLOT);
        }
        let mut short = self.clone();
        short.status_text = short.status_text.map(|text| start_of(&text, SHORT).to_owned());
        for failures in FAILURES {
            short.service.shorten(SHORT, failures);
            if let Some(sealed) = seal(number, &short.bytes(unknown), SLOT) {
                return Some(sealed);
            }
        }
        // One that minds hundreds.
        short.noted_runs.clear();
        seal(number, &short.bytes(unknown), SLOT).or_else(|| seal(number, &short.bytes(&[]), SLOT))
    }

    fn bytes(&self, unknown: &[u8]) -> Vec<u8> {
        let mut bytes = self.to_stored().encode_to_vec();
        bytes.extend_from_slice(unknown);
        bytes
    }

    fn to_stored(&self) -> stored::ServiceRecord {
        let mut record = stored::ServiceRecord {
            name: self.name.clone(),
            builtin: self.builtin,
            start_time: self.start_time,
            since: self.since,
            entered: self.entered.map(nanos),
            status_text: self.status_text.clone(),
            spawned_after: self.spawned_after.map(nanos),
            up_after: self.up_after.map(nanos),
            start_took: self.start_took.map(nanos),
            start_took_run: self.start_took_run,
            noted_runs: self.noted_runs.clone(),
            ..stored::ServiceRecord::default()
        };
        self.service.store(&mut record);
        record
    }

    /// Reads what [`Record::seal`] or another release has written.
    pub(super) fn read(bytes: &[u8]) -> Result<FoundRecord, prost::DecodeError> {
        let record = stored::ServiceRecord::decode(bytes)?;
        let unknown = unknown_fields(bytes, KNOWN)?;
        let (service, phase) = ServiceState::of_stored(&record);
        let time = |nanos: Option<u64>| nanos.map(Duration::from_nanos);
        let record = Record {
            name: record.name,
            builtin: record.builtin,
            service,
            start_time: record.start_time,
            since: record.since,
            entered: time(record.entered),
            status_text: record.status_text,
            spawned_after: time(record.spawned_after),
            up_after: time(record.up_after),
            start_took: time(record.start_took),
            start_took_run: record.start_took_run,
            noted_runs: record.noted_runs,
        };
        Ok(FoundRecord { record, unknown, unknown_phase: phase.err() })
    }
}

/// The fields of a message whose numbers lie above `known`, as they stand in its bytes.
pub(super) fn unknown_fields(bytes: &[u8], known: u32) -> Result<Vec<u8>, prost::DecodeError> {
    use prost::encoding::{DecodeContext, decode_key, skip_field};
    let (mut rest, mut unknown) = (bytes, Vec::new());
    while !rest.is_empty() {
        let field = rest;
        let (number, kind) = decode_key(&mut rest)?;
        skip_field(kind, number, &mut rest, DecodeContext::default())?;
        if number > known {
            let length = field.len().saturating_sub(rest.len());
            unknown.extend_from_slice(field.get(..length).unwrap_or_default());
        }
    }
    Ok(unknown)
}
