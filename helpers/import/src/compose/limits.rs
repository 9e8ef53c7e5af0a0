//! The bounds of a service of a compose file.

use kelson_spec::kernel::{ALL_CAPABILITIES, CONTAINER_CAPABILITIES, LIMITS, capability};
use kelson_spec::service::{ContainerRuntime, ResourceLimit, Seccomp};

use super::draft::{Draft, Part};
use crate::attributes::cpu_set;
use crate::finding::Outcome;
use crate::key::Neutral::Empty;
use crate::key::{kept, lost};
use crate::values::size;
use crate::yaml::{Kind, Value};

/// The bounds of a service file.
const LEAST_MEMORY: u64 = 64 << 10;
const MOST_TASKS: u64 = 4_194_304;
const CPU_MILLIS: std::ops::RangeInclusive<u64> = 10..=4_096_000;

/// The keys of the mapping.
pub const KEYS: Part = Part {
    title: "`deploy.resources.limits`",
    keys: &[
        kept("cpus", cpus, "`resources: {cpuMax: …}`"),
        kept("memory", memory, "`resources: {memoryMax: …}`"),
        kept("pids", pids, "`resources: {pidsMax: …}`"),
        lost("devices", Empty, "name the devices in `devices` of the service"),
    ],
};

/// Bytes as Docker writes them: `512m`, `1.5gb`, `4096`.
pub fn bytes(value: &Value) -> Option<u64> {
    let text = value.text()?.to_ascii_uppercase();
    size(text.strip_suffix('B').unwrap_or(&text)).flatten()
}

pub fn memory(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    match bytes(value) {
        Some(0) => Outcome::kept("without a limit"),
        Some(bytes) if bytes >= LEAST_MEMORY => {
            draft.spec.resources.memory_max = Some(bytes);
            Outcome::as_table()
        }
        _ => Outcome::rejected("this is no size of at least 64 KiB"),
    }
}

pub fn cpus(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    // Three digits after the point count.
    let text = value.text().unwrap_or_default();
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits: String = part.chars().chain("000".chars()).take(3).collect();
    let whole = if whole.is_empty() { Ok(0) } else { whole.parse::<u64>() };
    let millis = match (whole, digits.parse::<u64>()) {
        (Ok(whole), Ok(part)) => whole.checked_mul(1000).and_then(|whole| whole.checked_add(part)),
        _ => None,
    };
    match millis.filter(|millis| *millis == 0 || CPU_MILLIS.contains(millis)) {
        Some(0) => Outcome::kept("without a limit"),
        Some(millis) => {
            draft.spec.resources.cpu_max_millis = Some(millis);
            Outcome::as_table()
        }
        None => Outcome::rejected(format!("{text:?} is no number of CPUs from 0.01 to 4096")),
    }
}

pub fn pids(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    match value.text().unwrap_or_default().parse::<i64>().map(u64::try_from) {
        Ok(Ok(0) | Err(_)) => Outcome::kept("without a limit"),
        Ok(Ok(most)) if most <= MOST_TASKS => {
            draft.spec.resources.pids_max = Some(most);
            Outcome::as_table()
        }
        _ => Outcome::rejected("this is no number of processes"),
    }
}

/// 1024 is the share of a container without the key, and 100 the weight.
pub fn cpu_shares(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    match value.text().unwrap_or_default().parse::<u64>() {
        Ok(0) => Outcome::kept("the usual share"),
        Ok(shares) => {
            let weight = shares.saturating_mul(100).checked_div(1024).unwrap_or_default();
            draft.spec.resources.cpu_weight = Some(weight.clamp(1, 10_000));
            Outcome::as_table()
        }
        Err(_) => Outcome::rejected("this is no number of shares"),
    }
}

pub fn cpuset(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    match cpu_set(value.text().unwrap_or_default()) {
        Some(set) => {
            draft.spec.attributes.cpus = set;
            draft.container.runtime = Some(ContainerRuntime::Kelson);
            Outcome::as_table()
        }
        None => Outcome::rejected("this is no list of CPUs"),
    }
}

pub fn oom_score(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let score = value.text().unwrap_or_default().parse::<i16>();
    match score.ok().filter(|score| (-1000..=1000).contains(score)) {
        Some(score) => {
            draft.spec.attributes.oom_score = Some(score);
            Outcome::as_table()
        }
        None => Outcome::rejected("this is no number from -1000 to 1000"),
    }
}

pub fn deploy(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let outcome = value
        .get("limits")
        .map_or_else(Outcome::as_table, |limits| draft.at("limits", |draft| KEYS.read(draft, limits)));
    match value.get("reservations").is_some_and(|reserved| !reserved.is_empty()) {
        true => outcome.and(Outcome::rejected("nothing is reserved for the service")),
        false => outcome,
    }
}

pub fn read_only(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    draft.spec.security.read_only_root = value.is_true();
    Outcome::as_table()
}

pub fn security_opt(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let mut outcome = Outcome::as_table();
    for option in value.texts().unwrap_or_default() {
        let (name, chosen) = option.split_once([':', '=']).unwrap_or((option, "true"));
        match (name, chosen) {
            ("no-new-privileges", "true" | "false") => {
                draft.spec.security.no_new_privileges = chosen == "true";
            }
            ("seccomp", "unconfined") => draft.spec.security.seccomp = Seccomp::Unconfined,
            ("apparmor" | "label", "unconfined" | "disable") => {}
            _ => outcome = outcome.and(Outcome::rejected(format!("{option} has no counterpart"))),
        }
    }
    outcome
}

/// The set of capabilities that a list names.
fn named(value: &Value) -> Result<u64, Outcome> {
    let mut mask = 0_u64;
    for name in value.texts().unwrap_or_default() {
        if name.eq_ignore_ascii_case("all") {
            return Ok(ALL_CAPABILITIES);
        }
        let bit = capability(name).and_then(|number| 1_u64.checked_shl(number));
        mask |= bit.ok_or_else(|| Outcome::rejected(format!("{name} is no capability that Kelson knows")))?;
    }
    Ok(mask)
}

pub fn cap_add(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    match named(value) {
        Ok(mask) => {
            let security = &mut draft.spec.security;
            security.ambient |= mask;
            security.capabilities = Some(security.capabilities.unwrap_or(CONTAINER_CAPABILITIES) | mask);
            Outcome::as_table()
        }
        Err(outcome) => outcome,
    }
}

pub fn cap_drop(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    match named(value) {
        Ok(mask) => {
            let security = &mut draft.spec.security;
            // What is added stays, whichever key comes first.
            let left = security.capabilities.unwrap_or(CONTAINER_CAPABILITIES) & !mask;
            security.capabilities = Some(left | security.ambient);
            Outcome::as_table()
        }
        Err(outcome) => outcome,
    }
}

pub fn ulimits(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let mut outcome = Outcome::as_table();
    let number = |value: Option<&Value>| match value.and_then(Value::text)?.parse::<i64>() {
        Ok(-1) => Some(u64::MAX),
        Ok(number) => u64::try_from(number).ok(),
        Err(_) => None,
    };
    for (name, limit) in value.entries() {
        let resource = LIMITS.iter().find(|(known, _)| known == name).map(|(_, resource)| *resource);
        let (soft, hard) = match limit.content {
            Kind::Map(_) => (number(limit.get("soft")), number(limit.get("hard"))),
            _ => (number(Some(limit)), number(Some(limit))),
        };
        match (resource, soft, hard) {
            (Some(resource), Some(soft), Some(hard)) if soft <= hard => {
                draft.spec.limits.push(ResourceLimit { resource, soft, hard });
            }
            _ => {
                outcome = outcome.and(Outcome::rejected(format!(
                    "{name} is no limit with a number, or with soft and hard"
                )));
            }
        }
    }
    outcome
}
