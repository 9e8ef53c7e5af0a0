//! What bounds a service: cgroup resources, rlimits, privileges.

use super::{Decoder, Place, quoted, shown};
use crate::tree::{Node, Value};
use kelson_spec::kernel;
use kelson_spec::near::near;
use kelson_spec::service::{ResourceLimit, Resources, Seccomp, Security};
use kelson_spec::units;

/// The least that a cgroup's `memory.max` may be: below it nothing can be spawned.
const LEAST_MEMORY: u64 = 64 << 10;
/// The kernel's own bound on PIDs.
const MOST_PIDS: u64 = 4_194_304;
/// Thousandths of a CPU: the kernel gives no less than 1 ms of 100 ms.
const CPU: std::ops::RangeInclusive<u64> = 10..=4_096_000;

impl Decoder<'_> {
    pub(super) fn resources(&mut self, place: &Place<'_>, node: &Node) -> Option<Resources> {
        let keys = ["memoryMax", "memoryHigh", "cpuMax", "cpuWeight", "pidsMax"];
        let fields = self.fields(place, node, &keys)?;
        Some(Resources {
            memory_max: self.read(&fields, "memoryMax", |d, p, n| d.size(p, n, LEAST_MEMORY)),
            memory_high: self.read(&fields, "memoryHigh", |d, p, n| d.size(p, n, LEAST_MEMORY)),
            cpu_max_millis: self.read(&fields, "cpuMax", |d, p, n| d.cpus(p, n)),
            cpu_weight: self.read(&fields, "cpuWeight", |d, p, n| d.number(p, n, 1..=10_000)),
            pids_max: self.read(&fields, "pidsMax", |d, p, n| d.number(p, n, 1..=MOST_PIDS)),
        })
    }

    fn cpus(&mut self, place: &Place<'_>, node: &Node) -> Option<u64> {
        let Value::Scalar(text) = &node.value else {
            self.expected(place, node, "a number of CPUs");
            return None;
        };
        let Some(value) = units::cpus(text) else {
            let text = format!("{} is not a number of CPUs; write such as 0.5 or 2", quoted(text));
            self.wrong(place, node.at, text);
            return None;
        };
        if !CPU.contains(&value) {
            let (least, most) = (units::cpus_text(*CPU.start()), units::cpus_text(*CPU.end()));
            let text =
                format!("{} is out of range; write a number of CPUs from {least} to {most}", shown(text));
            self.wrong(place, node.at, text);
            return None;
        }
        Some(value)
    }

    pub(super) fn limits(&mut self, place: &Place<'_>, node: &Node) -> Option<Vec<ResourceLimit>> {
        let names = kernel::LIMITS.map(|(name, _)| name);
        let fields = self.fields(place, node, &names)?;
        let mut limits = Vec::new();
        for (name, resource) in kernel::LIMITS {
            if let Some((soft, hard)) = self.read(&fields, name, |d, p, n| d.limit(p, n)) {
                limits.push(ResourceLimit { resource, soft, hard });
            }
        }
        Some(limits)
    }

    /// One value for both, or `{soft: , hard: }`.
    fn limit(&mut self, place: &Place<'_>, node: &Node) -> Option<(u64, u64)> {
        if !matches!(node.value, Value::Mapping(_)) {
            return self.limit_value(place, node).map(|value| (value, value));
        }
        let fields = self.fields(place, node, &["soft", "hard"])?;
        let soft = self.require(&fields, "soft", "soft: NUMBER", |d, p, n| d.limit_value(p, n));
        let hard = self.require(&fields, "hard", "hard: NUMBER", |d, p, n| d.limit_value(p, n));
        let (soft, hard) = (soft?, hard?);
        if soft > hard {
            let at = fields.get("soft").map_or(node.at, |value| value.at);
            self.wrong(place, at, "soft is above hard; the kernel refuses that");
            return None;
        }
        Some((soft, hard))
    }

    fn limit_value(&mut self, place: &Place<'_>, node: &Node) -> Option<u64> {
        let Value::Scalar(text) = &node.value else {
            self.expected(place, node, "a number, a size or unlimited");
            return None;
        };
        if text == "unlimited" {
            return Some(u64::MAX);
        }
        let value = units::size(text);
        if value.is_none() {
            let text = format!("{} is not a number, a size or unlimited", quoted(text));
            self.wrong(place, node.at, text);
        }
        value
    }

    /// `held` are the capabilities of a workload that is given and denied none.
    pub(super) fn security(&mut self, held: u64, place: &Place<'_>, node: &Node) -> Option<Security> {
        let keys = ["noNewPrivileges", "readOnlyRoot", "capabilities", "seccomp"];
        let fields = self.fields(place, node, &keys)?;
        let mut security = Security::default();
        self.set(&fields, "noNewPrivileges", &mut security.no_new_privileges, |d, p, n| d.boolean(p, n));
        self.set(&fields, "readOnlyRoot", &mut security.read_only_root, |d, p, n| d.boolean(p, n));
        let capabilities = self.read(&fields, "capabilities", |d, p, n| d.capabilities(held, p, n));
        if let Some((bounding, ambient)) = capabilities {
            security.capabilities = bounding;
            security.ambient = ambient;
        }
        let profiles = [("default", Seccomp::Default), ("unconfined", Seccomp::Unconfined)];
        self.set(&fields, "seccomp", &mut security.seccomp, |d, p, n| d.choice(p, n, &profiles));
        Some(security)
    }

    /// The mask that is left (what is held, less what `drop` names, with what `add` names), where it differs from what is
    /// held; and what `add` names.
    fn capabilities(&mut self, held: u64, place: &Place<'_>, node: &Node) -> Option<(Option<u64>, u64)> {
        let fields = self.fields(place, node, &["drop", "add"])?;
        let mut masks = [0_u64; 2];
        for (key, mask) in ["drop", "add"].into_iter().zip(&mut masks) {
            self.set(&fields, key, mask, |d, p, n| {
                let list = d.list(p, n, "a list of capabilities", |d, p, n| d.capability(p, n))?;
                Some(list.into_iter().fold(0, |mask, bits| mask | bits))
            });
        }
        let [drop, add] = masks;
        let mask = held & !drop | add;
        Some(((mask != held).then_some(mask), add))
    }

    fn capability(&mut self, place: &Place<'_>, node: &Node) -> Option<u64> {
        let text = self.word(place, node)?;
        if text == "all" {
            return Some(kernel::ALL_CAPABILITIES);
        }
        let bit = kernel::capability(&text).and_then(|number| 1_u64.checked_shl(number));
        if bit.is_none() {
            let near = near(text.trim_start_matches("CAP_"), kernel::CAPABILITIES);
            let hint = near.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
            self.wrong(place, node.at, format_args!("{} is not a capability{hint}", quoted(&text)));
        }
        bit
    }
}
