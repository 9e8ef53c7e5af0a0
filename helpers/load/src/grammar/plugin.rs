//! `provides`: a service that is a plugin for volumes.

use std::time::Duration;

use super::at::At;
use super::codec::Codec;
use super::mapping::{Mapping, keys};
use super::seen::Seen;
use super::values::{choice, name, path, word};
use crate::decode::{Decoder, quoted};
use kelson_spec::features::Feature;
use kelson_spec::service::{
    Attachment, Check, CsiPlugin, PluginKind, Probe, ServiceKind, ServiceSpec, UnixPlace,
};

/// From the start of a plugin to the first look whether it is ready.
const FIRST_LOOK: Duration = Duration::from_millis(100);

pub fn provides() -> Codec<CsiPlugin> {
    Mapping::codec(|| {
        keys! {
            Mapping::new("provides", CsiPlugin::default);
            needed "csi" (At::whole()) = Mapping::codec(plugin), "csi: {id: ID}",
                "a plugin of the Container Storage Interface";
        }
    })
}

fn plugin() -> Mapping<CsiPlugin> {
    let socket = word("file name", "^[^/]+$", "csi.sock").but(|name| {
        let is_plain = !name.contains('/') && ![".", ".."].contains(&name.as_str());
        (!is_plain).then(|| format!("{} is not the name of a file; write such as csi.sock", quoted(name)))
    });
    keys! {
        Mapping::new("csi-plugin", CsiPlugin::default);
        needed "id" id = name(), "id: ID",
            "the name by which the [files of its volumes](volume-file.md) refer to it";
        key "type" kind = choice(PluginKind::ALL.map(|kind| (kind.name(), kind))),
            "the calls that it answers: those of a `node`, those of a `controller`, or as a `monolith` both";
        key "mountDir" mount_dir = path().read_by(|d, node| d.volume_target(node)),
            "the path at which a container sees the folder of the plugin; not for a process";
        key "socket" socket = socket, "the name of its socket in that folder";
    }
    .check(|d, seen, plugin| {
        let (outside, inside) = (plugin.socket_path(), plugin.mount_dir.join(&plugin.socket));
        let length = outside.as_os_str().len().max(inside.as_os_str().len());
        if length > UnixPlace::LONGEST {
            let text = format!(
                "the path of the socket has {length} bytes; that of a Unix socket has at most {}; write shorter names",
                UnixPlace::LONGEST
            );
            d.wrong(seen.node.at, text);
        }
    })
}

/// Why the overlays of a container cannot be made.
fn overlay_mistake(spec: &ServiceSpec) -> Option<&'static str> {
    let container = spec.container()?;
    if container.user_namespace && spec.volumes.iter().any(|volume| volume.source.image().is_some()) {
        return Some("the files of an image belong to users of the host here; write userNamespace: false");
    }
    let overlays = || spec.volumes.iter().filter_map(|volume| Some((volume, volume.source.overlay()?)));
    if container.user_namespace && overlays().next().is_some() {
        return Some(
            "an overlay cannot map the owners of its files; write userNamespace: false, or another source",
        );
    }
    let is_in_memory = overlays().any(|(volume, overlay)| overlay.upper.is_none() && !volume.read_only);
    (is_in_memory && !container.is_native()).then_some(
        "containerd makes no overlay that is written to memory; write upper and work in its source, or runtime: kelson",
    )
}

/// Checks a plugin with the other keys of its service, and adds what the service is to have as one.
pub fn check(d: &mut Decoder<'_>, seen: &Seen<'_, '_>, spec: &mut ServiceSpec) {
    let is_container = seen.has("container");
    let is_device = |spec: &ServiceSpec| {
        let mut sources = spec.volumes.iter().filter_map(|volume| volume.source.csi());
        sources.any(|source| source.usage.attachment == Attachment::Block)
    };
    if is_container && is_device(spec) {
        let text =
            "a container has the devices of container.devices alone; attachment: block is for a process";
        seen.wrong_value(d, "volumes", text);
    }
    if let Some(text) = overlay_mistake(spec) {
        seen.wrong_value(d, "volumes", text);
    }
    let Some(plugin) = spec.provides.clone().filter(|_| !seen.has("target")) else { return };
    d.csi.provides = Some(seen.position("provides"));
    if let Err(missing) = d.context.require(Some(Feature::Probes)) {
        seen.wrong_key(d, "provides", missing);
    }
    let at_usual_place = is_container && !has_mount_dir(seen);
    if let Some(text) = mistake(seen, spec) {
        seen.wrong_key(d, "provides", text);
    } else if at_usual_place && !d.targets.insert(plugin.mount_dir.clone()) {
        let text = "something else of this service is at /csi already; write another path as mountDir";
        seen.wrong_key(d, "provides", text);
    }
    let at = if is_container { plugin.mount_dir.join(&plugin.socket) } else { plugin.socket_path() };
    if !spec.environment.iter().any(|(name, _)| name == CsiPlugin::ENDPOINT) {
        let endpoint = format!("unix://{}", at.display());
        spec.environment.push((CsiPlugin::ENDPOINT.to_owned(), endpoint));
    }
    let socket = plugin.socket_path();
    let asks = |check: &Check| matches!(&check.probe, Probe::Csi { socket: asked } if *asked == socket);
    if !spec.health.iter().any(asks) {
        let is_free = |name: &String| !spec.checks().any(|(check, _)| check.name == *name);
        let mut names = std::iter::once("csi".to_owned()).chain((2..=u16::MAX).map(|n| format!("csi-{n}")));
        let name = names.find(is_free).unwrap_or_default();
        let check = Check::new(&name, Probe::Csi { socket });
        spec.health.push(Check { initial_delay: FIRST_LOOK, ..check });
    }
}

/// Why this service cannot be a plugin.
fn mistake(seen: &Seen<'_, '_>, spec: &ServiceSpec) -> Option<&'static str> {
    if spec.kind == ServiceKind::Oneshot {
        return Some("a plugin has to run while its volumes are in use; write type: service");
    }
    if let Some(container) = spec.container() {
        return container.user_namespace.then_some(
            "a user namespace keeps the mounts that are made in it from the host; leave userNamespace out",
        );
    }
    if has_mount_dir(seen) {
        return Some(
            "a process sees the folder of its plugin where it is, in /run/kelson/csi; leave mountDir out",
        );
    }
    if spec.has_view() || spec.security.read_only_root {
        return Some(
            "this service has a view of the file system of its own (by volumes, directories or security), and mounts \
             that a plugin makes in it do not reach the host; leave that view out, or run the plugin as a container",
        );
    }
    let is_other = spec.user.as_ref().is_some_and(|user| user.uid != 0);
    is_other.then_some("the folder of a plugin belongs to root, and so do the mounts in it; leave user out")
}

fn has_mount_dir(seen: &Seen<'_, '_>) -> bool {
    let plugin = seen.get("provides").and_then(|provides| provides.get("csi"));
    plugin.is_some_and(|plugin| plugin.get("mountDir").is_some())
}
