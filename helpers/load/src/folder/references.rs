//! What files say of services by name: dependencies of services and built-in services, and the main service.

use super::Reading;
use crate::decode::diagnostic;
use crate::grammar::DecodedMachine;
use crate::tree::Position;
use kelson_spec::builtin;
use kelson_spec::graph;
use kelson_spec::near::near;
use kelson_spec::quote::quoted;
use kelson_spec::service::{ServiceEvent, ServiceSpec};
use kelson_sys::ordered;

/// Of more services than this none is looked for that a misspelt name could mean.
const MOST_NEAR: usize = 1000;

impl Reading {
    /// Takes out of the machine file what makes a built-in service wait for an unknown one, or for one that waits for it.
    pub(super) fn check_builtins(&mut self, machine: &mut DecodedMachine) {
        let DecodedMachine { spec: machine, builtins: (file, references), .. } = machine;
        if machine.builtins.iter().all(|builtin| builtin.depends.is_empty()) {
            return;
        }
        let mut specs: Vec<ServiceSpec> = self.services.iter().map(|decoded| decoded.spec.clone()).collect();
        let count = specs.len();
        specs.extend(machine.builtins.iter().map(|builtin| {
            let mut spec = ServiceSpec::process(&builtin.name, ["/"]);
            spec.depends.clone_from(&builtin.depends);
            spec
        }));
        let by_group: Vec<usize> = self.services.iter().map(|decoded| decoded.by_group).collect();
        for problem in graph::check(&specs, &self.known, &by_group) {
            let Some(place) = problem.service.checked_sub(count) else { continue };
            let Some(builtin) = machine.builtins.get_mut(place) else { continue };
            builtin.depends.clear();
            let at = references.get(place).and_then(|list| list.get(problem.reference));
            let at = at.copied().unwrap_or(Position::START);
            let text = format!("builtins.{}.{}", builtin.name, problem.message);
            self.diagnostics.push(diagnostic(file, at, None, text));
        }
    }

    /// Takes a `main` out of the machine file that is the name of no service.
    pub(super) fn check_main(&mut self, machine: &mut DecodedMachine, services: &[ServiceSpec]) {
        let Some(main) = &machine.spec.main else { return };
        let is_builtin = builtin::of(main).is_some();
        let known = self.diagnostics.iter().filter_map(|found| found.service.as_deref());
        let mut names = services.iter().map(|spec| spec.name.as_str()).chain(known);
        if !is_builtin && names.any(|name| name == main) {
            return;
        }
        let hint = near(main, services.iter().map(|spec| spec.name.as_str()));
        let text = match (is_builtin, hint) {
            (true, _) => format!("{} is a built-in service; name a service that has a file", quoted(main)),
            (false, Some(near)) => format!("there is no service {}; did you mean {near}?", quoted(main)),
            (false, None) => format!("there is no service {}; name a service that has a file", quoted(main)),
        };
        machine.spec.main = None;
        let (file, at) = &machine.main;
        self.diagnostics.push(diagnostic(file, at.unwrap_or(Position::START), None, format!("main: {text}")));
    }

    /// Warns of names in `after` that no service has: files from elsewhere name services that a host may lack, and a
    /// name may be misspelt.
    fn check_order(&mut self, specs: &[ServiceSpec], references: &[Vec<Position>]) {
        let names = || specs.iter().map(|spec| spec.name.as_str());
        let known = ordered::set(names().chain(self.known.iter().map(String::as_str)));
        for (spec, references) in specs.iter().zip(references) {
            for (edge, at) in graph::edges_of(spec).into_iter().zip(references) {
                if edge.event != ServiceEvent::Settled || known.contains(edge.service) {
                    continue;
                }
                let near = near(edge.service, names().take(MOST_NEAR));
                let hint = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
                let text = format!("after: there is no service {}, so it orders nothing{hint}", edge.service);
                self.warnings.push(diagnostic(&spec.file, *at, Some(&spec.name), text));
            }
        }
    }

    /// Takes out the services that name unknown ones or wait for each other.
    pub(super) fn check_graph(&mut self) -> Vec<ServiceSpec> {
        let by_group: Vec<usize> = self.services.iter().map(|decoded| decoded.by_group).collect();
        let (specs, references): (Vec<ServiceSpec>, Vec<Vec<Position>>) =
            std::mem::take(&mut self.services).into_iter().map(|d| (d.spec, d.references)).unzip();
        self.check_order(&specs, &references);
        let problems = graph::check(&specs, &self.known, &by_group);
        let mut faulty = vec![false; specs.len()];
        for problem in problems {
            let Some(spec) = specs.get(problem.service) else { continue };
            let at = references.get(problem.service).and_then(|list| list.get(problem.reference));
            let at = at.copied().unwrap_or(Position::START);
            if let Some(mark) = faulty.get_mut(problem.service) {
                *mark = true;
            }
            self.diagnostics.push(diagnostic(&spec.file, at, Some(&spec.name), problem.message));
        }
        let sound = specs.into_iter().zip(faulty).filter(|(_, faulty)| !faulty);
        let mut services: Vec<ServiceSpec> = sound.map(|(spec, _)| spec).collect();
        ordered::sort_by(&mut services, |a, b| a.name.cmp(&b.name));
        services
    }
}
