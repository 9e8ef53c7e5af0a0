//! All metrics: what each is called, what it tells, and where its values come from.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kelson_proto::v1;
use kelson_proto::v1::metric_family::Type;
use kelson_proto::v1::metric_sample::Value;
use kelson_services::health::CheckFigures;
use kelson_services::host::BootReport;
use kelson_services::metrics::{Reading, ServiceFigures};
use kelson_services::model::{Standing, State};
use kelson_services::node_health::{HealthState, NodeHealth};

/// What is told of the host: a reading, its health, and what the boot says of itself.
pub struct Figures<'a> {
    pub reading: &'a Reading,
    pub health: &'a HealthFigures,
    pub boot: &'a BootReport,
    pub mode: &'static str,
    pub started: SystemTime,
}

/// Whether all that should be up is up.
pub struct HealthFigures {
    node: bool,
    groups: Vec<(Arc<str>, bool)>,
}

impl HealthFigures {
    pub fn now(health: &NodeHealth) -> HealthFigures {
        let is = |state| state == HealthState::Healthy;
        let groups = health.groups().into_iter().map(|(name, health)| (name, is(health.state)));
        HealthFigures { node: is(health.node_state()), groups: groups.collect() }
    }
}

/// One metric.
pub struct Family {
    name: &'static str,
    help: &'static str,
    kind: Type,
    unit: &'static str,
    labels: &'static [&'static str],
    pub of: Of,
}

/// Of what it is told.
pub enum Of {
    Host(fn(&Figures, &mut Samples)),
    Service(fn(&ServiceFigures, &mut Samples)),
}

impl Family {
    /// The family, or a part of it, with these samples.
    pub fn part(&self, samples: Samples) -> v1::MetricFamily {
        v1::MetricFamily {
            name: self.name.to_owned(),
            help: self.help.to_owned(),
            r#type: self.kind.into(),
            unit: self.unit.to_owned(),
            labels: self.labels.iter().map(|&label| label.to_owned()).collect(),
            samples: samples.0,
        }
    }
}

/// The samples of a part of a family.
#[derive(Default)]
pub struct Samples(Vec<v1::MetricSample>);

impl Samples {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn push(&mut self, labels: &[&str], value: Value) {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        self.0.push(v1::MetricSample { labels, value: Some(value) });
    }

    fn number(&mut self, labels: &[&str], number: f64) {
        self.push(labels, Value::Number(number));
    }

    fn count(&mut self, labels: &[&str], count: u64) {
        // Exact up to 2^53: a count that large is reached by nothing that is counted here.
        #[expect(clippy::cast_precision_loss, reason = "the numbers of metrics are floating point")]
        self.number(labels, count as f64);
    }

    fn flag(&mut self, labels: &[&str], holds: bool) {
        self.number(labels, if holds { 1.0 } else { 0.0 });
    }

    fn span(&mut self, labels: &[&str], span: Duration) {
        self.number(labels, span.as_secs_f64());
    }

    fn summary(&mut self, labels: &[&str], count: u64, sum: Duration) {
        self.push(labels, Value::Summary(v1::MetricSummary { count, sum: sum.as_secs_f64() }));
    }

    fn checks(
        &mut self,
        service: &ServiceFigures,
        mut tell: impl FnMut(&mut Samples, &[&str; 2], CheckFigures),
    ) {
        let Some(totals) = &service.totals else { return };
        for (check, totals) in totals.checks().iter() {
            tell(self, &[&service.name, check], totals.figures());
        }
    }
}

const STATES: [State; 11] = [
    State::Initialized,
    State::Waiting,
    State::Preparing,
    State::Starting,
    State::Running,
    State::Stopping,
    State::Finished,
    State::Stopped,
    State::Failed,
    State::Skipped,
    State::Backoff,
];

/// All families in the order in which they are told; docs/metrics.md has each.
pub const FAMILIES: &[Family] = &[
    Family {
        name: "kelson_build_info",
        help: "The version that runs, and how: machine or container. Always 1.",
        kind: Type::Gauge,
        unit: "",
        labels: &["version", "mode"],
        of: Of::Host(|figures, to| to.number(&[env!("CARGO_PKG_VERSION"), figures.mode], 1.0)),
    },
    Family {
        name: "kelson_start_time_seconds",
        help: "When PID 1 began, since 1970.",
        kind: Type::Gauge,
        unit: "seconds",
        labels: &[],
        of: Of::Host(|figures, to| {
            to.span(&[], figures.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
        }),
    },
    Family {
        name: "kelson_boot_kernel_duration_seconds",
        help: "From the start of the kernel to that of PID 1.",
        kind: Type::Gauge,
        unit: "seconds",
        labels: &[],
        of: Of::Host(|figures, to| figures.boot.kernel.iter().for_each(|span| to.span(&[], *span))),
    },
    Family {
        name: "kelson_boot_duration_seconds",
        help: "From the start of PID 1 until every service that the boot starts was up or had ended.",
        kind: Type::Gauge,
        unit: "seconds",
        labels: &[],
        of: Of::Host(|figures, to| figures.boot.total.iter().for_each(|span| to.span(&[], *span))),
    },
    Family {
        name: "kelson_boot_phase_duration_seconds",
        help: "How long a phase of the boot took.",
        kind: Type::Gauge,
        unit: "seconds",
        labels: &["phase"],
        of: Of::Host(|figures, to| {
            for phase in &figures.boot.phases {
                phase.duration.iter().for_each(|span| to.span(&[&phase.name], *span));
            }
        }),
    },
    Family {
        name: "kelson_events",
        help: "Events of the host and its services.",
        kind: Type::Counter,
        unit: "",
        labels: &[],
        of: Of::Host(|figures, to| to.count(&[], figures.reading.events)),
    },
    Family {
        name: "kelson_log_dropped_lines",
        help: "Lines that were lost of the logs of services.",
        kind: Type::Counter,
        unit: "",
        labels: &[],
        of: Of::Host(|figures, to| {
            figures.reading.dropped.iter().for_each(|dropped| to.count(&[], dropped.lines));
        }),
    },
    Family {
        name: "kelson_log_dropped_bytes",
        help: "Bytes that were lost of the logs of services.",
        kind: Type::Counter,
        unit: "bytes",
        labels: &[],
        of: Of::Host(|figures, to| {
            figures.reading.dropped.iter().for_each(|dropped| to.count(&[], dropped.bytes));
        }),
    },
    Family {
        name: "kelson_init_memory_bytes",
        help: "Resident memory of PID 1.",
        kind: Type::Gauge,
        unit: "bytes",
        labels: &[],
        of: Of::Host(|figures, to| {
            figures.reading.init.memory_bytes.iter().for_each(|bytes| to.count(&[], *bytes));
        }),
    },
    Family {
        name: "kelson_init_cpu_seconds",
        help: "CPU time that PID 1 itself has used.",
        kind: Type::Counter,
        unit: "seconds",
        labels: &[],
        of: Of::Host(|figures, to| figures.reading.init.cpu.iter().for_each(|cpu| to.span(&[], *cpu))),
    },
    Family {
        name: "kelson_init_descriptors",
        help: "Descriptors that PID 1 has open.",
        kind: Type::Gauge,
        unit: "",
        labels: &[],
        of: Of::Host(|figures, to| {
            figures.reading.init.descriptors.iter().for_each(|open| to.count(&[], *open));
        }),
    },
    Family {
        name: "kelson_services",
        help: "How many services are in a state.",
        kind: Type::Gauge,
        unit: "",
        labels: &["state"],
        of: Of::Host(|figures, to| {
            for state in STATES {
                let those = figures.reading.services.iter().filter(|service| service.state == state);
                to.count(&[state.name()], u64::try_from(those.count()).unwrap_or(u64::MAX));
            }
        }),
    },
    Family {
        name: "kelson_node_healthy",
        help: "1 if all that should be up is up, and has been for a while.",
        kind: Type::Gauge,
        unit: "",
        labels: &[],
        of: Of::Host(|figures, to| to.flag(&[], figures.health.node)),
    },
    Family {
        name: "kelson_group_healthy",
        help: "1 if all of the group that should be up is up, and has been for a while.",
        kind: Type::Gauge,
        unit: "",
        labels: &["group"],
        of: Of::Host(|figures, to| {
            figures.health.groups.iter().for_each(|(group, healthy)| to.flag(&[group], *healthy));
        }),
    },
    Family {
        name: "kelson_group_restarts",
        help: "How often the group was restarted as a whole; absent for one that never was.",
        kind: Type::Counter,
        unit: "",
        labels: &["group"],
        of: Of::Host(|figures, to| {
            figures.reading.group_restarts.iter().for_each(|(group, count)| to.count(&[group], *count));
        }),
    },
    Family {
        name: "kelson_service_state",
        help: "1 for the state that the service is in; for no other.",
        kind: Type::Gauge,
        unit: "",
        labels: &["service", "state"],
        of: Of::Service(|service, to| to.number(&[&service.name, service.state.name()], 1.0)),
    },
    Family {
        name: "kelson_service_up",
        help: "1 if the service is up.",
        kind: Type::Gauge,
        unit: "",
        labels: &["service"],
        of: Of::Service(|service, to| to.flag(&[&service.name], service.up)),
    },
    Family {
        name: "kelson_service_healthy",
        help: "1 if all checks of the service pass, 0 if one fails; absent without checks or before their results.",
        kind: Type::Gauge,
        unit: "",
        labels: &["service"],
        of: Of::Service(|service, to| {
            service.healthy.iter().for_each(|healthy| to.flag(&[&service.name], *healthy));
        }),
    },
    Family {
        name: "kelson_service_file_mistake",
        help: "1 if the last reading of the files found a mistake in that of the service; absent if not.",
        kind: Type::Gauge,
        unit: "",
        labels: &["service"],
        of: Of::Service(|service, to| {
            if service.faulty_file {
                to.flag(&[&service.name], true);
            }
        }),
    },
    Family {
        name: "kelson_service_runs",
        help: "How often the service was started and started again.",
        kind: Type::Counter,
        unit: "",
        labels: &["service"],
        of: Of::Service(|service, to| to.count(&[&service.name], service.runs)),
    },
    Family {
        name: "kelson_service_restarts",
        help: "How often the service was started again, and why; absent for what has not happened yet.",
        kind: Type::Counter,
        unit: "",
        labels: &["service", "reason"],
        of: Of::Service(|service, to| {
            for (reason, count) in service.restarts_by.iter().filter(|(_, count)| *count > 0) {
                to.count(&[&service.name, reason.name()], u64::from(count));
            }
        }),
    },
    Family {
        name: "kelson_service_start_duration_seconds",
        help: "How long the starts of the service took, from the spawn until it was up.",
        kind: Type::Summary,
        unit: "seconds",
        labels: &["service"],
        of: Of::Service(|service, to| {
            if let Some(totals) = &service.totals {
                let (count, took) = totals.starts();
                to.summary(&[&service.name], count, took);
            }
        }),
    },
    Family {
        name: "kelson_service_last_start_duration_seconds",
        help: "How long the last start of the service took that came up.",
        kind: Type::Gauge,
        unit: "seconds",
        labels: &["service"],
        of: Of::Service(|service, to| {
            service.start_took.iter().for_each(|took| to.span(&[&service.name], *took));
        }),
    },
    Family {
        name: "kelson_service_memory_bytes",
        help: "Memory of all processes of the service.",
        kind: Type::Gauge,
        unit: "bytes",
        labels: &["service"],
        of: Of::Service(|service, to| {
            service.usage.memory_bytes.iter().for_each(|bytes| to.count(&[&service.name], *bytes));
        }),
    },
    Family {
        name: "kelson_service_cpu_seconds",
        help: "CPU time of all processes of the service, since its cgroup was made.",
        kind: Type::Counter,
        unit: "seconds",
        labels: &["service"],
        of: Of::Service(|service, to| {
            service.usage.cpu.iter().for_each(|cpu| to.span(&[&service.name], *cpu));
        }),
    },
    Family {
        name: "kelson_service_processes",
        help: "How many processes the service has; where the kernel counts them, its threads too.",
        kind: Type::Gauge,
        unit: "",
        labels: &["service"],
        of: Of::Service(|service, to| {
            service.usage.processes.iter().for_each(|many| to.count(&[&service.name], u64::from(*many)));
        }),
    },
    Family {
        name: "kelson_check_passing",
        help: "1 if the check of a running service passes, 0 if it fails; absent before it does either.",
        kind: Type::Gauge,
        unit: "",
        labels: &["service", "check"],
        of: Of::Service(|service, to| {
            if !matches!(service.state, State::Starting | State::Running) {
                return;
            }
            to.checks(service, |to, labels, check| match check.standing {
                Standing::Pending => {}
                Standing::Passing => to.flag(labels, true),
                Standing::Failing => to.flag(labels, false),
            });
        }),
    },
    Family {
        name: "kelson_check_failures",
        help: "How often the check failed.",
        kind: Type::Counter,
        unit: "",
        labels: &["service", "check"],
        of: Of::Service(|service, to| {
            to.checks(service, |to, labels, check| to.count(labels, check.failures));
        }),
    },
    Family {
        name: "kelson_check_duration_seconds",
        help: "How long the answers to the check took, failures included.",
        kind: Type::Summary,
        unit: "seconds",
        labels: &["service", "check"],
        of: Of::Service(|service, to| {
            to.checks(service, |to, labels, check| to.summary(labels, check.count, check.took));
        }),
    },
    Family {
        name: "kelson_check_last_duration_seconds",
        help: "How long the last answer to the check took.",
        kind: Type::Gauge,
        unit: "seconds",
        labels: &["service", "check"],
        of: Of::Service(|service, to| {
            to.checks(service, |to, labels, check| {
                if check.count > 0 {
                    to.span(labels, check.last);
                }
            });
        }),
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// As docs/metrics.md has it: name, type, labels.
    fn rows(page: &str) -> BTreeSet<(String, String, String)> {
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `kelson_"));
        rows.map(|row| {
            let mut cells = row.split(" |").map(|cell| cell.trim().replace('`', ""));
            let mut next = || cells.next().expect(row);
            (format!("kelson_{}", next()), next(), next())
        })
        .collect()
    }

    #[test]
    fn the_page_tells_each_metric_as_it_is() {
        let told: BTreeSet<_> = FAMILIES
            .iter()
            .map(|family| {
                let (kind, suffix) = match family.kind {
                    Type::Gauge => ("gauge", ""),
                    Type::Counter => ("counter", "_total"),
                    Type::Summary => ("summary", ""),
                    Type::Unspecified => panic!("{} has no type", family.name),
                };
                (format!("{}{suffix}", family.name), kind.to_owned(), family.labels.join(", "))
            })
            .collect();
        assert_eq!(told.len(), FAMILIES.len(), "a name is there twice");
        assert_eq!(rows(include_str!("../../../../docs/metrics.md")), told);
    }

    #[test]
    fn names_are_as_openmetrics_wants_them() {
        for Family { name, unit, kind, labels, .. } in FAMILIES {
            assert!(name.starts_with("kelson_") && !name.ends_with("_total"), "{name}");
            assert!(unit.is_empty() || name.ends_with(&format!("_{unit}")), "{name} is in {unit}");
            assert_ne!(*kind, Type::Unspecified, "{name}");
            let fit = |word: &str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            assert!(fit(name) && labels.iter().all(|label| fit(label)), "{name}");
        }
    }
}
