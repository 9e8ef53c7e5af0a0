//! What a service runs, as it stands in a service file: `process` or `container`.

use std::path::Path;

use super::{Block, mapping, path, scalar, words};
use crate::service::{ContainerDevice, ContainerMount, ContainerNetwork, Workload};

pub fn workload(out: &mut Block, workload: &Workload) {
    match workload {
        Workload::Process(process) => {
            out.open("process");
            out.line("command", &words(&process.command));
            if process.working_directory != Path::new("/") {
                out.line("workingDirectory", &path(&process.working_directory));
            }
        }
        Workload::Container(container) => {
            out.open("container");
            out.line("image", &scalar(&container.image));
            if !container.command.is_empty() {
                out.line("command", &words(&container.command));
            }
            if let Some(directory) = &container.working_directory {
                out.line("workingDirectory", &path(directory));
            }
            if let Some(hostname) = &container.hostname {
                out.line("hostname", &scalar(hostname));
            }
            if container.network == ContainerNetwork::None {
                out.line("network", "none");
            }
            if !container.mounts.is_empty() {
                out.items("mounts", container.mounts.iter().map(mount));
            }
            if !container.devices.is_empty() {
                out.items("devices", container.devices.iter().map(device));
            }
        }
    }
    out.close();
}

fn mount(mount: &ContainerMount) -> String {
    let mut entries = vec![("source", path(&mount.source)), ("target", path(&mount.target))];
    if !mount.options.is_empty() {
        entries.push(("options", words(&mount.options)));
    }
    mapping(entries)
}

fn device(device: &ContainerDevice) -> String {
    let mut entries = vec![("source", path(&device.source))];
    if device.target != device.source {
        entries.push(("target", path(&device.target)));
    }
    if device.permissions != ContainerDevice::PERMISSIONS {
        entries.push(("permissions", scalar(&device.permissions)));
    }
    mapping(entries)
}
