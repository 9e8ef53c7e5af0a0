//! All assignments of a unit and its drop-ins, by key.

use crate::unit_file::{Line, Mistake, lines};

/// A file: its name for messages, and its text.
#[derive(Debug, Clone, Copy)]
pub struct Source<'t> {
    pub name: &'t str,
    pub text: &'t str,
}

/// A key with its assignments in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub section: String,
    pub key: String,
    /// As they are written; an empty one resets what came before.
    pub values: Vec<String>,
    /// The place of the last one.
    pub file: String,
    pub line: u32,
}

impl Setting {
    /// The assignments since the last empty one.
    pub fn list(&self) -> &[String] {
        let after = self.values.iter().rposition(String::is_empty).map_or(0, |place| place.saturating_add(1));
        self.values.get(after..).unwrap_or_default()
    }

    /// The last assignment; empty if that resets the key.
    pub fn last(&self) -> &str {
        self.values.last().map_or("", String::as_str)
    }
}

/// A line that counts for nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    pub file: String,
    pub line: u32,
    pub mistake: Mistake,
}

/// The keys of a unit in the order in which they first appear.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    pub all: Vec<Setting>,
    pub passed: Vec<Passed>,
}

/// Older names of keys: section, name, and the section and name in use.
const ALIASES: [(&str, &str, &str, &str); 16] = [
    ("Unit", "BindTo", "Unit", "BindsTo"),
    ("Unit", "RequiresOverridable", "Unit", "Requires"),
    ("Unit", "RequisiteOverridable", "Unit", "Requisite"),
    ("Unit", "PropagateReloadTo", "Unit", "PropagatesReloadTo"),
    ("Unit", "PropagateReloadFrom", "Unit", "ReloadPropagatedFrom"),
    ("Unit", "StartLimitInterval", "Unit", "StartLimitIntervalSec"),
    ("Service", "StartLimitInterval", "Unit", "StartLimitIntervalSec"),
    ("Service", "StartLimitBurst", "Unit", "StartLimitBurst"),
    ("Service", "StartLimitAction", "Unit", "StartLimitAction"),
    ("Service", "FailureAction", "Unit", "FailureAction"),
    ("Service", "RebootArgument", "Unit", "RebootArgument"),
    ("Service", "ReadWriteDirectories", "Service", "ReadWritePaths"),
    ("Service", "ReadOnlyDirectories", "Service", "ReadOnlyPaths"),
    ("Service", "InaccessibleDirectories", "Service", "InaccessiblePaths"),
    ("Service", "MemoryLimit", "Service", "MemoryMax"),
    ("Service", "BlockIOAccounting", "Service", "IOAccounting"),
];

/// Keys of units that one is ordered by or depends on: systemd only adds to them, and an empty value resets none.
const NEVER_RESET: [(&str, &str); 18] = [
    ("Unit", "After"),
    ("Unit", "Before"),
    ("Unit", "BindsTo"),
    ("Unit", "Conflicts"),
    ("Unit", "JoinsNamespaceOf"),
    ("Unit", "OnFailure"),
    ("Unit", "OnSuccess"),
    ("Unit", "PartOf"),
    ("Unit", "PropagatesReloadTo"),
    ("Unit", "PropagatesStopTo"),
    ("Unit", "ReloadPropagatedFrom"),
    ("Unit", "Requires"),
    ("Unit", "RequiresMountsFor"),
    ("Unit", "Requisite"),
    ("Unit", "StopPropagatedFrom"),
    ("Unit", "Upholds"),
    ("Unit", "Wants"),
    ("Service", "Sockets"),
];

impl Settings {
    /// Reads the fragment, and the drop-ins after it.
    pub fn read<'t>(sources: impl IntoIterator<Item = Source<'t>>) -> Settings {
        let mut settings = Settings::default();
        for source in sources {
            for line in lines(source.text) {
                match line {
                    Line::Assignment { section, key, value, line } => {
                        settings.assign(&section, &key, &value, source.name, line);
                    }
                    Line::Passed { line, mistake } => {
                        settings.passed.push(Passed { file: source.name.to_owned(), line, mistake });
                    }
                }
            }
        }
        settings
    }

    fn assign(&mut self, section: &str, key: &str, value: &str, file: &str, line: u32) {
        if (section, key) == ("Service", "TimeoutSec") {
            self.assign(section, "TimeoutStartSec", value, file, line);
            return self.assign(section, "TimeoutStopSec", value, file, line);
        }
        let alias = ALIASES.iter().find(|(of, old, ..)| (*of, *old) == (section, key));
        let (section, key) = alias.map_or((section, key), |(_, _, section, key)| (*section, *key));
        let place = self.all.iter().position(|known| known.section == section && known.key == key);
        let place = place.unwrap_or_else(|| {
            self.all.push(Setting {
                section: section.to_owned(),
                key: key.to_owned(),
                values: Vec::new(),
                file: String::new(),
                line: 0,
            });
            self.all.len().saturating_sub(1)
        });
        if let Some(setting) = self.all.get_mut(place) {
            if !value.is_empty() || !NEVER_RESET.contains(&(section, key)) {
                setting.values.push(value.to_owned());
            }
            file.clone_into(&mut setting.file);
            setting.line = line;
        }
    }

    pub fn get(&self, section: &str, key: &str) -> Option<&Setting> {
        self.all.iter().find(|setting| setting.section == section && setting.key == key)
    }

    /// The last value of a key of `[Service]`; empty without one.
    pub fn service(&self, key: &str) -> &str {
        self.get("Service", key).map_or("", Setting::last)
    }

    /// The values of a key of `[Service]` since the last reset.
    pub fn service_list(&self, key: &str) -> &[String] {
        self.get("Service", key).map_or(&[], Setting::list)
    }

    /// The words of a key that lists units, such as `After=`.
    pub fn units(&self, section: &str, key: &str) -> Vec<&str> {
        let list = self.get(section, key).map_or(&[][..], Setting::list);
        list.iter().flat_map(|value| value.split_ascii_whitespace()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_ins_add_and_reset() {
        let settings = Settings::read([
            Source {
                name: "a",
                text: "[Service]\nExecStart=/a\nEnvironment=A=1\nTimeoutSec=5\n[Unit]\nAfter=a b\n",
            },
            Source {
                name: "b",
                text: "[Service]\nExecStart=\nExecStart=/b\nEnvironment=B=2\n[Unit]\nAfter=c\nbad\n",
            },
        ]);
        assert_eq!(settings.service_list("ExecStart"), ["/b"]);
        assert_eq!(settings.service_list("Environment"), ["A=1", "B=2"]);
        assert_eq!((settings.service("TimeoutStartSec"), settings.service("TimeoutStopSec")), ("5", "5"));
        assert_eq!(settings.units("Unit", "After"), ["a", "b", "c"]);
        let start = settings.get("Service", "ExecStart").unwrap();
        assert_eq!((start.file.as_str(), start.line), ("b", 3));
        assert_eq!(settings.passed, [Passed { file: "b".into(), line: 7, mistake: Mistake::NoAssignment }]);
    }

    #[test]
    fn an_empty_value_resets_no_dependency() {
        let text = "[Unit]\nAfter=a\nAfter=\nAfter=b\nWants=\nConditionPathExists=/a\nConditionPathExists=\n";
        let settings = Settings::read([Source { name: "a", text }]);
        assert_eq!(settings.units("Unit", "After"), ["a", "b"]);
        let of = |key| settings.get("Unit", key).unwrap();
        assert_eq!((of("Wants").last(), of("Wants").list().len()), ("", 0));
        assert_eq!(of("ConditionPathExists").list().len(), 0);
    }

    #[test]
    fn older_names_are_the_same_keys() {
        let text = "[Service]\nStartLimitInterval=1\n[Unit]\nStartLimitIntervalSec=2\n";
        let settings = Settings::read([Source { name: "a", text }]);
        assert_eq!(settings.all.len(), 1);
        assert_eq!(settings.all[0].values, ["1", "2"]);
    }
}
