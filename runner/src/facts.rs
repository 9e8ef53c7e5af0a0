//! The variables of `environmentFacts`, as they are when a run starts.

use std::thread::available_parallelism;

use kelson_spec::ServiceSpec;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::Fact;
use kelson_sys::process;
use nix::sys::sysinfo::sysinfo;

/// They come before those of `environment`.
pub(crate) fn variables(spec: &ServiceSpec) -> impl Iterator<Item = (&str, String)> {
    let facts = if const { OWN.has(Feature::Units) } { spec.environment_facts.as_slice() } else { &[] };
    facts.iter().map(|(name, fact)| (name.as_str(), value(*fact, spec)))
}

/// Only proc is read. What the kernel does not tell is empty, or 0.
fn value(fact: Fact, spec: &ServiceSpec) -> String {
    match fact {
        Fact::Service => spec.name.clone(),
        Fact::HostName => process::kernel("hostname").unwrap_or_default(),
        Fact::BootId => process::boot_id().unwrap_or_default(),
        Fact::Architecture => std::env::consts::ARCH.to_owned(),
        Fact::Kernel => process::kernel("osrelease").unwrap_or_default(),
        Fact::Cpus => {
            cpus(spec, available_parallelism().map_or(1, |count| count.get().try_into().unwrap_or(u64::MAX)))
                .to_string()
        }
        Fact::Memory => {
            let all = sysinfo().map_or(0, |info| info.ram_total());
            spec.resources.memory_max.map_or(all, |most| most.min(all)).to_string()
        }
    }
}

/// Of the CPUs that PID 1 may use.
fn cpus(spec: &ServiceSpec, all: u64) -> u64 {
    let allowed = spec.attributes.cpus.iter().map(|word| u64::from(word.count_ones()));
    let allowed = if spec.attributes.cpus.is_empty() { all } else { allowed.fold(0, u64::saturating_add) };
    let share = spec.resources.cpu_max_millis.map_or(all, |millis| millis.div_ceil(1000));
    all.min(allowed).min(share).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_those_that_it_may_use() {
        let mut spec = ServiceSpec::process("web", ["/bin/web"]);
        assert_eq!(cpus(&spec, 8), 8);
        spec.attributes.cpus = vec![0b0111, 1];
        assert_eq!((cpus(&spec, 8), cpus(&spec, 2)), (4, 2));
        spec.resources.cpu_max_millis = Some(1500);
        assert_eq!(cpus(&spec, 8), 2);
        spec.resources.cpu_max_millis = Some(10);
        assert_eq!(cpus(&spec, 8), 1);
    }

    #[test]
    fn each_fact_has_a_value() {
        let mut spec = ServiceSpec::process("web", ["/bin/web"]);
        spec.environment_facts = Fact::WORDS.map(|(word, fact)| (word.to_owned(), fact)).to_vec();
        let all: Vec<(&str, String)> = variables(&spec).collect();
        assert_eq!(all.len(), Fact::WORDS.len());
        for (name, value) in all {
            assert!(!value.is_empty() && value != "0" && !value.contains('\n'), "{name}: {value:?}");
        }
        spec.resources.memory_max = Some(4096);
        assert_eq!(value(Fact::Memory, &spec), "4096");
    }
}
