//! Deserializes a JSON tree, and knows the place at which that failed.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::rc::Rc;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer as _,
    MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Map, Value};

/// From a value to one inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    Field(String),
    Item(usize),
    Variant(String),
}

/// # Errors
/// Something in the tree does not fit; with the innermost place of it.
pub fn deserialize<T: DeserializeOwned>(tree: &Value) -> Result<T, (Vec<Segment>, Error)> {
    let wrong = RefCell::default();
    let root = Place { value: tree, way: None, wrong: &wrong };
    T::deserialize(root).map_err(|error| (wrong.take().unwrap_or_default(), error))
}

/// The place as `depends[0].service`.
pub fn shown(way: &[Segment]) -> String {
    let mut text = String::new();
    for segment in way {
        // A String takes everything.
        let _ = match segment {
            Segment::Item(index) => write!(text, "[{index}]"),
            Segment::Field(name) | Segment::Variant(name) if text.is_empty() => write!(text, "{name}"),
            Segment::Field(name) | Segment::Variant(name) => write!(text, ".{name}"),
        };
    }
    if text.is_empty() { ".".to_owned() } else { text }
}

struct Step {
    segment: Segment,
    before: Option<Rc<Step>>,
}

/// A value, and the way to it.
#[derive(Clone)]
struct Place<'t> {
    value: &'t Value,
    way: Option<Rc<Step>>,
    /// Where the first mistake was met.
    wrong: &'t RefCell<Option<Vec<Segment>>>,
}

impl<'t> Place<'t> {
    fn inside(&self, segment: Segment, value: &'t Value) -> Self {
        Place { value, way: Some(Rc::new(Step { segment, before: self.way.clone() })), wrong: self.wrong }
    }

    /// This does not fit, unless something inside it does not.
    fn is_wrong(&self) {
        self.wrong.borrow_mut().get_or_insert_with(|| {
            let steps = std::iter::successors(self.way.as_deref(), |step| step.before.as_deref());
            let mut way: Vec<Segment> = steps.map(|step| step.segment.clone()).collect();
            way.reverse();
            way
        });
    }

    fn visit<'de, V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => number.deserialize_any(visitor),
            Value::String(text) => visitor.visit_str(text),
            Value::Array(items) => visitor.visit_seq(Items { items: items.iter().enumerate(), place: self }),
            Value::Object(fields) => {
                visitor.visit_map(Fields { fields: fields.iter(), next: None, place: self })
            }
        }
    }

    fn visit_enum<'de, V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, Error> {
        let single = |fields: &'t Map<String, Value>| fields.iter().next().filter(|_| fields.len() == 1);
        let (name, inside) = match self.value {
            Value::String(name) => (name, None),
            Value::Object(fields) => {
                let (name, value) = single(fields)
                    .ok_or_else(|| Error::invalid_value(Unexpected::Map, &"map with a single key"))?;
                (name, Some(self.inside(Segment::Variant(name.clone()), value)))
            }
            other => {
                return Err(Error::custom(format_args!("invalid type: {other}, expected string or map")));
            }
        };
        visitor.visit_enum(Variant { name, inside })
    }
}

impl<'de> Deserializer<'de> for Place<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.visit(visitor).inspect_err(|_| self.is_wrong())
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.visit_enum(visitor).inspect_err(|_| self.is_wrong())
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier
    }
}

struct Items<'p, 't> {
    items: std::iter::Enumerate<std::slice::Iter<'t, Value>>,
    place: &'p Place<'t>,
}

impl<'de> SeqAccess<'de> for Items<'_, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let next = self.items.next();
        next.map(|(index, value)| seed.deserialize(self.place.inside(Segment::Item(index), value)))
            .transpose()
    }
}

struct Fields<'p, 't> {
    fields: serde_json::map::Iter<'t>,
    next: Option<(&'t String, &'t Value)>,
    place: &'p Place<'t>,
}

impl<'de> MapAccess<'de> for Fields<'_, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.next = self.fields.next();
        self.next.map(|(name, _)| seed.deserialize(key(name))).transpose()
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        let (name, value) = self.next.take().ok_or_else(|| Error::custom("a value without its key"))?;
        seed.deserialize(self.place.inside(Segment::Field(name.clone()), value))
    }
}

fn key(name: &str) -> StrDeserializer<'_, Error> {
    name.into_deserializer()
}

struct Variant<'t> {
    name: &'t str,
    inside: Option<Place<'t>>,
}

impl<'de, 't> EnumAccess<'de> for Variant<'t> {
    type Error = Error;
    type Variant = Content<'t>;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Content<'t>), Error> {
        Ok((seed.deserialize(key(self.name))?, Content(self.inside)))
    }
}

/// The contents of a variant.
struct Content<'t>(Option<Place<'t>>);

impl<'t> Content<'t> {
    fn place(self, expected: &str) -> Result<Place<'t>, Error> {
        self.0.ok_or_else(|| Error::invalid_type(Unexpected::UnitVariant, &expected))
    }
}

impl<'de> VariantAccess<'de> for Content<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        self.0.map_or(Ok(()), serde::Deserialize::deserialize)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.place("newtype variant")?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.place("tuple variant")?.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.place("struct variant")?.deserialize_any(visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    enum Shape {
        Nothing,
        Whole(Option<u8>),
        Pair(i32, String),
        Parts { parts: BTreeMap<String, Vec<f64>> },
    }

    fn shapes() -> Vec<Shape> {
        let parts = BTreeMap::from([("a".to_owned(), vec![1.5, -2.0])]);
        vec![
            Shape::Nothing,
            Shape::Whole(Some(3)),
            Shape::Whole(None),
            Shape::Pair(-1, "x".into()),
            Shape::Parts { parts },
        ]
    }

    #[test]
    fn a_tree_is_read_as_serde_json_reads_it() {
        let tree = serde_json::to_value(shapes()).unwrap();
        assert_eq!(deserialize::<Vec<Shape>>(&tree).unwrap(), shapes());
    }

    #[test]
    fn the_innermost_place_that_does_not_fit_is_named() {
        let tree = serde_json::to_value(shapes()).unwrap();
        let cases = [
            ("/0", json!("Later"), "[0]"),
            ("/1/Whole", json!(256), "[1].Whole"),
            ("/3/Pair/1", json!(7), "[3].Pair[1]"),
            ("/3/Pair", json!([1]), "[3].Pair"),
            ("/4/Parts", json!({}), "[4].Parts"),
            ("/4/Parts/parts/a/1", json!(null), "[4].Parts.parts.a[1]"),
            ("", json!(7), "."),
        ];
        for (pointer, wrong, place) in cases {
            let mut tree = tree.clone();
            *tree.pointer_mut(pointer).unwrap() = wrong;
            let (way, error) = deserialize::<Vec<Shape>>(&tree).unwrap_err();
            assert_eq!(shown(&way), place, "{error}");
        }
    }
}
