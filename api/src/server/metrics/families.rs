//! All metrics: what each is called, what it tells, and where its values come from.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kelson_proto::v1;
use kelson_proto::v1::metric_family::Type::{self, Counter, Gauge, Summary};
use kelson_proto::v1::metric_sample::Value;
use kelson_services::fleet::Fleet;
use kelson_services::health::CheckFigures;
use kelson_services::host::BootReport;
use kelson_services::metrics::{Reading, ServiceFigures};
use kelson_services::model::{Numbered as _, Standing, State};
use kelson_services::node_health::{HealthState, NodeHealth};
use kelson_services::volumes::Figures as VolumeFigures;

/// The figures of the host: a reading, its health, and the report of the boot.
pub struct Figures<'a> {
    pub reading: &'a Reading,
    pub health: &'a HealthFigures,
    pub volumes: &'a VolumeFigures,
    pub fleet: &'a FleetFigures,
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
        let groups = health.group_states().into_iter().map(|(name, state)| (name, is(state)));
        HealthFigures { node: is(health.node_state()), groups: groups.collect() }
    }
}

/// What of the host is registered, and whether its store confirms it.
#[derive(Default)]
pub struct FleetFigures {
    pub connection: Option<v1::FleetConnection>,
    pub registrations: Vec<v1::FleetRegistration>,
}

impl FleetFigures {
    pub fn now(fleet: &Fleet) -> FleetFigures {
        let connection = fleet.membership().map(|membership| membership.connection.unwrap_or_default());
        FleetFigures { connection, registrations: fleet.registrations() }
    }
}

/// One metric.
pub struct Family {
    name: &'static str,
    help: &'static str,
    kind: Type,
    labels: &'static [&'static str],
    pub of: Of,
}

/// The objects that a family has samples of.
pub enum Of {
    Host(fn(&Figures, &mut Samples)),
    Service(fn(&ServiceFigures, &mut Samples)),
}

/// The units in which metrics are, with which their names end.
const UNITS: [&str; 2] = ["seconds", "bytes"];

impl Family {
    /// The family, or a part of it, with these samples.
    pub fn part(&self, samples: Samples) -> v1::MetricFamily {
        v1::MetricFamily {
            name: self.name.to_owned(),
            help: self.help.to_owned(),
            r#type: self.kind.into(),
            unit: UNITS.into_iter().find(|unit| self.name.ends_with(unit)).unwrap_or_default().to_owned(),
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

    // An unknown value has no sample.

    pub fn count(&mut self, labels: &[&str], count: impl Into<Option<u64>>) {
        if let Some(count) = count.into() {
            // Exact up to 2^53: a count that large is reached by nothing that is counted here.
            #[expect(clippy::cast_precision_loss, reason = "the numbers of metrics are floating point")]
            self.number(labels, count as f64);
        }
    }

    pub fn flag(&mut self, labels: &[&str], holds: impl Into<Option<bool>>) {
        if let Some(holds) = holds.into() {
            self.number(labels, if holds { 1.0 } else { 0.0 });
        }
    }

    pub fn span(&mut self, labels: &[&str], span: impl Into<Option<Duration>>) {
        if let Some(span) = span.into() {
            self.number(labels, span.as_secs_f64());
        }
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
            tell(self, &[&service.now.name, check], totals.figures());
        }
    }
}

const SERVICE: &[&str] = &["service"];
const CHECK: &[&str] = &["service", "check"];

pub const fn host(
    kind: Type,
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    tell: fn(&Figures, &mut Samples),
) -> Family {
    Family { name, help, kind, labels, of: Of::Host(tell) }
}

const fn service(
    kind: Type,
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
    tell: fn(&ServiceFigures, &mut Samples),
) -> Family {
    Family { name, help, kind, labels, of: Of::Service(tell) }
}

/// All families in the order of the answer; docs/metrics.md has each.
pub const FAMILIES: &[Family] = &[
    host(
        Gauge,
        "kelson_build_info",
        &["version", "mode"],
        "The version that runs, and how: machine or container. Always 1.",
        |host, to| to.number(&[env!("CARGO_PKG_VERSION"), host.mode], 1.0),
    ),
    host(Gauge, "kelson_start_time_seconds", &[], "When PID 1 began, since 1970.", |host, to| {
        to.span(&[], host.started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
    }),
    host(
        Gauge,
        "kelson_boot_kernel_duration_seconds",
        &[],
        "From the start of the kernel to that of PID 1.",
        |host, to| to.span(&[], host.boot.kernel),
    ),
    host(
        Gauge,
        "kelson_boot_duration_seconds",
        &[],
        "From the start of PID 1 until every service that the boot starts was up or had ended.",
        |host, to| to.span(&[], host.boot.total),
    ),
    host(
        Gauge,
        "kelson_boot_phase_duration_seconds",
        &["phase"],
        "How long a phase of the boot took.",
        |host, to| host.boot.phases.iter().for_each(|phase| to.span(&[&phase.name], phase.duration)),
    ),
    host(Counter, "kelson_events", &[], "Events of the host and its services.", |host, to| {
        to.count(&[], host.reading.events);
    }),
    host(
        Counter,
        "kelson_log_dropped_lines",
        &[],
        "Lines that were lost of the logs of services.",
        |host, to| to.count(&[], host.reading.dropped.map(|dropped| dropped.lines)),
    ),
    host(
        Counter,
        "kelson_log_dropped_bytes",
        &[],
        "Bytes that were lost of the logs of services.",
        |host, to| to.count(&[], host.reading.dropped.map(|dropped| dropped.bytes)),
    ),
    host(Gauge, "kelson_init_memory_bytes", &[], "Resident memory of PID 1.", |host, to| {
        to.count(&[], host.reading.init.memory_bytes);
    }),
    host(Counter, "kelson_init_cpu_seconds", &[], "CPU time that PID 1 itself has used.", |host, to| {
        to.span(&[], host.reading.init.cpu);
    }),
    host(Gauge, "kelson_init_descriptors", &[], "Descriptors that PID 1 has open.", |host, to| {
        to.count(&[], host.reading.init.descriptors);
    }),
    host(Gauge, "kelson_services", &["state"], "How many services are in a state.", |host, to| {
        for state in State::ALL {
            let those = host.reading.services.iter().filter(|service| service.now.state == *state);
            to.count(&[state.name()], u64::try_from(those.count()).unwrap_or(u64::MAX));
        }
    }),
    host(
        Gauge,
        "kelson_node_healthy",
        &[],
        "1 if all that should be up is up, and has been for a while.",
        |host, to| to.flag(&[], host.health.node),
    ),
    host(
        Gauge,
        "kelson_group_healthy",
        &["group"],
        "1 if all of the group that should be up is up, and has been for a while.",
        |host, to| host.health.groups.iter().for_each(|(group, healthy)| to.flag(&[group], *healthy)),
    ),
    host(
        Counter,
        "kelson_group_restarts",
        &["group"],
        "How often the group was restarted as a whole; absent for one that never was.",
        |host, to| host.reading.group_restarts.iter().for_each(|(group, count)| to.count(&[group], *count)),
    ),
    service(
        Gauge,
        "kelson_service_state",
        &["service", "state"],
        "1 for the state that the service is in; for no other.",
        |service, to| to.number(&[&service.now.name, service.now.state.name()], 1.0),
    ),
    service(Gauge, "kelson_service_up", SERVICE, "1 if the service is up.", |service, to| {
        to.flag(&[&service.now.name], service.now.up);
    }),
    service(
        Gauge,
        "kelson_service_healthy",
        SERVICE,
        "1 if all checks of the service pass, 0 if one fails; absent without checks or before their results.",
        |service, to| to.flag(&[&service.now.name], service.now.healthy),
    ),
    service(
        Gauge,
        "kelson_service_file_mistake",
        SERVICE,
        "1 if the last reading of the files found a mistake in that of the service; absent if not.",
        |service, to| to.flag(&[&service.now.name], service.faulty_file.then_some(true)),
    ),
    service(
        Counter,
        "kelson_service_runs",
        SERVICE,
        "How often the service was started and started again.",
        |service, to| to.count(&[&service.now.name], service.now.run),
    ),
    service(
        Counter,
        "kelson_service_restarts",
        &["service", "reason"],
        "How often the service was started again, and why; absent for what has not happened yet.",
        |service, to| {
            for (reason, count) in service.now.restarts_by.iter().filter(|(_, count)| *count > 0) {
                to.count(&[&service.now.name, reason.name()], u64::from(count));
            }
        },
    ),
    service(
        Summary,
        "kelson_service_start_duration_seconds",
        SERVICE,
        "How long the starts of the service took, from the spawn until it was up.",
        |service, to| {
            if let Some((count, took)) = service.totals.as_ref().map(|totals| totals.starts()) {
                to.summary(&[&service.now.name], count, took);
            }
        },
    ),
    service(
        Gauge,
        "kelson_service_last_start_duration_seconds",
        SERVICE,
        "How long the last start of the service took that came up.",
        |service, to| to.span(&[&service.now.name], service.now.start_took),
    ),
    service(
        Gauge,
        "kelson_service_memory_bytes",
        SERVICE,
        "Memory of all processes of the service.",
        |service, to| to.count(&[&service.now.name], service.usage.memory_bytes),
    ),
    service(
        Counter,
        "kelson_service_cpu_seconds",
        SERVICE,
        "CPU time of all processes of the service, since its cgroup was made.",
        |service, to| to.span(&[&service.now.name], service.usage.cpu),
    ),
    service(
        Gauge,
        "kelson_service_processes",
        SERVICE,
        "How many processes the service has; where the kernel counts them, its threads too.",
        |service, to| to.count(&[&service.now.name], service.usage.processes.map(u64::from)),
    ),
    service(
        Gauge,
        "kelson_check_passing",
        CHECK,
        "1 if the check of a running service passes, 0 if it fails; absent before it does either.",
        |service, to| {
            if matches!(service.now.state, State::Starting | State::Running) {
                to.checks(service, |to, labels, check| match check.standing {
                    Standing::Pending => {}
                    Standing::Passing => to.flag(labels, true),
                    Standing::Failing => to.flag(labels, false),
                });
            }
        },
    ),
    service(Counter, "kelson_check_failures", CHECK, "How often the check failed.", |service, to| {
        to.checks(service, |to, labels, check| to.count(labels, check.failures));
    }),
    service(
        Summary,
        "kelson_check_duration_seconds",
        CHECK,
        "How long the answers to the check took, failures included.",
        |service, to| to.checks(service, |to, labels, check| to.summary(labels, check.count, check.took)),
    ),
    service(
        Gauge,
        "kelson_check_last_duration_seconds",
        CHECK,
        "How long the last answer to the check took.",
        |service, to| {
            to.checks(service, |to, labels, check| {
                to.span(labels, (check.count > 0).then_some(check.last));
            });
        },
    ),
];
