//! How deep alternatives and negations may lie in each other, when a spec is taken over as bytes.
//!
//! A file cannot nest them deeper than its lists and mappings (32 levels), but two bytes a level say so in a hand-over
//! or a record of the state: a few kilobytes of them exhaust the stack of the decoder.

use std::cell::Cell;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::Requirement;

/// More than any file can say.
const DEEPEST: usize = 32;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// One level; left again when it is dropped.
struct Level;

impl Level {
    fn enter() -> Option<Level> {
        let depth = DEPTH.get();
        (depth < DEEPEST).then(|| {
            DEPTH.set(depth.saturating_add(1));
            Level
        })
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get().saturating_sub(1));
    }
}

/// The alternatives of one `any`.
///
/// # Errors
/// When they lie too deep.
pub(super) fn alternatives<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Requirement>, D::Error> {
    one_level_deeper(deserializer)
}

/// What `not` negates.
///
/// # Errors
/// When it lies too deep.
pub(super) fn negated<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Box<Requirement>, D::Error> {
    one_level_deeper(deserializer)
}

fn one_level_deeper<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    let _level = Level::enter()
        .ok_or_else(|| D::Error::custom(format_args!("conditions are nested more than {DEEPEST} deep")))?;
    T::deserialize(deserializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> Vec<u8> {
        // The bytes that postcard writes of `any` with one alternative, and of `time: synced` within all of
        // them.
        let any = postcard::to_allocvec(&Requirement::Any(vec![Requirement::TimeSynced])).unwrap();
        let (level, inmost) = any.split_at(any.len() - 1);
        [level.repeat(depth), inmost.to_vec()].concat()
    }

    #[test]
    fn as_deep_as_a_file_can_say_is_taken_and_no_deeper() {
        let deep: Requirement = postcard::from_bytes(&nested(DEEPEST)).unwrap();
        assert_eq!(postcard::to_allocvec(&deep).unwrap(), nested(DEEPEST));
        for depth in [DEEPEST + 1, 1_000_000] {
            assert!(postcard::from_bytes::<Requirement>(&nested(depth)).is_err(), "{depth}");
        }
        let not = postcard::to_allocvec(&Requirement::Not(Box::new(Requirement::TimeSynced))).unwrap();
        let (level, inmost) = not.split_at(not.len() - 1);
        assert!(
            postcard::from_bytes::<Requirement>(&[level.repeat(1_000_000), inmost.to_vec()].concat())
                .is_err()
        );
        // A refusal is forgotten.
        assert!(postcard::from_bytes::<Requirement>(&nested(DEEPEST)).is_ok());
    }
}
