//! The single values of a small YAML or JSON file that is none of a configuration.

use std::collections::BTreeMap;

use crate::parser;
use crate::tree::Value;

/// The single values at the top of a text, by their keys.
///
/// # Errors
/// A sentence with the line: the text is no mapping.
pub fn scalars(text: &str) -> Result<BTreeMap<String, String>, String> {
    let text = text.to_owned();
    parser::guarded(move || {
        let Some((root, mistakes)) = parser::parse(&text) else {
            return Err("the YAML parser failed on it; simplify it".to_owned());
        };
        if let Some(mistake) = mistakes.first() {
            return Err(format!("line {}: {}", mistake.at.line, mistake.message));
        }
        match root.as_deref().map(|root| &root.value) {
            None | Some(Value::Null) => Ok(BTreeMap::new()),
            Some(Value::Mapping(entries)) => {
                let pair = |entry: &crate::tree::Entry| {
                    Some((entry.key.scalar()?.to_owned(), entry.value.scalar()?.to_owned()))
                };
                Ok(entries.iter().filter_map(pair).collect())
            }
            Some(_) => Err("line 1: it is no mapping of keys to values".to_owned()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_single_values_of_yaml_and_of_json_are_found() {
        let both = [
            "instance-id: i-1\nlocal-hostname: 'a'\nkeys: [x]\n",
            "{\"instance-id\": \"i-1\", \"local-hostname\": \"a\"}",
        ];
        for text in both {
            let found = scalars(text).unwrap();
            let found: Vec<(&str, &str)> =
                found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            assert_eq!(found, [("instance-id", "i-1"), ("local-hostname", "a")]);
        }
        assert_eq!(scalars("# nothing\n"), Ok(BTreeMap::new()));
        assert!(scalars("- a\n").unwrap_err().starts_with("line 1: "));
        assert!(scalars("a: b\nc: [\n").unwrap_err().starts_with("line "));
    }
}
