//! What a container of Talos sees of the host.

use std::path::PathBuf;

use kelson_spec::service::ContainerMount;

use super::depends::{API, NO_API};
use super::draft::{Draft, Part, device, each_judged};
use crate::finding::Outcome;
use crate::key::{kept, moot, nearly};
use crate::yaml::Value;

/// Devices that are bound one by one.
const DEVICES: [&str; 3] = ["/dev/fuse", "/dev/kvm", "/dev/net/tun"];

/// The program that Talos has in these places shuts the machine down.
const INIT: &str = "/sbin/init";

/// The keys of an entry of an extension service.
pub const KEYS: Part = Part {
    title: "Extension service: each of `container.mounts`",
    keys: &[
        moot(
            "source",
            "`source`; `/dev/net/tun`, `/dev/fuse` and `/dev/kvm` become `container: {devices: …}`",
        ),
        moot("destination", "`target`"),
        kept(
            "type",
            kind,
            "`bind`, or `tmpfs` as the source; not the other kinds of the OCI runtime specification",
        ),
        moot("options", "`options`"),
    ],
};

/// The keys of an entry of a `ContainerConfig`.
pub const OF_CONTAINER: Part = Part {
    title: "`ContainerConfig`: each of `mounts`",
    keys: &[
        nearly(
            "userVolume",
            |draft, value| VOLUME.read(draft, value).and(volume(draft, value)),
            "the folder `/var/mnt/NAME` of the host, read-only without `rw`; the service waits until a file system is mounted \
             there",
        ),
        kept("tmpfs", |draft, value| MEMORY.read(draft, value).and(memory(draft, value)), "`source: tmpfs`"),
        kept(
            "hostPath",
            |draft, value| HOST_PATH.read(draft, value).and(host_path(draft, value)),
            "`source`, read-only without `rw`",
        ),
    ],
};

pub const VOLUME: Part = Part {
    title: "`ContainerConfig`: `userVolume`",
    keys: &[
        moot("name", "the last part of `source`"),
        moot("destination", "`target`"),
        moot("options", "`options`"),
    ],
};

pub const MEMORY: Part = Part {
    title: "`ContainerConfig`: `tmpfs`",
    keys: &[moot("destination", "`target`"), moot("size", "the option `size`"), moot("options", "`options`")],
};

pub const HOST_PATH: Part = Part {
    title: "`ContainerConfig`: `hostPath`",
    keys: &[moot("source", "`source`"), moot("destination", "`target`"), moot("options", "`options`")],
};

fn kind(_: &mut Draft<'_>, value: &Value) -> Outcome {
    match value.text() {
        Some("" | "bind" | "tmpfs") => Outcome::as_table(),
        other => {
            Outcome::rejected(format!("a container has no mount of type {:?}", other.unwrap_or_default()))
        }
    }
}

fn text<'v>(item: &'v Value, key: &str) -> &'v str {
    item.get(key).and_then(Value::text).unwrap_or_default()
}

/// The options, each that excludes an earlier one in its place, and the outcome for the others.
fn options(item: &Value) -> (Vec<String>, Outcome) {
    let mut options: Vec<String> = Vec::new();
    let mut outcome = Outcome::as_table();
    let Some(words) = item.get("options").map_or(Some(Vec::new()), Value::texts) else {
        return (options, Outcome::rejected("the options are no list of words"));
    };
    for word in words {
        match kelson_load::MOUNT_OPTIONS.iter().find(|row| row.contains(&word)) {
            Some(row) => {
                options.retain(|known| !row.contains(&known.as_str()));
                options.push(word.to_owned());
            }
            None => outcome = outcome.and(Outcome::rejected(format!("{word:?} is no option of a mount"))),
        }
    }
    (options, outcome)
}

/// Without a slash at its end.
fn plain(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" => path,
        plain => plain,
    }
}

/// Binds a path of the host, if it can be.
fn bind(draft: &mut Draft<'_>, source: &str, target: &str, options: Vec<String>) -> Outcome {
    let is_plain = |path: &str| path.starts_with('/') && !path.split('/').any(|part| part == "..");
    if !is_plain(source) || !is_plain(target) {
        return Outcome::rejected(format!(
            "{source:?} to {target:?}: a mount needs two absolute paths without .."
        ));
    }
    draft.mount(PathBuf::from(plain(source)), plain(target), options)
}

pub fn entries(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    each_judged(draft, value, |draft, item| match item.entries() {
        [] => Outcome::rejected("this is no mapping of keys to values"),
        _ => KEYS.read(draft, item).and(entry(draft, item)),
    })
}

fn entry(draft: &mut Draft<'_>, item: &Value) -> Outcome {
    let (source, target) = (text(item, "source"), text(item, "destination"));
    let (options, outcome) = options(item);
    if text(item, "type") == "tmpfs" {
        let options = options.into_iter().filter(|word| !word.ends_with("bind")).collect();
        return outcome.and(bind_memory(draft, target, options));
    }
    if !matches!(text(item, "type"), "" | "bind") {
        return outcome;
    }
    let outcome_of_source = match source {
        API => return outcome.and(Outcome::rejected(NO_API)),
        INIT => {
            return outcome.and(Outcome::rejected(format!(
                "{target}: in a container nothing shuts the host down; ask for it through the API of Kelson"
            )));
        }
        source if DEVICES.contains(&source) && source == target => {
            device(draft, source);
            return outcome.and(Outcome::kept(format!("{source} is one of `devices`")));
        }
        source if source == "/dev" || source.starts_with("/dev/") && source != "/dev/log" => {
            devices(draft, source)
        }
        source if made_by_talos(source) => Outcome::approximated(format!(
            "{source}: make this folder on the host, if it is not there; Talos makes it"
        )),
        _ => Outcome::as_table(),
    };
    outcome.and(bind(draft, source, target, options)).and(outcome_of_source)
}

/// The container sees all devices there, and may open few: those that the service waits for, of which it is known.
fn devices(draft: &mut Draft<'_>, source: &str) -> Outcome {
    let depends = draft.context.document.value.get("depends").map_or(&[][..], Value::items);
    let paths = depends.iter().map(|entry| text(entry, "path"));
    let below = format!("{source}/");
    let waited: Vec<&str> = paths.filter(|path| path.starts_with(&below) && !path.contains("..")).collect();
    for path in &waited {
        device(draft, path);
    }
    match waited.as_slice() {
        [] => Outcome::rejected(format!(
            "{source}: the container can open the usual devices alone, such as /dev/null; name those that it needs in \
             `container: {{devices: …}}`"
        )),
        names => Outcome::approximated(format!(
            "{source}: besides the usual devices the container can open {} alone; name others in `container: {{devices: …}}`",
            names.join(", ")
        )),
    }
}

fn made_by_talos(source: &str) -> bool {
    ["/var/", "/run/"].iter().any(|folder| source.strip_prefix(folder).is_some_and(|rest| !rest.is_empty()))
}

fn bind_memory(draft: &mut Draft<'_>, target: &str, options: Vec<String>) -> Outcome {
    if target.split('/').any(|part| part == "..") {
        return Outcome::rejected(format!("{target:?} is no path in a container"));
    }
    draft.mount(PathBuf::from(ContainerMount::TMPFS), plain(target), options)
}

fn read_only(options: &mut Vec<String>) {
    if !options.iter().any(|word| word == "rw" || word == "ro") {
        options.insert(0, "ro".to_owned());
    }
}

fn volume(draft: &mut Draft<'_>, item: &Value) -> Outcome {
    let (name, target) = (text(item, "name"), text(item, "destination"));
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Outcome::rejected(format!("{name:?} is no name of a volume"));
    }
    let (mut options, outcome) = options(item);
    read_only(&mut options);
    let source = format!("/var/mnt/{name}");
    super::draft::wait(draft, kelson_spec::service::Requirement::Mount(PathBuf::from(&source)));
    outcome.and(bind(draft, &source, target, options)).and(Outcome::approximated(format!(
        "{name}: mount a file system at {source} with `mounts` of the machine file"
    )))
}

fn host_path(draft: &mut Draft<'_>, item: &Value) -> Outcome {
    let (mut options, outcome) = options(item);
    read_only(&mut options);
    outcome.and(bind(draft, text(item, "source"), text(item, "destination"), options))
}

fn memory(draft: &mut Draft<'_>, item: &Value) -> Outcome {
    let (mut options, mut outcome) = options(item);
    options.retain(|word| !word.ends_with("bind"));
    match (text(item, "size"), super::bounds::bytes(text(item, "size"))) {
        ("", _) => {}
        (_, Some(bytes)) if bytes > 0 => options.push(format!("size={bytes}")),
        (size, _) => outcome = outcome.and(Outcome::rejected(format!("{size:?} is no size, such as 64MiB"))),
    }
    outcome.and(bind_memory(draft, text(item, "destination"), options))
}
