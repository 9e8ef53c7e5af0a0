//! Conditions of a unit about the host, as facts.

use kelson_spec::facts::FactTest;
use kelson_spec::service::Requirement;

use crate::draft::Draft;
use crate::finding::Outcome;
use crate::order::{condition, not};
use crate::settings::Setting;
use crate::values::{comparison, size};

pub fn when_fact(draft: &mut Draft<'_>, setting: &Setting) -> Outcome {
    condition(draft, setting, |draft, one| draft.when(one), |value| requirement(&setting.key, value))
}

/// What a value without `!` asks of a fact. None if no fact says it.
fn requirement(key: &str, value: &str) -> Option<Requirement> {
    match key {
        "ConditionArchitecture" => is("architecture", architecture(value)?),
        // systemd also compares a machine ID, which is no fact.
        "ConditionHost" if value.len() != 32 || !value.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            is("host.name", value)
        }
        "ConditionKernelVersion" if !value.starts_with(['<', '>', '=']) => is("kernel.release", value),
        "ConditionCPUs" => compared("cpu.threads", value, |number| number.parse().ok()),
        "ConditionMemory" => compared("memory.total", value, |number| size(number)?),
        _ => None,
    }
}

/// The name that the kernel has for an architecture of systemd's.
fn architecture(value: &str) -> Option<&str> {
    Some(match value {
        "x86-64" => "x86_64",
        "x86" => "i?86",
        "arm64" => "aarch64",
        "arm" => "armv*l",
        "ppc64-le" => "ppc64le",
        "loongarch64" | "ppc64" | "riscv32" | "riscv64" | "s390x" => value,
        _ => return None,
    })
}

/// The fact matches a pattern.
fn is(name: &str, pattern: &str) -> Option<Requirement> {
    // What only patterns of systemd have, or several of them.
    let sound = !pattern.is_empty() && !pattern.contains(['[', '\\', '"', '\'', ' ', '\t', '$']);
    let test = FactTest { name: name.to_owned(), is: vec![pattern.to_owned()], at_least: None };
    sound.then_some(Requirement::Fact(test))
}

/// The fact is a number, compared with one.
fn compared(name: &str, value: &str, number: impl Fn(&str) -> Option<u64>) -> Option<Requirement> {
    let (operator, rest) = comparison(value);
    let number = number(rest)?;
    let at_least =
        |least| Requirement::Fact(FactTest { name: name.to_owned(), is: Vec::new(), at_least: Some(least) });
    Some(match operator {
        ">=" => at_least(number),
        ">" => at_least(number.checked_add(1)?),
        "<" => not(at_least(number)),
        "<=" => not(at_least(number.checked_add(1)?)),
        "!=" => not(is(name, &number.to_string())?),
        _ => is(name, &number.to_string())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_systemd_are_facts() {
        let memory =
            |least| Requirement::Fact(FactTest { at_least: Some(least), ..fact("memory.total", None) });
        let cpus = |least| Requirement::Fact(FactTest { at_least: Some(least), ..fact("cpu.threads", None) });
        let named = |name, pattern| Requirement::Fact(fact(name, Some(pattern)));
        for (key, value, expected) in [
            ("ConditionArchitecture", "x86-64", Some(named("architecture", "x86_64"))),
            ("ConditionArchitecture", "arm", Some(named("architecture", "armv*l"))),
            ("ConditionArchitecture", "riscv64", Some(named("architecture", "riscv64"))),
            ("ConditionArchitecture", "native", None),
            ("ConditionHost", "edge-*", Some(named("host.name", "edge-*"))),
            ("ConditionHost", "edge-[12]", None),
            ("ConditionHost", "0123456789abcdef0123456789abcdef", None),
            ("ConditionKernelVersion", "6.1.*", Some(named("kernel.release", "6.1.*"))),
            ("ConditionKernelVersion", ">=6.1", None),
            ("ConditionKernelVersion", "6.1.* 6.2.*", None),
            ("ConditionCPUs", "4", Some(cpus(4))),
            ("ConditionCPUs", "> 4", Some(cpus(5))),
            ("ConditionCPUs", "<4", Some(not(cpus(4)))),
            ("ConditionCPUs", "!=4", Some(not(named("cpu.threads", "4")))),
            ("ConditionCPUs", "=4", Some(named("cpu.threads", "4"))),
            ("ConditionCPUs", "many", None),
            ("ConditionMemory", ">=2G", Some(memory(2 << 30))),
            ("ConditionMemory", "<=512M", Some(not(memory((512 << 20) + 1)))),
            ("ConditionMemory", ">18446744073709551615", None),
            ("ConditionMemory", "infinity", None),
        ] {
            assert_eq!(requirement(key, value), expected, "{key}={value}");
        }
    }

    fn fact(name: &str, pattern: Option<&str>) -> FactTest {
        let is = pattern.into_iter().map(str::to_owned).collect();
        FactTest { name: name.to_owned(), is, at_least: None }
    }
}
