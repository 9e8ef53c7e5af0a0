//! The cgroups of services, as the kernel counts them (Documentation/admin-guide/cgroup-v2.rst).

use kelson_sys::ordered;
use std::fs;
use std::path::Path;
use std::time::Duration;

use kelson_proto::v1::Cgroup;
use kelson_spec::names::service_of_cgroup;
use prost_types::Duration as Lasting;

use crate::answer::Unanswered;
use crate::system::{lasting, line, number, whole};

/// A service may make cgroups of its own; more than this are none of an operator's.
const MOST: usize = 10_000;

/// The cgroup at `root` and all below it, a parent before its children.
///
/// # Errors
/// When there is none, or it cannot be listed.
pub fn read(root: &str) -> Result<Vec<Cgroup>, Unanswered> {
    if root.is_empty() {
        let text = "there is no cgroup of services: no writable cgroup2 is mounted here";
        return Err(Unanswered::Unfit(text.to_owned()));
    }
    let root = Path::new(root);
    fs::read_dir(root).map_err(|error| Unanswered::path(&root.to_string_lossy(), &error))?;
    let mut found = Vec::new();
    let mut open = vec![String::new()];
    while let Some(path) = open.pop() {
        let at = root.join(&path);
        if found.len() >= MOST {
            break;
        }
        let mut below: Vec<String> = fs::read_dir(&at)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .filter_map(|entry| entry.file_name().into_string().ok())
            .map(|name| if path.is_empty() { name } else { format!("{path}/{name}") })
            .collect();
        // The last is taken first.
        ordered::sort_by(&mut below, |a, b| b.cmp(a));
        open.append(&mut below);
        found.push(cgroup(&at, path));
    }
    // Of those below it, too: a child comes after its parent.
    for place in (0..found.len()).rev() {
        let Some(child) = found.get(place).map(|child| (child.path.clone(), child.processes)) else {
            continue;
        };
        let Some(parent) = parent(&child.0) else { continue };
        if let Some(parent) = found.iter_mut().take(place).rfind(|cgroup| cgroup.path == parent) {
            parent.processes = parent.processes.saturating_add(child.1);
        }
    }
    Ok(found)
}

fn parent(path: &str) -> Option<&str> {
    match path.rsplit_once('/') {
        Some((parent, _)) => Some(parent),
        None => (!path.is_empty()).then_some(""),
    }
}

fn cgroup(at: &Path, path: String) -> Cgroup {
    let own = whole(&at.join("cgroup.procs")).map_or(0, |text| text.lines().count());
    let stat = whole(&at.join("cpu.stat")).unwrap_or_default();
    let micros = |key| keyed(&stat, key).map(|micros| lasting(Duration::from_micros(micros)));
    let events = whole(&at.join("memory.events")).unwrap_or_default();
    let state = whole(&at.join("cgroup.events")).unwrap_or_default();
    // Without a limit it is the word `max`, which is no number.
    let of = |file: &str| number(&at.join(file));
    Cgroup {
        service: service_of_cgroup(&path).unwrap_or_default().to_owned(),
        path,
        processes: u32::try_from(own).unwrap_or(u32::MAX),
        frozen: keyed(&state, "frozen") == Some(1),
        cpu: micros("usage_usec"),
        throttled: micros("throttled_usec").filter(|lasting| *lasting != Lasting::default()),
        memory: of("memory.current"),
        memory_peak: of("memory.peak"),
        memory_max: of("memory.max"),
        memory_high: of("memory.high"),
        oom_kills: keyed(&events, "oom_kill"),
        pids: of("pids.current"),
        pids_max: of("pids.max"),
        cpu_max: processors(&line(&at.join("cpu.max"))),
        cpu_weight: of("cpu.weight"),
    }
}

fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Of `QUOTA PERIOD`, in microseconds.
fn processors(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    let share = quota.parse::<u32>().ok()?;
    let period = period.parse::<u32>().ok().filter(|period| *period > 0)?;
    Some(f64::from(share) / f64::from(period))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::Played;

    #[test]
    fn a_tree_of_cgroups() {
        let played = Played::new(&[
            ("kelson/cgroup.procs", ""),
            ("kelson/web/cgroup.procs", "10\n11\n"),
            ("kelson/web/cgroup.events", "populated 1\nfrozen 1\n"),
            ("kelson/web/cpu.stat", "usage_usec 1500000\nuser_usec 1\nthrottled_usec 0\n"),
            ("kelson/web/cpu.max", "50000 100000\n"),
            ("kelson/web/memory.current", "4096\n"),
            ("kelson/web/memory.max", "max\n"),
            ("kelson/web/memory.events", "oom 3\noom_kill 2\noom_group_kill 0\n"),
            ("kelson/web/inner/cgroup.procs", "12\n"),
            ("kelson/db/cgroup.procs", "20\n"),
            ("kelson/shims/web/cgroup.procs", "30\n"),
        ]);
        let cgroups = read(&played.path("kelson").to_string_lossy()).unwrap();
        let told: Vec<(&str, &str, u32)> = cgroups
            .iter()
            .map(|cgroup| (cgroup.path.as_str(), cgroup.service.as_str(), cgroup.processes))
            .collect();
        let expected = [
            ("", "", 5),
            ("db", "db", 1),
            ("shims", "", 1),
            ("shims/web", "web", 1),
            ("web", "web", 3),
            ("web/inner", "web", 1),
        ];
        assert_eq!(told, expected);
        let web = &cgroups[4];
        assert!(web.frozen && web.throttled.is_none());
        assert_eq!((web.memory, web.memory_max, web.oom_kills, web.pids), (Some(4096), None, Some(2), None));
        assert_eq!((web.cpu_max, web.cpu.unwrap().seconds), (Some(0.5), 1));
    }

    #[test]
    fn where_there_is_none_it_says_so() {
        assert!(matches!(read(""), Err(Unanswered::Unfit(_))));
        assert!(matches!(read("/nowhere/kelson"), Err(Unanswered::Missing(_))));
        assert_eq!((processors("max 100000"), processors("1 0"), processors("")), (None, None, None));
    }
}
