//! The outcome for a machine file that is read again while the host runs.

use crate::machine::MachineSpec;

/// The machine file after a reload.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineReload {
    /// The configuration from now on: as the host booted, with the live keys as they are read now.
    pub spec: MachineSpec,
    /// Keys that changed and take effect at once.
    pub applied: Vec<&'static str>,
    /// Keys that differ from those of the boot and take effect at the next one.
    pub waiting: Vec<&'static str>,
}

impl MachineSpec {
    /// Takes over the live keys of a file without mistakes; docs/machine-file.md lists them.
    pub fn reload(&self, read: &MachineSpec) -> MachineReload {
        // Each key is named: the compiler asks for a new one.
        let MachineSpec {
            hostname,
            modules,
            sysctl,
            network,
            nftables,
            partitions,
            encryption,
            mounts,
            swap,
            api,
            builtins,
            health,
            shutdown_timeout,
            watchdog,
            images,
            container_network,
            registries,
            main,
            stdout,
            time,
            devices,
            kexec,
            console,
            sources,
            fleet,
            verify,
        } = read;
        let live = [
            ("health", self.health != *health),
            ("shutdown", self.shutdown_timeout != *shutdown_timeout),
            ("kexec", self.kexec != *kexec),
        ];
        let others = [
            ("hostname", self.hostname != *hostname),
            ("modules", self.modules != *modules),
            ("sysctl", self.sysctl != *sysctl),
            ("network", self.network != *network),
            ("nftables", self.nftables != *nftables),
            ("partitions", self.partitions != *partitions),
            ("encryption", self.encryption != *encryption),
            ("mounts", self.mounts != *mounts),
            ("swap", self.swap != *swap),
            ("api", self.api != *api),
            ("builtins", self.builtins != *builtins),
            ("watchdog", self.watchdog != *watchdog),
            ("images", self.images != *images || self.verify != *verify),
            ("containerNetwork", self.container_network != *container_network),
            ("registries", self.registries != *registries),
            ("main", self.main != *main),
            ("logs", self.stdout != *stdout),
            ("time", self.time != *time),
            ("devices", self.devices != *devices),
            ("console", self.console != *console),
            ("sources", self.sources != *sources),
            ("fleet", self.fleet != *fleet),
        ];
        let changed = |keys: &[(&'static str, bool)]| {
            keys.iter().filter(|(_, changed)| *changed).map(|(key, _)| *key).collect()
        };
        MachineReload {
            spec: MachineSpec {
                health: *health,
                shutdown_timeout: *shutdown_timeout,
                kexec: kexec.clone(),
                ..self.clone()
            },
            applied: changed(&live),
            waiting: changed(&others),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn live_keys_are_taken_over_and_all_others_wait() {
        let booted = MachineSpec { hostname: Some("old".to_owned()), ..MachineSpec::default() };
        let mut read = MachineSpec { hostname: Some("new".to_owned()), api: None, ..booted.clone() };
        read.shutdown_timeout = Duration::from_secs(7);
        read.images.clear();
        let reload = booted.reload(&read);
        assert_eq!(reload.applied, ["shutdown"]);
        assert_eq!(reload.waiting, ["hostname", "images"]);
        assert_eq!(reload.spec, MachineSpec { shutdown_timeout: Duration::from_secs(7), ..booted.clone() });
        // An applied key is no change any more, a waiting one still is.
        let again = reload.spec.reload(&read);
        assert_eq!((again.applied, again.waiting), (vec![], vec!["hostname", "images"]));
        let back = reload.spec.reload(&booted);
        assert_eq!((back.applied, back.waiting, back.spec), (vec!["shutdown"], vec![], booted));
    }
}
