//! How one value is written: its kind for the schema, and the ways from the file and back.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::rc::Rc;

use crate::decode::Decoder;
use crate::json::Json;
use crate::schema::Kind;
use crate::tree::{Node, Value};
use kelson_spec::features::{Feature, OWN};

/// Descriptions of values are left out of a program that only reads files, such as PID 1's file.
pub const DESCRIBES: bool = cfg!(feature = "describe");

/// How much of a spec is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Only what differs from the default.
    Differences,
    /// The defaults themselves, where there are any.
    Defaults,
}

type Decode<T> = dyn Fn(&mut Decoder<'_>, &Node) -> Option<T>;
type Encode<T> = dyn Fn(&T, Extent) -> Json;

pub struct Codec<T> {
    pub kind: Rc<dyn Fn() -> Kind>,
    /// The feature that a build of `init` needs for it.
    pub feature: Option<Feature>,
    decode: Rc<Decode<T>>,
    encode: Rc<Encode<T>>,
}

impl<T> Clone for Codec<T> {
    fn clone(&self) -> Self {
        let Codec { kind, feature, decode, encode } = self;
        Codec { kind: kind.clone(), feature: *feature, decode: decode.clone(), encode: encode.clone() }
    }
}

impl<T: 'static> Codec<T> {
    /// For a key that needs this feature.
    pub fn of(self, feature: Feature) -> Self {
        Codec { feature: Some(feature), ..self }
    }

    pub fn new(
        kind: impl Fn() -> Kind + 'static,
        decode: impl Fn(&mut Decoder<'_>, &Node) -> Option<T> + 'static,
        encode: impl Fn(&T, Extent) -> Json + 'static,
    ) -> Self {
        if DESCRIBES {
            let (kind, encode) = (Rc::new(kind), Rc::new(encode));
            return Codec { kind, feature: None, decode: Rc::new(decode), encode };
        }
        let (kind, encode) = (Rc::new(|| Kind::Text), Rc::new(|_: &T, _| Json::Null));
        Codec { kind, feature: None, decode: Rc::new(decode), encode }
    }

    pub fn decode(&self, d: &mut Decoder<'_>, node: &Node) -> Option<T> {
        (self.decode)(d, node)
    }

    pub fn encode(&self, value: &T, extent: Extent) -> Json {
        (self.encode)(value, extent)
    }

    /// Read in another way.
    pub fn read_by(self, decode: impl Fn(&mut Decoder<'_>, &Node) -> Option<T> + 'static) -> Self {
        Codec { decode: Rc::new(decode), ..self }
    }

    /// Read in another way, which is given the way so far.
    pub fn around(self, decode: impl Fn(&mut Decoder<'_>, &Node, &Decode<T>) -> Option<T> + 'static) -> Self {
        let inner = self.decode.clone();
        self.read_by(move |d, node| decode(d, node, &*inner))
    }

    /// Described in another way.
    pub fn of_kind(self, kind: impl Fn() -> Kind + 'static) -> Self {
        if DESCRIBES { Codec { kind: Rc::new(kind), ..self } } else { self }
    }

    /// Some values of it are mistakes: `refuse` says what is wrong with one.
    pub fn but<M: Display>(self, refuse: impl Fn(&T) -> Option<M> + 'static) -> Self {
        self.around(move |d, node, inner| {
            let value = inner(d, node)?;
            match refuse(&value) {
                Some(message) => d.refuse(node, message),
                None => Some(value),
            }
        })
    }

    /// The same text for another type; what `to` refuses is a mistake.
    pub fn parsed<U: 'static, M: Display>(
        self,
        to: impl Fn(&T) -> Result<U, M> + 'static,
        from: impl Fn(&U) -> T + 'static,
    ) -> Codec<U> {
        let Codec { kind, feature: _, decode, encode } = self;
        Codec::new(
            move || kind(),
            move |d, node| to(&decode(d, node)?).map_err(|message| d.wrong(node.at, message)).ok(),
            move |value, extent| encode(&from(value), extent),
        )
    }

    /// A value that the spec may lack.
    pub fn optional(self) -> Codec<Option<T>> {
        let Codec { kind, feature: _, decode, encode } = self;
        Codec::new(
            move || kind(),
            move |d, node| decode(d, node).map(Some),
            move |value, extent| value.as_ref().map_or(Json::Null, |value| encode(value, extent)),
        )
    }

    /// A list; `what` is expected where there is none.
    pub fn list(self, what: &'static str) -> Codec<Vec<T>> {
        self.list_of(0..=usize::MAX, what)
    }

    /// A list with this number of entries; its reader checks the bounds.
    pub fn list_of(self, count: RangeInclusive<usize>, what: &'static str) -> Codec<Vec<T>> {
        let Codec { kind, feature: _, decode, encode } = self;
        Codec::new(
            move || Kind::List(Box::new(kind()), count.clone()),
            move |d, node| d.list(node, what, |d, node| decode(d, node)),
            move |list, extent| Json::List(list.iter().map(|one| encode(one, extent)).collect()),
        )
    }

    /// A list that cannot be empty, because of `why`.
    pub fn some(self, what: &'static str, why: &'static str) -> Codec<Vec<T>> {
        self.list_of(1..=usize::MAX, what).around(move |d, node, inner| {
            let list = inner(d, node)?;
            if node.is_empty_list() { d.refuse(node, why) } else { Some(list) }
        })
    }
}

/// What `make` makes, for a key that needs this feature: a build without it leaves out the whole codec, and refuses the key.
#[inline(always)]
pub fn part<T: 'static>(feature: Feature, make: impl FnOnce() -> Codec<T>) -> Codec<T> {
    let codec =
        if OWN.has(feature) { make() } else { Codec::new(|| Kind::Text, |_, _| None, |_, _| Json::Null) };
    codec.of(feature)
}

/// One entry of a list alone, or the list.
pub fn one_or<T: 'static>(one: Codec<T>, list: impl FnOnce(Codec<T>) -> Codec<Vec<T>>) -> Codec<Vec<T>> {
    let list = list(one.clone());
    let kind = either(&list, &one);
    list.of_kind(kind).around(move |d, node, list| match node.value {
        Value::Sequence(_) => list(d, node),
        _ => one.decode(d, node).map(|value| vec![value]),
    })
}

/// A value of one kind or of the other.
pub fn either<A, B>(first: &Codec<A>, second: &Codec<B>) -> impl Fn() -> Kind + use<A, B> {
    let (first, second) = (first.kind.clone(), second.kind.clone());
    move || Kind::Either(vec![first(), second()])
}
