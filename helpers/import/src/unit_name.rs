//! Names of units: template and instance, escapes of paths, and the name that a service gets in Kelson.

use kelson_spec::builtin::is_reserved;
use kelson_spec::names::{LONGEST_NAME, is_name};

/// The name of a service unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitName {
    /// Without `.service`: `web`, `web@a`, `web@`.
    pub bare: String,
}

impl UnitName {
    /// `None`: it is the name of no service unit.
    pub fn new(name: &str) -> Option<UnitName> {
        let bare = name.strip_suffix(".service")?;
        let sound = !bare.is_empty()
            && !bare.starts_with('@')
            && bare.bytes().all(|b| b.is_ascii_alphanumeric() || b":-_.\\@".contains(&b));
        sound.then(|| UnitName { bare: bare.to_owned() })
    }

    pub fn full(&self) -> String {
        format!("{}.service", self.bare)
    }

    /// What stands before the `@`.
    pub fn prefix(&self) -> &str {
        self.bare.split_once('@').map_or(self.bare.as_str(), |(prefix, _)| prefix)
    }

    /// What stands after the `@`, as it is in the name; empty without one.
    pub fn instance(&self) -> &str {
        self.bare.split_once('@').map_or("", |(_, instance)| instance)
    }

    /// It is a template, which runs under the name of an instance only.
    pub fn is_template(&self) -> bool {
        self.bare.contains('@') && self.instance().is_empty()
    }

    /// The same with this instance in place of none, which is escaped as far as it has to be.
    pub fn of_instance(&self, instance: &str) -> UnitName {
        UnitName { bare: format!("{}@{}", self.prefix(), escaped(instance)) }
    }
}

/// As `systemd-escape` writes it, but for what is sound already.
fn escaped(text: &str) -> String {
    let sound = |b: u8| b.is_ascii_alphanumeric() || b":-_.\\@".contains(&b);
    let one = |b: u8| match b {
        b'/' => "-".to_owned(),
        b if sound(b) => char::from(b).to_string(),
        b => format!("\\x{b:02x}"),
    };
    text.bytes().map(one).collect()
}

/// A part of a name without its escapes: `-` is `/`, `\x2d` is `-`. `None`: an escape is wrong, or the result is no text.
pub fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let tail = rest.get(letter.len_utf8()..).unwrap_or_default();
        rest = match letter {
            '-' => {
                bytes.push(b'/');
                tail
            }
            '\\' => {
                let (digits, tail) = tail.strip_prefix('x')?.split_at_checked(2)?;
                let sound = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                bytes.push(u8::from_str_radix(digits, 16).ok().filter(|byte| sound && *byte != 0)?);
                tail
            }
            _ => {
                bytes.extend(rest.bytes().take(letter.len_utf8()));
                tail
            }
        };
    }
    String::from_utf8(bytes).ok()
}

/// The path that the name of a mount or device unit stands for: `dev-disk-by\x2dlabel-A` is `/dev/disk/by-label/A`.
pub fn path(bare: &str) -> Option<String> {
    match bare {
        "-" => Some("/".to_owned()),
        bare => unescaped(bare).map(|path| format!("/{path}")),
    }
}

/// The name of the service in Kelson. It is another where Kelson's names have no such letters, or where a part of Kelson has
/// that name.
pub fn kelson_name(bare: &str) -> String {
    let plain = unescaped(bare).filter(|_| bare.contains('\\')).unwrap_or_else(|| bare.to_owned());
    let letters = plain.chars().map(|letter| match letter.to_ascii_lowercase() {
        letter if letter.is_ascii_alphanumeric() => letter,
        _ => '-',
    });
    let mut name: String = letters.skip_while(|letter| *letter == '-').take(LONGEST_NAME).collect();
    name.truncate(name.trim_end_matches('-').len());
    if is_reserved(&name) {
        name.push_str("-service");
    }
    if is_name(&name) { name } else { "service".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_parts() {
        let name = UnitName::new("web@a-b.service").unwrap();
        assert_eq!((name.prefix(), name.instance(), name.is_template()), ("web", "a-b", false));
        let template = UnitName::new("web@.service").unwrap();
        assert!(template.is_template());
        assert_eq!(template.of_instance("/dev/tty 1").full(), "web@-dev-tty\\x201.service");
        for wrong in ["web", "web.socket", ".service", "@a.service", "a b.service", "a/b.service"] {
            assert_eq!(UnitName::new(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn escapes_are_those_of_systemd_escape() {
        assert_eq!(unescaped("a-b\\x2dc"), Some("a/b-c".to_owned()));
        assert_eq!(unescaped("\\xc3\\xa4"), Some("\u{e4}".to_owned()));
        for wrong in ["\\", "\\x", "\\x0", "\\x00", "\\xzz", "\\n", "\\xff", "\\x+1"] {
            assert_eq!(unescaped(wrong), None, "{wrong}");
        }
        assert_eq!(path("dev-disk-by\\x2dlabel-A").as_deref(), Some("/dev/disk/by-label/A"));
        assert_eq!(path("-").as_deref(), Some("/"));
    }

    #[test]
    fn every_name_becomes_one_of_kelson() {
        for (bare, name) in [
            ("web", "web"),
            ("web@a", "web-a"),
            ("ModemManager", "modemmanager"),
            ("dbus-org.freedesktop.X", "dbus-org-freedesktop-x"),
            ("systemd-fsck@dev-disk-by\\x2dlabel-A", "systemd-fsck-dev-disk-by-label-a"),
            ("containerd", "containerd-service"),
            ("_", "service"),
        ] {
            assert_eq!(kelson_name(bare), name);
            assert!(is_name(&kelson_name(bare)) && !is_reserved(&kelson_name(bare)), "{bare}");
        }
        assert!(is_name(&kelson_name(&"a".repeat(300))));
    }
}
