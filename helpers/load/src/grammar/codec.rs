//! How one value is written: its kind for the schema, and the ways from the file and back.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use crate::decode::{Decoder, Place, quoted};
use crate::json::Json;
use crate::schema::{Kind, form};
use crate::tree::{Node, Value};
use kelson_spec::units::{NEVER, cpus_text, duration_text, limit_text, size_text};

/// The longest duration that a file may name: a year of 365 days.
pub const LONGEST: Duration = Duration::from_secs(365 * 86_400);
/// The shortest time that may be waited for something to happen.
pub const SHORTEST: Duration = Duration::from_millis(1);

/// How much of a spec is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Only what differs from the default.
    Differences,
    /// The defaults themselves, where there are any.
    Defaults,
}

/// The longest name of a host, in bytes.
const LONGEST_HOSTNAME: usize = 64;

type Decode<T> = dyn Fn(&mut Decoder<'_>, &Place<'_>, &Node) -> Option<T>;

pub(super) type Encode<T> = dyn Fn(&T, Extent) -> Json;

pub struct Codec<T> {
    pub kind: Rc<dyn Fn() -> Kind>,
    decode: Rc<Decode<T>>,
    encode: Rc<Encode<T>>,
}

impl<T> Clone for Codec<T> {
    fn clone(&self) -> Self {
        let Codec { kind, decode, encode } = self;
        Codec { kind: kind.clone(), decode: decode.clone(), encode: encode.clone() }
    }
}

impl<T: 'static> Codec<T> {
    pub fn new(
        kind: impl Fn() -> Kind + 'static,
        decode: impl Fn(&mut Decoder<'_>, &Place<'_>, &Node) -> Option<T> + 'static,
        encode: impl Fn(&T, Extent) -> Json + 'static,
    ) -> Self {
        Codec { kind: described(kind), decode: Rc::new(decode), encode: shown(encode) }
    }

    pub fn decode(&self, d: &mut Decoder<'_>, place: &Place<'_>, node: &Node) -> Option<T> {
        (self.decode)(d, place, node)
    }

    pub fn encode(&self, value: &T, extent: Extent) -> Json {
        (self.encode)(value, extent)
    }

    /// Some values of it are mistakes: `refuse` says what is wrong with one.
    pub fn but<M: std::fmt::Display>(self, refuse: impl Fn(&T) -> Option<M> + 'static) -> Self {
        let inner = self.decode;
        let decode = move |d: &mut Decoder<'_>, place: &Place<'_>, node: &Node| {
            let value = inner(d, place, node)?;
            match refuse(&value) {
                Some(message) => {
                    d.wrong(place, node.at, message);
                    None
                }
                None => Some(value),
            }
        };
        Codec { decode: Rc::new(decode), ..self }
    }

    /// The same text for another type; what `to` refuses is a mistake.
    pub fn parsed<U: 'static>(
        self,
        to: impl Fn(&T) -> Result<U, String> + 'static,
        from: impl Fn(&U) -> T + 'static,
    ) -> Codec<U> {
        let Codec { kind, decode, encode } = self;
        let decode = move |d: &mut Decoder<'_>, place: &Place<'_>, node: &Node| {
            let value = decode(d, place, node)?;
            to(&value).map_err(|message| d.wrong(place, node.at, message)).ok()
        };
        let encode = move |value: &U, extent| encode(&from(value), extent);
        Codec { kind, decode: Rc::new(decode), encode: shown(encode) }
    }

    /// The same for another type that has the same values.
    pub fn mapped<U: 'static>(
        self,
        to: impl Fn(T) -> U + 'static,
        from: impl Fn(&U) -> T + 'static,
    ) -> Codec<U> {
        let Codec { kind, decode, encode } = self;
        let decode =
            move |d: &mut Decoder<'_>, place: &Place<'_>, node: &Node| decode(d, place, node).map(&to);
        let encode = move |value: &U, extent| encode(&from(value), extent);
        Codec { kind, decode: Rc::new(decode), encode: shown(encode) }
    }

    /// A value that the spec may lack.
    pub fn optional(self) -> Codec<Option<T>> {
        let Codec { kind, decode, encode } = self;
        let decode =
            move |d: &mut Decoder<'_>, place: &Place<'_>, node: &Node| decode(d, place, node).map(Some);
        let encode =
            move |value: &Option<T>, extent| value.as_ref().map_or(Json::Null, |value| encode(value, extent));
        Codec { kind, decode: Rc::new(decode), encode: shown(encode) }
    }

    /// Read in another way.
    pub fn read_by(
        self,
        decode: impl Fn(&mut Decoder<'_>, &Place<'_>, &Node) -> Option<T> + 'static,
    ) -> Self {
        Codec { decode: Rc::new(decode), ..self }
    }

    /// Described in another way.
    pub fn of_kind(self, kind: impl Fn() -> Kind + 'static) -> Self {
        Codec { kind: described(kind), ..self }
    }

    /// A list; `what` is expected where there is none.
    pub fn list(self, what: &'static str) -> Codec<Vec<T>> {
        self.list_of(0..=usize::MAX, what)
    }

    /// A list of so many; whoever reads it sees to the bounds.
    pub fn list_of(self, count: RangeInclusive<usize>, what: &'static str) -> Codec<Vec<T>> {
        let Codec { kind, decode, encode } = self;
        Codec::new(
            move || Kind::List(Box::new(kind()), count.clone()),
            move |d, place, node| d.list(place, node, what, |d, p, n| decode(d, p, n)),
            move |list, extent| Json::List(list.iter().map(|one| encode(one, extent)).collect()),
        )
    }

    /// A list that cannot be empty, because of `why`.
    pub fn some(self, what: &'static str, why: &'static str) -> Codec<Vec<T>> {
        let list = self.list_of(1..=usize::MAX, what);
        let inner = list.decode.clone();
        list.read_by(move |d, place, node| {
            let list = inner(d, place, node)?;
            if matches!(&node.value, Value::Sequence(items) if items.is_empty()) {
                d.wrong(place, node.at, why);
                return None;
            }
            Some(list)
        })
    }
}

/// What only describes values is left out of a program that reads files and nothing more, such as PID 1's file.
pub const DESCRIBES: bool = cfg!(feature = "describe");

fn described(kind: impl Fn() -> Kind + 'static) -> Rc<dyn Fn() -> Kind> {
    if DESCRIBES { Rc::new(kind) } else { Rc::new(|| Kind::Text) }
}

fn shown<T: 'static>(encode: impl Fn(&T, Extent) -> Json + 'static) -> Rc<Encode<T>> {
    if DESCRIBES { Rc::new(encode) } else { Rc::new(|_, _| Json::Null) }
}

/// Any single value, as it is written.
pub fn text() -> Codec<String> {
    Codec::new(|| Kind::Text, |d, p, n| d.text(p, n), |text, _| Json::Text(text.clone()))
}

/// A text of a form, which is not empty.
pub fn word(name: &'static str, pattern: &'static str, sample: &'static str) -> Codec<String> {
    text().of_kind(move || Kind::Form(form(name, pattern, sample))).read_by(|d, p, n| d.word(p, n))
}

/// A text that is not empty; `name` says of what.
pub fn any_word(name: &'static str, sample: &'static str) -> Codec<String> {
    word(name, r"[\s\S]", sample)
}

/// The name of a service, a group or a check.
pub fn name() -> Codec<String> {
    word("name", "^[a-z0-9][a-z0-9-]{0,62}$", "db").read_by(|d, p, n| d.name(p, n))
}

/// A path from `/`.
pub fn path() -> Codec<PathBuf> {
    Codec::new(
        || Kind::Form(form("path", "^/", "/srv")),
        |d, p, n| d.path(p, n),
        |path, _| Json::Text(path.to_string_lossy().into_owned()),
    )
}

pub fn boolean() -> Codec<bool> {
    Codec::new(|| Kind::Boolean, |d, p, n| d.boolean(p, n), |value, _| Json::Bool(*value))
}

pub fn number<T>(range: RangeInclusive<T>) -> Codec<T>
where
    T: TryFrom<u64> + Into<u64> + Copy + PartialOrd + std::fmt::Display + 'static,
{
    let (least, most) = (*range.start(), *range.end());
    Codec::new(
        move || Kind::Number(least.into()..=most.into()),
        move |d, p, n| d.number(p, n, least..=most),
        |number, _| Json::Number((*number).into()),
    )
}

/// One that may be zero.
pub fn duration() -> Codec<Duration> {
    duration_within(Duration::ZERO..=LONGEST)
}

pub fn duration_from(least: Duration) -> Codec<Duration> {
    duration_within(least..=LONGEST)
}

pub fn duration_within(range: RangeInclusive<Duration>) -> Codec<Duration> {
    let kind = range.clone();
    Codec::new(
        move || Kind::Duration(kind.clone()),
        move |d, p, n| d.duration_within(p, n, range.clone()),
        |duration, _| Json::Text(duration_text(*duration)),
    )
}

/// A limit of time: a duration that is not zero, or one of the words. `zero`: what is wrong with that.
pub fn time_limit(words: &'static [(&'static str, Duration)], zero: &'static str) -> Codec<Duration> {
    Codec::new(
        || {
            let words = words.iter().map(|(word, _)| *word).collect();
            Kind::Either(vec![Kind::Duration(SHORTEST..=LONGEST), Kind::Choice(words)])
        },
        |d, p, n| d.time_limit(p, n, words, zero, SHORTEST..=LONGEST),
        |limit, _| match words.iter().find(|(_, time)| time == limit) {
            Some((word, _)) => Json::text(word),
            None => Json::Text(limit_text(*limit)),
        },
    )
}

/// How long a start may take.
pub fn start_timeout() -> Codec<Duration> {
    let zero = "is no time to start in; write none to wait for as long as it takes";
    time_limit(&[("none", NEVER)], zero)
}

/// Bytes.
pub fn size(least: u64) -> Codec<u64> {
    Codec::new(
        move || Kind::Size(least),
        move |d, p, n| d.size(p, n, least),
        |size, _| Json::Text(size_text(*size)),
    )
}

/// Thousandths of a CPU.
pub fn cpus() -> Codec<u64> {
    Codec::new(|| Kind::Cpus, |d, p, n| d.cpus(p, n), |cpus, _| Json::Text(cpus_text(*cpus)))
}

/// One of a few words. The first word of a value is the one that is shown.
pub fn choice<T: Copy + PartialEq + 'static>(words: Vec<(&'static str, T)>) -> Codec<T> {
    let (words, values): (Vec<_>, Vec<_>) = words.into_iter().unzip();
    let (kind, shown, meant) = (words.clone(), words.clone(), values.clone());
    Codec::new(
        move || Kind::Choice(kind.clone()),
        move |d, p, n| d.choice(p, n, &words).and_then(|place| meant.get(place).copied()),
        move |value, _| {
            let place = values.iter().position(|other| other == value);
            place.and_then(|place| shown.get(place)).map_or(Json::Null, |word| Json::text(word))
        },
    )
}

pub fn address() -> Codec<IpAddr> {
    word("IP address", "^[0-9A-Fa-f]*[.:][0-9A-Fa-f.:]*$", "192.0.2.7").parsed(
        |text| text.parse().map_err(|_| format!("{} is not an IP address", quoted(text))),
        IpAddr::to_string,
    )
}

/// A mapping of keys of a form to values; `entry` reads one of them.
pub fn map<T: 'static>(
    key: (&'static str, &'static str, &'static str),
    decode: impl Fn(&mut Decoder<'_>, &Place<'_>, &Node) -> Option<Vec<(String, T)>> + 'static,
    value: Codec<T>,
) -> Codec<Vec<(String, T)>> {
    let Codec { kind, encode, .. } = value;
    Codec::new(
        move || Kind::Map(form(key.0, key.1, key.2), Box::new(kind())),
        decode,
        move |entries, extent| {
            Json::Map(entries.iter().map(|(name, value)| (name.clone(), encode(value, extent))).collect())
        },
    )
}

/// The name of a host.
pub fn host_name() -> Codec<String> {
    let pattern = r"^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$";
    word("host name", pattern, "edge-1").but(|text| {
        let label = |label: &str| {
            !label.is_empty()
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        let sound = text.len() <= LONGEST_HOSTNAME && text.split('.').all(label);
        (!sound).then(|| {
            format!(
                "{} is not a host name; use letters, digits, - and ., at most {LONGEST_HOSTNAME}",
                quoted(text)
            )
        })
    })
}
