//! `boot`, as programs read it.

use kelson_proto::v1;
use serde::Serialize;

use super::super::time;

/// The whole of `boot`; times are milliseconds since PID 1's start.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Boot {
    pub kernel_ms: Option<f64>,
    pub total_ms: Option<f64>,
    pub phases: Vec<BootPhase>,
    pub services: Vec<BootService>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BootPhase {
    pub name: String,
    pub start_ms: f64,
    pub duration_ms: Option<f64>,
    pub tasks: Vec<BootTask>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BootTask {
    pub name: String,
    pub start_ms: f64,
    pub duration_ms: Option<f64>,
    /// Empty: it went well.
    pub error: String,
    pub message: String,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BootService {
    pub name: String,
    pub spawned_ms: Option<f64>,
    pub up_ms: Option<f64>,
    pub after: Vec<String>,
}

impl From<&v1::BootResponse> for Boot {
    fn from(boot: &v1::BootResponse) -> Boot {
        let ms =
            |wire: &Option<prost_types::Duration>| wire.as_ref().map(|d| time::millis(time::duration(d)));
        let task = |task: &v1::BootTask| BootTask {
            name: task.name.clone(),
            start_ms: ms(&task.start).unwrap_or(0.0),
            duration_ms: ms(&task.duration),
            error: task.error.clone(),
            message: task.message.clone(),
        };
        let phase = |phase: &v1::BootPhase| BootPhase {
            name: phase.name.clone(),
            start_ms: ms(&phase.start).unwrap_or(0.0),
            duration_ms: ms(&phase.duration),
            tasks: phase.tasks.iter().map(task).collect(),
        };
        let service = |service: &v1::BootService| BootService {
            name: service.name.clone(),
            spawned_ms: ms(&service.spawned),
            up_ms: ms(&service.up),
            after: service.after.clone(),
        };
        Boot {
            kernel_ms: ms(&boot.kernel),
            total_ms: ms(&boot.total),
            phases: boot.phases.iter().map(phase).collect(),
            services: boot.services.iter().map(service).collect(),
        }
    }
}

/// One line of `boot blame`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Blame {
    pub duration_ms: f64,
    /// `task` or `service`.
    pub kind: &'static str,
    pub name: String,
    /// The phase of a task; empty for a service.
    pub phase: String,
}

/// One link of `boot critical-chain`, the last that ended first.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Link {
    /// `service`, `phase` or `task`.
    pub kind: &'static str,
    pub name: String,
    pub start_ms: f64,
    pub duration_ms: f64,
}
