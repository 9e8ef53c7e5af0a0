//! Services that need the fleet of the host: the machine file names it.

use super::Reading;
use crate::decode::diagnostic;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::loaded::Diagnostic;
use kelson_spec::machine::MachineSpec;

impl Reading {
    /// Where the host is in no fleet, services that wait for what is registered there, or have templates, are faulty, and each `disconnect` is
    /// warned of.
    pub(super) fn without_fleet(&mut self, machine: &MachineSpec) {
        if const { !OWN.has(Feature::Fleet) } || machine.fleet.is_some() {
            return;
        }
        // A source may name the fleet on the host. A machine file with a mistake may name it too.
        if machine.sources.is_some() || self.diagnostics.iter().any(Diagnostic::is_of_the_machine_file) {
            return;
        }
        for decoded in std::mem::take(&mut self.services) {
            let (spec, registered) = (&decoded.spec, decoded.registered);
            if let Some(at) = decoded.disconnect {
                let text = "disconnect: machine.yaml names no fleet, so this has no effect; write fleet there, or leave disconnect out";
                self.warnings.push(diagnostic(&spec.file, at, Some(&spec.name), text));
            }
            let (at, text) = match (registered, decoded.templates) {
                (Some(at), _) => (
                    at,
                    "machine.yaml names no fleet, so nothing can be found registered; write fleet there, or leave registered out",
                ),
                (None, Some(at)) => (
                    at,
                    "machine.yaml names no fleet, so no template is rendered; write fleet there, or leave templates out",
                ),
                (None, None) => {
                    self.services.push(decoded);
                    continue;
                }
            };
            self.diagnostics.push(diagnostic(&spec.file, at, Some(&spec.name), text));
            self.known.insert(decoded.spec.name);
        }
    }
}
