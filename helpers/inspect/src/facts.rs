//! Facts: what a host is. Each names the file or the instruction that it comes from, and what has no source is no fact.

use std::collections::BTreeSet;
use std::fs;

use kelson_proto::v1::Fact;

use crate::system::{System, line, number};
use crate::{cpu, disks, memory, mounts, platform};

/// Facts in the order in which they were found.
#[derive(Default)]
struct Facts(Vec<Fact>);

impl Facts {
    /// A value without spaces around it. An empty one is no fact.
    fn add(&mut self, name: impl Into<String>, value: impl ToString, source: impl Into<String>) {
        let value = value.to_string().trim().to_owned();
        if !value.is_empty() {
            self.0.push(Fact { name: name.into(), value, source: source.into() });
        }
    }

    /// The same of a number that may not be known.
    fn count(&mut self, name: impl Into<String>, value: Option<u64>, source: impl Into<String>) {
        if let Some(value) = value.filter(|value| *value > 0) {
            self.add(name, value, source);
        }
    }
}

/// All facts of the host, the general ones first.
pub fn read(system: &System) -> Vec<Fact> {
    let mut facts = Facts::default();
    kernel(system, &mut facts);
    processors(system, &mut facts);
    let total = memory::read(system).ok().map(|memory| memory.total);
    facts.count("memory.total", total, "/proc/meminfo");
    for Fact { name, value, source } in platform::read(system) {
        facts.add(name, value, source);
    }
    for disk in disks::read(system).unwrap_or_default() {
        // A loop device is a file, and a partition is a part of what is listed.
        if disk.parent.is_empty() && disk.backing.is_empty() {
            let source = format!("/sys/block/{}", disk.name.replace('/', "!"));
            let of_it = |what: &str| format!("disk.{}.{what}", disk.name);
            facts.count(of_it("size"), Some(disk.size), format!("{source}/size"));
            facts.add(of_it("model"), &disk.model, format!("{source}/device/model"));
            facts.add(of_it("rotational"), disk.rotational, format!("{source}/queue/rotational"));
        }
    }
    interfaces(system, &mut facts);
    facts.0
}

fn kernel(system: &System, facts: &mut Facts) {
    let mut file = |name: &str, file: &str| {
        facts.add(name, system.proc(file).unwrap_or_default(), format!("/proc/{file}"));
    };
    file("host.name", "sys/kernel/hostname");
    file("boot.id", "sys/kernel/random/boot_id");
    file("kernel.release", "sys/kernel/osrelease");
    file("kernel.version", "sys/kernel/version");
    facts.add("architecture", std::env::consts::ARCH, "the build of Kelson");
    let mounted = mounts::lines(system).unwrap_or_default();
    let groups = mounted.iter().find(|mount| mount.target.as_os_str() == "/sys/fs/cgroup");
    let version = match groups.map(|mount| mount.fs_type.as_str()) {
        Some("cgroup2") => "2",
        // The folder of version 1 is a tmpfs with a mount for each controller.
        Some("tmpfs") => "1",
        _ => "",
    };
    facts.add("cgroup.version", version, "/proc/self/mountinfo");
}

fn processors(system: &System, facts: &mut Facts) {
    let Ok(cpu) = cpu::read(system) else { return };
    facts.add("cpu.model", cpu.model, "/proc/cpuinfo");
    facts.count("cpu.threads", u64::try_from(cpu.processors.len()).ok(), "/proc/stat");
    let folder = system.sys.join("devices/system/cpu");
    let of = |number: u32, file: &str| folder.join(format!("cpu{number}")).join(file);
    let cores: BTreeSet<_> = cpu
        .processors
        .iter()
        .map(|one| {
            ["physical_package_id", "core_id"].map(|file| line(&of(one.number, "topology").join(file)))
        })
        .filter(|core| core.iter().all(|part| !part.is_empty()))
        .collect();
    let source = "/sys/devices/system/cpu/cpu*";
    facts.count("cpu.cores", u64::try_from(cores.len()).ok(), format!("{source}/topology/core_id"));
    let fastest =
        cpu.processors.iter().filter_map(|one| number(&of(one.number, "cpufreq/cpuinfo_max_freq"))).max();
    // The file has kHz.
    let megahertz = fastest.and_then(|kilohertz| kilohertz.checked_div(1000));
    facts.count("cpu.maximumMhz", megahertz, format!("{source}/cpufreq/cpuinfo_max_freq"));
}

/// The interfaces of hardware, in the order of their names: others come and go with services.
fn interfaces(system: &System, facts: &mut Facts) {
    let folder = system.sys.join("class/net");
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
    let names: BTreeSet<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    for name in names {
        let at = folder.join(&name);
        if !at.join("device").exists() {
            continue;
        }
        let source = format!("/sys/class/net/{name}");
        facts.add(format!("network.{name}.address"), line(&at.join("address")), format!("{source}/address"));
        let driver = fs::read_link(at.join("device/driver")).ok();
        let driver = driver.as_ref().and_then(|path| path.file_name()?.to_str()).unwrap_or_default();
        facts.add(format!("network.{name}.driver"), driver, format!("{source}/device/driver"));
        // In Mbit/s. One without a carrier has none, or -1.
        facts.count(format!("network.{name}.speed"), number(&at.join("speed")), format!("{source}/speed"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::Played;

    fn pairs(facts: &[Fact]) -> Vec<(&str, &str, &str)> {
        facts.iter().map(|fact| (fact.name.as_str(), fact.value.as_str(), fact.source.as_str())).collect()
    }

    #[test]
    fn each_fact_names_its_source_and_what_is_empty_is_none() {
        let played = Played::new(&[
            ("proc/sys/kernel/hostname", "edge-7\n"),
            ("proc/sys/kernel/osrelease", " 6.1.0 \n"),
            ("proc/sys/kernel/version", "\n"),
            ("proc/stat", "cpu  1 0\ncpu0 1 0\ncpu1 1 0\ncpu2 1 0\n"),
            ("proc/cpuinfo", "model name\t: Fast one \n"),
            ("proc/meminfo", "MemTotal: 1000 kB\n"),
            ("proc/self/mountinfo", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            ("sys/devices/system/cpu/cpu0/topology/physical_package_id", "0\n"),
            ("sys/devices/system/cpu/cpu0/topology/core_id", "0\n"),
            ("sys/devices/system/cpu/cpu1/topology/physical_package_id", "0\n"),
            ("sys/devices/system/cpu/cpu1/topology/core_id", "0\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/cpuinfo_max_freq", "3500000\n"),
            ("sys/devices/system/cpu/cpu2/topology/physical_package_id", "1\n"),
            ("sys/devices/system/cpu/cpu2/topology/core_id", "0\n"),
            ("sys/block/vda/size", "2048\n"),
            ("sys/block/vda/vda1/partition", "1\n"),
            ("sys/block/loop0/size", "8\n"),
            ("sys/block/loop0/loop/backing_file", "/x\n"),
            ("sys/class/net/eth0/device/vendor", "x\n"),
            ("sys/class/net/eth0/address", "02:00:00:00:00:01\n"),
            ("sys/class/net/eth0/speed", "-1\n"),
            ("sys/class/net/lo/address", "00:00:00:00:00:00\n"),
        ]);
        let facts = read(&played.system);
        let hardware: Vec<_> =
            pairs(&facts).into_iter().filter(|(name, ..)| *name != "architecture").collect();
        assert_eq!(
            hardware,
            [
                ("host.name", "edge-7", "/proc/sys/kernel/hostname"),
                ("kernel.release", "6.1.0", "/proc/sys/kernel/osrelease"),
                ("cgroup.version", "2", "/proc/self/mountinfo"),
                ("cpu.model", "Fast one", "/proc/cpuinfo"),
                ("cpu.threads", "3", "/proc/stat"),
                ("cpu.cores", "2", "/sys/devices/system/cpu/cpu*/topology/core_id"),
                ("cpu.maximumMhz", "3500", "/sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_max_freq"),
                ("memory.total", "1024000", "/proc/meminfo"),
                ("disk.vda.size", "1048576", "/sys/block/vda/size"),
                ("disk.vda.rotational", "false", "/sys/block/vda/queue/rotational"),
                ("network.eth0.address", "02:00:00:00:00:01", "/sys/class/net/eth0/address"),
            ]
        );
    }

    #[test]
    fn a_host_that_says_nothing_has_the_facts_of_the_build_alone() {
        let facts = read(&Played::new(&[]).system);
        assert_eq!(pairs(&facts), [("architecture", std::env::consts::ARCH, "the build of Kelson")]);
    }

    #[test]
    fn this_host_has_facts() {
        let facts = read(&System::real());
        for name in ["host.name", "boot.id", "kernel.release", "architecture", "cpu.threads", "memory.total"]
        {
            assert!(facts.iter().any(|fact| fact.name == name), "{name}: {facts:?}");
        }
        for Fact { name, value, .. } in facts {
            let is_number =
                kelson_spec::facts::is_number(&name).unwrap_or_else(|| panic!("{name} is not listed"));
            assert!(!is_number || value.parse::<u64>().is_ok(), "{name}: {value}");
        }
    }
}
