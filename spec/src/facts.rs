//! The names of the facts of a host, and what a service file asks of one.

use std::fmt;

use kelson_sys::fnmatch::matches;
use kelson_sys::text::first_of_many;
use serde::{Deserialize, Serialize};

/// The facts that `kelsonctl facts` can list, and whether the value is a whole number. `*` stands for the name of a device.
pub const NAMES: [(&str, bool); 23] = [
    ("architecture", false),
    ("boot.id", false),
    ("cgroup.version", true),
    ("cpu.cores", true),
    ("cpu.maximumMhz", true),
    ("cpu.model", false),
    ("cpu.threads", true),
    ("disk.*.model", false),
    ("disk.*.rotational", false),
    ("disk.*.size", true),
    ("firmware.vendor", false),
    ("firmware.version", false),
    ("hardware.product", false),
    ("hardware.vendor", false),
    ("host.name", false),
    ("kernel.release", false),
    ("kernel.version", false),
    ("memory.total", true),
    ("network.*.address", false),
    ("network.*.driver", false),
    ("network.*.speed", true),
    ("platform", false),
    ("virtualization", false),
];

/// Whether the value of the fact is a whole number; `None`: no fact has this name.
pub fn is_number(name: &str) -> Option<bool> {
    NAMES.iter().find(|(known, _)| matches(known, name)).map(|(_, number)| *number)
}

/// What is asked of a fact.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FactTest {
    pub name: String,
    /// The value matches one of these patterns. Empty: any value will do.
    pub is: Vec<String>,
    /// The value is a number that is at least this.
    pub at_least: Option<u64>,
}

impl FactTest {
    /// Whether the fact with this value is as asked.
    pub fn holds(&self, value: &str) -> bool {
        let is = self.is.is_empty() || self.is.iter().any(|pattern| matches(pattern, value));
        is && self.at_least.is_none_or(|least| value.parse().is_ok_and(|number: u64| number >= least))
    }
}

/// `memory.total to be at least 2147483648`.
impl fmt::Display for FactTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if !self.is.is_empty() {
            write!(f, " to be {}", first_of_many(self.is.iter(), " or "))?;
        }
        match self.at_least {
            Some(least) if self.is.is_empty() => write!(f, " to be at least {least}"),
            Some(least) => write!(f, ", and at least {least}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices_stand_for_a_star() {
        assert_eq!(is_number("disk.vda.size"), Some(true));
        assert_eq!(is_number("disk.vda.model"), Some(false));
        assert_eq!(is_number("disk.vda"), None);
        assert_eq!(is_number("Platform"), None);
        assert!(NAMES.is_sorted());
    }

    #[test]
    fn a_value_is_one_of_several_and_at_least_a_number() {
        let of = |is: &[&str], at_least| FactTest {
            is: is.iter().map(|one| (*one).to_owned()).collect(),
            at_least,
            ..FactTest::default()
        };
        for (test, value, holds) in [
            (of(&[], None), "x", true),
            (of(&["aws", "gcp"], None), "gcp", true),
            (of(&["aws", "gcp"], None), "azure", false),
            (of(&["6.1.*"], None), "6.1.0-42", true),
            (of(&["6.1.*"], None), "6.12.0", false),
            (of(&[], Some(4)), "4", true),
            (of(&[], Some(4)), "3", false),
            (of(&[], Some(4)), "many", false),
            (of(&["4"], Some(4)), "8", false),
        ] {
            assert_eq!(test.holds(value), holds, "{test:?} {value}");
        }
    }
}
