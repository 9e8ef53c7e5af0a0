//! Volumes of plugins: a service that uses one needs the file of the volume, and the services that provide its plugin.

use std::collections::BTreeMap;
use std::path::Path;

use super::Reading;
use crate::decode::{Decoded, diagnostic};
use crate::tree::Position;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::names::VOLUMES;
use kelson_spec::near::near;
use kelson_spec::service::{CsiSource, PluginKind, Requirement, ServiceEvent, VolumeSource};
use kelson_spec::volume_file::VolumeFile;

/// The services that provide each plugin, with their kinds.
type Providers = BTreeMap<String, Vec<Provider>>;

/// A service with the kind of its plugin.
type Provider = (String, PluginKind);

impl Reading {
    /// Finds the plugins of all volumes that services use. Services whose volumes have none are faulty.
    pub(super) fn plugins(&mut self, config: &Path) {
        if const { !OWN.has(Feature::Volumes) } {
            return;
        }
        let mut mistakes = shared_sockets(&self.services);
        mistakes.extend(shared_folders(&self.services));
        let is_sound = |place: &usize| !mistakes.iter().any(|(faulty, ..)| faulty == place);
        let mut providers = Providers::new();
        let services: Vec<usize> = (0..self.services.len()).filter(is_sound).collect();
        for decoded in services.into_iter().filter_map(|place| self.services.get(place)) {
            if let Some(plugin) = &decoded.spec.provides {
                let entry = (decoded.spec.name.clone(), plugin.kind);
                providers.entry(plugin.id.clone()).or_default().push(entry);
            }
        }
        let mut services = std::mem::take(&mut self.services);
        for (place, decoded) in services.iter_mut().enumerate() {
            let (places, mut needed) = (std::mem::take(&mut decoded.csi.volumes), Vec::new());
            let spec = &mut decoded.spec;
            let sources = spec.volumes.iter_mut().filter_map(|volume| match &mut volume.source {
                VolumeSource::Csi(source) => Some((&volume.name, source)),
                _ => None,
            });
            for ((name, source), at) in sources.zip(places) {
                match self.plugin_of(&source.volume, config, &providers) {
                    Ok((plugin, found)) => {
                        source.published = CsiSource::published_at(plugin, &spec.name, name);
                        plugin.clone_into(&mut source.plugin);
                        needed.extend(needs(found).into_iter().map(|need| (need, at)));
                    }
                    Err(text) => mistakes.push((place, at, format!("volumes: volume {name}: {text}"))),
                }
            }
            wait(decoded, needed);
        }
        self.services = services;
        self.take_out(mistakes);
    }

    /// The plugin of a volume, and the services that provide it.
    fn plugin_of<'r>(
        &'r self,
        volume: &str,
        config: &Path,
        providers: &'r Providers,
    ) -> Result<(&'r str, &'r [Provider]), String> {
        let names = || self.volumes.iter().map(|(_, name, _)| name.as_str());
        let Some((path, _, file)) = self.volumes.iter().find(|(_, name, _)| name == volume) else {
            let hint =
                near(volume, names()).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
            let path = config.join(VOLUMES).join(format!("{volume}.yaml"));
            return Err(format!("there is no file {}{hint}", path.display()));
        };
        let Some(VolumeFile { plugin, .. }) = file else {
            return Err(format!("{} has mistakes; mend that file", path.display()));
        };
        let found = providers.get(plugin).map(Vec::as_slice).unwrap_or_default();
        if found.iter().any(|(_, kind)| kind.is_node()) {
            return Ok((plugin, found));
        }
        let why = match found {
            [] => "no service without a mistake provides it",
            _ => "only a controller of it is provided, which mounts nothing",
        };
        Err(format!(
            "its plugin is {plugin} ({}), and {why}; a service provides it by provides: {{csi: {{id: {plugin}}}}}",
            path.display()
        ))
    }

    fn take_out(&mut self, mut mistakes: Vec<(usize, Position, String)>) {
        for (place, at, text) in &mistakes {
            let Some(spec) = self.services.get(*place).map(|decoded| &decoded.spec) else { continue };
            self.diagnostics.push(diagnostic(&spec.file, *at, Some(&spec.name), text.as_str()));
            self.known.insert(spec.name.clone());
        }
        mistakes.sort_unstable_by_key(|(place, ..)| std::cmp::Reverse(*place));
        mistakes.dedup_by_key(|(place, ..)| *place);
        for (place, ..) in mistakes {
            self.services.remove(place);
        }
    }
}

/// The services with an overlay that writes to a folder of another overlay, by their places, each with what is wrong.
fn shared_folders(services: &[Decoded]) -> Vec<(usize, Position, String)> {
    let mut folders: Vec<(&Path, usize, Position, &str)> = Vec::new();
    for (place, decoded) in services.iter().enumerate() {
        let overlays = decoded.spec.volumes.iter().filter_map(|volume| volume.source.overlay());
        for (overlay, at) in overlays.zip(&decoded.csi.overlays) {
            folders
                .extend(overlay.own_folders().map(|folder| (folder, place, *at, decoded.spec.name.as_str())));
        }
    }
    // Each comes after the one that it is within.
    folders.sort_unstable();
    let mut mistakes = Vec::new();
    let mut folders = folders.into_iter();
    let Some(mut outer) = folders.next() else { return mistakes };
    for one in folders {
        if !one.0.starts_with(outer.0) {
            outer = one;
            continue;
        }
        for ((folder, place, at, _), (other, _, _, service)) in [(one, outer), (outer, one)] {
            let text = format!(
                "volumes: {} and {} of an overlay of service {service} are one folder or within each other, and \
                 files would be lost; write another folder in one of both",
                folder.display(),
                other.display()
            );
            mistakes.push((place, at, text));
        }
    }
    mistakes
}

/// The services that provide one plugin with the socket of another one, by their places, each with what is wrong.
fn shared_sockets(services: &[Decoded]) -> Vec<(usize, Position, String)> {
    let mut by_socket = BTreeMap::<(&str, &str), Vec<(usize, &Decoded)>>::new();
    for (place, decoded) in services.iter().enumerate() {
        if let Some(plugin) = &decoded.spec.provides {
            by_socket.entry((&plugin.id, &plugin.socket)).or_default().push((place, decoded));
        }
    }
    let mut mistakes = Vec::new();
    for ((id, socket), providers) in by_socket {
        for (place, decoded) in &providers {
            let Some((_, other)) = providers.iter().find(|(other, _)| other != place) else { continue };
            let text = format!(
                "provides.csi: service {} provides the plugin {id} with the socket {socket} too; write another \
                 name as socket in one of the files",
                other.spec.name
            );
            mistakes.push((*place, decoded.csi.provides.unwrap_or(Position::START), text));
        }
    }
    mistakes
}

/// What a volume needs of the services that provide its plugin: one that mounts it, and a controller if there is one.
fn needs(providers: &[Provider]) -> Vec<Requirement> {
    let of = |is_wanted: fn(PluginKind) -> bool| {
        let names = providers.iter().filter(|(_, kind)| is_wanted(*kind)).map(|(name, _)| name);
        let mut all: Vec<Requirement> =
            names.map(|name| Requirement::service(name, ServiceEvent::Up)).collect();
        if all.len() > 1 { Some(Requirement::Any(all)) } else { all.pop() }
    };
    let mut needs: Vec<Requirement> =
        [of(PluginKind::is_node), of(PluginKind::is_controller)].into_iter().flatten().collect();
    needs.dedup();
    needs
}

/// Adds what a service needs to its `depends`, once, unless its file says so itself.
fn wait(decoded: &mut Decoded, needed: Vec<(Requirement, Position)>) {
    let (mut new, mut places) = (Vec::new(), Vec::new());
    for (need, at) in needed {
        if new.contains(&need) || decoded.spec.depends.contains(&need) {
            continue;
        }
        let mentions = if let Requirement::Any(all) = &need { all.len() } else { 1 };
        places.extend(std::iter::repeat_n(at, mentions));
        new.push(need);
    }
    // First, as positions stand in the order of a walk.
    decoded.references.splice(0..0, places);
    decoded.spec.depends.splice(0..0, new);
}
