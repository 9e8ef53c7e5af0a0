//! What a service of a compose file sees of the host: volumes, files, devices.

use std::path::{Path, PathBuf};

use kelson_spec::service::{ContainerDevice, ContainerMount};

use super::draft::Draft;
use super::limits::bytes;
use crate::finding::Outcome;
use crate::yaml::{Kind, Value};

/// The folder of named volumes, each in a folder of its project.
const VOLUMES: &str = "/var/lib/volumes";

pub fn volumes(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    if value.items().is_empty() && !value.is_empty() {
        return Outcome::rejected("this is no list of volumes");
    }
    value.items().iter().map(|item| volume(draft, item)).collect()
}

fn volume(draft: &mut Draft<'_>, item: &Value) -> Outcome {
    let text = |key: &str| item.get(key).and_then(Value::text).unwrap_or_default();
    match &item.content {
        Kind::Text(volume) => {
            let mut parts = volume.splitn(3, ':');
            let (source, target) = match (parts.next().unwrap_or_default(), parts.next()) {
                (target, None) => ("", target),
                (source, Some(target)) => (source, target),
            };
            let mut options = Vec::new();
            let mut outcome = Outcome::as_table();
            for word in parts.next().unwrap_or_default().split(',') {
                match word {
                    "" | "rw" | "z" | "Z" | "nocopy" | "cached" | "delegated" | "consistent" => {}
                    "ro" | "rprivate" | "private" | "rshared" | "shared" | "rslave" | "slave" => {
                        options.push(word.to_owned());
                    }
                    other => {
                        outcome = outcome.and(Outcome::rejected(format!("{other} is no option of a mount")));
                    }
                }
            }
            outcome.and(bound(draft, source, target, options))
        }
        _ => {
            let options = if item.get("read_only").is_some_and(Value::is_true) {
                vec!["ro".to_owned()]
            } else {
                Vec::new()
            };
            match text("type") {
                "bind" | "volume" | "" => bound(draft, text("source"), text("target"), options),
                "tmpfs" => {
                    let size = item.get("tmpfs").and_then(|tmpfs| tmpfs.get("size")).and_then(bytes);
                    let size = size.map(|size| format!("size={size}"));
                    draft.mount(
                        PathBuf::from(ContainerMount::TMPFS),
                        text("target"),
                        size.into_iter().collect(),
                    )
                }
                other => Outcome::rejected(format!("{other:?} is no kind of volume that Kelson has")),
            }
        }
    }
}

/// A path of the host, or a named volume, or one without a name.
fn bound(draft: &mut Draft<'_>, source: &str, target: &str, mut options: Vec<String>) -> Outcome {
    // Docker binds what is mounted below, too.
    options.push("rbind".to_owned());
    if source.starts_with(['/', '.']) {
        let path = draft.context.path(source);
        return draft.mount(path, target, options);
    }
    if source.starts_with('~') {
        return Outcome::rejected(format!("{source}: the home is known to a shell alone; write its path"));
    }
    if source.is_empty() {
        return Outcome::approximated(format!("{target}: what is written there is gone with the container"));
    }
    let volume = draft.context.named("volumes", source);
    let of = |key: &str| volume.and_then(|volume| volume.get(key)).and_then(Value::text).unwrap_or_default();
    let options_of = volume.and_then(|volume| volume.get("driver_opts"));
    let bound_to = options_of.and_then(|options| options.get("device")).and_then(Value::text);
    match (of("driver"), bound_to, options_of) {
        ("" | "local", Some(device), Some(with)) if with.get("o").and_then(Value::text) == Some("bind") => {
            let path = draft.context.path(device);
            draft.mount(path, target, options)
        }
        ("" | "local", _, None) => {
            let name = if of("name").is_empty() {
                format!("{}_{source}", draft.context.file.project)
            } else {
                of("name").to_owned()
            };
            let path = Path::new(VOLUMES).join(name);
            let sentence =
                format!("{source} is the folder {}: make it, and copy what is in the volume", path.display());
            draft.mount(path, target, options).and(Outcome::approximated(sentence))
        }
        _ => Outcome::rejected(format!("{source}: no driver of volumes is there")),
    }
}

pub fn tmpfs(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let mut outcome = Outcome::as_table();
    for text in value.texts().unwrap_or_default() {
        let (target, options) = text.split_once(':').unwrap_or((text, ""));
        let options = options.split(',').filter(|word| !word.is_empty()).map(size_in_bytes).collect();
        outcome = outcome.and(draft.mount(PathBuf::from(ContainerMount::TMPFS), target, options));
    }
    outcome
}

fn size_in_bytes(option: &str) -> String {
    let text = option.strip_prefix("size=");
    let bytes = text.and_then(|text| crate::values::size(&text.to_ascii_uppercase()).flatten());
    bytes.map_or_else(|| option.to_owned(), |bytes| format!("size={bytes}"))
}

pub fn shm_size(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    match bytes(value) {
        Some(bytes) => {
            let options = ["mode=1777".to_owned(), format!("size={bytes}"), "noexec".to_owned()];
            draft.mount(PathBuf::from(ContainerMount::TMPFS), "/dev/shm", options.to_vec())
        }
        None => Outcome::rejected("this is no size"),
    }
}

pub fn secrets(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    files(draft, value, "secrets", |name| format!("/run/secrets/{name}"))
}

pub fn configs(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    files(draft, value, "configs", |name| format!("/{name}"))
}

/// Files of the host that the top level names.
fn files(draft: &mut Draft<'_>, value: &Value, section: &str, place: fn(&str) -> String) -> Outcome {
    let mut outcome = Outcome::as_table();
    for item in value.items() {
        let of = |key: &str| item.get(key).and_then(Value::text).filter(|text| !text.is_empty());
        let Some(name) = item.text().or_else(|| of("source")) else { continue };
        let file = draft.context.named(section, name).and_then(|file| file.get("file")).and_then(Value::text);
        let target = match of("target") {
            Some(target) if target.starts_with('/') => target.to_owned(),
            target => place(target.unwrap_or(name)),
        };
        outcome = outcome.and(match file {
            Some(file) => {
                let path = draft.context.path(file);
                draft.mount(path, &target, vec!["ro".to_owned()])
            }
            None => Outcome::rejected(format!(
                "{name}: no file of the host is named; write `file` at the top level"
            )),
        });
        if ["uid", "gid", "mode"].iter().any(|key| of(key).is_some()) {
            outcome = outcome.and(Outcome::approximated(format!(
                "{name}: the file has the owner and mode that it has on the host"
            )));
        }
    }
    outcome
}

pub fn devices(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let mut outcome = Outcome::as_table();
    for item in value.items() {
        let of = |key: &str| item.get(key).and_then(Value::text).unwrap_or_default();
        let (source, target, permissions) = match item.text() {
            Some(text) => {
                let mut parts = text.splitn(3, ':');
                let source = parts.next().unwrap_or_default();
                (source, parts.next().unwrap_or(source), parts.next().unwrap_or("rwm"))
            }
            None => (of("source"), of("target"), of("permissions")),
        };
        let target = if target.is_empty() { source } else { target };
        if !source.starts_with("/dev/") || !target.starts_with("/dev/") {
            outcome = outcome.and(Outcome::rejected(format!("{source:?} is no device below /dev")));
            continue;
        }
        let permissions = if permissions.is_empty() { "rwm" } else { permissions };
        let (source, target) = (PathBuf::from(source), PathBuf::from(target));
        draft.container.devices.push(ContainerDevice { source, target, permissions: permissions.to_owned() });
    }
    outcome
}
