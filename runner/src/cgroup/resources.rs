//! The resources that a service may use, and those that it uses.

use std::time::Duration;

use kelson_spec::service::Resources;

use super::Cgroup;
use crate::runner::RunnerError;

/// Period of `cpu.max` in microseconds, the kernel's own default.
const PERIOD: u64 = 100_000;
/// The kernel takes no smaller quota of it.
const LEAST_QUOTA: u64 = 1_000;

/// The resources that a cgroup uses now; `None` where the controller that counts one is missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub memory_bytes: Option<u64>,
    /// CPU time of all its processes since it was made.
    pub cpu: Option<Duration>,
    pub processes: Option<u32>,
}

impl Cgroup {
    /// Writes the limits, and of PIDs the usual one where there is none. A limit that cannot be applied is no
    /// failure: it is returned, a sentence each.
    pub fn limit(&self, resources: &Resources) -> Vec<String> {
        let mut resources = resources.clone();
        if self.root.has("pids") {
            let share = self.root.share_of_pids();
            resources.pids_max = resources.pids_max.or(share);
        }
        let mut warnings = Vec::new();
        for (key, controller, file, value) in settings(&resources) {
            if !self.root.has(controller) {
                warnings
                    .push(format!("{key} is not enforced: the cgroup controller {controller} is missing"));
            } else if let Err(error) = self.write(file, &value) {
                let what = format!("{key} is not enforced: cannot write {value} to {file}");
                warnings.push(RunnerError::system(what, &error).message);
            }
        }
        warnings
    }

    /// Cheap: at most three small reads.
    pub fn usage(&self) -> Usage {
        let number = |file| self.read(file).ok()?.trim().parse::<u64>().ok();
        let cpu = self.read("cpu.stat").ok();
        let cpu = cpu.as_deref().and_then(usage_usec).map(Duration::from_micros);
        let processes = match number("pids.current") {
            Some(count) => u32::try_from(count).ok(),
            None if self.path().exists() => u32::try_from(self.processes(super::MOST).len()).ok(),
            None => None,
        };
        Usage { memory_bytes: number("memory.current"), cpu, processes }
    }
}

/// Where there are no cgroups: a sentence for each limit of the spec.
pub fn without_cgroups(resources: &Resources) -> Vec<String> {
    let keys = settings(resources).into_iter().map(|(key, ..)| key);
    keys.map(|key| format!("{key} is not enforced: there is no cgroup v2 that can be written")).collect()
}

fn usage_usec(cpu_stat: &str) -> Option<u64> {
    cpu_stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?.trim().parse().ok()
}

/// Key of the service file, controller, file and what to write, for each that the spec sets.
fn settings(resources: &Resources) -> Vec<(&'static str, &'static str, &'static str, String)> {
    let cpu = resources.cpu_max_millis.map(|millis| {
        let quota = millis.saturating_mul(PERIOD / 1000).max(LEAST_QUOTA);
        format!("{quota} {PERIOD}")
    });
    let text = |value: Option<u64>| value.map(|value| value.to_string());
    [
        ("memoryMax", "memory", "memory.max", text(resources.memory_max)),
        ("memoryHigh", "memory", "memory.high", text(resources.memory_high)),
        ("cpuMax", "cpu", "cpu.max", cpu),
        ("cpuWeight", "cpu", "cpu.weight", text(resources.cpu_weight)),
        ("ioWeight", "io", "io.weight", text(resources.io_weight)),
        ("pidsMax", "pids", "pids.max", text(resources.pids_max)),
    ]
    .into_iter()
    .filter_map(|(key, controller, file, value)| Some((key, controller, file, value?)))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::CgroupRoot;

    #[test]
    fn units_become_the_kernels() {
        let resources = Resources {
            memory_max: Some(64 << 20),
            memory_high: None,
            cpu_max_millis: Some(500),
            cpu_weight: Some(100),
            io_weight: Some(50),
            pids_max: Some(64),
        };
        let written: Vec<String> =
            settings(&resources).into_iter().map(|s| format!("{} {}", s.2, s.3)).collect();
        let expected =
            ["memory.max 67108864", "cpu.max 50000 100000", "cpu.weight 100", "io.weight 50", "pids.max 64"];
        assert_eq!(written, expected);
        let tiny = Resources { cpu_max_millis: Some(1), ..Resources::default() };
        assert_eq!(settings(&tiny)[0].3, "1000 100000");
        assert_eq!(settings(&Resources::default()), []);
    }

    /// The folder is played: there is no controller of input and output to be had everywhere.
    #[test]
    fn input_and_output_are_shared_from_the_first_service_on_that_asks_for_it() {
        let own = std::env::temp_dir().join(format!("kelson-io-{}", std::process::id()));
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("cgroup.controllers"), "io pids\n").unwrap();
        let root = CgroupRoot::below(&own).unwrap();
        assert_eq!(root.controllers(), ["pids"]);
        let passed_on = || std::fs::read_to_string(own.join("cgroup.subtree_control")).unwrap();
        let cgroup = Cgroup::create(&root, "web").unwrap();
        for file in ["io.weight", "pids.max"] {
            std::fs::write(cgroup.path().join(file), "").unwrap();
        }
        assert_eq!(cgroup.limit(&Resources::default()), [""; 0]);
        assert_eq!(passed_on(), "+pids");
        let weighed = Resources { io_weight: Some(200), ..Resources::default() };
        assert_eq!(cgroup.limit(&weighed), [""; 0]);
        assert_eq!(passed_on(), "+io");
        assert_eq!(std::fs::read_to_string(cgroup.path().join("io.weight")).unwrap(), "200");
        std::fs::remove_dir_all(&own).unwrap();
    }

    #[test]
    fn cpu_time_is_read_from_cpu_stat() {
        assert_eq!(usage_usec("usage_usec 1234\nuser_usec 1000\n"), Some(1234));
        assert_eq!(usage_usec("user_usec 1000\n"), None);
    }
}
