//! The state that releases have stored, in `tests/state`: this release reads all of it.
//!
//! `hack/state-fixture` records that of this release, and makes the variant of it: as a later release may write it, with
//! fields, enum values and variants that this one does not know, in longer slots.

use std::collections::BTreeMap;
use std::fs;

use kelson_proto::state::v1 as stored;
use kelson_proto::state::v1::descriptor_record::What;
use kelson_spec::{Loaded, ServiceSpec};
use prost::Message;
use serde_json::Value;

use super::file::unseal;
use super::*;
use crate::host::BootReport;
use crate::model::State;
use contents::{checks, events, exits, kept, records, write};

mod contents;
mod variant;

const OWN: &str = env!("CARGO_PKG_VERSION");
/// Its state has no tags.
const FIRST: &str = "0.1.0";
const VARIANT: &str = "variant";
/// The fields that a later release adds to a message: field 900, a text, and field 901, a number.
const LATER: &[u8] = &[0xa2, 0x38, 3, b'n', b'e', b'w', 0xa8, 0x38, 7];
/// An enum value of a later release.
const NEW: i32 = 99;

fn life() -> Incarnation {
    Incarnation { boot: "6f1c0b52-9a57-4c0f-8a43-5c1d1f2e7a90".to_owned(), start_time: 4711 }
}

fn stored_by(release: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/state").join(release)
}

/// Stored state that a test may write to.
fn copy_of(release: &str) -> PathBuf {
    let to = std::env::temp_dir().join(format!("kelson-stored-{}-{release}", std::process::id()));
    let _ = fs::remove_dir_all(&to);
    copy(&stored_by(release), &to);
    to
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// A paper as it stands there.
fn payload(store: &StateStore, kind: Kind, name: &str) -> Value {
    serde_json::from_slice(&store.paper(kind, name).read().unwrap().unwrap()).unwrap()
}

/// All that was written is understood: it would be written again.
#[track_caller]
fn understood(written: &Value, read: &Value, place: &str) {
    match (written, read) {
        (Value::Object(written), Value::Object(read)) => {
            for (key, value) in written.iter().filter(|(key, _)| *key != "later") {
                let place = format!("{place}.{key}");
                understood(value, read.get(key).unwrap_or_else(|| panic!("{place} is not read")), &place);
            }
        }
        (Value::Array(written), Value::Array(read)) if written.len() == read.len() => {
            written.iter().zip(read).for_each(|(written, read)| understood(written, read, place));
        }
        _ => assert_eq!(written, read, "{place}"),
    }
}

fn paper<T: serde::Serialize + serde::de::DeserializeOwned>(past: &mut Past, kind: Kind, name: &str) {
    let written = payload(&past.store, kind, name);
    let read: T = past.paper(kind, name).unwrap_or_else(|| panic!("{kind:?} {name}: {:?}", past.doubts));
    understood(&written, &serde_json::to_value(read).unwrap(), &format!("{kind:?} {name}"));
}

/// The record as this release writes it.
fn again(record: &Record, unknown: &[u8]) -> stored::ServiceRecord {
    Message::decode(unseal(&record.seal(1, unknown).unwrap()).unwrap().1).unwrap()
}

/// Removes the fields that belong to another phase than that of the record, and a state that the phase does
/// not show.
pub(super) fn of_its_phase(mut record: stored::ServiceRecord) -> stored::ServiceRecord {
    use stored::Phase;
    let phase = record.phase();
    let is = |phases: &[Phase]| phases.contains(&phase);
    let rests = phase == Phase::Rest && record.state() != stored::State::Initialized;
    let with_process = is(&[Phase::Active, Phase::PreStop, Phase::StopDelay, Phase::Ending]);
    let down =
        is(&[Phase::PreStop, Phase::StopDelay, Phase::Ending, Phase::Clearing, Phase::Post, Phase::Closing]);
    record.state = match phase {
        Phase::When => stored::State::Waiting,
        Phase::Opening => stored::State::Preparing,
        Phase::Pre | Phase::Spawning => stored::State::Starting,
        Phase::Active if record.ready || record.state() == stored::State::Running => stored::State::Running,
        Phase::Active => stored::State::Starting,
        Phase::Backoff => stored::State::Backoff,
        _ => record.state(),
    }
    .into();
    if phase != Phase::Active {
        (record.ready, record.healthy, record.proven) = (false, None, false);
        (record.start_timer, record.watchdog_timer, record.watchdog) = (None, None, None);
    }
    record.pid = if with_process { record.pid } else { 0 };
    record.delays &= phase == Phase::PreStop;
    record.stop_delay_timer.take_if(|_| phase != Phase::StopDelay);
    record.stop_until.take_if(|_| phase != Phase::Ending);
    record.backoff_timer.take_if(|_| phase != Phase::Backoff);
    // Prepared is each that has a run; at the gate and in a backoff it may be.
    record.opened &= is(&[Phase::Gate, Phase::Backoff]);
    record.opened |= down || is(&[Phase::Pre, Phase::Spawning, Phase::Active]);
    record.owes_post &= down || is(&[Phase::Pre, Phase::Spawning, Phase::Active]);
    record.will_start &= phase == Phase::Rest && !rests;
    (record.stopped, record.finished) = (record.stopped && rests, record.finished && rests);
    record.unwanted &= rests || down;
    record.awaits_group &= (rests || down) && !record.unwanted;
    record.after.take_if(|_| !down);
    if down && record.after.is_none() {
        let (state, text) =
            (stored::State::Failed.into(), "ended without a reason (please report this)".into());
        let end = stored::next::End { state, text, ..Default::default() };
        record.after = Some(stored::Next { what: Some(stored::next::What::End(end)) });
    }
    if let Some(stored::next::What::End(end)) = record.after.as_mut().and_then(|next| next.what.as_mut()) {
        // Only a state `stopped` is asked for.
        end.stopped &= end.state() == stored::State::Stopped;
        end.wanted &= end.state() == stored::State::Stopped;
    }
    record
}

/// Reads the state of a release, which holds what [`write`] has written. A field that a later release adds to
/// that has its default here: it is to be taken out of the expectation for the releases before it.
fn reads(release: &str) -> (Past, BTreeMap<String, Record>) {
    let folder = copy_of(release);
    let mut past = Past::take(&folder, &life()).unwrap();
    let mut records_read: BTreeMap<String, Record> =
        std::mem::take(&mut past.records).into_iter().map(|record| (record.name.clone(), record)).collect();
    for expected in records() {
        let read =
            records_read.get(&expected.name).unwrap_or_else(|| panic!("{release}: no {}", expected.name));
        assert_eq!(again(read, b""), of_its_phase(expected), "{release}");
    }
    records_read.retain(|name, _| !name.starts_with("phase-"));

    for expected in events() {
        assert!(past.events.iter().any(|(_, event)| *event == expected), "{release}: {expected:?}");
    }
    let has_ages = release != "0.2.0";
    let mut by_check: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (service, check, result) in checks() {
        by_check.entry(service).or_default().push((check, result));
    }
    for (service, results) in by_check {
        let mut of_service = past.take_checks(service);
        for newest in results.chunks(3) {
            let (check, last) = newest.last().unwrap();
            let expected: PastCheck = newest
                .iter()
                .map(|(_, result)| stored::CheckRecord {
                    service: rings::hash(service),
                    check: rings::hash(check),
                    entered: result.entered.filter(|_| has_ages),
                    heard: result.heard.filter(|_| has_ages),
                    ..result.clone()
                })
                .collect();
            assert_eq!(of_service.take(check, last.run), Some(expected), "{release}");
        }
    }
    for (pid, exit) in exits() {
        assert_eq!(past.exits.get(&pid), Some(&exit), "{release}");
    }
    let found = Part::Descriptors.open(&folder, &life()).unwrap();
    let slots: Vec<&[u8]> = found.slots().collect();
    let has_sockets = !["0.2.0", "0.3.0"].contains(&release);
    let is_socket = |what: &Option<What>| matches!(what, Some(What::Socket(_)));
    for (place, expected) in kept().into_iter().filter(|(_, kept)| has_sockets || !is_socket(&kept.what)) {
        let (_, payload) = unseal(slots[usize::try_from(place).unwrap()]).unwrap();
        let read: stored::DescriptorRecord = Message::decode(payload).unwrap();
        assert_eq!(read, expected, "{release}");
    }
    for name in ["box", "web"] {
        paper::<ServiceSpec>(&mut past, Kind::Spec, name);
    }
    paper::<ServiceSpec>(&mut past, Kind::NextSpec, "web");
    paper::<Loaded>(&mut past, Kind::Configuration, "");
    paper::<BootReport>(&mut past, Kind::Boot, "");
    assert_eq!(past.doubts, Vec::<String>::new(), "{release}");
    fs::remove_dir_all(folder).unwrap();
    (past, records_read)
}

#[test]
fn the_stored_state_of_each_release_is_read() {
    let names =
        fs::read_dir(stored_by("")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let releases: Vec<String> =
        names.filter(|name| stored_by(name).is_dir() && ![FIRST, VARIANT].contains(&&**name)).collect();
    assert!(
        releases.iter().any(|release| release == OWN),
        "there is no state of {OWN}: run hack/state-fixture"
    );
    for release in releases {
        let (past, others) = reads(&release);
        assert_eq!((past.unknown_phases, others), (vec![], BTreeMap::new()), "{release}");
    }
}

#[test]
fn the_stored_state_of_a_later_release_is_read_and_its_fields_are_kept() {
    use crate::service_runner::table::{Phase, Rest, Stage};
    let active = super::tests::active(42);
    let (past, others) = reads(VARIANT);
    let phases = ["new-phase", "new-phase-at-rest"].map(|name| (name.to_owned(), NEW));
    assert_eq!(past.unknown_phases, phases);
    let of = |name: &str| others[name].service.clone();
    assert_eq!((of("new-phase").phase, of("new-phase").state()), (Phase::Active(active), State::Running));
    assert!(matches!(of("new-phase-at-rest").phase, Phase::Rest(Rest::Ended(..))));
    // A member that asks for its group still does so, and an unknown next step is for the restart policy.
    assert!(of("new-values").stage() == Some(Stage::Closing) && of("new-values").group_restarts());
    let new_values = again(&others["new-values"], b"");
    assert_eq!(new_values.restarts_by, [1; 11]);
    assert!(matches!(new_values.after.unwrap().what, Some(stored::next::What::Decide(_))));
    assert_eq!(past.events.iter().map(|(_, event)| event.seq).min(), Some(1));

    // A release that writes a record again keeps the fields.
    let folder = copy_of(VARIANT);
    let mut past = Past::take(&folder, &self::life()).unwrap();
    let _: ServiceSpec = past.paper(Kind::Spec, "new").unwrap();
    assert_eq!(past.doubts.len(), 2, "{:?}", past.doubts);
    for record in &past.records {
        past.store.record(&Arc::from(record.name.as_str()), record);
    }
    let found = Part::Services.open(&folder, &self::life()).unwrap();
    let slots: Vec<&[u8]> = found.slots().collect();
    assert!(past.records.len() > 16);
    for pair in slots.chunks(2) {
        let (number, newest) =
            pair.iter().filter_map(|slot| unseal(slot)).max_by_key(|(number, _)| *number).unwrap();
        assert!(number == 2 && newest.ends_with(LATER), "{number} {newest:?}");
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_stored_state_of_release_0_1_0_is_refused_and_stays_as_it_is() {
    let folder = copy_of(FIRST);
    let refused = Past::take(&folder, &life()).err().unwrap();
    let expected = format!(
        "{}: has state format 4, this release reads {VERSION}: not used",
        folder.join("services").display()
    );
    assert_eq!(refused.to_string(), expected);
    for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file()) {
        let before = fs::read(stored_by(FIRST).join(entry.file_name())).unwrap();
        assert!(fs::read(entry.path()).unwrap() == before, "{:?}", entry.file_name());
    }
    fs::remove_dir_all(folder).unwrap();
}

/// For hack/state-fixture.
#[test]
#[ignore = "writes to tests/state"]
fn record_stored_state() {
    for release in [OWN, VARIANT] {
        let folder = stored_by(release);
        let _ = fs::remove_dir_all(&folder);
        write(&folder);
        fs::remove_file(folder.join("spawns")).unwrap();
    }
    variant::vary(&stored_by(VARIANT));
}
