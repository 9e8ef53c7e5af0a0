//! Conditions and assertions that Kelson has no word for: a shell tests them before a run.

use kelson_spec::kernel::capability;
use kelson_spec::service::Hook;

use crate::draft::Draft;
use crate::finding::Outcome;
use crate::settings::Setting;
use crate::values::{boolean, comparison};

/// The alternatives of all conditions are one hook.
pub fn settle(draft: &mut Draft<'_>) {
    let either = std::mem::take(&mut draft.either).join(" || ");
    if !either.is_empty() {
        let hook = hook(draft, &either, true);
        draft.conditions.push(hook);
    }
}

/// A hook that tests this.
fn hook(draft: &Draft<'_>, test: &str, condition: bool) -> Hook {
    // `expand` changes nothing in it: there is no `${` and no variable that is a whole word.
    let mut hook = Hook::new(["sh", "-c", test], Hook::TIMEOUT);
    (hook.condition, hook.as_root) = (condition, draft.is_confined());
    hook
}

/// Whether another condition of the unit has alternatives (`|`) too.
pub fn has_alternatives_beside(draft: &Draft<'_>, key: &str) -> bool {
    let mut others = draft.settings.all.iter().filter(|setting| {
        setting.section == "Unit" && setting.key.starts_with("Condition") && setting.key != key
    });
    others.any(|setting| setting.list().iter().any(|value| value.starts_with('|')))
}

pub fn condition_by_shell(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    tested(draft, setting, true)
}

pub fn assert_by_shell(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    tested(draft, setting, false)
}

fn tested(draft: &mut Draft<'_>, setting: &Setting, condition: bool) -> Outcome {
    let mut outcome = Outcome::as_table();
    for value in setting.list() {
        let (either, value) = value.strip_prefix('|').map_or((false, value.as_str()), |value| (true, value));
        let found = draft.expanded(value.trim()).and_then(|value| test(&setting.key, &value));
        match found {
            Ok(test) if either && condition => draft.either.push(test),
            Ok(test) => {
                let hook = hook(draft, &test, condition);
                draft.conditions.push(hook);
            }
            Err(wrong) => outcome = outcome.and(wrong),
        }
    }
    outcome
}

/// The test of a value, perhaps with `!`, of a key of `[Unit]`.
///
/// # Errors
/// The sentence about one that no shell can test.
pub fn test(key: &str, value: &str) -> Result<String, Outcome> {
    let (negated, value) = value.strip_prefix('!').map_or((false, value), |value| (true, value.trim_start()));
    let name = key.strip_prefix("Condition").or_else(|| key.strip_prefix("Assert")).unwrap_or(key);
    let path = quoted(value);
    let test = match name {
        "PathExists" => Some(format!("[ -e {path} ]")),
        "PathExistsGlob" => {
            glob(value).map(|words| format!("(for f in {words}; do [ -e \"$f\" ] && exit; done; exit 1)"))
        }
        "PathIsDirectory" => Some(format!("[ -d {path} ]")),
        "PathIsSymbolicLink" => Some(format!("[ -L {path} ]")),
        "PathIsReadWrite" => Some(format!("[ -w {path} ]")),
        "DirectoryNotEmpty" => Some(format!("[ -n \"$(ls -A {path} 2>/dev/null)\" ]")),
        "FileNotEmpty" => Some(format!("[ -f {path} -a -s {path} ]")),
        "FileIsExecutable" => Some(format!("[ -f {path} -a -x {path} ]")),
        "ACPower" => boolean(value).map(|on| if on { AC_POWER.to_owned() } else { format!("! {AC_POWER}") }),
        "Virtualization" => virtualization(value),
        "Capability" => capability(value).map(|number| {
            format!("[ $((0x$(sed -n 's/^CapBnd:.//p' /proc/1/status) >> {number} & 1)) = 1 ]")
        }),
        "CPUs" => cpus(value),
        _ => None,
    };
    match test {
        Some(test) if negated => Ok(format!("! {test}")),
        Some(test) => Ok(test),
        None => Err(Outcome::rejected(format!(
            "no shell tests {value:?} here, and the service starts whether it holds or not"
        ))),
    }
}

/// A supply that is not a battery is online, or there is none.
const AC_POWER: &str = "(off=0; for s in /sys/class/power_supply/*/online; do [ -e \"$s\" ] || continue; \
                        [ \"$(cat \"$s\")\" = 1 ] && exit; off=1; done; exit $off)";
const CONTAINER: &str =
    "([ -e /.dockerenv -o -e /run/.containerenv ] || grep -qz '^container=' /proc/1/environ)";
const MACHINE: &str = "grep -q '^flags.* hypervisor' /proc/cpuinfo";

fn virtualization(value: &str) -> Option<String> {
    let any = || format!("({CONTAINER} || {MACHINE})");
    Some(match value {
        "container" => CONTAINER.to_owned(),
        "vm" => format!("(! {CONTAINER} && {MACHINE})"),
        "private-users" => "[ \"$(awk '{print $3}' /proc/self/uid_map)\" != 4294967295 ]".to_owned(),
        _ if boolean(value) == Some(true) => any(),
        _ if boolean(value) == Some(false) => format!("! {}", any()),
        _ => return None,
    })
}

fn cpus(value: &str) -> Option<String> {
    let (operator, rest) = comparison(value);
    let operator = match operator {
        "<=" => "-le",
        "!=" => "-ne",
        ">" => "-gt",
        "<" => "-lt",
        "=" => "-eq",
        _ => "-ge",
    };
    let count = rest.parse::<u32>().ok()?;
    Some(format!("[ $(nproc) {operator} {count} ]"))
}

/// As one word of a shell.
fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-@:".contains(&byte);
    match !text.is_empty() && text.bytes().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// A pattern as patterns of a shell: `{a,b}` are two.
fn glob(pattern: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-@:*?[]{},".contains(&byte);
    if !pattern.bytes().all(plain) {
        return None;
    }
    let patterns = match pattern.split_once('{') {
        None => vec![pattern.to_owned()],
        Some((before, rest)) => {
            let (inner, after) = rest.split_once('}')?;
            inner.split(',').map(|one| format!("{before}{one}{after}")).collect()
        }
    };
    let is_whole = patterns.iter().all(|one| !one.contains(['{', '}', ',']));
    is_whole.then(|| patterns.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the test of a shell succeeds.
    fn holds(key: &str, value: &str) -> bool {
        let test = test(key, value).unwrap();
        let done = std::process::Command::new("sh").args(["-c", &test]).output().unwrap();
        assert!(done.stderr.is_empty(), "{test}: {}", String::from_utf8_lossy(&done.stderr));
        done.status.success()
    }

    #[test]
    fn a_shell_tests_what_systemd_tests() {
        let folder = std::env::temp_dir().join(format!("kelson conditions {}", std::process::id()));
        std::fs::create_dir_all(folder.join("empty")).unwrap();
        std::fs::write(folder.join("file"), "x").unwrap();
        std::fs::write(folder.join("nothing"), "").unwrap();
        std::os::unix::fs::symlink("file", folder.join("link")).unwrap();
        let path = |name: &str| folder.join(name).display().to_string();
        for (key, value, expected) in [
            ("PathExists", path("file"), true),
            ("PathExists", path("none"), false),
            ("PathIsDirectory", path("empty"), true),
            ("PathIsDirectory", path("file"), false),
            ("PathIsSymbolicLink", path("link"), true),
            ("PathIsSymbolicLink", path("file"), false),
            ("PathIsReadWrite", path("file"), true),
            ("DirectoryNotEmpty", path(""), true),
            ("DirectoryNotEmpty", path("empty"), false),
            ("DirectoryNotEmpty", path("none"), false),
            ("FileNotEmpty", path("file"), true),
            ("FileNotEmpty", path("nothing"), false),
            ("FileNotEmpty", path("empty"), false),
            ("FileIsExecutable", "/bin/sh".to_owned(), true),
            ("FileIsExecutable", path("file"), false),
            ("PathExistsGlob", "/bin/{nosuchthing,s[h]}".to_owned(), true),
            ("PathExistsGlob", "/bin/nosuch*".to_owned(), false),
            ("CPUs", ">0".to_owned(), true),
            ("CPUs", "<1".to_owned(), false),
            ("CPUs", "1".to_owned(), true),
            (
                "Virtualization",
                "private-users".to_owned(),
                !holds("ConditionVirtualization", "!private-users"),
            ),
        ] {
            assert_eq!(holds(&format!("Condition{key}"), &value), expected, "{key} {value}");
            assert_eq!(holds(&format!("Assert{key}"), &format!("!{value}")), !expected, "{key} !{value}");
        }
        for key in ["ConditionACPower", "ConditionVirtualization"] {
            assert_ne!(holds(key, "yes"), holds(key, "no"), "{key}");
        }
        holds("ConditionCapability", "CAP_SYS_TIME");
        for (key, value) in [
            ("ConditionCPUs", "many"),
            ("ConditionCapability", "CAP_X"),
            ("ConditionPathExistsGlob", "/a b"),
            ("ConditionHost", "x"),
        ] {
            assert!(test(key, value).is_err(), "{key} {value}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
