//! Services that stop when the host is cut off from its fleet: the machine file names that fleet.

use super::Reading;
use crate::decode::diagnostic;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::loaded::Diagnostic;
use kelson_spec::machine::MachineSpec;

impl Reading {
    /// Warns of each `disconnect` where the host is in no fleet.
    pub(super) fn without_fleet(&mut self, machine: &MachineSpec) {
        if const { !OWN.has(Feature::Fleet) } || machine.fleet.is_some() {
            return;
        }
        // A source may name the fleet on the host. A machine file with a mistake may name it too.
        if machine.sources.is_some() || self.diagnostics.iter().any(Diagnostic::is_of_the_machine_file) {
            return;
        }
        for decoded in &self.services {
            let (Some(at), spec) = (decoded.disconnect, &decoded.spec) else { continue };
            let text = "disconnect: machine.yaml names no fleet, so this has no effect; write fleet there, or leave disconnect out";
            self.warnings.push(diagnostic(&spec.file, at, Some(&spec.name), text));
        }
    }
}
