//! Which hosts are meant, by a label or a fact.

use std::str::FromStr;

use kelson_proto::v1::FleetHost;

/// A condition on the labels of a host, and with `fact.` before the name on its facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    key: String,
    wanted: Wanted,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Wanted {
    Any,
    Is(String),
    /// Also where there is no such label.
    IsNot(String),
}

impl Selector {
    pub fn holds(&self, host: &FleetHost) -> bool {
        let fact = || host.facts.get(self.key.strip_prefix("fact.")?);
        let value = host.labels.get(&self.key).or_else(fact);
        match &self.wanted {
            Wanted::Any => value.is_some(),
            Wanted::Is(wanted) => value == Some(wanted),
            Wanted::IsNot(other) => value != Some(other),
        }
    }
}

impl FromStr for Selector {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Selector, &'static str> {
        let (key, wanted) = match text.split_once('=') {
            None => (text, Wanted::Any),
            Some((front, value)) => match front.strip_suffix('!') {
                Some(key) => (key, Wanted::IsNot(value.to_owned())),
                None => (front, Wanted::Is(value.to_owned())),
            },
        };
        if key.is_empty() || key.contains('!') {
            return Err("write KEY=VALUE, KEY!=VALUE or KEY");
        }
        Ok(Selector { key: key.to_owned(), wanted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_there_or_has_a_value_or_another() {
        let texts = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
        };
        let edge = FleetHost {
            labels: texts(&[("role", "edge"), ("rack", "")]),
            facts: texts(&[("platform", "aws"), ("role", "none")]),
            ..FleetHost::default()
        };
        for (text, holds) in [
            ("role=edge", true),
            ("role=lab", false),
            ("role=", false),
            ("rack=", true),
            ("site=fra", false),
            ("role!=edge", false),
            ("role!=lab", true),
            ("site!=fra", true),
            ("rack!=", false),
            ("role", true),
            ("rack", true),
            ("site", false),
            ("fact.platform=aws", true),
            ("fact.platform!=aws", false),
            ("fact.role=none", true),
            ("platform", false),
        ] {
            assert_eq!(text.parse::<Selector>().unwrap().holds(&edge), holds, "{text}");
        }
    }

    #[test]
    fn only_the_first_sign_parts_key_and_value() {
        let parsed = |text: &str| text.parse::<Selector>().map(|one| (one.key, one.wanted));
        assert_eq!(parsed("a=b!=c"), Ok(("a".to_owned(), Wanted::Is("b!=c".to_owned()))));
        assert_eq!(parsed("a!=b=c"), Ok(("a".to_owned(), Wanted::IsNot("b=c".to_owned()))));
        for wrong in ["", "=b", "!=b", "!a", "a!", "a!!=b"] {
            assert_eq!(parsed(wrong), Err("write KEY=VALUE, KEY!=VALUE or KEY"), "{wrong}");
        }
    }
}
