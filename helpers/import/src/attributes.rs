//! What processes of a unit have and hand on, and the folders that it is given.

use kelson_spec::service::{Directory, DirectoryKind, Preserve, is_directory};

use crate::draft::Draft;
use crate::finding::Outcome;
use crate::settings::Setting;
use crate::values::boolean;
use crate::words::words;

/// The last CPU that a service file can name.
const LAST_CPU: u16 = 8191;
/// CPUs of a word of the set.
const BITS: u16 = 64;

pub fn umask(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match setting.last() {
        "" => Outcome::as_table(),
        text => match octal(text, 0o777) {
            Some(umask) => {
                draft.spec.attributes.umask = umask;
                Outcome::as_table()
            }
            None => Outcome::rejected(format!("{text:?} is no umask")),
        },
    }
}

fn octal(text: &str, most: u32) -> Option<u32> {
    let digits = text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    u32::from_str_radix(text, 8).ok().filter(|mode| digits && *mode <= most)
}

fn number(setting: &Setting, range: std::ops::RangeInclusive<i16>) -> Result<Option<i16>, Outcome> {
    let text = setting.last();
    if text.is_empty() {
        return Ok(None);
    }
    let number = text.parse::<i16>().ok().filter(|number| range.contains(number));
    let wrong =
        || Outcome::rejected(format!("{text:?} is no number from {} to {}", range.start(), range.end()));
    number.map(Some).ok_or_else(wrong)
}

/// `IOSchedulingClass=` and `IOSchedulingPriority=`, which ionice(1) sets.
pub fn io_scheduling(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let class = match draft.settings.service("IOSchedulingClass") {
        "" | "0" | "none" | "2" | "best-effort" => "2",
        "1" | "realtime" => "1",
        "3" | "idle" => "3",
        other => return Outcome::rejected(format!("{other:?} is no class of systemd")),
    };
    let level = match draft.settings.service("IOSchedulingPriority") {
        "" => "4",
        text if text.parse::<u8>().is_ok_and(|level| level < 8) => text,
        other => return Outcome::rejected(format!("{other:?} is no number from 0 to 7")),
    };
    if (class, level) == ("2", "4") {
        return Outcome::kept("it is what every service has");
    }
    let mut words = vec!["ionice", "-c", class];
    if class != "3" {
        words.extend(["-n", level]);
    }
    scheduled(draft, setting, &words)
}

/// `CPUSchedulingPolicy=` and `CPUSchedulingPriority=`, which chrt(1) sets.
pub fn cpu_scheduling(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let level = match draft.settings.service("CPUSchedulingPriority") {
        "" => "1",
        text if text.parse::<u8>().is_ok_and(|level| level < 100) => text,
        other => return Outcome::rejected(format!("{other:?} is no number from 0 to 99")),
    };
    match draft.settings.service("CPUSchedulingPolicy") {
        "" | "other" => Outcome::kept("it is what every service has"),
        "batch" => scheduled(draft, setting, &["chrt", "--batch", "0"]),
        "idle" => scheduled(draft, setting, &["chrt", "--idle", "0"]),
        "fifo" => scheduled(draft, setting, &["chrt", "--fifo", level]),
        "rr" => scheduled(draft, setting, &["chrt", "--rr", level]),
        other => Outcome::rejected(format!("{other:?} is no policy of systemd")),
    }
}

/// The first of the two keys that are read puts this program before the main one.
fn scheduled(draft: &mut Draft<'_>, setting: &Setting, words: &[&str]) -> Outcome {
    let program = words.first().copied().unwrap_or_default();
    let known = draft.scheduler.iter().any(|word| word == program);
    let twin = match setting.key.as_str() {
        "IOSchedulingPriority" => "IOSchedulingClass",
        "CPUSchedulingPriority" => "CPUSchedulingPolicy",
        _ => "",
    };
    if !known && (twin.is_empty() || draft.settings.service_list(twin).is_empty()) {
        draft.scheduler.extend(words.iter().map(|word| (*word).to_owned()));
    }
    Outcome::approximated(format!(
        "{program} of util-linux sets it for the main program alone, and not for hooks"
    ))
}

/// `AppArmorProfile=`, which the kernel puts in force with the next program of a process that asks for it.
pub fn app_armor(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let text = setting.last();
    let (may_fail, name) = text.strip_prefix('-').map_or((false, text), |name| (true, name));
    let name = match draft.expanded(name) {
        Ok(name) if name.is_empty() => return Outcome::as_table(),
        Ok(name) => name,
        Err(outcome) => return outcome,
    };
    // Without AppArmor in the kernel systemd does nothing either.
    let script = match may_fail {
        true => "{ echo \"exec $0\" >/proc/self/attr/exec; } 2>/dev/null; exec \"$@\"",
        false => {
            "[ ! -e /sys/kernel/security/apparmor ] || echo \"exec $0\" >/proc/self/attr/exec && exec \"$@\""
        }
    };
    draft.scheduler.extend(["sh", "-c", script, &name].map(str::to_owned));
    Outcome::approximated("a shell asks for the profile, for the main program alone and not for hooks")
}

pub fn nice(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match number(setting, -20..=19) {
        Ok(nice) => {
            draft.spec.attributes.nice = nice;
            Outcome::as_table()
        }
        Err(outcome) => outcome,
    }
}

pub fn oom_score(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match number(setting, -1000..=1000) {
        Ok(score) => {
            draft.spec.attributes.oom_score = score;
            Outcome::as_table()
        }
        Err(outcome) => outcome,
    }
}

pub fn io_weight(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match number(setting, 1..=10_000) {
        Ok(weight) => {
            draft.spec.resources.io_weight = weight.and_then(|weight| u64::try_from(weight).ok());
            Outcome::as_table()
        }
        Err(outcome) => outcome,
    }
}

pub fn cpu_affinity(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match cpu_set(&setting.list().join(" ")) {
        Some(set) => {
            draft.spec.attributes.cpus = set;
            Outcome::as_table()
        }
        None => {
            Outcome::rejected("the service runs on every CPU: the value is no list of numbers and ranges")
        }
    }
}

/// Numbers and ranges, with blanks or commas between them.
pub fn cpu_set(text: &str) -> Option<Vec<u64>> {
    let mut set: Vec<u64> = Vec::new();
    for word in text.split([' ', '\t', ',']).filter(|word| !word.is_empty()) {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let cpu = |text: &str| text.parse::<u16>().ok().filter(|cpu| *cpu <= LAST_CPU);
        for cpu in cpu(first)?..=cpu(last)? {
            let place = usize::from(cpu / BITS);
            if set.len() <= place {
                set.resize(place.saturating_add(1), 0);
            }
            if let Some(bits) = set.get_mut(place) {
                *bits |= 1_u64.wrapping_shl(u32::from(cpu % BITS));
            }
        }
    }
    Some(set)
}

/// `RuntimeDirectory=` and the four like it.
pub fn directories(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let of_key = |kind: &DirectoryKind| {
        let mut name = kind.name().to_owned();
        name.get_mut(..1).into_iter().for_each(str::make_ascii_uppercase);
        setting.key == format!("{name}Directory")
    };
    let Some(kind) = DirectoryKind::ALL.into_iter().find(of_key) else { return Outcome::as_table() };
    let mode = draft.settings.service(&format!("{}Mode", setting.key));
    let mode = if mode.is_empty() { Some(Directory::MODE) } else { octal(mode, 0o7777) };
    let Some(mode) = mode else { return Outcome::rejected("its mode is no number in octal digits") };
    let mut outcome = Outcome::as_table();
    for value in setting.list() {
        let names = match words(value) {
            Ok(names) => names,
            Err(error) => {
                outcome = outcome.and(Outcome::rejected(format!("{value}: {error}")));
                continue;
            }
        };
        for name in names {
            let (name, link) =
                name.split_once(':').map_or((name.as_str(), None), |(name, link)| (name, Some(link)));
            if let Some(link) = link {
                outcome = outcome.and(Outcome::rejected(format!("there is no link {link} to the folder")));
            }
            match draft.expanded(name.trim_end_matches('/')) {
                Ok(path) if is_directory(&path) => {
                    let folder = Directory { kind, path: path.into(), mode };
                    if !draft
                        .spec
                        .directories
                        .list
                        .iter()
                        .any(|known| (known.kind, &known.path) == (kind, &folder.path))
                    {
                        draft.spec.directories.list.push(folder);
                    }
                }
                Ok(path) => {
                    outcome =
                        outcome.and(Outcome::rejected(format!("{path} is no path that a service can have")));
                }
                Err(wrong) => outcome = outcome.and(wrong),
            }
        }
    }
    outcome
}

pub fn preserve(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    draft.spec.directories.preserve = match (setting.last(), boolean(setting.last())) {
        ("restart", _) => Preserve::Restart,
        (_, Some(true)) => Preserve::Always,
        _ => Preserve::Never,
    };
    Outcome::as_table()
}
