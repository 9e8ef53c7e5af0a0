//! The state of this release as a later one may write it.

use std::fs;
use std::path::Path;

use kelson_proto::state::v1 as stored;
use prost::Message as _;
use prost::encoding::{
    DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field,
};
use serde_json::{Value, json};

use super::super::file::{seal, unseal};
use super::super::{Kind, Past};
use super::{LATER, NEW, life, payload};

/// Fields that are messages, of a message.
struct Shape(&'static [(u32, Shape)]);

const LEAF: Shape = Shape(&[]);
const ENDED: Shape = Shape(&[(1, Shape(&[(1, LEAF)])), (2, LEAF), (4, LEAF)]);
const NEXT: Shape = Shape(&[(1, ENDED), (4, LEAF), (5, Shape(&[(1, LEAF)]))]);
const SERVICE: Shape = Shape(&[(21, LEAF), (30, NEXT), (51, LEAF)]);
const DESCRIPTOR: Shape = Shape(&[(3, LEAF), (4, LEAF), (5, LEAF), (6, LEAF)]);

/// The message with [`LATER`] behind it, and behind each message within.
fn with_later(message: &[u8], shape: &Shape) -> Vec<u8> {
    let (mut rest, mut with) = (message, Vec::new());
    while !rest.is_empty() {
        let field = rest;
        let (number, kind) = decode_key(&mut rest).unwrap();
        match shape.0.iter().find(|(of, _)| *of == number && kind == WireType::LengthDelimited) {
            Some((_, shape)) => {
                let length = usize::try_from(decode_varint(&mut rest).unwrap()).unwrap();
                let inner = with_later(&rest[..length], shape);
                rest = &rest[length..];
                encode_key(number, kind, &mut with);
                encode_varint(inner.len() as u64, &mut with);
                with.extend(inner);
            }
            None => {
                skip_field(kind, number, &mut rest, DecodeContext::default()).unwrap();
                with.extend(&field[..field.len() - rest.len()]);
            }
        }
    }
    with.extend(LATER);
    with
}

/// The file with longer slots, each as `later` makes it of what it holds, and those of `more` behind them.
fn lengthen(path: &Path, slot: usize, later: impl Fn(&[u8]) -> Vec<u8>, more: &[Vec<u8>]) {
    let bytes = fs::read(path).unwrap();
    let old = usize::try_from(u32::from_le_bytes(bytes[12..16].try_into().unwrap())).unwrap();
    let mut longer = bytes[..4096].to_vec();
    longer[12..16].copy_from_slice(&u32::try_from(slot).unwrap().to_le_bytes());
    let owner = unseal(&longer[16..528]).unwrap().1.to_vec();
    longer[16..528].copy_from_slice(&seal(0, &with_later(&owner, &LEAF), 512).unwrap());
    for part in bytes[4096..].chunks(old) {
        match unseal(part) {
            Some((number, payload)) => longer.extend(seal(number, &later(payload), slot).unwrap()),
            None => longer.extend(vec![0; slot]),
        }
    }
    for payload in more {
        longer.extend(seal(1, payload, slot).unwrap());
    }
    fs::write(path, longer).unwrap();
}

/// Makes of this release's state what a later one may write.
pub(super) fn vary(folder: &Path) {
    let services: Vec<Vec<u8>> = later_records()
        .into_iter()
        // The second slot of each has never been written.
        .flat_map(|record| [with_later(&record.encode_to_vec(), &LEAF), vec![]])
        .collect();
    // A slot of nothing is none.
    lengthen(&folder.join("services"), 1280, |payload| with_later(payload, &SERVICE), &services);
    let event = stored::EventRecord { seq: 1, state: NEW, message: "new".to_owned(), ..Default::default() };
    lengthen(&folder.join("events"), 320, |payload| with_later(payload, &LEAF), &[event.encode_to_vec()]);
    lengthen(&folder.join("checks"), 256, |payload| with_later(payload, &LEAF), &[]);
    lengthen(&folder.join("exits"), 48, |payload| [payload, &[7; 8]].concat(), &[]);
    let new_kind = stored::DescriptorRecord { device: 1, inode: 2, what: None }.encode_to_vec();
    let new_kind = [&new_kind[..], LATER].concat();
    lengthen(&folder.join("descriptors"), 320, |payload| with_later(payload, &DESCRIPTOR), &[new_kind]);
    let store = Past::take(folder, &life()).unwrap().store;
    let records_folder = ["box", "web"].map(|name| (Kind::Spec, name));
    for (kind, name) in records_folder.into_iter().chain([
        (Kind::NextSpec, "web"),
        (Kind::Configuration, ""),
        (Kind::Boot, ""),
    ]) {
        let mut paper = payload(&store, kind, name);
        add_later(&mut paper);
        store.write(kind, name, &paper);
    }
    let mut new = payload(&store, Kind::Spec, "web");
    new["security"]["seccomp"] = json!("Strict");
    new["depends"][0] = json!({"Moon": {"phase": "full"}});
    store.write(Kind::Spec, "new", &new);
}

/// Records with enum values and alternatives of a later release.
fn later_records() -> Vec<stored::ServiceRecord> {
    let named = |name: &str| stored::ServiceRecord { name: name.to_owned(), run: 3, ..Default::default() };
    vec![
        stored::ServiceRecord { phase: NEW, state: NEW, pid: 42, ..named("new-phase") },
        stored::ServiceRecord { phase: NEW, state: 7, finished: true, ..named("new-phase-at-rest") },
        stored::ServiceRecord {
            phase: stored::Phase::Closing.into(),
            state: NEW,
            asked_group: NEW,
            restarts_by: vec![1; 40],
            exit: Some(stored::Exit::default()),
            after: Some(stored::Next::default()),
            ..named("new-values")
        },
    ]
}

/// A field more in each object, except in those that are no structures: variants and times.
fn add_later(tree: &mut Value) {
    match tree {
        Value::Object(fields) => {
            fields.values_mut().for_each(add_later);
            if fields.len() > 1 && !fields.contains_key("nanos") {
                fields.insert("later".to_owned(), json!({"a": [1, null]}));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(add_later),
        _ => {}
    }
}
