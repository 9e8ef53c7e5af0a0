//! Files that are written once and whole: specs, the rest of the configuration, the boot's report.
//!
//! JSON, by the names of fields and variants, so those names are part of the format: a type that is written here keeps
//! them, and gives each field that may be missing a default. A release reads what others have written: it passes over
//! fields that it does not know, and what it cannot make sense of has its default, and is reported.

use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::file::{PAYLOAD, VERSION, options, seal, unseal};
use super::tree::{self, Segment};
use crate::error::ServicesError;

/// How many places of one paper may make no sense before all of it makes none.
const MOST_DOUBTS: usize = 64;

/// A file that is written whole, or not at all: the next to it first, then moved to its place.
#[derive(Debug)]
pub struct Paper(pub PathBuf);

impl Paper {
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, payload: &[u8]) -> io::Result<()> {
        let length = payload.len().saturating_add(PAYLOAD);
        let bytes = seal(VERSION.into(), payload, length)
            .ok_or_else(|| io::Error::other("longer than a file may be"))?;
        let beside = self.0.with_extension("new");
        // Truncated where one is left of a write that was broken off.
        let file = options().create(true).truncate(true).open(&beside)?;
        let written = file.write_all_at(&bytes, 0).and_then(|()| std::fs::rename(&beside, &self.0));
        if written.is_err() {
            // Where there is no room it must not keep what it has got of it.
            let _ = std::fs::remove_file(beside);
        }
        written
    }

    /// `None`: there is none.
    ///
    /// # Errors
    /// It is not whole, or of another version.
    pub fn read(&self) -> Result<Option<Vec<u8>>, ServicesError> {
        let told = |text: &str| ServicesError::Untrusted(format!("{}: {text}", self.0.display()));
        let bytes = match std::fs::read(&self.0) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(told(&error.to_string())),
        };
        match unseal(&bytes) {
            Some((version, payload)) if version == u64::from(VERSION) => Ok(Some(payload.to_vec())),
            Some((there, _)) => {
                Err(told(&format!("has state format {there}, this release reads {VERSION}: not used")))
            }
            None => Err(told("is torn, not used")),
        }
    }

    pub fn remove(&self) {
        // One that was never written need not be.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Reads the payload of a paper. `doubts` gets each place that makes no sense and has its default.
///
/// # Errors
/// Nothing of it can be used.
pub(super) fn understand<T: DeserializeOwned>(
    payload: &[u8],
    mut doubts: impl FnMut(String),
) -> Result<T, ServicesError> {
    let senseless =
        |error: &dyn std::fmt::Display| ServicesError::Untrusted(format!("makes no sense: {error}"));
    let mut tree: Value = serde_json::from_slice(payload).map_err(|error| senseless(&error))?;
    let mut doubted = String::new();
    for _ in 0..MOST_DOUBTS {
        let (mut path, error) = match tree::deserialize(&tree) {
            Ok(sense) => return Ok(sense),
            Err(wrong) => wrong,
        };
        let place = tree::shown(&path);
        if !leave_out(&mut tree, &mut path) {
            return Err(senseless(&error));
        }
        if place != doubted {
            doubts(format!("`{place}` is not understood and has its default: {error}"));
            doubted = place;
        }
    }
    Err(senseless(&"too much of it is not understood"))
}

/// Takes away the innermost thing on the way that can be missing. Before it removes a value, it empties it: a
/// structure with no fields has the default of each, which may be safer than its absence.
fn leave_out(tree: &mut Value, path: &mut Vec<Segment>) -> bool {
    while let Some(last) = path.pop() {
        let Some(parent) = at(tree, path) else { continue };
        match (parent, last) {
            (Value::Object(fields), Segment::Field(key)) => {
                let Some(value) = fields.get_mut(&key) else { continue };
                if value.is_object() {
                    fields.remove(&key);
                } else {
                    *value = Value::Object(serde_json::Map::new());
                }
                return true;
            }
            (Value::Array(items), Segment::Item(index)) if index < items.len() => {
                items.remove(index);
                return true;
            }
            _ => {}
        }
    }
    false
}

/// The value at a place, where there is one.
fn at<'a>(tree: &'a mut Value, path: &[Segment]) -> Option<&'a mut Value> {
    path.iter().try_fold(tree, |value, segment| match segment {
        Segment::Field(name) | Segment::Variant(name) => value.get_mut(name),
        Segment::Item(index) => value.get_mut(index),
    })
}

#[cfg(test)]
mod tests {
    use kelson_spec::ServiceSpec;
    use kelson_spec::service::{Check, Credentials, Hook, Probe, Requirement, Seccomp, Workload};
    use serde_json::json;

    use super::*;

    fn spec() -> ServiceSpec {
        let mut spec = ServiceSpec::process("web", ["/bin/web"]);
        spec.environment = vec![("A".into(), "1".into())];
        spec.when = vec![Requirement::Path("/x".into())];
        spec.depends = vec![
            Requirement::service("db", Default::default()),
            Requirement::Any(vec![Requirement::TimeSynced, Requirement::Network(Vec::new())]),
        ];
        spec.health = vec![Check::new("a", Probe::tcp(80))];
        spec.hooks.pre = vec![Hook::new(["/bin/true"], Hook::TIMEOUT)];
        spec.user = Some(Credentials { uid: 7, gid: 8, ..Credentials::default() });
        spec.security.capabilities = Some(u64::MAX);
        spec
    }

    fn read(tree: &Value) -> (ServiceSpec, Vec<String>) {
        let mut doubts = Vec::new();
        let bytes = serde_json::to_vec(tree).unwrap();
        (understand(&bytes, |doubt| doubts.push(doubt)).unwrap(), doubts)
    }

    /// Calls `with` with each object of a tree changed in each way that `changes` tells of it.
    fn each(tree: &Value, changes: &dyn Fn(&Value) -> Vec<Value>, with: &mut dyn FnMut(Value)) {
        changes(tree).into_iter().for_each(&mut *with);
        let parts: Vec<(Segment, Value)> = match tree {
            Value::Object(fields) => {
                fields.iter().map(|(key, value)| (Segment::Field(key.clone()), value.clone())).collect()
            }
            Value::Array(items) => {
                items.iter().enumerate().map(|(index, value)| (Segment::Item(index), value.clone())).collect()
            }
            _ => return,
        };
        for (segment, part) in parts {
            each(&part, changes, &mut |changed| {
                let mut tree = tree.clone();
                *at(&mut tree, std::slice::from_ref(&segment)).unwrap() = changed;
                with(tree);
            });
        }
    }

    #[test]
    fn a_spec_comes_back() {
        let tree = serde_json::to_value(spec()).unwrap();
        assert_eq!(read(&tree), (spec(), vec![]));
    }

    #[test]
    fn what_a_later_release_adds_is_passed_over() {
        let tree = serde_json::to_value(spec()).unwrap();
        let mut cases = 0;
        let add = |value: &Value| match value {
            // The only field of an object with one is the name of a variant. A Duration is what it is.
            Value::Object(fields) if fields.len() > 1 && !fields.contains_key("nanos") => {
                let mut fields = fields.clone();
                fields.insert("later".into(), json!({"a": [1, null]}));
                vec![Value::Object(fields)]
            }
            _ => vec![],
        };
        each(&tree, &add, &mut |changed| {
            cases += 1;
            assert_eq!(read(&changed), (spec(), vec![]), "{changed}");
        });
        assert!(cases > 8, "{cases}");
    }

    #[test]
    fn what_is_missing_or_makes_no_sense_never_costs_the_service() {
        let tree = serde_json::to_value(spec()).unwrap();
        let mut cases = 0;
        let change = |value: &Value| match value {
            Value::Object(fields) => fields
                .keys()
                .flat_map(|key| {
                    let with = |new: Option<Value>| {
                        let mut fields = fields.clone();
                        match new {
                            Some(new) => fields.insert(key.clone(), new),
                            None => fields.remove(key),
                        };
                        Value::Object(fields)
                    };
                    [
                        with(None),
                        with(Some(json!("Later"))),
                        with(Some(json!({"Later": 1}))),
                        with(Some(json!([]))),
                    ]
                })
                .collect(),
            Value::String(_) => vec![json!("Later"), json!(7)],
            _ => vec![],
        };
        each(&tree, &change, &mut |changed| {
            cases += 1;
            let (read, doubts) = read(&changed);
            assert!(doubts.len() <= 3, "{doubts:?}");
            // A user that cannot be read is nobody, and never root.
            if changed["user"].as_object().is_some_and(|user| !user.is_empty()) {
                assert!(read.user.is_some_and(|user| user.uid != 0), "{changed}");
            }
        });
        assert!(cases > 200, "{cases}");
    }

    #[test]
    fn a_variant_that_is_not_known_has_the_default_and_is_reported() {
        let mut tree = serde_json::to_value(spec()).unwrap();
        tree["security"]["seccomp"] = json!("Strict");
        tree["workload"] = json!({"Vm": {"image": "x"}});
        tree["depends"][0] = json!({"Moon": {"phase": "full"}});
        tree["user"] = json!("Dynamic");
        let (read, doubts) = read(&tree);
        assert_eq!(read.security.seccomp, Seccomp::Default);
        assert!(matches!(read.workload, Workload::Process(process) if process.command.is_empty()));
        assert_eq!(read.depends, spec().depends[1..]);
        assert_eq!(read.user, Some(Credentials::default()));
        assert_eq!(doubts.len(), 4, "{doubts:?}");
        assert!(
            doubts.iter().any(|doubt| doubt.starts_with("`security.seccomp` is not understood")),
            "{doubts:?}"
        );
        for senseless in [&b""[..], b"{", b"7"] {
            assert!(understand::<ServiceSpec>(senseless, |_| {}).is_err());
        }
    }
}
