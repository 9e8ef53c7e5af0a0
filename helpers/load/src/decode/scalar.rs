//! Single values: texts, numbers, durations, sizes, paths, choices.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::{Decoder, Place, quoted, shown};
use crate::name::{LONGEST_NAME, is_name};
use crate::tree::{Node, Value};
use kelson_spec::near::near;
use kelson_spec::units;

/// Thousandths of a CPU: the kernel gives no less than 1 ms of 100 ms.
const CPU: RangeInclusive<u64> = 10..=4_096_000;

impl Decoder<'_> {
    /// The text of a single value, as `what` is expected.
    fn scalar<'n>(&mut self, place: &Place<'_>, node: &'n Node, what: &str) -> Option<&'n str> {
        match &node.value {
            Value::Scalar(text) => Some(text),
            _ => {
                self.expected(place, node, what);
                None
            }
        }
    }

    /// A text: any single value as it is written. It goes to the kernel in the end, so it holds no NUL.
    pub fn text(&mut self, place: &Place<'_>, node: &Node) -> Option<String> {
        let text = self.scalar(place, node, "a text")?;
        if text.contains('\0') {
            self.wrong(place, node.at, "a NUL byte cannot stand in a text");
            return None;
        }
        Some(text.to_owned())
    }

    /// A text that is not empty.
    pub fn word(&mut self, place: &Place<'_>, node: &Node) -> Option<String> {
        let text = self.text(place, node)?;
        if text.is_empty() {
            self.wrong(place, node.at, "this text is empty");
            return None;
        }
        Some(text)
    }

    /// A path from `/`.
    pub fn path(&mut self, place: &Place<'_>, node: &Node) -> Option<PathBuf> {
        let text = self.text(place, node)?;
        if !text.starts_with('/') {
            let text = format!("{} is not a path from the root; write it with / first", quoted(&text));
            self.wrong(place, node.at, text);
            return None;
        }
        Some(PathBuf::from(text))
    }

    /// The key `name` of a file, which may only repeat how the file `STEM.yaml` is called. Whether it does.
    pub fn file_name(&mut self, stem: &str, place: &Place<'_>, node: &Node) -> Option<bool> {
        let name = self.name(place, node)?;
        if name != stem {
            let text = format!(
                "{} is not the file's name; write {stem}, or rename the file to {name}.yaml",
                quoted(&name)
            );
            self.wrong(place, node.at, text);
        }
        Some(name == stem)
    }

    /// The name of a service or a check.
    pub fn name(&mut self, place: &Place<'_>, node: &Node) -> Option<String> {
        let text = self.scalar(place, node, "a name")?;
        if !is_name(text) {
            let text = format!(
                "{} is not a name; use small letters, digits and -, no - first, at most {LONGEST_NAME}",
                quoted(text)
            );
            self.wrong(place, node.at, text);
            return None;
        }
        Some(text.to_owned())
    }

    pub fn boolean(&mut self, place: &Place<'_>, node: &Node) -> Option<bool> {
        match self.scalar(place, node, "true or false")? {
            "true" => Some(true),
            "false" => Some(false),
            other => {
                self.wrong(place, node.at, format_args!("{} is not true or false", quoted(other)));
                None
            }
        }
    }

    /// A whole number within `range`.
    pub fn number<T>(&mut self, place: &Place<'_>, node: &Node, range: RangeInclusive<T>) -> Option<T>
    where
        T: TryFrom<u64> + PartialOrd + std::fmt::Display,
    {
        let text = self.scalar(place, node, "a number")?;
        let limits = format!("from {} to {}", range.start(), range.end());
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            self.wrong(
                place,
                node.at,
                format_args!("{} is not a number; write a whole number {limits}", quoted(text)),
            );
            return None;
        }
        let value = units::number(text).and_then(|n| T::try_from(n).ok()).filter(|n| range.contains(n));
        if value.is_none() {
            self.wrong(
                place,
                node.at,
                format_args!("{} is out of range; write a number {limits}", shown(text)),
            );
        }
        value
    }

    /// A duration within `range`.
    pub fn duration_within(
        &mut self,
        place: &Place<'_>,
        node: &Node,
        range: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let text = self.scalar(place, node, "a duration")?;
        let Some(value) = units::duration(text) else {
            let text = format!(
                "{} is not a duration; write a number with a unit, such as 5s, 500ms or 1m30s",
                quoted(text)
            );
            self.wrong(place, node.at, text);
            return None;
        };
        if !range.contains(&value) {
            let (least, most) = (units::duration_text(*range.start()), units::duration_text(*range.end()));
            self.wrong(
                place,
                node.at,
                format_args!("{} is out of range; write a duration from {least} to {most}", shown(text)),
            );
            return None;
        }
        Some(value)
    }

    /// A number of bytes, at least `least`.
    pub fn size(&mut self, place: &Place<'_>, node: &Node, least: u64) -> Option<u64> {
        let text = self.scalar(place, node, "a size")?;
        let Some(value) = units::size(text) else {
            let text = format!(
                "{} is not a size; write a number of bytes or one with a unit, such as 4096, 64Mi or 10M",
                quoted(text)
            );
            self.wrong(place, node.at, text);
            return None;
        };
        if value < least {
            let text = format!("{} is out of range; write at least {}", shown(text), units::size_text(least));
            self.wrong(place, node.at, text);
            return None;
        }
        Some(value)
    }

    /// Thousandths of a CPU.
    pub fn cpus(&mut self, place: &Place<'_>, node: &Node) -> Option<u64> {
        let Value::Scalar(text) = &node.value else {
            self.expected(place, node, "a number of CPUs");
            return None;
        };
        let Some(value) = units::cpus(text) else {
            let text = format!("{} is not a number of CPUs; write such as 0.5 or 2", quoted(text));
            self.wrong(place, node.at, text);
            return None;
        };
        if !CPU.contains(&value) {
            let (least, most) = (units::cpus_text(*CPU.start()), units::cpus_text(*CPU.end()));
            let text =
                format!("{} is out of range; write a number of CPUs from {least} to {most}", shown(text));
            self.wrong(place, node.at, text);
            return None;
        }
        Some(value)
    }

    /// A limit of time: a duration that is not zero, or one of the words. `zero`: what is wrong with that.
    pub fn time_limit(
        &mut self,
        place: &Place<'_>,
        node: &Node,
        words: &[(&str, Duration)],
        zero: &str,
        range: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        if let Value::Scalar(text) = &node.value {
            if let Some((_, time)) = words.iter().find(|(word, _)| word == text) {
                return Some(*time);
            }
            if units::duration(text) == Some(Duration::ZERO) {
                self.wrong(place, node.at, format_args!("{} {zero}", shown(text)));
                return None;
            }
        }
        self.duration_within(place, node, range)
    }

    /// One of a few words: which.
    pub fn choice(&mut self, place: &Place<'_>, node: &Node, words: &[&str]) -> Option<usize> {
        let all = words.join(", ");
        let what = if words.len() > 1 { format!("one of {all}") } else { all };
        let text = self.scalar(place, node, &what)?;
        let chosen = words.iter().position(|word| *word == text);
        if chosen.is_none() {
            let near = near(text, words.iter().copied());
            let hint = near.map(|word| format!("; did you mean {word}?")).unwrap_or_default();
            self.wrong(place, node.at, format_args!("{} is not {what}{hint}", quoted(text)));
        }
        chosen
    }
}
