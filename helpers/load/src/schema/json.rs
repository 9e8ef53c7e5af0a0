//! The JSON schema (draft 2020-12) of a file, for editors and other programs that check a file while it is written.
//!
//! It asks for numbers, `true` and `false` without quotes; the decoder takes them with quotes too. Rules that
//! a schema cannot express (a cycle, a delay that is longer than its `maxDelay`, an unknown user) are for
//! `kelsonctl validate`.

use std::collections::BTreeMap;

use super::tables::{plain, words};
use super::{Absent, Form, Key, Kind, Mapping};
use crate::json::Json;

/// A duration as a file has it, which is not empty.
const DURATION: &str = "^(0|(?=[0-9])([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$";

/// The schema of the file whose root is `root`; ends with a line break.
pub fn schema(root: &Mapping) -> String {
    let mut definitions = Definitions::default();
    let whole = definitions.mapping(root);
    let title = format!("A {} file of Kelson", root.name.trim_end_matches("-file"));
    let mut schema = vec![
        ("$schema".to_owned(), Json::text("https://json-schema.org/draft/2020-12/schema")),
        ("title".to_owned(), Json::Text(title)),
    ];
    if let Json::Map(entries) = whole {
        schema.extend(entries);
    }
    schema.push(("$defs".to_owned(), Json::Map(definitions.0.into_iter().collect())));
    // Nothing in it can fail to be written.
    serde_json::to_string_pretty(&Json::Map(schema)).unwrap_or_default() + "\n"
}

/// The definitions that `$ref` refers to.
#[derive(Default)]
struct Definitions(BTreeMap<String, Json>);

impl Definitions {
    fn reference(&mut self, mapping: &Mapping) -> Json {
        if !self.0.contains_key(mapping.name) {
            // Its place, before it is made: a mapping may hold itself.
            self.0.insert(mapping.name.to_owned(), Json::Bool(true));
            let made = self.mapping(mapping);
            self.0.insert(mapping.name.to_owned(), made);
        }
        Json::map([("$ref", Json::Text(format!("#/$defs/{}", mapping.name)))])
    }

    fn mapping(&mut self, mapping: &Mapping) -> Json {
        let properties =
            mapping.keys.iter().map(|key| (key.name.to_owned(), self.property(key))).collect::<Vec<_>>();
        let mut made = vec![
            ("type".to_owned(), Json::text("object")),
            ("properties".to_owned(), Json::Map(properties)),
            ("additionalProperties".to_owned(), Json::Bool(false)),
        ];
        let required: Vec<&str> = mapping.required().map(|key| key.name).collect();
        if !required.is_empty() {
            made.push(("required".to_owned(), Json::texts(required)));
        }
        if !mapping.one_of.is_empty() {
            let one = |name: &&str| Json::map([("required", Json::texts([*name]))]);
            made.push(("oneOf".to_owned(), Json::List(mapping.one_of.iter().map(one).collect())));
        }
        Json::Map(made)
    }

    fn property(&mut self, key: &Key) -> Json {
        let about = plain(key.about);
        let mut text = format!(
            "{}{}",
            about.get(..1).unwrap_or_default().to_uppercase(),
            about.get(1..).unwrap_or_default()
        );
        text += ".";
        // The others an editor shows by itself.
        if !matches!(key.kind, Kind::Mapping(_) | Kind::Choice(_) | Kind::Boolean | Kind::True) {
            text += &format!("\n\nWritten as: {}.", plain(&words(&key.kind)));
        }
        if let Absent::Means(absent) = key.default {
            text += &format!(" Without it: {}.", plain(absent));
        }
        let mut made = vec![("description".to_owned(), Json::Text(text))];
        if let Absent::Is(default) = &key.default {
            made.push(("default".to_owned(), default.clone()));
        }
        if let Json::Map(entries) = self.kind(&key.kind) {
            made.extend(entries);
        }
        Json::Map(made)
    }

    fn kind(&mut self, kind: &Kind) -> Json {
        match kind {
            Kind::Text => Json::map([("type", Json::texts(["string", "number", "boolean"]))]),
            Kind::Form(form) => Json::Map(of_form(form)),
            Kind::Boolean => Json::map([("type", Json::text("boolean"))]),
            Kind::True => Json::map([("const", Json::Bool(true))]),
            Kind::Number(range) => Json::map([
                ("type", Json::text("integer")),
                ("minimum", Json::Number(*range.start())),
                ("maximum", Json::Number(*range.end())),
            ]),
            Kind::Integer(range) => Json::map([
                ("type", Json::text("integer")),
                ("minimum", Json::Integer((*range.start()).into())),
                ("maximum", Json::Integer((*range.end()).into())),
            ]),
            Kind::Duration(_) => Json::map([
                ("type", Json::texts(["string", "integer"])),
                ("pattern", Json::text(DURATION)),
                // Without a unit there is only 0.
                ("maximum", Json::Number(0)),
                ("minimum", Json::Number(0)),
            ]),
            Kind::Size(least) => Json::map([
                ("type", Json::texts(["string", "integer"])),
                ("pattern", Json::text("^[0-9]+([KMGT]i?)?$")),
                ("minimum", Json::Number(*least)),
            ]),
            Kind::Cpus => Json::map([
                ("type", Json::texts(["number", "string"])),
                ("pattern", Json::text(r"^[0-9]+(\.[0-9]{1,3})?$")),
                ("minimum", Json::Real(0.01)),
                ("maximum", Json::Number(4096)),
            ]),
            Kind::Choice(words) => {
                // As of_form, the other way round.
                let word = |word: &&str| if *word == "true" { Json::Bool(true) } else { Json::text(word) };
                Json::map([("enum", Json::List(words.iter().map(word).collect()))])
            }
            Kind::List(of, count) => {
                let mut list =
                    vec![("type".to_owned(), Json::text("array")), ("items".to_owned(), self.kind(of))];
                let bounds = [("minItems", *count.start(), 0), ("maxItems", *count.end(), usize::MAX)];
                for (key, bound, none) in bounds {
                    if bound != none {
                        list.push((key.to_owned(), Json::Number(u64::try_from(bound).unwrap_or(u64::MAX))));
                    }
                }
                Json::Map(list)
            }
            Kind::Map(form, of, own) => {
                let own = own.iter().map(|key| (key.name.to_owned(), self.property(key))).collect::<Vec<_>>();
                let mut map = vec![("type".to_owned(), Json::text("object"))];
                if !own.is_empty() {
                    map.push(("properties".to_owned(), Json::Map(own)));
                }
                let names = Json::map([("pattern", Json::text(&form.pattern))]);
                map.push(("propertyNames".to_owned(), names));
                map.push(("additionalProperties".to_owned(), self.kind(of)));
                Json::Map(map)
            }
            Kind::Mapping(mapping) => self.reference(&mapping()),
            Kind::Either(kinds) => {
                Json::map([("anyOf", Json::List(kinds.iter().map(|kind| self.kind(kind)).collect()))])
            }
        }
    }
}

/// The decoder takes any single value for the text that it is; YAML takes some texts for numbers or truth values.
fn of_form(form: &Form) -> Vec<(String, Json)> {
    let pattern = regex_lite::Regex::new(&form.pattern);
    let matches = |text: &str| pattern.as_ref().is_ok_and(|pattern| pattern.is_match(text));
    let mut types = vec!["string"];
    types.extend(matches("80").then_some("number"));
    types.extend(matches("true").then_some("boolean"));
    let types = if let [only] = types.as_slice() { Json::text(only) } else { Json::texts(types) };
    vec![("type".to_owned(), types), ("pattern".to_owned(), Json::text(&form.pattern))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_match_what_is_written() {
        // regex-lite has no look-ahead: without it the pattern takes the empty text too.
        let pattern = regex_lite::Regex::new(&DURATION.replace("(?=[0-9])", "")).unwrap();
        for sound in ["0", "500ms", "10s", "1m30s", "2h", "1d", "1d2h3m4s5ms"] {
            assert!(pattern.is_match(sound), "{sound}");
            assert!(kelson_spec::units::duration(sound).is_some(), "{sound}");
        }
        for wrong in ["5", "1.5s", "5 s", "30m1h", "-1s"] {
            assert!(!pattern.is_match(wrong), "{wrong}");
            assert!(kelson_spec::units::duration(wrong).is_none(), "{wrong}");
        }
    }
}
