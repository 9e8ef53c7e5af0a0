//! JSON that others wrote, read so that it takes no more memory than its bytes allow for.
//!
//! Four megabytes of `{},{},…` would become hundreds as a list of descriptors, so every list has a bound of its own.

use std::fmt;
use std::marker::PhantomData;

use kelson_sys::text::harmless;
use serde::de::{DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::error::Trouble;

/// Bytes of a file of JSON that are read at most.
pub const MAX_JSON: u64 = 4 << 20;

/// A list of at most `N`; `null` and a list that is not there are empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List<T, const N: usize>(pub Vec<T>);

impl<T, const N: usize> Default for List<T, N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

struct ListVisitor<T, const N: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for ListVisitor<T, N> {
    type Value = List<T, N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {N}")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(List::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            if list.len() >= N {
                return Err(serde::de::Error::custom(format_args!("a list of more than {N}")));
            }
            list.push(item);
        }
        Ok(List(list))
    }
}

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for List<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListVisitor(PhantomData))
    }
}

impl<T: Serialize, const N: usize> Serialize for List<T, N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// Reads `bytes`, the content of `file`.
pub fn parse<T: DeserializeOwned>(file: &str, bytes: &[u8]) -> Result<T, Trouble> {
    serde_json::from_slice(bytes).map_err(|error| Trouble::Json {
        file: file.to_owned(),
        // The error's text may be long and may hold anything.
        text: harmless(&error.to_string(), None).take(200).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ends_at_its_bound() {
        let list: List<u8, 2> = parse("x", b"[1,2]").unwrap();
        assert_eq!(list.0, [1, 2]);
        assert!(parse::<List<u8, 2>>("x", b"null").unwrap().0.is_empty());
        let error = parse::<List<u8, 2>>("index.json", b"[1,2,3]").unwrap_err().to_string();
        assert!(error.contains("index.json") && error.contains("more than 2"), "{error}");
    }
}
