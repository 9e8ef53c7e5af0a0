//! The codecs of single values: texts, names, paths, numbers, times, sizes, choices.

use std::fmt::Display;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::codec::Codec;
use crate::decode::{Decoder, quoted, shown};
use crate::json::Json;
use crate::schema::{Kind, form};
use crate::tree::Node;
use kelson_spec::names::{LONGEST_HOSTNAME, is_hostname};
use kelson_spec::near::near;
use kelson_spec::units::{self, NEVER, cpus_text, duration_text, limit_text, size_text};

/// The longest duration that a file may name: a year of 365 days.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);
/// The shortest time that may be waited for something to happen.
pub const SHORTEST: Duration = Duration::from_millis(1);
/// Thousandths of a CPU: the kernel gives no less than 1 ms of 100 ms.
const CPU: RangeInclusive<u64> = 10..=4_096_000;

/// A single value of which `read` makes what it means, or says what is wrong with it. `what` is expected where there is none.
pub fn scalar<T: 'static, M: Display>(
    kind: impl Fn() -> Kind + 'static,
    what: &'static str,
    read: impl Fn(&str) -> Result<T, M> + 'static,
    show: impl Fn(&T) -> Json + 'static,
) -> Codec<T> {
    let decode = move |d: &mut Decoder<'_>, node: &Node| {
        read(d.scalar(node, what)?).map_err(|message| d.wrong(node.at, message)).ok()
    };
    Codec::new(kind, decode, move |value, _| show(value))
}

/// Any single value, as it is written.
pub fn text() -> Codec<String> {
    Codec::new(|| Kind::Text, |d, node| d.text(node), |text, _| Json::text(text))
}

/// A text that is not empty.
pub fn some_text() -> Codec<String> {
    text().read_by(|d, node| d.word(node))
}

/// A text of a form, which is not empty.
pub fn word(name: &'static str, pattern: &'static str, sample: &'static str) -> Codec<String> {
    some_text().of_kind(move || Kind::Form(form(name, pattern, sample)))
}

/// A text that is not empty; `name` says of what.
pub fn any_word(name: &'static str, sample: &'static str) -> Codec<String> {
    word(name, r"[\s\S]", sample)
}

/// The name of a service, a group or a check.
pub fn name() -> Codec<String> {
    word("name", "^[a-z0-9][a-z0-9-]{0,62}$", "db").read_by(|d, node| d.name(node))
}

/// The key `name` of a file, of which only the file's own name is right.
pub fn own_name() -> Codec<String> {
    name().read_by(|d, node| d.file_name(node).map(|_| d.stem.clone()))
}

/// A path from `/`.
pub fn path() -> Codec<PathBuf> {
    Codec::new(
        || Kind::Form(form("path", "^/", "/srv")),
        |d, node| d.path(node),
        |path, _| Json::Text(path.to_string_lossy().into_owned()),
    )
}

pub fn boolean() -> Codec<bool> {
    scalar(
        || Kind::Boolean,
        "true or false",
        |text| text.parse().map_err(|_| format!("{} is not true or false", quoted(text))),
        |value| Json::Bool(*value),
    )
}

pub fn number<T>(range: RangeInclusive<T>) -> Codec<T>
where
    T: TryFrom<u64> + Into<u64> + Copy + PartialOrd + Display + 'static,
{
    let (least, most): (u64, u64) = ((*range.start()).into(), (*range.end()).into());
    let read = move |text: &str| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(format!(
                "{} is not a number; write a whole number from {least} to {most}",
                quoted(text)
            ));
        }
        let number = units::number(text).and_then(|n| T::try_from(n).ok()).filter(|n| range.contains(n));
        number
            .ok_or_else(|| format!("{} is out of range; write a number from {least} to {most}", shown(text)))
    };
    let show = |number: &T| Json::Number((*number).into());
    scalar(move || Kind::Number(least..=most), "a number", read, show)
}

/// A number that may be negative.
pub fn integer(range: RangeInclusive<i16>) -> Codec<i16> {
    let (least, most) = (*range.start(), *range.end());
    let read = move |text: &str| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("{} is not a whole number from {least} to {most}", quoted(text)))
    };
    scalar(
        move || Kind::Integer(least..=most),
        "a number",
        read,
        |number: &i16| Json::Integer((*number).into()),
    )
}

/// Bits that are written in octal digits, and that `most` has. `name` says what they are.
pub fn octal(name: &'static str, most: u32, sample: &'static str) -> Codec<u32> {
    let read = move |text: &str| {
        let bits = u32::from_str_radix(text, 8).ok().filter(|bits| bits & !most == 0);
        bits.ok_or_else(|| format!("{} is not a {name}; write such as \"{sample}\"", quoted(text)))
    };
    scalar(
        move || Kind::Form(form(name, "^[0-7]{1,5}$", sample)),
        "octal digits in quotes",
        read,
        |bits| Json::Text(format!("{bits:04o}")),
    )
}

/// As [`octal`], with at least four digits, as `written` gives them: without quotes YAML would read another number.
pub fn four_octal(name: &'static str, most: u32, sample: &'static str) -> Codec<u32> {
    octal(name, most, sample).around(move |d, node, inner| {
        if node.scalar().is_some_and(|text| text.len() < 4) {
            return d.refuse(node, format_args!("this is not a {name}; write such as \"{sample}\""));
        }
        inner(d, node)
    })
}

/// A number, or a range of numbers such as `sample`: what one is called, what several, and a range of them.
pub fn span(
    range: RangeInclusive<u16>,
    (one, several, of_several): (&'static str, &'static str, &'static str),
    sample: &'static str,
) -> Codec<(u16, u16)> {
    let (least, most) = (*range.start(), *range.end());
    let read = move |text: &str| {
        let number = |text: &str| u16::try_from(units::number(text)?).ok();
        let span = match text.split_once('-') {
            Some((first, last)) => number(first).zip(number(last)),
            None => number(text).map(|number| (number, number)),
        };
        match span {
            None => {
                let first = sample.split('-').next().unwrap_or(sample);
                Err(format!("{} is not a {one}; write such as {first} or {sample}", quoted(text)))
            }
            Some((first, last)) if first < least || last > most || first > last => Err(format!(
                "{} is out of range; write {several} from {least} to {most}, the lower first",
                shown(text)
            )),
            Some(span) => Ok(span),
        }
    };
    Codec::new(
        move || {
            let span = form(of_several, "^[0-9]+-[0-9]+$", sample);
            Kind::Either(vec![Kind::Number(u64::from(least)..=u64::from(most)), Kind::Form(span)])
        },
        move |d, node| read(&d.text(node)?).map_err(|message| d.wrong(node.at, message)).ok(),
        |(first, last), _| match first == last {
            true => Json::Number((*first).into()),
            false => Json::Text(format!("{first}-{last}")),
        },
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
    let read = move |text: &str| {
        let Some(value) = units::duration(text) else {
            return Err(format!(
                "{} is not a duration; write a number with a unit, such as 5s, 500ms or 1m30s",
                quoted(text)
            ));
        };
        if !range.contains(&value) {
            let (least, most) = (duration_text(*range.start()), duration_text(*range.end()));
            return Err(format!("{} is out of range; write a duration from {least} to {most}", shown(text)));
        }
        Ok(value)
    };
    let show = |duration: &Duration| Json::Text(duration_text(*duration));
    scalar(move || Kind::Duration(kind.clone()), "a duration", read, show)
}

/// A limit of time: a duration that is not zero, or one of the words. `zero`: what is wrong with that.
pub fn time_limit(words: &'static [(&'static str, Duration)], zero: &'static str) -> Codec<Duration> {
    let any = duration_from(SHORTEST);
    let kind = any.kind.clone();
    Codec::new(
        move || Kind::Either(vec![kind(), Kind::Choice(words.iter().map(|(word, _)| *word).collect())]),
        move |d, node| {
            if let Some((_, time)) = words.iter().find(|(word, _)| node.is(word)) {
                return Some(*time);
            }
            match node.scalar().filter(|text| units::duration(text) == Some(Duration::ZERO)) {
                Some(text) => d.refuse(node, format_args!("{} {zero}", shown(text))),
                None => any.decode(d, node),
            }
        },
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

/// A list in which no text stands twice.
pub fn distinct(list: Codec<Vec<String>>) -> Codec<Vec<String>> {
    list.but(|list| {
        let stood = |place: usize, text: &String| list.iter().take(place).any(|one| one == text);
        let (_, twice) = list.iter().enumerate().find(|(place, text)| stood(*place, text))?;
        Some(format!("{} is in it twice; leave one out", quoted(twice)))
    })
}

/// Why texts of this many bytes are too many, if they are. `what` they are.
pub fn too_many_bytes(size: usize, most: usize, what: &str) -> Option<String> {
    (size > most).then(|| format!("these {what} have {size} bytes; they may have {most}"))
}

/// Bytes, at least `least`.
pub fn size(least: u64) -> Codec<u64> {
    let read = move |text: &str| match units::size(text) {
        None => Err(format!(
            "{} is not a size; write a number of bytes or one with a unit, such as 4096, 64Mi or 10M",
            quoted(text)
        )),
        Some(size) if size < least => {
            Err(format!("{} is out of range; write at least {}", shown(text), size_text(least)))
        }
        Some(size) => Ok(size),
    };
    scalar(move || Kind::Size(least), "a size", read, |size| Json::Text(size_text(*size)))
}

/// Thousandths of a CPU.
pub fn cpus() -> Codec<u64> {
    let read = |text: &str| match units::cpus(text) {
        None => Err(format!("{} is not a number of CPUs; write such as 0.5 or 2", quoted(text))),
        Some(cpus) if !CPU.contains(&cpus) => {
            let (least, most) = (cpus_text(*CPU.start()), cpus_text(*CPU.end()));
            Err(format!("{} is out of range; write a number of CPUs from {least} to {most}", shown(text)))
        }
        Some(cpus) => Ok(cpus),
    };
    scalar(|| Kind::Cpus, "a number of CPUs", read, |cpus| Json::Text(cpus_text(*cpus)))
}

/// One of a few words. The first word of a value is the one that is shown.
pub fn choice<T: Clone + PartialEq + 'static>(
    words: impl IntoIterator<Item = (&'static str, T)>,
) -> Codec<T> {
    let (words, values): (Vec<_>, Vec<_>) = words.into_iter().unzip();
    let (kind, shown, meant) = (words.clone(), words.clone(), values.clone());
    Codec::new(
        move || Kind::Choice(kind.clone()),
        move |d, node| d.choice(node, &words).and_then(|place| meant.get(place).cloned()),
        move |value, _| {
            let place = values.iter().position(|other| other == value);
            place.and_then(|place| shown.get(place)).map_or(Json::Null, |word| Json::text(word))
        },
    )
}

impl Decoder<'_> {
    /// One of a few words: which.
    fn choice(&mut self, node: &Node, words: &[&str]) -> Option<usize> {
        let all = words.join(", ");
        let what = if words.len() > 1 { format!("one of {all}") } else { all };
        let text = self.scalar(node, &what)?;
        let chosen = words.iter().position(|word| *word == text);
        if chosen.is_none() {
            let near = near(text, words.iter().copied());
            let hint = near.map(|word| format!("; did you mean {word}?")).unwrap_or_default();
            self.wrong(node.at, format_args!("{} is not {what}{hint}", quoted(text)));
        }
        chosen
    }
}

/// `hint`: what to do where it is none.
pub fn address(hint: &'static str) -> Codec<IpAddr> {
    word("IP address", "^[0-9A-Fa-f]*[.:][0-9A-Fa-f.:]*$", "192.0.2.7").parsed(
        move |text| text.parse().map_err(|_| format!("{} is not an IP address{hint}", quoted(text))),
        IpAddr::to_string,
    )
}

/// A mapping of keys of a form to values. `none` says what to write where a value is missing, `mistake` what is wrong with a
/// key beside those before it.
pub fn map<T: 'static>(
    (key, pattern, sample): (&'static str, &'static str, &'static str),
    none: &'static str,
    mistake: impl Fn(&str, &[(String, T)]) -> Option<String> + 'static,
    value: Codec<T>,
) -> Codec<Vec<(String, T)>> {
    let (kind, shown) = (value.kind.clone(), value.clone());
    Codec::new(
        move || Kind::Map(form(key, pattern, sample), Box::new(kind()), Vec::new()),
        move |d, node| d.pairs(node, none, &mistake, |d, node| value.decode(d, node)),
        move |entries, extent| {
            let entry = |(name, value): &(String, T)| (name.clone(), shown.encode(value, extent));
            Json::Map(entries.iter().map(entry).collect())
        },
    )
}

/// The name of a host.
pub fn host_name() -> Codec<String> {
    let pattern = r"^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$";
    word("host name", pattern, "edge-1").but(|text| {
        let sound = is_hostname(text);
        (!sound).then(|| {
            format!(
                "{} is not a host name; use letters, digits, - and ., at most {LONGEST_HOSTNAME}",
                quoted(text)
            )
        })
    })
}
