//! The state of the previous incarnation that PID 1 finds on `/run/kelson/state`, in any condition.

use std::cell::OnceCell;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use kelson_services::events::EventLog;
use kelson_services::host::BootReport;
use kelson_services::model::State;
use kelson_services::state_store::{Incarnation, Kind, Past, StateStore, VERSION, read};
use kelson_spec::{Loaded, ServiceSpec};

use crate::input::Input;
use crate::place::{self, Place};

thread_local! {
    static FOLDER: OnceCell<Place> = const { OnceCell::new() };
}

/// Where the slots of a file begin.
const HEADER: u64 = 4096;
/// Files of slots, and how large a slot of each is.
const SLOTS: [(&str, usize); 4] = [("services", 1024), ("events", 256), ("exits", 32), ("descriptors", 256)];
const PAPERS: [&str; 5] = ["web.spec", "web.next", "configuration", "boot", "intent"];

fn life() -> Incarnation {
    Incarnation { boot: "2f4c1d74-8d6a-4b7e-9c11-0a1b2c3d4e5f".to_owned(), start_time: 7 }
}

/// An empty state of this incarnation.
fn fresh(directory: &Path) {
    drop(StateStore::create(directory, &life()).expect("a state of this life"));
}

/// Takes over what is there, and goes on with it.
fn take(directory: &Path) {
    let life = life();
    let seen = read(directory, &life);
    let Ok(mut past) = Past::take(directory, &life) else { return };
    assert_eq!(seen.expect("it could be taken").records, past.records);
    let _: Option<ServiceSpec> = past.paper(Kind::Spec, "web");
    let _: Option<ServiceSpec> = past.paper(Kind::NextSpec, "web");
    let _: Option<Loaded> = past.paper(Kind::Configuration, "");
    let _: Option<BootReport> = past.paper(Kind::Boot, "");
    let _: Option<(u32, String)> = past.paper(Kind::Intent, "");
    let _ = past.store.specs();
    past.look_at_exits(directory, &life);
    for pair in past.events.windows(2) {
        assert!(pair[0].1.seq < pair[1].1.seq, "in the order of their numbers, each once");
    }
    // This life writes where that one left off.
    for record in &past.records {
        past.store.record(&Arc::from(record.name.as_str()), record);
    }
    let events = std::mem::take(&mut past.events);
    let last = events.last().map(|(_, event)| event.seq);
    let log = EventLog::restore(past.store.clone(), events);
    let next = log.add(&Arc::from("web"), State::Running, "goes on", 1);
    assert!(last.is_none_or(|last| last == u64::MAX || next > last));
    past.store.exit(42, kelson_runner::Exit::Status(0));
    let again = read(directory, &life).expect("it is still there");
    for record in &past.records {
        // Two that bear one name are one.
        assert!(again.records.iter().any(|now| now.name == record.name));
    }
    past.close_the_rest();
    past.store.remove("web");
}

/// Files as they are on the disk: which one, and its bytes from its header on; with the highest bit also the header.
pub fn files(data: &[u8]) {
    place::with(&FOLDER, |place| {
        let directory = place.path().join("state");
        fresh(&directory);
        let mut input = Input(data);
        for _ in 0..8 {
            if input.is_empty() {
                break;
            }
            let which = input.byte();
            let bytes = input.piece();
            match SLOTS.get(usize::from(which & 0x7)) {
                Some((name, _)) if which & 0x80 == 0 => {
                    let file =
                        OpenOptions::new().write(true).open(directory.join(name)).expect("it was made");
                    file.write_all_at(bytes, HEADER).expect("there is room");
                }
                Some((name, _)) => fs::write(directory.join(name), bytes).expect("there is room"),
                None => {
                    let name = PAPERS[usize::from(which >> 3) % PAPERS.len()];
                    fs::write(directory.join("papers").join(name), bytes).expect("there is room");
                }
            }
        }
        take(&directory);
    });
}

/// The contents of slots and papers that are whole: the file, the number, and the payload. The checksums are
/// right.
pub fn records(data: &[u8]) {
    place::with(&FOLDER, |place| {
        let directory = place.path().join("state");
        fresh(&directory);
        let mut input = Input(data);
        let mut written = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..16 {
            if input.is_empty() {
                break;
            }
            let (which, number) = (usize::from(input.byte()), u64::from(input.byte()));
            let payload = input.piece();
            match (SLOTS.get(which & 0x7), written.get_mut(which & 0x7)) {
                (Some((_, size)), Some(file)) => {
                    let mut slot = sealed(number, &payload[..payload.len().min(size - 16)]);
                    slot.resize(*size, 0);
                    file.extend(slot);
                }
                _ => {
                    let name = PAPERS[(which >> 3) % PAPERS.len()];
                    let paper = sealed(VERSION.into(), payload);
                    fs::write(directory.join("papers").join(name), paper).expect("there is room");
                }
            }
        }
        for ((name, _), bytes) in SLOTS.iter().zip(written) {
            let file = OpenOptions::new().write(true).open(directory.join(name)).expect("it was made");
            file.write_all_at(&bytes, HEADER).expect("there is room");
        }
        take(&directory);
    });
}

/// As PID 1 writes it: the checksum of the rest, the length of the payload, a number, the payload.
fn sealed(number: u64, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("an input is short");
    let mut rest = length.to_le_bytes().to_vec();
    rest.extend(number.to_le_bytes());
    rest.extend(payload);
    let mut bytes = crc32fast::hash(&rest).to_le_bytes().to_vec();
    bytes.extend(rest);
    bytes
}
