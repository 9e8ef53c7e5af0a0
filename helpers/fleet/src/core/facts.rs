//! The facts of the host in its entry, and in what its services register.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kelson_spec::variables::{self, Unfit, Variable};

/// Others know the host by the entry itself.
const OWN: [&str; 2] = ["boot.id", "host.name"];
/// Bytes of the names and values of all facts in an entry: a host may have thousands of disks.
const BYTES_MAX: usize = 4 << 10;
/// Bytes of one value.
const VALUE_MAX: usize = 256;

/// Why a value of a registration is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    #[error("the facts of the host are not known yet")]
    NotYet,
    #[error(
        "a value of `meta` needs the fact {0}, which this host does not have; kelsonctl facts lists what it has"
    )]
    Fact(String),
    #[error("a value of `meta` cannot be made: {0}")]
    Mistake(String),
}

/// Those that fit into the entry of a host: the general ones, and as many of its disks and interfaces as fit.
pub fn shared(facts: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let of_device = |name: &str| name.starts_with("disk.") || name.starts_with("network.");
    let (devices, general): (Vec<_>, Vec<_>) =
        facts.iter().filter(|(name, _)| !OWN.contains(&name.as_str())).partition(|(name, _)| of_device(name));
    let mut bytes: usize = 0;
    let all = general.into_iter().chain(devices).filter(|(_, value)| value.len() <= VALUE_MAX);
    let all = all.take_while(|(name, value)| {
        bytes = bytes.saturating_add(name.len()).saturating_add(value.len());
        bytes <= BYTES_MAX
    });
    all.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The text with the values of its variables; `facts` is `None` before they are known.
pub fn expand(
    text: &str,
    host: &str,
    port: u32,
    facts: Option<&BTreeMap<String, String>>,
) -> Result<String, Unknown> {
    let value = |variable| match variable {
        Variable::HostName => Some(Cow::Owned(host.to_owned())),
        Variable::Port => Some(Cow::Owned(port.to_string())),
        // The one who reads the file has filled it in.
        Variable::PortOf(_) => None,
        Variable::Fact(name) => facts?.get(name).map(|value| Cow::Owned(value.clone())),
    };
    variables::expand(text, value).map_err(|unfit| match unfit {
        Unfit::Absent(_) if facts.is_none() => Unknown::NotYet,
        Unfit::Absent(name) => Unknown::Fact(name.trim_start_matches("fact.").to_owned()),
        unfit => Unknown::Mistake(unfit.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn an_entry_has_the_general_facts_and_as_many_others_as_fit() {
        let mut all =
            facts(&[("boot.id", "7"), ("host.name", "a"), ("platform", "aws"), ("virtualization", "kvm")]);
        all.insert("cpu.model".to_owned(), "x".repeat(VALUE_MAX + 1));
        all.extend((0..1000).map(|number| (format!("disk.sd{number:04}.size"), "1".repeat(10))));
        let shared = shared(&all);
        let bytes: usize = shared.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(bytes <= BYTES_MAX && bytes > BYTES_MAX - 100, "{bytes}");
        for (name, is_there) in [
            ("platform", true),
            ("virtualization", true),
            ("boot.id", false),
            ("host.name", false),
            ("cpu.model", false),
        ] {
            assert_eq!(shared.contains_key(name), is_there, "{name}");
        }
    }

    #[test]
    fn a_value_waits_for_the_facts_and_is_refused_without_its_own() {
        let expanded = |text, facts| expand(text, "edge-1", 80, facts);
        let aws = facts(&[("platform", "aws")]);
        assert_eq!(expanded("http://${host.name}:${port}", None), Ok("http://edge-1:80".to_owned()));
        assert_eq!(expanded("${fact.platform}", None), Err(Unknown::NotYet));
        assert_eq!(expanded("on ${fact.platform}", Some(&aws)), Ok("on aws".to_owned()));
        assert_eq!(expanded("${fact.cpu.model}", Some(&aws)), Err(Unknown::Fact("cpu.model".to_owned())));
    }
}
