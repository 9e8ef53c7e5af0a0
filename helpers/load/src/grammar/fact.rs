//! The entry `fact` of a condition.

use super::codec::{Codec, either, one_or};
use super::mapping::{Mapping, keys};
use super::values::{any_word, size, word};
use crate::decode::quoted;
use kelson_spec::facts::{FactTest, NAMES, is_number};
use kelson_spec::near::near;

/// `fact: platform`, or a mapping.
pub fn fact() -> Codec<FactTest> {
    let (whole, name) = (Mapping::codec(mapping), name());
    let kind = either(&name, &whole);
    whole.of_kind(kind).around(move |d, node, inner| match node.scalar() {
        Some(_) => name.decode(d, node).map(|name| FactTest { name, ..FactTest::default() }),
        None => inner(d, node),
    })
}

fn mapping() -> Mapping<FactTest> {
    let patterns = one_or(any_word("pattern", "aws"), |one| one.list("a list such as [aws, gcp]"));
    keys! {
        Mapping::new("fact", FactTest::default);
        needed "name" name = name(), "name: platform", "the [name of a fact](kelsonctl.md#facts)";
        means "is" is = patterns, "any value will do",
            "its value matches this pattern, or one of a list: `*` is any text, `?` one character";
        means "atLeast" at_least = size(0).optional(), "none",
            "its value is a number that is at least this, such as `4` or `2Gi`";
    }
    .strict()
    .check(|d, seen, test| {
        if test.at_least.is_some() && is_number(&test.name) == Some(false) {
            seen.wrong_key(d, "atLeast", format_args!("the fact {} is no number; write is", test.name));
        }
    })
}

fn name() -> Codec<String> {
    word("name of a fact", "^[a-z]+([.].+)?$", "memory.total").but(|name| {
        if is_number(name).is_some() {
            return None;
        }
        let near = near(name, NAMES.iter().map(|(known, _)| *known));
        let hint = near.map(|near| format!("did you mean {near}?"));
        let hint = hint.unwrap_or_else(|| "kelsonctl facts lists those of a host".to_owned());
        Some(format!("{} is not the name of a fact; {hint}", quoted(name)))
    })
}
