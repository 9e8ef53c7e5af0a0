//! A mapping of a file as a list of its keys.
//!
//! Each key has a name, a [`Codec`] for its value, the field of the spec that it sets ([`At`]), what its absence means, and a
//! sentence for the documents. Of these are made the decoder ([`Mapping::decode`]), the text that `kelsonctl status` shows
//! ([`Mapping::encode`]), and, through [`Mapping::describe`], the JSON schemas and the tables of the documents.
//!
//! The default of a key is what the spec has before any key is read, so it stands with the types alone.
//!
//! [`Mapping`] knows the type of its spec; what it is made of does not, so that it is compiled once and not for each type.

use std::any::Any;
use std::cell::{OnceCell, RefCell};
use std::marker::PhantomData;
use std::rc::Rc;

use super::codec::{Codec, DESCRIBES, Extent};
use crate::decode::{Decoder, Fields, Place};
use crate::json::Json;
use crate::schema::{self, Absent, Kind};
use crate::tree::{Node, Position, Value};

type Get<S, T> = dyn Fn(&S) -> Option<T>;
type Put<S, T> = dyn Fn(&mut S, T);

/// Where in a spec the value of a key belongs.
pub enum At<S, T> {
    /// A field of it. Without `get` where nothing is ever shown.
    Field { get: Option<fn(&S) -> T>, put: fn(&mut S, T) },
    /// `get` gives `None` where the spec is of a kind that has no such value.
    Computed { get: Box<Get<S, T>>, put: Box<Put<S, T>> },
}

impl<S, T> At<S, T> {
    pub fn new(get: impl Fn(&S) -> Option<T> + 'static, put: impl Fn(&mut S, T) + 'static) -> Self {
        At::Computed { get: Box::new(get), put: Box::new(put) }
    }

    pub fn get(&self, spec: &S) -> Option<T> {
        match self {
            At::Field { get, .. } => get.map(|get| get(spec)),
            At::Computed { get, .. } => get(spec),
        }
    }

    pub fn put(&self, spec: &mut S, value: T) {
        match self {
            At::Field { put, .. } => put(spec, value),
            At::Computed { put, .. } => put(spec, value),
        }
    }
}

/// A field of the spec, or in parentheses what a function makes.
macro_rules! at {
    ($field:ident) => {
        $crate::grammar::mapping::At::Field {
            get: if $crate::grammar::codec::DESCRIBES { Some(|spec| spec.$field.clone()) } else { None },
            put: |spec, value| spec.$field = value,
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
        let node = self.value(d, key)?;
        let value = decode(d, &Place::Key(self.fields.place, key), node);
        if value.is_none() {
            self.note_wrong(key);
        }
        value
    }

    // Compiled once, and not with the value of each key.
    #[inline(never)]
    fn note_wrong(&self, key: &'static str) {
        self.wrong.borrow_mut().push(key);
    }

    /// What is written for a key. A key without a value is a mistake.
    #[inline(never)]
    fn value(&self, d: &mut Decoder<'_>, key: &'static str) -> Option<&'n Node> {
        let node = self.fields.get(key)?;
        if matches!(node.value, Value::Null) {
            self.wrong_value(d, key, "this key has no value; give it one or remove it");
            self.note_wrong(key);
            return None;
        }
        Some(node)
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

/// What a key reads into a spec, and shows of one.
trait Field {
    fn kind(&self, initial: &dyn Any) -> Kind;
    /// False: nothing was read.
    fn read(
        &self,
        key: &'static str,
        d: &mut Decoder<'_>,
        seen: &Seen<'_, '_, '_>,
        spec: &mut dyn Any,
    ) -> bool;
    /// `Null` where there is nothing to show.
    fn show(&self, spec: &dyn Any, extent: Extent) -> Json;
}

/// A value for a place of the spec.
struct Bound<S, T> {
    at: At<S, T>,
    codec: Codec<T>,
}

impl<S: 'static, T: 'static> Field for Bound<S, T> {
    fn kind(&self, _: &dyn Any) -> Kind {
        if !DESCRIBES {
            return Kind::Text;
        }
        (self.codec.kind)()
    }

    fn read(
        &self,
        key: &'static str,
        d: &mut Decoder<'_>,
        seen: &Seen<'_, '_, '_>,
        spec: &mut dyn Any,
    ) -> bool {
        let value = seen.read(d, key, |d, p, n| self.codec.decode(d, p, n));
        spec.downcast_mut().zip(value).map(|(spec, value)| self.at.put(spec, value)).is_some()
    }

    fn show(&self, spec: &dyn Any, extent: Extent) -> Json {
        if !DESCRIBES {
            return Json::Null;
        }
        let value = spec.downcast_ref().and_then(|spec| self.at.get(spec));
        value.map_or(Json::Null, |value| self.codec.encode(&value, extent))
    }
}

/// A mapping that depends on what was read before.
struct Depending<S, T, F> {
    at: At<S, T>,
    make: F,
}

impl<S: 'static, T: 'static, F> Field for Depending<S, T, F>
where
    F: Fn(&S, Option<&Seen<'_, '_, '_>>) -> Mapping<T>,
{
    fn kind(&self, initial: &dyn Any) -> Kind {
        if !DESCRIBES {
            return Kind::Text;
        }
        let described = initial.downcast_ref().map(|initial| (self.make)(initial, None).describe());
        Kind::Mapping(Rc::new(move || described.clone().unwrap_or_default()))
    }

    fn read(
        &self,
        key: &'static str,
        d: &mut Decoder<'_>,
        seen: &Seen<'_, '_, '_>,
        spec: &mut dyn Any,
    ) -> bool {
        let Some(spec) = spec.downcast_mut() else { return false };
        let value = seen.read(d, key, |d, p, n| (self.make)(spec, Some(seen)).decode(d, p, n));
        value.map(|value| self.at.put(spec, value)).is_some()
    }

    fn show(&self, spec: &dyn Any, extent: Extent) -> Json {
        if !DESCRIBES {
            return Json::Null;
        }
        let Some(spec) = spec.downcast_ref() else { return Json::Null };
        self.at.get(spec).map_or(Json::Null, |value| (self.make)(spec, None).encode(&value, extent))
    }
}

/// Read and shown in its own way.
struct Own<S, R, W> {
    kind: Box<dyn Fn() -> Kind>,
    read: R,
    show: W,
    spec: PhantomData<fn(&S)>,
}

impl<S: 'static, R, W> Field for Own<S, R, W>
where
    R: Fn(&mut Decoder<'_>, &Seen<'_, '_, '_>, &mut S),
    W: Fn(&S, Extent) -> Json,
{
    fn kind(&self, _: &dyn Any) -> Kind {
        if !DESCRIBES {
            return Kind::Text;
        }
        (self.kind)()
    }

    fn read(
        &self,
        _: &'static str,
        d: &mut Decoder<'_>,
        seen: &Seen<'_, '_, '_>,
        spec: &mut dyn Any,
    ) -> bool {
        spec.downcast_mut().map(|spec| (self.read)(d, seen, spec)).is_some()
    }

    fn show(&self, spec: &dyn Any, extent: Extent) -> Json {
        if !DESCRIBES {
            return Json::Null;
        }
        spec.downcast_ref().map_or(Json::Null, |spec| (self.show)(spec, extent))
    }
}

struct Key {
    name: &'static str,
    absent: Presence,
    about: &'static str,
    field: Box<dyn Field>,
}

enum Presence {
    /// It must be there, or another of the mapping's `one_of`; how it would look.
    Needed(&'static str),
    /// What the spec has from the start.
    Default,
    /// In words, since no text of a file stands for it.
    Means(&'static str),
}

type Check = dyn Fn(&mut Decoder<'_>, &Seen<'_, '_, '_>, &mut dyn Any);

/// A [`Mapping`] of some spec.
struct Keys {
    name: &'static str,
    initial: Box<dyn Fn() -> Box<dyn Any>>,
    keys: Vec<Key>,
    one_of: &'static [&'static str],
    /// Keys that are known and cannot stand here, and why.
    elsewhere: (Vec<&'static str>, String),
    checks: Vec<Box<Check>>,
    strict: bool,
}

impl Keys {
    fn names(&self) -> Vec<&'static str> {
        self.keys.iter().map(|key| key.name).collect()
    }

    fn decode(&self, d: &mut Decoder<'_>, place: &Place<'_>, node: &Node) -> Option<Box<dyn Any>> {
        let before = d.diagnostics.len();
        let (elsewhere, why) = &self.elsewhere;
        let known = self.names();
        let fields = d.fields_where(place, node, &known, elsewhere, why)?;
        let any = |keys: &[&str]| keys.iter().any(|key| fields.has(key));
        // A key that is refused is not missed as well.
        let refused = any(elsewhere) && !any(self.one_of);
        let chosen = (!self.one_of.is_empty() && !refused).then(|| d.one_of(&fields, self.one_of)).flatten();
        let mut usable = self.one_of.is_empty() || chosen.is_some();
        let seen = Seen { fields: &fields, known: &known, wrong: RefCell::default() };
        let mut spec = (self.initial)();
        for Key { name, absent, field, .. } in &self.keys {
            if self.one_of.contains(name) && chosen != Some(name) {
                continue;
            }
            if let Presence::Needed(example) = absent
                && !seen.has(name)
            {
                let example = example.replace("{stem}", &d.stem);
                d.missing(&fields, name, &example);
            }
            let read = field.read(name, d, &seen, &mut *spec);
            usable &= read || !matches!(absent, Presence::Needed(_));
        }
        if self.strict && d.diagnostics.len() > before {
            return None;
        }
        self.checks.iter().for_each(|check| check(d, &seen, &mut *spec));
        usable.then_some(spec)
    }

    fn encode(&self, spec: &dyn Any, extent: Extent) -> Json {
        let initial = (self.initial)();
        let mut entries = Vec::new();
        for key in &self.keys {
            let value = key.field.show(spec, extent);
            let said = match (extent, &key.absent) {
                (Extent::Defaults, Presence::Default) => !value.is_empty(),
                (Extent::Defaults, _) => false,
                (Extent::Differences, Presence::Needed(_)) => value != Json::Null,
                (Extent::Differences, _) => value != Json::Null && value != key.field.show(&*initial, extent),
            };
            if said {
                entries.push((key.name.to_owned(), value));
            }
        }
        Json::Map(entries)
    }

    fn describe(&self) -> schema::Mapping {
        let initial = (self.initial)();
        let key = |key: &Key| schema::Key {
            name: key.name,
            kind: key.field.kind(&*initial),
            default: match key.absent {
                Presence::Needed(_) => Absent::Mistake,
                Presence::Default => Absent::Is(key.field.show(&*initial, Extent::Defaults)),
                Presence::Means(words) => Absent::Means(words),
            },
            about: key.about,
        };
        schema::Mapping { name: self.name, keys: self.keys.iter().map(key).collect(), one_of: self.one_of }
    }
}

/// A mapping of a file that becomes an `S`.
pub struct Mapping<S> {
    keys: Keys,
    spec: PhantomData<fn() -> S>,
}

impl<S: 'static> Mapping<S> {
    /// `name`: of its definition in the schema and of its table in the documents. `initial`: the spec of an empty mapping.
    pub fn new(name: &'static str, initial: impl Fn() -> S + 'static) -> Self {
        let keys = Keys {
            name,
            initial: Box::new(move || Box::new(initial())),
            keys: Vec::new(),
            one_of: &[],
            elsewhere: (Vec::new(), String::new()),
            checks: Vec::new(),
            strict: false,
        };
        Mapping { keys, spec: PhantomData }
    }

    /// A key that may be absent; what that means is in the initial spec.
    pub fn key<T: 'static>(
        self,
        name: &'static str,
        at: At<S, T>,
        codec: Codec<T>,
        about: &'static str,
    ) -> Self {
        self.push(name, Presence::Default, about, Bound { at, codec })
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
        self.push(name, Presence::Means(absent), about, Bound { at, codec })
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
        self.push(name, Presence::Needed(example), about, Bound { at, codec })
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

    /// A mapping whose keys depend on what was read before: `make` is given the spec so far, and what was found where a file
    /// is read.
    pub fn by<T: 'static>(
        self,
        name: &'static str,
        at: At<S, T>,
        make: impl Fn(&S, Option<&Seen<'_, '_, '_>>) -> Mapping<T> + 'static,
        about: &'static str,
    ) -> Self {
        self.push(name, Presence::Default, about, Depending { at, make })
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
        self.push(name, Presence::Means(absent), about, Depending { at, make })
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
        self.push(name, absent, about, Own { kind: Box::new(kind), read, show, spec: PhantomData })
    }

    fn push(
        mut self,
        name: &'static str,
        absent: Presence,
        about: &'static str,
        field: impl Field + 'static,
    ) -> Self {
        let (absent, about) = match absent {
            _ if DESCRIBES => (absent, about),
            Presence::Means(_) => (Presence::Default, ""),
            absent => (absent, ""),
        };
        self.keys.keys.push(Key { name, absent, about, field: Box::new(field) });
        self
    }

    /// Exactly one of these keys must be there.
    pub fn one_of(mut self, one_of: &'static [&'static str]) -> Self {
        self.keys.one_of = one_of;
        self
    }

    /// Of these keys, which may stand elsewhere, `why` is said.
    pub fn elsewhere(mut self, keys: Vec<&'static str>, why: impl Into<String>) -> Self {
        self.keys.elsewhere = (keys, why.into());
        self
    }

    /// A mistake in one of its keys makes the whole unusable.
    pub fn strict(mut self) -> Self {
        self.keys.strict = true;
        self
    }

    /// Looks at all keys together, once each is read.
    pub fn check(mut self, check: impl Fn(&mut Decoder<'_>, &Seen<'_, '_, '_>, &mut S) + 'static) -> Self {
        self.keys.checks.push(Box::new(move |d, seen, spec| {
            if let Some(spec) = spec.downcast_mut() {
                check(d, seen, spec);
            }
        }));
        self
    }

    /// The names of its keys.
    pub fn names(&self) -> Vec<&'static str> {
        self.keys.names()
    }

    /// The spec that a node means. `None`: without one of its keys it is of no use, and the mistake has been noted.
    pub fn decode(&self, d: &mut Decoder<'_>, place: &Place<'_>, node: &Node) -> Option<S> {
        self.keys.decode(d, place, node)?.downcast().ok().map(|spec| *spec)
    }

    /// `spec` as this mapping of a file would say it.
    pub fn encode(&self, spec: &S, extent: Extent) -> Json {
        self.keys.encode(spec, extent)
    }

    /// What may stand in it.
    pub fn describe(&self) -> schema::Mapping {
        self.keys.describe()
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
