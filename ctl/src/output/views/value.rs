//! Values for programs, made of messages and what they are made of.

use std::collections::BTreeMap;

use prost_types::{Duration, Timestamp};
use serde_yaml::{Mapping, Value};

use crate::output::time;

/// Something that programs read. YAML's values are the ones that keep the order of fields; JSON is written from them too.
pub trait View {
    fn view(&self) -> Value;
}

/// An object with these fields in this order, their names in the manner of JSON: `cpu_ms` is `cpuMs`. With a value in
/// front, `object!(message => a, b: x)`, a field without one of its own is that of the value.
macro_rules! object {
    (@value $this:ident $field:ident) => { $crate::output::views::value::View::view(&$this.$field) };
    (@value $this:ident $field:ident $value:expr) => { $crate::output::views::value::View::view(&$value) };
    ($this:ident => $($field:ident $(: $value:expr)?),* $(,)?) => {
        $crate::output::views::value::fields([$((stringify!($field), $crate::output::views::value::object!(@value $this $field $($value)?))),*])
    };
    ($($field:ident: $value:expr),* $(,)?) => {
        $crate::output::views::value::fields([$((stringify!($field), $crate::output::views::value::View::view(&$value))),*])
    };
}
pub(crate) use object;

/// The views of types whose fields, or most of them, are what programs read.
macro_rules! views {
    ($($(#[$about:meta])* $kind:ty: $this:ident { $($fields:tt)* })*) => {
        $(impl $crate::output::views::value::View for $kind {
            fn view(&self) -> serde_yaml::Value {
                let $this = self;
                $crate::output::views::value::object!($this => $($fields)*)
            }
        })*
    };
}
pub(crate) use views;

/// An object of fields by the names that they have in Rust.
pub fn fields<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Mapping(fields.into_iter().map(|(name, value)| (Value::String(camel(name)), value)).collect())
}

fn camel(name: &str) -> String {
    let mut words = name.trim_start_matches("r#").split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let mut letters = word.chars();
        name + &letters.next().map(|first| first.to_ascii_uppercase()).into_iter().collect::<String>()
            + letters.as_str()
    })
}

/// The fields of both objects.
pub fn joined(first: Value, second: Value) -> Value {
    let fields = |value| if let Value::Mapping(fields) = value { fields } else { Mapping::new() };
    Value::Mapping(fields(first).into_iter().chain(fields(second)).collect())
}

/// Null in place of an empty text.
pub fn some(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// A word of an enumeration, as `kebab-case`; empty where it is not given.
pub fn word(name: &str, prefix: &str) -> String {
    let word = name.trim_start_matches(prefix).to_ascii_lowercase().replace('_', "-");
    if word == "unspecified" { String::new() } else { word }
}

macro_rules! plain {
    ($($kind:ty)*) => { $(impl View for $kind {
        fn view(&self) -> Value {
            Value::from(*self)
        }
    })* };
}
plain! { bool i32 u32 u64 usize f64 }

impl View for str {
    fn view(&self) -> Value {
        Value::from(self)
    }
}

impl View for String {
    fn view(&self) -> Value {
        Value::String(self.clone())
    }
}

impl View for Value {
    fn view(&self) -> Value {
        self.clone()
    }
}

impl View for Timestamp {
    fn view(&self) -> Value {
        Value::String(time::rfc3339(self))
    }
}

impl View for Duration {
    fn view(&self) -> Value {
        time::duration(self).view()
    }
}

impl View for std::time::Duration {
    fn view(&self) -> Value {
        Value::from(time::millis(*self))
    }
}

impl<V: View + ?Sized> View for &V {
    fn view(&self) -> Value {
        V::view(self)
    }
}

impl<V: View> View for Option<V> {
    fn view(&self) -> Value {
        self.as_ref().map_or(Value::Null, View::view)
    }
}

impl<V: View> View for [V] {
    fn view(&self) -> Value {
        Value::Sequence(self.iter().map(View::view).collect())
    }
}

impl<V: View> View for Vec<V> {
    fn view(&self) -> Value {
        self.as_slice().view()
    }
}

impl<K: AsRef<str>, V: View> View for BTreeMap<K, V> {
    fn view(&self) -> Value {
        Value::Mapping(self.iter().map(|(name, value)| (name.as_ref().view(), value.view())).collect())
    }
}
