//! The configuration that the host runs by, services apart: the machine file as the boot read it, with the
//! keys that a reload has changed since.
//!
//! It is written down, and is what a later incarnation of PID 1 runs by. The files on the disk are not: what they say by
//! now is for a reload or for the next boot.

use kelson_sys::ordered;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kelson_runner::CgroupRoot;
use kelson_services::ServicesError;
use kelson_services::host::ReloadReport;
use kelson_services::manager::Manager;
use kelson_services::node_health::{HealthSpecs, NodeHealth};
use kelson_services::state_store::{Kind, StateStore};
use kelson_services::timers::{SUPPORTED, Timers};
use kelson_services::volumes::{self, Volumes};
use kelson_spec::{GroupSpec, Loaded, MachineReload, MachineSpec};

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct Configuration {
    /// Without the services, each of which is written down by itself.
    loaded: Arc<Mutex<Loaded>>,
    store: Option<StateStore>,
    /// Get the schedules of services again when the files are read again.
    timers: Option<&'static Timers>,
    /// Get the plugins among the services again when the files are read again.
    volumes: Option<(Volumes, Option<CgroupRoot>)>,
}

impl Configuration {
    pub(super) fn new(
        loaded: &Loaded,
        store: Option<StateStore>,
        timers: Option<&'static Timers>,
        volumes: Option<(Volumes, Option<CgroupRoot>)>,
    ) -> Configuration {
        let loaded = Loaded { services: Vec::new(), ..loaded.clone() };
        Configuration { loaded: Arc::new(Mutex::new(loaded)), store, timers, volumes }
    }

    /// From now on services are started by the schedules of their files.
    pub(super) fn arrange_timers(&self) {
        if SUPPORTED && let Some(timers) = self.timers {
            timers.arrange();
        }
    }

    /// From now on the plugins are those of the services that there are.
    pub(super) fn arrange_volumes(&self, manager: &Manager) {
        if volumes::SUPPORTED
            && let Some((volumes, cgroups)) = &self.volumes
        {
            let of =
                |name: &str| cgroups.as_ref().and_then(|root| root.kernel_path_of(name)).unwrap_or_default();
            volumes.arrange(manager, of);
        }
    }

    /// A plugin whose file is gone serves until it has stopped, which may be a while off, and then is none any more.
    fn arrange_volumes_after(&self, manager: &Manager, removed: &[String]) {
        if !volumes::SUPPORTED || self.volumes.is_none() {
            return;
        }
        let is_plugin = |name: &&String| manager.spec(name).is_some_and(|spec| spec.provides.is_some());
        let ends: Vec<_> = removed.iter().filter(is_plugin).filter_map(|name| manager.watch(name)).collect();
        if ends.is_empty() {
            return;
        }
        let (configuration, manager) = (self.clone(), manager.clone());
        kelson_sys::spawn(async move {
            for mut end in ends {
                // It is an error once the service is forgotten.
                let _ = end.wait_for(|_| false).await;
            }
            configuration.arrange_volumes(&manager);
        });
    }

    fn loaded(&self) -> MutexGuard<'_, Loaded> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn machine(&self) -> MachineSpec {
        self.loaded().machine.clone()
    }

    /// Writes it down. An incarnation that does not find it takes the services in again.
    pub(super) fn write(&self) {
        if let Some(store) = &self.store {
            store.write(Kind::Configuration, "", &*self.loaded());
        }
    }

    /// What taking this up would change: the groups, and the keys of the machine file.
    pub(super) fn plan(&self, read: &Loaded) -> (Vec<String>, MachineReload) {
        let now = self.loaded();
        (changed(&now.groups, &read.groups), now.machine.reload(&read.machine))
    }

    /// Takes up what was read again.
    pub(super) async fn reload(
        &self,
        manager: &Manager,
        health: &NodeHealth,
        mut read: Loaded,
    ) -> Result<ReloadReport, ServicesError> {
        let services = std::mem::take(&mut read.services);
        read.keep_versions(&self.loaded(), |name| manager.spec(name).is_some());
        let (next, machine) = after(&self.loaded(), &read);
        let mut report = manager.reload(Loaded { services, ..read }).await?;
        report.groups = changed(&self.loaded().groups, &next.groups);
        let specs = HealthSpecs::from(&next);
        manager.set_groups(&next.groups);
        next.warnings.iter().for_each(|warning| manager.host_event(&warning.to_string()));
        // Before it is written: a crash in between must not find the word of old checks for new ones.
        health.set_specs(specs);
        self.arrange_timers();
        self.arrange_volumes(manager);
        self.arrange_volumes_after(manager, &report.stopped);
        *self.loaded() = next;
        self.write();
        match machine {
            Some(machine) => {
                let names = |keys: Vec<&str>| keys.into_iter().map(str::to_owned).collect();
                (report.applied, report.waiting) = (names(machine.applied), names(machine.waiting));
            }
            None => report.errors.push("machine.yaml has mistakes, so none of its keys was taken up".into()),
        }
        Ok(report)
    }
}

/// The configuration after this reading, and the outcome for the machine file. `None`: the file has mistakes,
/// and changes nothing.
fn after(now: &Loaded, read: &Loaded) -> (Loaded, Option<MachineReload>) {
    let machine = (!read.machine_is_faulty()).then(|| now.machine.reload(&read.machine));
    // A group whose file has mistakes stays as it is.
    let faulty = read.faulty_groups();
    let kept = now.groups.iter().filter(|group| faulty.contains(&group.name.as_str()));
    let mut groups: Vec<GroupSpec> = read.groups.iter().chain(kept).cloned().collect();
    ordered::sort_by(&mut groups, |one, other| one.name.cmp(&other.name));
    let next = Loaded {
        machine: machine.as_ref().map_or(&now.machine, |machine| &machine.spec).clone(),
        groups,
        api_group: now.api_group,
        containerd: now.containerd || read.containerd,
        ..read.clone()
    };
    (next, machine)
}

/// The names of groups whose files came, changed or went.
fn changed(before: &[GroupSpec], now: &[GroupSpec]) -> Vec<String> {
    let new = now.iter().filter(|group| !before.contains(group));
    let gone = before.iter().filter(|old| !now.iter().any(|group| group.name == old.name));
    let mut names: Vec<String> = new.chain(gone).map(|group| group.name.clone()).collect();
    ordered::sort(&mut names);
    names
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kelson_spec::Diagnostic;

    use super::*;

    fn read(timeout: u64, faulty_file: Option<&str>) -> Loaded {
        let diagnostics = faulty_file.map(|file| Diagnostic {
            file: file.into(),
            line: 1,
            column: 1,
            service: None,
            message: "unknown key".to_owned(),
        });
        let machine = MachineSpec {
            hostname: Some(format!("host-{timeout}")),
            shutdown_timeout: Duration::from_secs(timeout),
            ..MachineSpec::default()
        };
        Loaded {
            machine,
            diagnostics: diagnostics.into_iter().collect(),
            api_group: Some(u32::try_from(timeout).unwrap()),
            ..Loaded::default()
        }
    }

    #[test]
    fn what_the_boot_read_is_kept_but_for_the_live_keys() {
        let booted = Loaded { containerd: true, ..read(60, None) };
        let (next, machine) = after(&booted, &read(7, None));
        assert_eq!(next.machine.shutdown_timeout, Duration::from_secs(7));
        assert_eq!(next.machine.hostname.as_deref(), Some("host-60"));
        assert_eq!((next.api_group, next.containerd), (Some(60), true));
        assert_eq!(machine.unwrap().waiting, ["hostname"]);
    }

    #[test]
    fn a_machine_file_with_mistakes_changes_nothing_and_a_service_file_with_mistakes_is_remembered() {
        let booted = read(60, None);
        let (next, machine) = after(&booted, &read(7, Some("/etc/kelson/machine.yaml")));
        assert_eq!((next.machine, machine), (booted.machine.clone(), None));
        let (next, machine) = after(&booted, &read(7, Some("/etc/kelson/services/web.yaml")));
        assert_eq!((next.diagnostics.len(), machine.is_some()), (1, true));
        // A group may be called as the machine file is.
        let (_, machine) = after(&booted, &read(7, Some("/etc/kelson/groups/machine.yaml")));
        assert!(machine.is_some());
    }

    #[test]
    fn a_group_whose_file_has_mistakes_stays_as_it_is() {
        let group = |name: &str, minimum: u64| GroupSpec {
            name: name.to_owned(),
            minimum: Some(Duration::from_secs(minimum)),
            ..GroupSpec::default()
        };
        let booted = Loaded { groups: vec![group("a", 1), group("b", 1), group("c", 1)], ..read(60, None) };
        let faulty = read(60, Some("/etc/kelson/groups/b.yaml"));
        let (next, _) = after(&booted, &Loaded { groups: vec![group("a", 2), group("d", 1)], ..faulty });
        assert_eq!(next.groups, [group("a", 2), group("b", 1), group("d", 1)]);
        assert_eq!(changed(&booted.groups, &next.groups), ["a", "c", "d"]);
    }
}
