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
use std::cell::OnceCell;
use std::marker::PhantomData;
use std::rc::Rc;

use super::at::At;
use super::codec::{Codec, DESCRIBES, Extent};
use super::seen::Seen;
use crate::decode::Decoder;
use crate::json::Json;
use crate::schema::{self, Absent, Kind};
use crate::tree::Node;
use kelson_spec::features::Feature;

/// Adds keys to a mapping, each `METHOD "NAME" FIELD = ARGUMENTS;` for the method of [`Mapping`] of that name. With
/// `if FEATURE` before the `=` a build without that feature has nothing of the key but its name, and refuses it.
macro_rules! keys {
    (@ $mapping:ident $method:ident $name:literal $at:tt = $($argument:expr),+) => {
        $mapping.$method($name, $crate::grammar::at::at!($at), $($argument),+)
    };
    (@ $mapping:ident $method:ident $name:literal $at:tt if $feature:ident = $codec:expr $(, $argument:expr)*) => {
        if const { kelson_spec::features::OWN.has(kelson_spec::features::Feature::$feature) } {
            let codec = $codec.of(kelson_spec::features::Feature::$feature);
            $mapping.$method($name, $crate::grammar::at::at!($at), codec $(, $argument)*)
        } else {
            $mapping.lacking($name, kelson_spec::features::Feature::$feature)
        }
    };
    ($mapping:expr; $($method:ident $name:literal $at:tt $(if $feature:ident)? = $($argument:expr),+;)*) => {{
        let mapping = $mapping;
        $(let mapping = $crate::grammar::mapping::keys!(
            @ mapping $method $name $at $(if $feature)? = $($argument),+
        );)*
        mapping
    }};
}
pub(super) use keys;

type Kinds = dyn Fn(&dyn Any) -> Kind;
type Read = dyn Fn(&mut Decoder<'_>, &Seen<'_, '_>, &mut dyn Any) -> bool;
type Show = dyn Fn(&dyn Any, Extent) -> Json;
type Check = dyn Fn(&mut Decoder<'_>, &Seen<'_, '_>, &mut dyn Any);

struct Key {
    name: &'static str,
    absent: Presence,
    /// The feature that a build of `init` needs for it.
    feature: Option<Feature>,
    about: &'static str,
    /// Of its value, where the spec is the initial one.
    kind: Box<Kinds>,
    /// False: nothing was read into the spec.
    read: Box<Read>,
    /// `Null` where there is nothing to show of the spec.
    show: Box<Show>,
}

enum Presence {
    /// It must be there, or another of the mapping's `one_of`; how it would look.
    Needed(&'static str),
    /// The value that the spec has from the start.
    Default,
    /// In words, since no text of a file stands for it.
    Means(&'static str),
}

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

    fn decode(&self, d: &mut Decoder<'_>, node: &Node) -> Option<Box<dyn Any>> {
        let before = d.diagnostics.len();
        let known = self.names();
        let seen = Seen::new(d, node, &known, &self.elsewhere)?;
        let any = |keys: &[&str]| keys.iter().any(|key| seen.has(key));
        // A key that is refused is not missed as well.
        let refused = any(&self.elsewhere.0) && !any(self.one_of);
        let chosen = (!self.one_of.is_empty() && !refused).then(|| seen.one_of(d, self.one_of)).flatten();
        let mut usable = self.one_of.is_empty() || chosen.is_some();
        let mut spec = (self.initial)();
        for Key { name, absent, feature, read, .. } in &self.keys {
            if self.one_of.contains(name) && chosen != Some(name) {
                continue;
            }
            if seen.has(name)
                && let Err(missing) = d.context.require(*feature)
            {
                seen.wrong_key(d, name, missing);
                usable &= !matches!(absent, Presence::Needed(_));
                continue;
            }
            if let Presence::Needed(example) = absent
                && !seen.has(name)
            {
                let text = format!("this key is missing; write {}", example.replace("{stem}", &d.stem));
                d.at_key(*name, |d| d.wrong(node.at, text));
            }
            let read = read(d, &seen, &mut *spec);
            usable &= read || !matches!(absent, Presence::Needed(_));
        }
        let is_unsound = |d: &Decoder<'_>| self.strict && d.diagnostics.len() > before;
        if is_unsound(d) {
            return None;
        }
        self.checks.iter().for_each(|check| check(d, &seen, &mut *spec));
        (usable && !is_unsound(d)).then_some(spec)
    }

    fn encode(&self, spec: &dyn Any, extent: Extent) -> Json {
        let initial = (self.initial)();
        let mut entries = Vec::new();
        for key in &self.keys {
            let value = (key.show)(spec, extent);
            let said = match (extent, &key.absent) {
                (Extent::Defaults, Presence::Default) => !value.is_empty(),
                (Extent::Defaults, _) => false,
                (Extent::Differences, Presence::Needed(_)) => value != Json::Null,
                (Extent::Differences, _) => value != Json::Null && value != (key.show)(&*initial, extent),
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
            kind: (key.kind)(&*initial),
            default: match key.absent {
                Presence::Needed(_) => Absent::Mistake,
                Presence::Default => Absent::Is((key.show)(&*initial, Extent::Defaults)),
                Presence::Means(words) => Absent::Means(words),
            },
            feature: key.feature,
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
        self.bound(name, Presence::Default, about, at, codec)
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
        self.bound(name, Presence::Means(absent), about, at, codec)
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
        self.bound(name, Presence::Needed(example), about, at, codec)
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

    /// A value for a place of the spec.
    fn bound<T: 'static>(
        self,
        name: &'static str,
        absent: Presence,
        about: &'static str,
        at: At<S, T>,
        codec: Codec<T>,
    ) -> Self {
        let (at, kind, shown) = (Rc::new(at), codec.kind.clone(), codec.clone());
        let (from, feature) = (at.clone(), codec.feature);
        self.push(
            (name, absent, about, feature),
            move |_| kind(),
            move |d, seen, spec| {
                let value = seen.read(d, name, |d, node| codec.decode(d, node));
                value.map(|value| at.put(spec, value)).is_some()
            },
            move |spec, extent| from.get(spec).map_or(Json::Null, |value| shown.encode(&value, extent)),
        )
    }

    /// A mapping whose keys depend on what was read before: `make` is given the spec so far, and what was found where a file
    /// is read. `absent`: what its absence means in words; empty: its default.
    pub fn by<T: 'static>(
        self,
        name: &'static str,
        at: At<S, T>,
        make: impl Fn(&S, Option<&Seen<'_, '_>>) -> Mapping<T> + 'static,
        absent: &'static str,
        about: &'static str,
    ) -> Self {
        let (at, make) = (Rc::new(at), Rc::new(make));
        let (from, described, shown) = (at.clone(), make.clone(), make.clone());
        let absent = if absent.is_empty() { Presence::Default } else { Presence::Means(absent) };
        self.push(
            (name, absent, about, None),
            move |initial| {
                let described = described(initial, None).describe();
                Kind::Mapping(Rc::new(move || described.clone()))
            },
            move |d, seen, spec| {
                let value = seen.read(d, name, |d, node| make(spec, Some(seen)).decode(d, node));
                value.map(|value| at.put(spec, value)).is_some()
            },
            move |spec, extent| {
                from.get(spec).map_or(Json::Null, |value| shown(spec, None).encode(&value, extent))
            },
        )
    }

    /// A key that is read and shown in its own way. `absent`: what its absence means in words; empty: its default.
    pub fn own(
        self,
        (name, absent, about): (&'static str, &'static str, &'static str),
        kind: impl Fn() -> Kind + 'static,
        read: impl Fn(&mut Decoder<'_>, &Seen<'_, '_>, &mut S) + 'static,
        show: impl Fn(&S, Extent) -> Json + 'static,
    ) -> Self {
        let absent = if absent.is_empty() { Presence::Default } else { Presence::Means(absent) };
        let read = move |d: &mut Decoder<'_>, seen: &Seen<'_, '_>, spec: &mut S| {
            read(d, seen, spec);
            true
        };
        self.push((name, absent, about, None), move |_| kind(), read, show)
    }

    fn push(
        mut self,
        (name, absent, about, feature): (&'static str, Presence, &'static str, Option<Feature>),
        kind: impl Fn(&S) -> Kind + 'static,
        read: impl Fn(&mut Decoder<'_>, &Seen<'_, '_>, &mut S) -> bool + 'static,
        show: impl Fn(&S, Extent) -> Json + 'static,
    ) -> Self {
        let read: Box<Read> =
            Box::new(move |d, seen, spec| spec.downcast_mut().is_some_and(|spec| read(d, seen, spec)));
        self.keys.keys.push(if DESCRIBES {
            let kind: Box<Kinds> = Box::new(move |spec| spec.downcast_ref().map_or(Kind::Text, &kind));
            let show: Box<Show> = Box::new(move |spec, extent| {
                spec.downcast_ref().map_or(Json::Null, |spec| show(spec, extent))
            });
            Key { name, absent, feature, about, kind, read, show }
        } else {
            let absent = if let Presence::Means(_) = absent { Presence::Default } else { absent };
            let (kind, show) = (Box::new(|_: &dyn Any| Kind::Text), Box::new(|_: &dyn Any, _| Json::Null));
            Key { name, absent, feature, about: "", kind, read, show }
        });
        self
    }

    /// A key that no build without the feature reads: it is refused.
    pub fn lacking(mut self, name: &'static str, feature: Feature) -> Self {
        let (kind, read) = (
            Box::new(|_: &dyn Any| Kind::Text),
            Box::new(|_: &mut Decoder<'_>, _: &Seen<'_, '_>, _: &mut dyn Any| false),
        );
        let show = Box::new(|_: &dyn Any, _: Extent| Json::Null);
        self.keys.keys.push(Key {
            name,
            absent: Presence::Default,
            feature: Some(feature),
            about: "",
            kind,
            read,
            show,
        });
        self
    }

    /// Exactly one of these keys must be there.
    pub fn one_of(mut self, one_of: &'static [&'static str]) -> Self {
        self.keys.one_of = one_of;
        self
    }

    /// Reports `why` for these keys, which may stand elsewhere.
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
    pub fn check(mut self, check: impl Fn(&mut Decoder<'_>, &Seen<'_, '_>, &mut S) + 'static) -> Self {
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
    pub fn decode(&self, d: &mut Decoder<'_>, node: &Node) -> Option<S> {
        self.keys.decode(d, node)?.downcast().ok().map(|spec| *spec)
    }

    /// `spec` as this mapping of a file would say it.
    pub fn encode(&self, spec: &S, extent: Extent) -> Json {
        self.keys.encode(spec, extent)
    }

    /// Describes the keys that may stand in it.
    pub fn describe(&self) -> schema::Mapping {
        self.keys.describe()
    }

    /// The codec of this mapping, which `make` builds when it is needed: a mapping may hold itself.
    pub fn codec(make: impl Fn() -> Mapping<S> + 'static) -> Codec<S> {
        let make = Rc::new(make);
        let made: Rc<OnceCell<Mapping<S>>> = Rc::default();
        let (described, again, remade) = (make.clone(), made.clone(), make.clone());
        Codec::new(
            move || {
                let described = described.clone();
                Kind::Mapping(Rc::new(move || described().describe()))
            },
            move |d, node| made.get_or_init(|| make()).decode(d, node),
            move |spec, extent| again.get_or_init(|| remade()).encode(spec, extent),
        )
    }
}
