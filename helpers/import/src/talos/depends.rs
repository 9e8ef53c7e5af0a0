//! What a service of Talos waits for.

use std::path::PathBuf;

use kelson_spec::service::{NetworkAspect, Requirement, ServiceEvent, WhenDown};

use super::document::Kind;
use super::draft::{Draft, Part, each, only, switch, wait};
use crate::finding::Outcome;
use crate::key::{kept, nearly};
use crate::unit_name::kelson_name;
use crate::yaml::Value;

/// The socket of Talos's own API.
pub const API: &str = "/system/run/machined/machine.sock";
pub const NO_API: &str = "no API of Talos is there; Kelson has one of its own";

/// The keys of an entry of an extension service.
pub const KEYS: Part = Part {
    title: "Extension service: each of `depends`",
    keys: &[
        nearly(
            "service",
            service,
            "`ext-X`: `{service: X}`. `cri`, `containerd`: a container waits for `containerd` by itself, where the host \
             has it. `machined`: PID 1 runs first. `apid`: `{service: apid}`. `udevd`: nothing; [`devices`](../howto/devices.md) \
             follows devices. Others of Talos are rejected",
        ),
        kept("path", path, "`{path: …}`; not the socket of Talos's API"),
        nearly("network", network, "`{network: […]}`; `etcfiles` is `{path: /etc/resolv.conf}`"),
        kept("time", time, "`{time: synced}`"),
        kept(
            "configuration",
            configuration,
            "the service waits for the files of its `ExtensionServiceConfig`, whose file has to be given",
        ),
    ],
};

/// The keys of the mapping of a `ContainerConfig`.
pub const OF_CONTAINER: Part = Part {
    title: "`ContainerConfig`: `dependsOn`",
    keys: &[
        kept("paths", |draft, value| each(draft, value, path), "`{path: …}`"),
        nearly("networks", network, "`{network: […]}`; `etcfiles` is `{path: /etc/resolv.conf}`"),
        kept("time", time, "`{time: synced}`"),
        kept("containers", containers, "`{service: NAME, event: running}`"),
    ],
};

pub fn entries(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    each(draft, value, |draft, item| match only(item, "service, path, network, time and configuration") {
        Ok(_) => KEYS.read(draft, item),
        Err(outcome) => outcome,
    })
}

fn path(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    match value.text().unwrap_or_default() {
        API => Outcome::rejected(NO_API),
        path if path.starts_with('/') => {
            wait(draft, Requirement::Path(PathBuf::from(path)));
            Outcome::as_table()
        }
        other => Outcome::rejected(format!("{other:?} is no absolute path")),
    }
}

fn up(name: &str, event: ServiceEvent) -> Requirement {
    Requirement::Service { name: kelson_name(name), event, when_down: WhenDown::Ignore }
}

fn service(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let name = value.text().unwrap_or_default();
    match name {
        "cri" | "containerd" => {
            Outcome::kept("a container waits for the service `containerd` by itself, where the host has it")
        }
        "machined" => Outcome::kept("PID 1 runs before any service"),
        "udevd" => Outcome::approximated(
            "udevd: the service waits for no driver; where it needs a device, write `depends: [{device: …}]`",
        ),
        "apid" => {
            let (name, event) = (name.to_owned(), ServiceEvent::Up);
            wait(draft, Requirement::Service { name, event, when_down: WhenDown::Ignore });
            Outcome::approximated(
                "apid: the service waits for that of Kelson, which needs `api` in the machine file",
            )
        }
        _ => match name.strip_prefix("ext-") {
            None | Some("") => {
                Outcome::rejected(format!("{name:?}: Kelson has no such service, so nothing is waited for"))
            }
            Some(other) if other == draft.name => Outcome::rejected("the service would wait for itself"),
            Some(other) => {
                wait(draft, up(other, ServiceEvent::Up));
                is_given(draft, Kind::Extension, other)
            }
        },
    }
}

/// The outcome for another service that has to run first.
fn is_given(draft: &Draft<'_>, kind: Kind, name: &str) -> Outcome {
    match draft.context.has(kind, name) {
        true => Outcome::kept(format!("the service waits for `{}`", kelson_name(name))),
        false => Outcome::approximated(format!(
            "the service waits for `{}`, which is not among the files: translate it too",
            kelson_name(name)
        )),
    }
}

fn containers(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    each(draft, value, |draft, item| match item.text().unwrap_or_default() {
        "" => Outcome::rejected("this is no name of a container"),
        name if name == draft.name => Outcome::rejected("the container would wait for itself"),
        name => {
            wait(draft, up(name, ServiceEvent::Running));
            is_given(draft, Kind::Container, name)
        }
    })
}

fn network(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    let mut aspects = Vec::new();
    let outcome = each(draft, value, |draft, item| match item.text().unwrap_or_default() {
        "etcfiles" => {
            wait(draft, Requirement::Path(PathBuf::from("/etc/resolv.conf")));
            Outcome::approximated("etcfiles: the service waits for `/etc/resolv.conf`")
        }
        other => match NetworkAspect::WORDS.iter().find(|(name, _)| *name == other) {
            Some((_, aspect)) => {
                aspects.push(aspect.clone());
                Outcome::kept("`{network: […]}`")
            }
            None => Outcome::rejected(format!(
                "{other:?} is no state of the network: addresses, connectivity, hostname, etcfiles"
            )),
        },
    });
    if !aspects.is_empty() {
        wait(draft, Requirement::Network(aspects));
    }
    outcome
}

fn time(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    switch(draft, value, |draft, is_on| {
        if is_on {
            wait(draft, Requirement::TimeSynced);
        }
        Outcome::as_table()
    })
}

fn configuration(draft: &mut Draft<'_>, value: &Value) -> Outcome {
    switch(draft, value, |draft, is_on| {
        if !is_on || draft.context.has(Kind::Configuration, draft.name) {
            return Outcome::as_table();
        }
        let folder = draft.context.folder.join(&draft.spec.name);
        let sentence = format!(
            "its `ExtensionServiceConfig` is not among the files: name that file too. Without it the service waits for the \
             folder {} and has no configuration",
            folder.display()
        );
        wait(draft, Requirement::Path(folder));
        Outcome::rejected(sentence)
    })
}
