//! `memory`, `cpu` and `cgroups`, as programs read them.

use kelson_proto::v1;
use serde::Serialize;

use super::{millis, some};

/// How much of the time processes waited for something: shares of 0 to 1.
#[derive(Debug, Clone, Serialize)]
pub struct Pressure {
    /// Some of them, over the last 10 s, 60 s, 300 s.
    pub some10: f64,
    pub some60: f64,
    pub some300: f64,
    /// All of them at the same time.
    pub full10: f64,
    pub full60: f64,
    pub full300: f64,
}

impl From<&v1::Pressure> for Pressure {
    fn from(pressure: &v1::Pressure) -> Pressure {
        Pressure {
            some10: pressure.some_10,
            some60: pressure.some_60,
            some300: pressure.some_300,
            full10: pressure.full_10,
            full60: pressure.full_60,
            full300: pressure.full_300,
        }
    }
}

/// Memory and swap, in bytes.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    pub total: u64,
    /// What cannot be had without swapping.
    pub used: u64,
    pub available: u64,
    pub free: u64,
    pub buffers: u64,
    pub cached: u64,
    pub shared: u64,
    pub slab: u64,
    pub slab_reclaimable: u64,
    pub dirty: u64,
    pub swap_total: u64,
    pub swap_free: u64,
    pub committed: u64,
    pub commit_limit: u64,
    /// Null: the kernel does not count it.
    pub pressure: Option<Pressure>,
}

impl From<&v1::MemoryResponse> for Memory {
    fn from(memory: &v1::MemoryResponse) -> Memory {
        Memory {
            total: memory.total,
            used: memory.total.saturating_sub(memory.available),
            available: memory.available,
            free: memory.free,
            buffers: memory.buffers,
            cached: memory.cached,
            shared: memory.shared,
            slab: memory.slab,
            slab_reclaimable: memory.slab_reclaimable,
            dirty: memory.dirty,
            swap_total: memory.swap_total,
            swap_free: memory.swap_free,
            committed: memory.committed,
            commit_limit: memory.commit_limit,
            pressure: memory.pressure.as_ref().map(Pressure::from),
        }
    }
}

/// What the processors did between two looks.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cpu {
    pub model: String,
    pub interval_ms: f64,
    /// Over the last 1, 5 and 15 minutes.
    pub load1: f64,
    pub load5: f64,
    pub load15: f64,
    /// Null: the kernel does not count it.
    pub pressure: Option<Pressure>,
    pub switches_per_second: f64,
    pub forks_per_second: f64,
    pub all: CpuShares,
    pub processors: Vec<CpuShares>,
}

/// Where the time of a processor went: shares of 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CpuShares {
    /// Null: all of them.
    pub processor: Option<u32>,
    pub user: f64,
    pub nice: f64,
    pub system: f64,
    pub irq: f64,
    pub soft_irq: f64,
    pub io_wait: f64,
    pub steal: f64,
    pub idle: f64,
}

/// The cgroups of services.
#[derive(Debug, Clone, Serialize)]
pub struct Cgroups {
    pub root: String,
    pub cgroups: Vec<Cgroup>,
}

/// One cgroup. What no controller counts is null.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cgroup {
    /// Below the root; empty: the root itself.
    pub path: String,
    pub service: Option<String>,
    pub processes: u32,
    pub frozen: bool,
    pub cpu_ms: Option<f64>,
    pub throttled_ms: Option<f64>,
    pub memory_bytes: Option<u64>,
    pub memory_peak_bytes: Option<u64>,
    /// Null, as the other limits: there is none.
    pub memory_max_bytes: Option<u64>,
    pub memory_high_bytes: Option<u64>,
    pub oom_kills: Option<u64>,
    pub pids: Option<u64>,
    pub pids_max: Option<u64>,
    /// Processors.
    pub cpu_max: Option<f64>,
    pub cpu_weight: Option<u64>,
}

impl From<&v1::Cgroup> for Cgroup {
    fn from(cgroup: &v1::Cgroup) -> Cgroup {
        Cgroup {
            path: cgroup.path.clone(),
            service: some(&cgroup.service),
            processes: cgroup.processes,
            frozen: cgroup.frozen,
            cpu_ms: millis(&cgroup.cpu),
            throttled_ms: millis(&cgroup.throttled),
            memory_bytes: cgroup.memory,
            memory_peak_bytes: cgroup.memory_peak,
            memory_max_bytes: cgroup.memory_max,
            memory_high_bytes: cgroup.memory_high,
            oom_kills: cgroup.oom_kills,
            pids: cgroup.pids,
            pids_max: cgroup.pids_max,
            cpu_max: cgroup.cpu_max,
            cpu_weight: cgroup.cpu_weight,
        }
    }
}
