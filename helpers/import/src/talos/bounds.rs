//! What a container of Talos may do: its security, its network, its resources, its restarts.

use kelson_spec::kernel::{ALL_CAPABILITIES, capability};
use kelson_spec::service::{ContainerNetwork, RestartPolicy};

use super::draft::{Draft, Part, give, granted, switch};
use crate::finding::Outcome;
use crate::key::{kept, nearly};
use crate::yaml::{Kind, Value};

/// The bounds of a service file.
const LEAST_MEMORY: u64 = 64 << 10;
const CPU_MILLIS: std::ops::RangeInclusive<u64> = 10..=4_096_000;

/// The keys of an extension service.
pub const SECURITY: Part = Part {
    title: "Extension service: `container.security`",
    keys: &[
        nearly(
            "writeableSysfs",
            writeable_sysfs,
            "`/sys` of the host as a mount with `rw`, with its cgroups read-only",
        ),
        nearly(
            "maskedPaths",
            masked_paths,
            "the usual paths are hidden, and no others; an empty list is rejected",
        ),
        nearly(
            "readonlyPaths",
            read_only_paths,
            "the usual paths are read-only, and no others; an empty list is rejected",
        ),
        kept("writeableRootfs", writeable_root, "`security: {readOnlyRoot: false}`; without it `true`"),
        nearly(
            "rootfsPropagation",
            propagation,
            "`shared` and `rshared` count if a mount of the service has that option; with other values what the host mounts \
             later arrives",
        ),
    ],
};

/// The keys of a `ContainerConfig`.
pub const OF_CONTAINER: Part = Part {
    title: "`ContainerConfig`: `security`",
    keys: &[
        nearly(
            "profile",
            profile,
            "`restricted`, which is that without the key: no capabilities and `readOnlyRoot: true`. `privileged`: all \
             capabilities but `sys_module` and `sys_boot`; name devices in `container: {devices: …}`",
        ),
        kept("capabilities", |draft, value| CAPABILITIES.read(draft, value), "see below"),
    ],
};

pub const CAPABILITIES: Part = Part {
    title: "`ContainerConfig`: `security.capabilities`",
    keys: &[
        kept("add", add, "`security: {capabilities: {add: …}}`"),
        kept("drop", drop_those, "`security: {capabilities: {drop: …}}`; `ALL` is `all`"),
    ],
};

pub const NETWORK: Part = Part {
    title: "`ContainerConfig`: `network`",
    keys: &[kept("mode", network_mode, "`container: {network: …}`; `none` without the key")],
};

pub const RESOURCES: Part = Part {
    title: "`ContainerConfig`: `resources`",
    keys: &[kept("limits", |draft, value| LIMITS.read(draft, value), "see below")],
};

pub const LIMITS: Part = Part {
    title: "`ContainerConfig`: `resources.limits`",
    keys: &[
        kept("cpu", cpu, "`resources: {cpuMax: …}`"),
        kept("memory", memory, "`resources: {memoryMax: …}`"),
    ],
};

/// The words that Talos has for a restart policy.
pub fn restart_policy(word: &str) -> Option<RestartPolicy> {
    match word {
        "always" => Some(RestartPolicy::Forever),
        "never" => Some(RestartPolicy::Once),
        "untilSuccess" => Some(RestartPolicy::UntilSuccess),
        _ => None,
    }
}

fn writeable_root(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    switch(draft, value, |draft, is_on| {
        draft.spec.security.read_only_root = !is_on;
        Outcome::as_table()
    })
}

fn writeable_sysfs(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    switch(draft, value, |draft, is_on| {
        let is_listed = draft.container.mounts.iter().any(|mount| mount.target.starts_with("/sys"));
        if !is_on || is_listed {
            return Outcome::kept("`/sys` is read-only, or one of the mounts");
        }
        let mounts = [("/sys", ["bind", "rw"]), ("/sys/fs/cgroup", ["bind", "ro"])];
        mounts
            .into_iter()
            .map(|(path, options)| draft.mount(path.into(), path, options.map(str::to_owned).to_vec()))
            .collect()
    })
}

fn masked_paths(_: &mut Draft<'_>, value: &Value) -> Outcome {
    listed_paths(value, "stay hidden, such as /proc/kcore and /sys/firmware")
}

fn read_only_paths(_: &mut Draft<'_>, value: &Value) -> Outcome {
    listed_paths(value, "stay read-only, such as /proc/sys and /proc/irq")
}

fn listed_paths(value: &Value, what: &str) -> Outcome {
    match value.texts() {
        _ if value.content == Kind::Null => Outcome::kept("the usual paths"),
        Some(paths) if paths.is_empty() => Outcome::rejected(format!("the usual paths {what}")),
        Some(paths) => {
            Outcome::rejected(format!("the usual paths {what}, and not these: {}", paths.join(", ")))
        }
        None => Outcome::rejected("this is no list of paths"),
    }
}

fn propagation(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let mounts = draft.context.document.value.get("container").and_then(|container| container.get("mounts"));
    let mut options = mounts.map_or(&[][..], Value::items).iter().filter_map(|mount| mount.get("options"));
    let is_shared = options
        .any(|options| options.items().iter().any(|word| matches!(word.text(), Some("shared" | "rshared"))));
    match value.text().unwrap_or_default() {
        "" | "slave" | "rslave" => Outcome::kept("what the host mounts later arrives"),
        "shared" | "rshared" if is_shared => {
            Outcome::kept("a mount of the service has this option, which counts")
        }
        "shared" | "rshared" => Outcome::approximated(
            "no mount of the service is `shared`, so none of its mounts arrives at the host",
        ),
        "private" | "rprivate" | "unbindable" | "runbindable" => {
            Outcome::approximated("what the host mounts below a shared mount arrives all the same")
        }
        other => Outcome::rejected(format!("{other:?} is no kind of propagation")),
    }
}

/// The security of a `ContainerConfig`: the profile counts first.
pub fn security(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    if value.get("profile").and_then(Value::text) == Some("privileged") {
        give(draft, granted());
        draft.spec.security.read_only_root = false;
    }
    OF_CONTAINER.read(draft, value)
}

fn profile(_: &mut Draft<'_>, value: &Value) -> Outcome {
    match value.text() {
        Some("" | "restricted") => Outcome::kept("no capabilities, and `readOnlyRoot: true`"),
        Some("privileged") => Outcome::rejected(
            "the container has the capabilities, and can open the usual devices alone; name those that it needs in \
             `container: {devices: …}`",
        ),
        _ => Outcome::rejected("this is neither restricted nor privileged"),
    }
}

fn named(value: &Value) -> Result<u64, Outcome> {
    let mut mask = 0_u64;
    for name in value.texts().ok_or_else(|| Outcome::rejected("this is no list of capabilities"))? {
        if name == "ALL" {
            mask |= ALL_CAPABILITIES;
            continue;
        }
        let bit = capability(name).and_then(|number| 1_u64.checked_shl(number));
        mask |=
            bit.ok_or_else(|| Outcome::rejected(format!("{name:?} is no capability that Kelson knows")))?;
    }
    Ok(mask)
}

fn add(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    match named(value) {
        Ok(ALL_CAPABILITIES) => Outcome::rejected("Talos adds no ALL; write profile: privileged"),
        Ok(mask) => {
            let all = draft.spec.security.capabilities.unwrap_or_default() | mask;
            give(draft, all);
            Outcome::as_table()
        }
        Err(outcome) => outcome,
    }
}

fn drop_those(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    // What is added stays, whichever key comes first.
    let security =
        draft.context.document.value.get("security").and_then(|security| security.get("capabilities"));
    let added = security.and_then(|capabilities| capabilities.get("add")).map(named);
    match (named(value), added) {
        (Ok(mask), added) => {
            let added = added.and_then(Result::ok).unwrap_or_default();
            let left = (draft.spec.security.capabilities.unwrap_or_default() & !mask) | added;
            give(draft, left);
            Outcome::as_table()
        }
        (Err(outcome), _) => outcome,
    }
}

fn network_mode(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    draft.container.network = match value.text() {
        Some("" | "none") => ContainerNetwork::None,
        Some("host") => ContainerNetwork::Host,
        _ => return Outcome::rejected("this is neither none nor host"),
    };
    Outcome::as_table()
}

fn cpu(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let millis =
        value.text().and_then(|text| text.strip_suffix('m')).and_then(|text| text.parse::<u64>().ok());
    match millis.filter(|millis| CPU_MILLIS.contains(millis)) {
        Some(millis) => {
            draft.spec.resources.cpu_max_millis = Some(millis);
            Outcome::as_table()
        }
        None => Outcome::rejected("this is no number of thousandths of a CPU from 10m to 4096000m"),
    }
}

fn memory(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    match value.text().and_then(bytes).filter(|bytes| *bytes >= LEAST_MEMORY) {
        Some(bytes) => {
            draft.spec.resources.memory_max = Some(bytes);
            Outcome::as_table()
        }
        None => Outcome::rejected("this is no size of at least 64 KiB, such as 512MiB"),
    }
}

/// A size as Talos writes it: `64MiB` is 64 times 1048576 bytes, `64MB` 64 times 1000000.
pub fn bytes(text: &str) -> Option<u64> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    let unit = unit.trim().to_ascii_lowercase();
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let (letter, base) = unit.strip_suffix('i').map_or((unit, 1000_u64), |letter| (letter, 1024));
    let power = match letter {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(base.checked_pow(power)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_talos() {
        for (text, expected) in [
            ("64MiB", Some(64 << 20)),
            ("64 mib", Some(64 << 20)),
            ("64MB", Some(64_000_000)),
            ("1Gi", Some(1 << 30)),
            ("4096", Some(4096)),
            ("12B", Some(12)),
            ("", None),
            ("MiB", None),
            ("1.5GiB", None),
            ("99999999999TiB", None),
            ("5 parsecs", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }
}
