//! The end of the run of a PID 1 that crashes again and again: services stop in the reverse order of their dependencies, the
//! rest is unmounted, and the machine starts again, or powers off where it was about to.
//!
//! The crash may have been in any of PID 1's usual work, so this uses as little of it as possible: no Manager, no state
//! machine, no API, no logs, no containerd. Each service stops by the kernel's own means, from what its record says: a pidfd
//! and a cgroup. The order is the usual one ([`StopOrder`]). A fault in here leads to reboot(2) at once, and so does an
//! end that lasts too long ([`Arrival::last`]).

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use kelson_runner::{
    Attachment, BoxFuture, CgroupRoot, DetachedContainer, Exit, ProcessExecutor, ProcessRunner, Processes,
    Runner, StopPlan,
};
use kelson_services::builtins::apid;
use kelson_services::host::ShutdownAction;
use kelson_services::manager::child_of;
use kelson_services::service_runner::hooks::{Hooks, KILL};
use kelson_services::service_runner::surroundings::LogPipes;
use kelson_services::service_runner::table::{RemainingStop, Timer};
use kelson_services::service_runner::task::timer_index;
use kelson_services::service_runner::words;
use kelson_services::state_store::{Descriptor, Kind, Past, Record};
use kelson_spec::service::{LogSpec, Workload};
use kelson_spec::{Loaded, MachineSpec, ServiceSpec, StopOrder};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::Arrival;
use crate::failure::{self, PATIENCE};
use crate::options::Options;
use crate::reexec::Rebirth;
use crate::supervisor::{Intent, Intents, process_options, verb};

/// From SIGKILL to giving up on a service.
const AFTER_KILL: Duration = Duration::from_secs(3);
/// How long the status of a process that has ended may be on its way.
const STATUS: Duration = Duration::from_secs(2);

/// Ends the run. `reason` is for the log; `past` is what is known of the services; `now` counts from PID 1's start, as
/// their records do.
pub fn run(options: &Options, arrival: &Arrival, past: Option<Past>, now: Duration, reason: &str) -> ! {
    tracing::error!("{reason}");
    let mut past = past;
    let machine: MachineSpec = past
        .as_mut()
        .and_then(|past| past.paper::<Loaded>(Kind::Configuration, ""))
        .map(|loaded| loaded.machine)
        .unwrap_or_default();
    let intents = Intents::default();
    if let Some(intent) = past.as_mut().and_then(|past| past.paper::<Intent>(Kind::Intent, "")) {
        tracing::info!("{} was asked for by {} and goes on", verb(intent.action), intent.reason);
        intents.resume(intent);
    } else {
        intents.ask(ShutdownAction::Reboot, reason);
    }
    let total = machine.shutdown_timeout;
    let patience = intents.current().map_or(total, |intent| intent.left_of(total));
    arrival.ends(intents.current().map_or(ShutdownAction::Reboot, |intent| intent.action));
    arrival.last(patience.saturating_add(PATIENCE));
    let cgroups = past.as_mut().and_then(|past| {
        let found = past.take_inherited(|what| match what {
            Descriptor::Cgroups { path } => Ok(path),
            other => Err(other),
        });
        found.into_iter().map(|(path, folder)| CgroupRoot::again(path, folder)).next()
    });
    let rebirth: Rebirth = past.as_mut().and_then(|past| past.paper(Kind::Rebirth, "")).unwrap_or_default();
    let children = process_options(&rebirth, cgroups, past.as_ref().map(|past| &past.store));
    let asked = intents.clone();
    failure::end(options, &intents, None, children, async move |processes| {
        arrival.follow(asked.watch());
        if let Some(past) = &mut past {
            let deadline = Instant::now().checked_add(patience).unwrap_or_else(Instant::now);
            stop(services(past, processes, now).await, deadline).await;
        }
    })
}

/// One service, from what is written down of it.
struct Service {
    name: Arc<str>,
    spec: Arc<ServiceSpec>,
    /// As its file says now, where that is another.
    next: Option<ServiceSpec>,
    runner: Box<dyn Runner>,
    /// What runs commands beside its main process.
    executor: Result<Arc<dyn kelson_runner::Executor>, String>,
    run: u64,
    /// How its main process ends, where one lives.
    exit: Option<BoxFuture<'static, Exit>>,
    plan: StopPlan,
    remaining: RemainingStop,
}

/// All services that are written down, taken over from the life before.
async fn services(past: &mut Past, processes: &Processes, now: Duration) -> Vec<Service> {
    let (mut specs, _) = past.specs();
    let mut records: BTreeMap<String, Record> =
        std::mem::take(&mut past.records).into_iter().map(|record| (record.name.clone(), record)).collect();
    let mut names: Vec<String> = records.keys().chain(specs.keys()).cloned().collect();
    names.sort();
    names.dedup();
    let mut services = Vec::new();
    for name in names {
        // One whose spec is lost stops by what is usual.
        let spec = specs.remove(&name).unwrap_or_else(|| ServiceSpec::process(&name, [""]));
        let next = past.paper(Kind::NextSpec, &name);
        services.push(take_over(&name, spec, next, records.remove(&name), processes, now).await);
    }
    services
}

async fn take_over(
    name: &str,
    spec: ServiceSpec,
    next: Option<ServiceSpec>,
    record: Option<Record>,
    processes: &Processes,
    now: Duration,
) -> Service {
    let spec = Arc::new(spec);
    let mut runner: Box<dyn Runner> = match spec.workload {
        Workload::Process(_) => Box::new(ProcessRunner::new(processes.clone(), Arc::clone(&spec))),
        Workload::Container(_) => Box::new(DetachedContainer::new(processes, name)),
    };
    let run = record.as_ref().map_or(0, |record| record.life.run);
    let (pid, start_time) = record.as_ref().map_or((0, 0), |record| process_of(record, processes));
    let opened = record.as_ref().is_none_or(|record| record.life.has_opened());
    let found = runner.attach(Attachment { run, pid, start_time, opened }).await;
    let exit = found.unwrap_or_else(|error| {
        tracing::warn!("{name}: {error}");
        None
    });
    let executor = match spec.workload {
        Workload::Process(_) => {
            let executor = ProcessExecutor::new(processes.clone(), Arc::clone(&spec), run, pid, start_time);
            Ok(Arc::new(executor) as Arc<dyn kelson_runner::Executor>)
        }
        Workload::Container(_) => Err("a hook of a container needs containerd".to_owned()),
    };
    let left = |at: Option<Duration>| at.map(|at| at.saturating_sub(now));
    let mut plan = StopPlan { signal: spec.stop.signal, timeout: spec.stop.timeout };
    let mut remaining = RemainingStop::default();
    if let Some(record) = &record {
        let clock = record.timers.get(timer_index(Timer::StopDelay)).copied().flatten();
        remaining =
            record.life.remaining_stop(exit.is_some(), spec.stop.delay, left(clock).unwrap_or_default());
        plan.signal = record.life.stop_signal().unwrap_or(plan.signal);
        if remaining.signalled {
            plan.timeout = left(record.stop_until).unwrap_or(plan.timeout);
        }
    }
    let exit = exit.map(|running| running.exit);
    Service { name: Arc::from(name), spec, next, runner, executor, run, exit, plan, remaining }
}

/// PID and start time of its main process, zeroes where none is known. A child that was just being made is its own.
fn process_of(record: &Record, processes: &Processes) -> (i32, u64) {
    if let Some(pid) = child_of(record, processes.leftovers())
        && let Some(start_time) = processes.child_started(pid)
    {
        return (pid, start_time);
    }
    record.life.pid.map_or((0, 0), |pid| (pid, record.start_time))
}

/// Stops them all, each once those that need it are down, apid after all others. What is left at `deadline` is killed.
async fn stop(services: Vec<Service>, deadline: Instant) {
    let (last, others): (Vec<Service>, Vec<Service>) =
        services.into_iter().partition(|service| &*service.name == apid::NAME);
    for part in [others, last] {
        stop_part(part, deadline).await;
    }
}

async fn stop_part(services: Vec<Service>, deadline: Instant) {
    let names: Vec<Arc<str>> = services.iter().map(|service| Arc::clone(&service.name)).collect();
    let specs: Vec<&ServiceSpec> =
        services.iter().flat_map(|service| [&*service.spec].into_iter().chain(&service.next)).collect();
    let mut order = StopOrder::new(names, specs.iter().copied());
    drop(specs);
    let mut waiting: BTreeMap<Arc<str>, Service> =
        services.into_iter().map(|service| (Arc::clone(&service.name), service)).collect();
    let mut stops = JoinSet::new();
    let mut free = order.first();
    let (mut until, mut late) = (deadline, false);
    while !order.is_over() {
        for service in free.drain(..).filter_map(|name| waiting.remove(&name)) {
            stops.spawn(service.stop(deadline));
        }
        match timeout_at(until, stops.join_next()).await {
            Ok(Some(Ok(name))) => free = order.down(&name),
            // A fault in one of them has ended PID 1 by now.
            Ok(Some(Err(_)) | None) => return,
            Err(_) if !late => {
                tracing::warn!(
                    "the total deadline of the stop has passed; killing {}",
                    order.left().join(", ")
                );
                late = true;
                until = deadline.checked_add(AFTER_KILL).unwrap_or(deadline);
                free = order.rest();
            }
            Err(_) => {
                tracing::error!("gave up on {}: not even SIGKILL ended them", order.left().join(", "));
                return;
            }
        }
    }
}

impl Service {
    /// Stops it as its file says; at the deadline all of it is killed.
    async fn stop(mut self, deadline: Instant) -> Arc<str> {
        if timeout_at(deadline, self.stop_in_time()).await.is_err() {
            self.end(KILL).await;
        }
        self.name
    }

    async fn stop_in_time(&mut self) {
        if self.exit.is_some() {
            tracing::info!("stopping {}", self.name);
        }
        if self.remaining.pre_stop {
            let failures = self.hooks(None).pre_stop(self.executor.clone()).await;
            failures.iter().for_each(|text| tracing::warn!("{}: {text}", self.name));
        }
        let mut exit = None;
        match self.remaining.signal_after {
            Some(delay) => {
                if let Some(ended) = &mut self.exit {
                    exit = tokio::time::timeout(delay, ended).await.ok();
                }
                let plan = if exit.is_some() { KILL } else { self.plan };
                self.end(plan).await;
            }
            None => self.end(KILL).await,
        }
        if self.remaining.post {
            if let (None, Some(ended)) = (exit, &mut self.exit) {
                exit = tokio::time::timeout(STATUS, ended).await.ok();
            }
            let failures = self.hooks(exit).post(&mut self.runner).await;
            failures.iter().for_each(|text| tracing::warn!("{}: {text}", self.name));
        }
    }

    async fn end(&mut self, plan: StopPlan) {
        match self.runner.stop(plan).await {
            Ok(report) => {
                if report.killed && plan != KILL {
                    let timeout = words::duration(plan.timeout);
                    tracing::warn!("{}: did not end within {timeout} of its stop signal, killed", self.name);
                }
                if report.left_behind > 0 {
                    tracing::error!(
                        "{}: {} of its processes could not be killed",
                        self.name,
                        report.left_behind
                    );
                }
            }
            Err(error) => tracing::error!("{}: its processes could not be ended: {error}", self.name),
        }
    }

    fn hooks(&self, exit: Option<Exit>) -> Hooks {
        Hooks {
            logs: Arc::new(Unlogged),
            name: Arc::clone(&self.name),
            spec: Arc::clone(&self.spec),
            run: self.run,
            exit,
        }
    }
}

/// What hooks write is lost: there is no log any more.
struct Unlogged;

impl LogPipes for Unlogged {
    fn pipes(&self, _: &str, _: u64, _: &LogSpec) -> io::Result<(OwnedFd, OwnedFd)> {
        let null = std::fs::File::options().write(true).open("/dev/null")?;
        Ok((null.try_clone()?.into(), null.into()))
    }

    fn forget(&self, _: &str) {}
}
