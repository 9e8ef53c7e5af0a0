//! Specifiers, `%n` and the like, in the values of a system's unit: those of systemd.unit(5) of version 252.

use crate::finding::Outcome;
use crate::unit_name::{UnitName, unescaped};

/// What only the host knows, with the words for it.
const OF_HOST: [(char, &str); 17] = [
    ('a', "the architecture of the host"),
    ('A', "the version of the host's image"),
    ('b', "the id of the host's boot"),
    ('B', "the build of the host's system"),
    ('d', "the folder of credentials of the run"),
    ('H', "the name of the host"),
    ('l', "the short name of the host"),
    ('m', "the machine id of the host"),
    ('M', "the name of the host's image"),
    ('o', "the name of the host's system"),
    ('q', "the pretty name of the host"),
    ('s', "the shell of the host's root"),
    ('v', "the release of the host's kernel"),
    ('w', "the version of the host's system"),
    ('W', "the variant of the host's system"),
    ('y', "the path of the unit file"),
    ('Y', "the folder of the unit file"),
];

/// Puts the values of specifiers in. Those in `given` come first.
///
/// # Errors
/// The sentence about one whose value is not known here.
pub fn expanded(text: &str, name: &UnitName, given: &[(char, String)]) -> Result<String, Outcome> {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        match letters.next() {
            Some('%') => out.push('%'),
            Some(specifier) => out.push_str(&value(specifier, name, given)?),
            None => out.push('%'),
        }
    }
    Ok(out)
}

fn value(specifier: char, name: &UnitName, given: &[(char, String)]) -> Result<String, Outcome> {
    if let Some((_, value)) = given.iter().find(|(known, _)| *known == specifier) {
        return Ok(value.clone());
    }
    let plain = |part: &str| {
        let wrong = || Outcome::rejected(format!("the name of the unit has an escape that is wrong: {part}"));
        unescaped(part).ok_or_else(wrong)
    };
    let (prefix, instance) = (name.prefix(), name.instance());
    let last = prefix.rsplit('-').next().unwrap_or(prefix);
    let fixed = match specifier {
        'n' => name.full(),
        'N' => name.bare.clone(),
        'p' => prefix.to_owned(),
        'P' => plain(prefix)?,
        'i' => instance.to_owned(),
        'I' => plain(instance)?,
        'j' => last.to_owned(),
        'J' => plain(last)?,
        'f' => {
            let path = plain(if instance.is_empty() { prefix } else { instance })?;
            if path.starts_with('/') { path } else { format!("/{path}") }
        }
        'u' | 'g' => "root".to_owned(),
        'U' | 'G' => "0".to_owned(),
        'h' => "/root".to_owned(),
        't' => "/run".to_owned(),
        'S' => "/var/lib".to_owned(),
        'C' => "/var/cache".to_owned(),
        'L' => "/var/log".to_owned(),
        'E' => "/etc".to_owned(),
        'T' => "/tmp".to_owned(),
        'V' => "/var/tmp".to_owned(),
        // systemd leaves those that it does not know.
        other => match OF_HOST.iter().find(|(known, _)| *known == other) {
            None => format!("%{other}"),
            Some((_, what)) => {
                return Err(Outcome::rejected(format!(
                    "%{other} is {what}, which is not known here; name it with --specifier {other}=VALUE"
                )));
            }
        },
    };
    Ok(fixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<String, Outcome> {
        let given = [('H', "edge-1".to_owned())];
        expanded(text, &UnitName::new("a-web@dev-tty\\x2d1.service").unwrap(), &given)
    }

    #[test]
    fn names_and_folders_are_put_in() {
        for (text, expected) in [
            ("%n|%N", "a-web@dev-tty\\x2d1.service|a-web@dev-tty\\x2d1"),
            ("%p|%P|%j|%J", "a-web|a/web|web|web"),
            ("%i|%I|%f", "dev-tty\\x2d1|dev/tty-1|/dev/tty-1"),
            ("%t %S %C %L %E %T %V", "/run /var/lib /var/cache /var/log /etc /tmp /var/tmp"),
            ("%u:%g %U %h", "root:root 0 /root"),
            ("100%% %z %", "100% %z %"),
            ("%H", "edge-1"),
        ] {
            assert_eq!(of(text).unwrap(), expected, "{text}");
        }
        assert_eq!(expanded("%f", &UnitName::new("x.service").unwrap(), &[]).unwrap(), "/x");
    }

    #[test]
    fn what_only_the_host_knows_is_asked_for() {
        let (_, sentence) = of("%m").unwrap_err().summary(crate::finding::Fate::Kept, "");
        assert!(sentence.contains("--specifier m=VALUE"), "{sentence}");
        for (specifier, _) in OF_HOST.iter().filter(|(specifier, _)| *specifier != 'H') {
            assert!(of(&format!("%{specifier}")).is_err(), "{specifier}");
        }
    }
}
