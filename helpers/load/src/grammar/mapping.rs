//! A mapping of a file as a list of its keys.
//!
//! Each key has a name, a [`Codec`] for its value, the field of the spec that it sets ([`At`]), what its absence means, and a
//! sentence for the documents. Of these are made the decoder ([`Mapping::decode`]), the text that `kelsonctl status` shows
//! ([`Mapping::encode`]), and, through [`Mapping::describe`], the JSON schemas and the tables of the documents.
//!
//! The default of a key is what the spec has before any key is read, so it stands with the types alone.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use super::codec::{Codec, Encode, Extent};
use crate::decode::{Decoder, Fields, Place};
use crate::json::Json;
use crate::schema::{self, Absent, Kind};
use crate::tree::{Node, Position};

type Get<S, T> = dyn Fn(&S) -> Option<T>;
type Put<S, T> = dyn Fn(&mut S, T);

/// Where in a spec the value of a key belongs.
pub struct At<S, T> {
    /// `None`: the spec is of a kind that has no such value.
    pub get: Box<Get<S, T>>,
    pub put: Box<Put<S, T>>,
}

impl<S, T> At<S, T> {
    pub fn new(get: impl Fn(&S) -> Option<T> + 'static, put: impl Fn(&mut S, T) + 'static) -> Self {
        At { get: Box::new(get), put: Box::new(put) }
    }
}

/// A field of the spec, or in parentheses what a function makes.
macro_rules! at {
    ($field:ident) => {
        $crate::grammar::mapping::At {
            get: Box::new(|spec| Some(spec.$field.clone())),
            put: Box::new(|spec, value| spec.$field = value),
        }
    };
    (($at:expr)) => {
        $at
    };
}

/// Adds keys to a mapping, each `METHOD "NAME" FIELD = ARGUMENTS;` for the method of [`Mapping`] of that name.
macro_rules! keys {
    ($mapping:expr; $($method:ident $name:literal $at:tt = $($argument:expr),+;)*) => {
        $mapping$(.$method($name, $crate::grammar::mapping::at!($at), $($argument),+))*
    };
}
pub(super) use {at, keys};

/// What was found of a mapping's keys.
pub struct Seen<'f, 'p, 'n> {
    pub fields: &'f Fields<'p, 'n>,
    /// The keys that may be there.
    pub known: &'f [&'static str],
    wrong: RefCell<Vec<&'static str>>,
}

impl<'n> Seen<'_, '_, 'n> {
    pub fn has(&self, key: &str) -> bool {
        self.fields.has(key)
    }

    /// The key is there and its value has a mistake, which has been noted.
    pub fn is_wrong(&self, key: &str) -> bool {
        self.wrong.borrow().contains(&key)
    }

    /// Reads the value of a key; `None` where it is absent or wrong.
    pub fn read<T>(
        &self,
        d: &mut Decoder<'_>,
        key: &'static str,
        decode: impl FnOnce(&mut Decoder<'_>, &Place<'_>, &'n Node) -> Option<T>,
    ) -> Option<T> {
        let value = d.read(self.fields, key, decode);
        if value.is_none() && self.has(key) {
            self.wrong.borrow_mut().push(key);
        }
        value
    }

    /// Notes a mistake of a key, at the key.
    pub fn wrong_key(&self, d: &mut Decoder<'_>, key: &str, message: impl std::fmt::Display) {
        self.wrong_at(d, key, self.fields.position(key), message);
    }

    /// Notes a mistake of a key, at its value.
    pub fn wrong_value(&self, d: &mut Decoder<'_>, key: &str, message: impl std::fmt::Display) {
        let at = self.fields.get(key).map_or(self.fields.node.at, |value| value.at);
        self.wrong_at(d, key, at, message);
    }

    fn wrong_at(&self, d: &mut Decoder<'_>, key: &str, at: Position, message: impl std::fmt::Display) {
        d.wrong(&Place::Key(self.fields.place, key), at, message);
    }
}

type Read<S> = dyn Fn(&mut Decoder<'_>, &Seen<'_, '_, '_>, &mut S) -> bool;
type Check<S> = dyn Fn(&mut Decoder<'_>, &Seen<'_, '_, '_>, &mut S);

struct Key<S> {
    name: &'static str,
    kind: Rc<dyn Fn() -> Kind>,
    absent: Presence,
    about: &'static str,
    /// False where the mapping is of no use without it.
    read: Box<Read<S>>,
    /// `Null` where there is nothing to show.
    show: Box<Encode<S>>,
}

enum Presence {
    /// It must be there, or another of the mapping's `one_of`.
    Needed,
    /// What the spec has from the start.
    Default,
    /// In words, since no text of a file stands for it.
    Means(&'static str),
}

/// A mapping of a file that becomes an `S`.
pub struct Mapping<S> {
    name: &'static str,
    initial: Rc<dyn Fn() -> S>,
    keys: Vec<Key<S>>,
    one_of: &'static [&'static str],
    /// Keys that are known and cannot stand here, and why.
    elsewhere: (Vec<&'static str>, String),
    checks: Vec<Box<Check<S>>>,
    strict: bool,
}

impl<S: 'static> Mapping<S> {
    /// `name`: of its definition in the schema and of its table in the documents. `initial`: the spec of an empty mapping.
    pub fn new(name: &'static str, initial: impl Fn() -> S + 'static) -> Self {
        Mapping {
            name,
            initial: Rc::new(initial),
            keys: Vec::new(),
            one_of: &[],
            elsewhere: (Vec::new(), String::new()),
            checks: Vec::new(),
            strict: false,
        }
    }

    /// A key that may be absent; what that means is in the initial spec.
    pub fn key<T: 'static>(
        self,
        name: &'static str,
        at: At<S, T>,
        codec: Codec<T>,
        about: &'static str,
    ) -> Self {
        self.usual(name, at, codec, Presence::Default, about)
    }

    /// A key whose absence means something that no text of a file says.
    pub fn means<T: 'static>(
        self,
        name: &'static str,
        at: At<S, T>,
        codec: Codec<T>,
        absent: &'static str,
        about: &'static str,
    ) -> Self {
        self.usual(name, at, codec, Presence::Means(absent), about)
    }

    fn usual<T: 'static>(
        self,
        name: &'static str,
        at: At<S, T>,
        codec: Codec<T>,
        absent: Presence,
        about: &'static str,
    ) -> Self {
        let At { get, put } = at;
        let shown = codec.clone();
        let kind = codec.kind.clone();
        let read = move |d: &mut Decoder<'_>, seen: &Seen<'_, '_, '_>, spec: &mut S| {
            if let Some(value) = seen.read(d, name, |d, p, n| codec.decode(d, p, n)) {
                put(spec, value);
            }
            true
        };
        let show = move |spec: &S, extent| get(spec).map_or(Json::Null, |value| shown.encode(&value, extent));
        self.push(Key { name, kind, absent, about, read: Box::new(read), show: Box::new(show) })
    }

    /// One of the keys of which exactly one must be there.
    pub fn alternative<T: 'static>(
        self,
        name: &'static str,
        at: At<S, T>,
        codec: Codec<T>,
        about: &'static str,
    ) -> Self {
        self.needed(name, at, codec, "", about)
    }

    /// A key that must be there; `example` shows how it would look.
    pub fn needed<T: 'static>(
        self,
        name: &'static str,
        at: At<S, T>,
        codec: Codec<T>,
        example: &'static str,
        about: &'static str,
    ) -> Self {
        let At { get, put } = at;
        let shown = codec.clone();
        let kind = codec.kind.clone();
        let read = move |d: &mut Decoder<'_>, seen: &Seen<'_, '_, '_>, spec: &mut S| {
            if !seen.has(name) {
                let example = example.replace("{stem}", &d.stem);
                d.missing(seen.fields, name, &example);
            }
            let value = seen.read(d, name, |d, p, n| codec.decode(d, p, n));
            value.map(|value| put(spec, value)).is_some()
        };
        let show = move |spec: &S, extent| get(spec).map_or(Json::Null, |value| shown.encode(&value, extent));
        let absent = Presence::Needed;
        self.push(Key { name, kind, absent, about, read: Box::new(read), show: Box::new(show) })
    }

    /// A mapping whose keys depend on what was read before: `make` is given the spec so far, and what was found where a file
    /// is read.
    pub fn by<T: 'static>(
        self,
        name: &'static str,
        at: At<S, T>,
        make: impl Fn(&S, Option<&Seen<'_, '_, '_>>) -> Mapping<T> + 'static,
        about: &'static str,
    ) -> Self {
        self.made(name, at, make, Presence::Default, about)
    }

    /// As [`Self::by`], where absence means something that no text of a file says.
    pub fn by_means<T: 'static>(
        self,
        name: &'static str,
        at: At<S, T>,
        make: impl Fn(&S, Option<&Seen<'_, '_, '_>>) -> Mapping<T> + 'static,
        absent: &'static str,
        about: &'static str,
    ) -> Self {
        self.made(name, at, make, Presence::Means(absent), about)
    }

    fn made<T: 'static>(
        self,
        name: &'static str,
        At { get, put }: At<S, T>,
        make: impl Fn(&S, Option<&Seen<'_, '_, '_>>) -> Mapping<T> + 'static,
        absent: Presence,
        about: &'static str,
    ) -> Self {
        let make = Rc::new(make);
        let (described, shown, initial) = (make.clone(), make.clone(), self.initial.clone());
        let kind = move || {
            let (described, initial) = (described.clone(), initial.clone());
            Kind::Mapping(Rc::new(move || described(&initial(), None).describe()))
        };
        let read = move |d: &mut Decoder<'_>, seen: &Seen<'_, '_, '_>, spec: &mut S| {
            let value = seen.read(d, name, |d, p, n| make(spec, Some(seen)).decode(d, p, n));
            if let Some(value) = value {
                put(spec, value);
            }
            true
        };
        let show = move |spec: &S, extent| {
            get(spec).map_or(Json::Null, |value| shown(spec, None).encode(&value, extent))
        };
        self.push(Key {
            name,
            kind: Rc::new(kind),
            absent,
            about,
            read: Box::new(read),
            show: Box::new(show),
        })
    }

    /// A key that is read and shown in its own way. `absent`: what its absence means in words; `None`: its default.
    pub fn own(
        self,
        (name, absent, about): (&'static str, Option<&'static str>, &'static str),
        kind: impl Fn() -> Kind + 'static,
        read: impl Fn(&mut Decoder<'_>, &Seen<'_, '_, '_>, &mut S) + 'static,
        show: impl Fn(&S, Extent) -> Json + 'static,
    ) -> Self {
        let absent = absent.map_or(Presence::Default, Presence::Means);
        let read = move |d: &mut Decoder<'_>, seen: &Seen<'_, '_, '_>, spec: &mut S| {
            read(d, seen, spec);
            true
        };
        self.push(Key {
            name,
            kind: Rc::new(kind),
            absent,
            about,
            read: Box::new(read),
            show: Box::new(show),
        })
    }

    fn push(mut self, key: Key<S>) -> Self {
        self.keys.push(key);
        self
    }

    /// Exactly one of these keys must be there.
    pub fn one_of(self, one_of: &'static [&'static str]) -> Self {
        Mapping { one_of, ..self }
    }

    /// Of these keys, which may stand elsewhere, `why` is said.
    pub fn elsewhere(self, keys: Vec<&'static str>, why: impl Into<String>) -> Self {
        Mapping { elsewhere: (keys, why.into()), ..self }
    }

    /// A mistake in one of its keys makes the whole unusable.
    pub fn strict(self) -> Self {
        Mapping { strict: true, ..self }
    }

    /// Looks at all keys together, once each is read.
    pub fn check(mut self, check: impl Fn(&mut Decoder<'_>, &Seen<'_, '_, '_>, &mut S) + 'static) -> Self {
        self.checks.push(Box::new(check));
        self
    }

    /// The names of its keys.
    pub fn names(&self) -> Vec<&'static str> {
        self.keys.iter().map(|key| key.name).collect()
    }

    /// The spec that a node means. `None`: without one of its keys it is of no use, and the mistake has been noted.
    pub fn decode(&self, d: &mut Decoder<'_>, place: &Place<'_>, node: &Node) -> Option<S> {
        let before = d.diagnostics.len();
        let (elsewhere, why) = &self.elsewhere;
        let known = self.names();
        let fields = d.fields_where(place, node, &known, elsewhere, why)?;
        // A key that is refused is not missed as well.
        let present = self.one_of.iter().chain(elsewhere).any(|key| fields.has(key));
        let refused = present && !self.one_of.iter().any(|key| fields.has(key));
        let chosen = (!self.one_of.is_empty() && !refused).then(|| d.one_of(&fields, self.one_of)).flatten();
        let mut usable = self.one_of.is_empty() || chosen.is_some();
        let seen = Seen { fields: &fields, known: &known, wrong: RefCell::default() };
        let mut spec = (self.initial)();
        for key in &self.keys {
            if !self.one_of.contains(&key.name) || chosen == Some(key.name) {
                usable &= (key.read)(d, &seen, &mut spec);
            }
        }
        if self.strict && d.diagnostics.len() > before {
            return None;
        }
        self.checks.iter().for_each(|check| check(d, &seen, &mut spec));
        usable.then_some(spec)
    }

    /// `spec` as this mapping of a file would say it.
    pub fn encode(&self, spec: &S, extent: Extent) -> Json {
        let initial = (self.initial)();
        let mut entries = Vec::new();
        for key in &self.keys {
            let value = (key.show)(spec, extent);
            let said = match (extent, &key.absent) {
                (Extent::Defaults, Presence::Default) => !value.is_empty(),
                (Extent::Defaults, _) => false,
                (Extent::Differences, Presence::Needed) => value != Json::Null,
                (Extent::Differences, _) => value != (key.show)(&initial, extent) && value != Json::Null,
            };
            if said {
                entries.push((key.name.to_owned(), value));
            }
        }
        Json::Map(entries)
    }

    /// What may stand in it.
    pub fn describe(&self) -> schema::Mapping {
        let initial = (self.initial)();
        let key = |key: &Key<S>| schema::Key {
            name: key.name,
            kind: (key.kind)(),
            default: match key.absent {
                Presence::Needed => Absent::Mistake,
                Presence::Default => Absent::Is((key.show)(&initial, Extent::Defaults)),
                Presence::Means(words) => Absent::Means(words),
            },
            about: key.about,
        };
        schema::Mapping { name: self.name, keys: self.keys.iter().map(key).collect(), one_of: self.one_of }
    }

    /// The codec of this mapping, which `make` builds when it is needed: a mapping may hold itself.
    pub fn codec(make: impl Fn() -> Mapping<S> + 'static) -> Codec<S> {
        let make = Rc::new(make);
        let described = make.clone();
        let made: Rc<OnceCell<Mapping<S>>> = Rc::default();
        let again = made.clone();
        let remade = make.clone();
        Codec::new(
            move || {
                let described = described.clone();
                Kind::Mapping(Rc::new(move || described().describe()))
            },
            move |d, place, node| made.get_or_init(|| make()).decode(d, place, node),
            move |spec, extent| again.get_or_init(|| remade()).encode(spec, extent),
        )
    }
}
