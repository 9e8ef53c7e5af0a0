//! Whom a service runs as, and its bounds.

use std::path::PathBuf;

use kelson_spec::kernel::{ALL_CAPABILITIES, LIMITS, capability};
use kelson_spec::service::{ResourceLimit, Workload};

use crate::draft::Draft;
use crate::finding::Outcome;
use crate::settings::Setting;
use crate::values::{boolean, permille, size, span};
use crate::view;

/// The bounds of a service file.
const LEAST_MEMORY: u64 = 64 << 10;
const MOST_TASKS: u64 = 4_194_304;
const CPU_MILLIS: std::ops::RangeInclusive<u64> = 10..=4_096_000;
const MOST_LINES: u64 = 10_000;

pub fn user(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    account(draft, setting, |draft, name| draft.user = Some(name))
}

pub fn group(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    account(draft, setting, |draft, name| draft.group = Some(name))
}

pub fn account(draft: &mut Draft<'_>, setting: &Setting, put: fn(&mut Draft<'_>, String)) -> Outcome {
    match draft.expanded(setting.last()) {
        Ok(name) if name.is_empty() => Outcome::as_table(),
        Ok(name) if name.contains([':', ' ', '\t']) => {
            Outcome::rejected(format!("{name:?} is no name of a user or group"))
        }
        Ok(name) => {
            put(draft, name);
            Outcome::as_table()
        }
        Err(outcome) => outcome,
    }
}

pub fn working_directory(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let (optional, path) = match setting.last().strip_prefix('-') {
        Some(path) => (true, path),
        None => (false, setting.last()),
    };
    let path = match draft.expanded(path) {
        Ok(path) => path,
        Err(outcome) => return outcome,
    };
    let path = if path == "~" && draft.is_root() { "/root".to_owned() } else { path };
    if path.is_empty() {
        return Outcome::as_table();
    }
    if !path.starts_with('/') {
        return Outcome::rejected("the home of a user is known to the host alone; write its path");
    }
    if let Workload::Process(process) = &mut draft.spec.workload {
        process.working_directory = PathBuf::from(path);
    }
    match optional {
        true => Outcome::approximated("the start fails if the folder is missing"),
        false => Outcome::as_table(),
    }
}

pub fn no_new_privileges(_: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match setting.last().is_empty() || boolean(setting.last()).is_some() {
        true => Outcome::as_table(),
        false => Outcome::rejected(format!("{:?} is not yes or no", setting.last())),
    }
}

/// The set that the values of a key make. A list adds to the set, or with `~` takes from it; an empty value is the empty set.
fn set(setting: &Setting, initial: u64) -> Result<u64, Outcome> {
    let mut set: Option<u64> = None;
    for value in &setting.values {
        let (without, names) = value.strip_prefix('~').map_or((false, value.as_str()), |names| (true, names));
        let mut mask = 0_u64;
        for name in names.split_ascii_whitespace() {
            let bit = capability(name).and_then(|number| 1_u64.checked_shl(number));
            let unknown = || Outcome::rejected(format!("{name} is no capability that Kelson knows"));
            mask |= bit.ok_or_else(unknown)?;
        }
        set = Some(match (set, without, names.trim().is_empty()) {
            (_, false, true) => 0,
            (_, true, true) => ALL_CAPABILITIES,
            (None, true, false) => initial & !mask,
            (Some(set), true, false) => set & !mask,
            (set, false, false) => set.unwrap_or(0) | mask,
        });
    }
    Ok(set.unwrap_or(initial))
}

pub fn bounding_set(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match set(setting, ALL_CAPABILITIES) {
        Ok(mask) => {
            let mask = mask | draft.spec.security.ambient;
            draft.spec.security.capabilities = (mask != ALL_CAPABILITIES).then_some(mask);
            Outcome::as_table()
        }
        Err(outcome) => outcome,
    }
}

pub fn ambient(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match set(setting, 0) {
        Ok(mask) => {
            let security = &mut draft.spec.security;
            security.ambient = mask;
            security.capabilities = security.capabilities.map(|bounding| bounding | mask);
            Outcome::as_table()
        }
        Err(outcome) => outcome,
    }
}

pub fn protect_system(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    const WRITABLE: [&str; 3] = ["TemporaryFileSystem", "Delegate", "ExtensionDirectories"];
    let has = |key: &&str| {
        let list = draft.settings.service_list(key);
        !list.is_empty() && list.iter().all(|value| boolean(value) != Some(false))
    };
    let is_dynamic = draft.is_on("DynamicUser");
    let text = if is_dynamic { "strict" } else { setting.last() };
    match (text, WRITABLE.iter().find(|key| has(key))) {
        ("", _) => Outcome::as_table(),
        (text, _) if boolean(text) == Some(false) => Outcome::kept("nothing is protected"),
        ("strict", None) => {
            draft.spec.security.read_only_root = true;
            let writable = &mut draft.spec.security.view.writable;
            view::add(writable, ["/dev", "/proc", "/sys"]);
            // systemd leaves the homes to ProtectHome= alone.
            let home = draft.settings.service("ProtectHome");
            if (home.is_empty() || boolean(home) == Some(false)) && !is_dynamic {
                view::add(writable, view::HOMES);
            }
            Outcome::kept(
                "`security: {readOnlyRoot: true}`, with /dev, /proc, /sys and without `ProtectHome=` the homes in \
                 `writablePaths`",
            )
        }
        ("strict", Some(key)) => {
            Outcome::rejected(format!("every file can be written; `readOnlyRoot` has no exception for {key}"))
        }
        ("full", _) => {
            view::system(draft, true);
            Outcome::kept("`security: {readOnlyPaths: …}`")
        }
        (text, _) if boolean(text) == Some(true) => {
            view::system(draft, false);
            Outcome::kept("`security: {readOnlyPaths: …}`")
        }
        (text, _) => Outcome::rejected(format!("{text:?} is no word of systemd, and nothing is protected")),
    }
}

/// `LimitNOFILE=` and the others.
pub fn limit(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let name = setting.key.strip_prefix("Limit").unwrap_or_default().to_ascii_lowercase();
    let Some((_, resource)) = LIMITS.iter().find(|(known, _)| *known == name) else {
        return Outcome::rejected("Kelson does not know this limit");
    };
    let text = setting.last();
    if text.is_empty() {
        return Outcome::as_table();
    }
    let one = |text: &str| -> Option<u64> {
        let value = match name.as_str() {
            "cpu" => span(text, 1_000_000)?.map(|micros| micros.div_ceil(1_000_000)),
            "rttime" => span(text, 1)?,
            // `+5` is the nice value 5, as the kernel counts it.
            "nice" => Some(match text.strip_prefix('+').or(text.strip_prefix('-').map(|_| text)) {
                Some(nice) => u64::try_from(20_i32.checked_sub(nice.parse().ok()?)?).ok()?,
                None => text.parse().ok()?,
            }),
            "nofile" | "nproc" | "locks" | "sigpending" | "rtprio" if text != "infinity" => {
                Some(text.parse().ok()?)
            }
            _ => size(text)?,
        };
        Some(value.unwrap_or(u64::MAX))
    };
    let both = match text.split_once(':') {
        Some((soft, hard)) => one(soft).zip(one(hard)),
        None => one(text).map(|both| (both, both)),
    };
    match both {
        Some((soft, hard)) if soft <= hard => {
            draft.spec.limits.push(ResourceLimit { resource: *resource, soft, hard });
            Outcome::as_table()
        }
        _ => Outcome::rejected(format!("{text:?} is no limit")),
    }
}

/// A limit of memory: a size, none, or a share of the host's.
fn memory(setting: &Setting) -> Result<Option<u64>, Outcome> {
    let text = setting.last();
    if text.is_empty() {
        return Ok(None);
    }
    match size(text) {
        Some(Some(bytes)) if bytes < LEAST_MEMORY => {
            Err(Outcome::rejected("Kelson starts nothing with less than 64 KiB of memory"))
        }
        Some(bytes) => Ok(bytes),
        None if permille(text).is_some() => {
            Err(Outcome::rejected("a share of the host's memory is not a size; write the size"))
        }
        None => Err(Outcome::rejected(format!("{text:?} is no size"))),
    }
}

fn put<T>(value: Result<T, Outcome>, to: impl FnOnce(T)) -> Outcome {
    match value {
        Ok(value) => {
            to(value);
            Outcome::as_table()
        }
        Err(outcome) => outcome,
    }
}

pub fn memory_max(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    put(memory(setting), |bytes| draft.spec.resources.memory_max = bytes)
}

pub fn memory_high(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    put(memory(setting), |bytes| draft.spec.resources.memory_high = bytes)
}

pub fn cpu_quota(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match (setting.last(), permille(setting.last())) {
        ("", _) => Outcome::as_table(),
        // Thousandths of a CPU are tenths of its hundredths.
        (_, Some(millis)) if CPU_MILLIS.contains(&millis) => {
            draft.spec.resources.cpu_max_millis = Some(millis);
            Outcome::as_table()
        }
        (text, _) => Outcome::rejected(format!("{text:?} is no share from 1% on")),
    }
}

pub fn cpu_weight(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match setting.last() {
        "" => Outcome::as_table(),
        "idle" => Outcome::rejected("the service gets processor time also when others want it"),
        text => match text.parse::<u64>().ok().filter(|weight| (1..=10_000).contains(weight)) {
            Some(weight) => {
                draft.spec.resources.cpu_weight = Some(weight);
                Outcome::as_table()
            }
            None => Outcome::rejected(format!("{text:?} is no weight from 1 to 10000")),
        },
    }
}

pub fn tasks_max(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match setting.last() {
        "" => Outcome::as_table(),
        "infinity" => {
            draft.spec.resources.pids_max = Some(MOST_TASKS);
            Outcome::as_table()
        }
        text if permille(text).is_some_and(|share| share >= 900) => {
            Outcome::approximated("no limit of its own: the host's is hardly more than this share of it")
        }
        text if permille(text).is_some() => {
            Outcome::rejected("a share of what the host can have is not a number; write the number")
        }
        text => match text.parse::<u64>().ok().filter(|tasks| *tasks > 0) {
            Some(tasks) => {
                draft.spec.resources.pids_max = Some(tasks.min(MOST_TASKS));
                Outcome::as_table()
            }
            None => Outcome::rejected(format!("{text:?} is no number")),
        },
    }
}

pub fn delegate(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match (setting.last(), boolean(setting.last())) {
        ("", _) | (_, Some(false)) => Outcome::as_table(),
        (_, Some(true)) => {
            draft.spec.delegate = true;
            Outcome::as_table()
        }
        _ => {
            draft.spec.delegate = true;
            Outcome::approximated("the service gets every controller of the host, and not only these")
        }
    }
}

pub fn slice(_: &mut Draft<'_>, setting: &Setting) -> Outcome {
    match setting.last() {
        "" | "system.slice" => Outcome::kept("Kelson has one cgroup for all services"),
        // That of a template, which systemd makes up.
        other if other.starts_with("system-") => {
            Outcome::approximated(format!("limits of {other} for its services together are not in force"))
        }
        other => Outcome::rejected(format!("the service is in no group of limits with those of {other}")),
    }
}

pub fn log_burst(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    let interval = match draft.settings.service("LogRateLimitIntervalSec") {
        "" => Some(30_000_000),
        text => span(text, 1_000_000).flatten(),
    };
    let lines = setting.last().parse::<u64>().ok().zip(interval);
    let rate = lines.and_then(|(burst, micros)| burst.checked_mul(1_000_000)?.checked_div(micros));
    match rate.filter(|rate| *rate > 0) {
        Some(rate) => {
            draft.spec.logs.rate_limit = u32::try_from(rate.min(MOST_LINES)).ok();
            Outcome::as_table()
        }
        None => Outcome::kept("no limit, as in Kelson"),
    }
}
