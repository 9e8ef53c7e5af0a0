//! Which service a process belongs to: by its cgroup, and where there is none by its ancestors.

use std::collections::HashMap;

use kelson_proto::v1::InspectService;
use kelson_spec::names::service_of_cgroup;

use crate::system::System;

/// The services and their cgroups.
pub struct Owners {
    /// The cgroup of all services, as the kernel names those of processes.
    root: Option<String>,
    main: HashMap<i32, String>,
}

impl Owners {
    /// This very process is in a cgroup beside those of the services, unless it could not be made.
    pub fn new(system: &System, services: &[InspectService]) -> Owners {
        let own = system.proc("self/cgroup").ok();
        let root = own.and_then(|text| {
            let (root, own) = unified(&text)?.rsplit_once('/')?;
            own.starts_with('_').then(|| root.to_owned())
        });
        let main = services.iter().map(|service| (service.pid, service.name.clone()));
        Owners { root, main: main.filter(|(pid, _)| *pid > 0).collect() }
    }

    /// The service that a process's cgroup belongs to. `None`: its cgroup says nothing.
    pub fn by_cgroup(&self, text: &str) -> Option<String> {
        let below = unified(text)?.strip_prefix(self.root.as_deref()?)?.strip_prefix('/')?;
        Some(service_of_cgroup(below).unwrap_or_default().to_owned())
    }

    /// Says of each process which service it belongs to; of a process there is its parent and what its cgroup says.
    pub fn of_all(&self, processes: &HashMap<i32, (i32, Option<String>)>) -> HashMap<i32, String> {
        let mut known: HashMap<i32, String> = HashMap::new();
        for (pid, (_, by_cgroup)) in processes {
            let name = by_cgroup.clone().unwrap_or_else(|| self.by_ancestors(*pid, processes));
            known.insert(*pid, name);
        }
        known
    }

    fn by_ancestors(&self, pid: i32, processes: &HashMap<i32, (i32, Option<String>)>) -> String {
        let mut at = pid;
        // Parents are read one after the other while processes come and go: a ring is possible.
        for _ in 0..processes.len() {
            if let Some(name) = self.main.get(&at) {
                return name.clone();
            }
            match processes.get(&at) {
                Some((parent, _)) if *parent > 0 => at = *parent,
                _ => break,
            }
        }
        String::new()
    }
}

/// The cgroup of version 2 in `/proc/PID/cgroup`.
fn unified(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::Played;

    fn main_of(name: &str, pid: i32) -> InspectService {
        InspectService { name: name.into(), pid }
    }

    #[test]
    fn a_cgroup_says_whose_it_is() {
        let played = Played::new(&[("proc/self/cgroup", "1:name=x:/\n0::/box/kelson/_inspect-3\n")]);
        let owners = Owners::new(&played.system, &[]);
        let of = |text: &str| owners.by_cgroup(text);
        assert_eq!(of("0::/box/kelson/web\n").as_deref(), Some("web"));
        assert_eq!(of("2:cpu:/kelson/db\n0::/box/kelson/web/inner/most\n").as_deref(), Some("web"));
        assert_eq!(of("0::/box/kelson/shims/redis\n").as_deref(), Some("redis"));
        assert_eq!(of("0::/box/kelson/_unpack-1\n").as_deref(), Some(""));
        for other in ["0::/box/kelson\n", "0::/box/kelsonx/web\n", "0::/\n", "1:cpu:/box/kelson/web\n", ""] {
            assert_eq!(of(other), None, "{other:?}");
        }
    }

    #[test]
    fn without_cgroups_ancestors_say_it() {
        let played = Played::new(&[("proc/self/cgroup", "0::/user.slice\n")]);
        let owners = Owners::new(&played.system, &[main_of("web", 10), main_of("none", 0)]);
        assert_eq!(owners.by_cgroup("0::/user.slice"), None);
        let parents = [(1, 0), (10, 1), (11, 10), (12, 11), (20, 1), (30, 31), (31, 30)];
        let processes = parents.map(|(pid, parent)| (pid, (parent, None))).into();
        let of = owners.of_all(&processes);
        let of = |pid: i32| of[&pid].as_str();
        assert_eq!([of(1), of(10), of(11), of(12), of(20), of(30)], ["", "web", "web", "web", "", ""]);
    }
}
