//! The table of keys: every one of systemd.unit(5), systemd.service(5), systemd.exec(5), systemd.kill(5) and
//! systemd.resource-control(5) that a service unit of systemd 252 may have.
//!
//! A key that becomes available is one row: its function, or why nothing is lost without one.

mod confining;
mod executing;
mod install;
mod limiting;
mod path;
mod service;
mod socket;
mod timer;
mod unit;

use crate::key::Key;

/// A part of the table.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    pub section: &'static str,
    /// The manual page that describes its keys.
    pub page: &'static str,
    pub title: &'static str,
    pub keys: &'static [Key],
}

pub const PARTS: [Part; 12] = [
    Part { section: "Unit", page: "systemd.unit(5)", title: "[Unit]", keys: &unit::KEYS },
    Part {
        section: "Unit",
        page: "systemd.unit(5)",
        title: "[Unit]: conditions and assertions",
        keys: &unit::CONDITIONS,
    },
    Part { section: "Install", page: "systemd.unit(5)", title: "[Install]", keys: &install::KEYS },
    Part {
        section: "Service",
        page: "systemd.service(5)",
        title: "[Service]: the service",
        keys: &service::KEYS,
    },
    Part { section: "Service", page: "systemd.kill(5)", title: "[Service]: its stop", keys: &service::STOP },
    Part {
        section: "Service",
        page: "systemd.exec(5)",
        title: "[Service]: its processes",
        keys: &executing::KEYS,
    },
    Part {
        section: "Service",
        page: "systemd.exec(5)",
        title: "[Service]: its limits",
        keys: &limiting::LIMITS,
    },
    Part {
        section: "Service",
        page: "systemd.exec(5)",
        title: "[Service]: its sandbox",
        keys: &confining::KEYS,
    },
    Part {
        section: "Service",
        page: "systemd.resource-control(5)",
        title: "[Service]: its resources",
        keys: &limiting::RESOURCES,
    },
    Part {
        section: "Socket",
        page: "systemd.socket(5)",
        title: "[Socket], of a unit that is given beside its service",
        keys: &socket::KEYS,
    },
    Part {
        section: "Timer",
        page: "systemd.timer(5)",
        title: "[Timer], of a unit that is given beside its service",
        keys: &timer::KEYS,
    },
    Part {
        section: "Path",
        page: "systemd.path(5)",
        title: "[Path], of a unit that is given beside its service",
        keys: &path::KEYS,
    },
];

/// The row of a key.
pub fn find(section: &str, name: &str) -> Option<&'static Key> {
    let parts = PARTS.iter().filter(|part| part.section == section);
    parts.flat_map(|part| part.keys).find(|key| key.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `/lib/systemd/systemd --dump-configuration-items` of Debian 12 names, section by section; without keys that
    /// it only knows to refuse, and with older names as `Settings` resolves them.
    const SYSTEMD: &str = include_str!("../tests/systemd-252-keys.txt");

    #[test]
    fn every_key_of_systemd_252_has_a_row() {
        let mut section = "";
        for line in SYSTEMD.lines().filter(|line| !line.starts_with('#')) {
            match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                Some(name) => section = name,
                None => {
                    // As a unit would have it, so an older name leads to the row of the newer.
                    let text = format!("[{section}]\n{line}=x\n");
                    let settings = crate::settings::Settings::read([crate::Source { name: "", text: &text }]);
                    for setting in &settings.all {
                        assert!(find(&setting.section, &setting.key).is_some(), "[{section}] {line}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_key_has_two_rows_or_one_that_says_nothing() {
        let mut names = std::collections::BTreeSet::new();
        for part in PARTS {
            crate::key::assert_sound(part.title, part.keys);
            for key in part.keys {
                // Several parts can be of one section.
                assert!(names.insert((part.section, key.name)), "{} has two rows", key.name);
                assert!(
                    SYSTEMD.lines().any(|line| line == key.name),
                    "{} is no key of systemd 252",
                    key.name
                );
            }
        }
    }
}
