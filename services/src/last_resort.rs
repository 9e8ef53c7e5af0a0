//! The stop of all services from their records alone, when PID 1 has crashed too often to go on.
//!
//! The crash may have been in any of PID 1's usual work, so this uses as little of it as possible: no Manager, no state
//! machine, no API, no logs. Each service stops as its record and its file say, in the usual order ([`StopOrder`]).

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use kelson_runner::{Attachment, BoxFuture, Executor, Exit, Leftover, Runner, StopPlan};
use kelson_spec::{ServiceSpec, StopOrder};
use kelson_sys::boxed;
use kelson_sys::ordered;
use kelson_sys::text::first_of_many;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::builtins::program;
use crate::error::ServicesError;
use crate::manager::child_of;
use crate::service_runner::hooks::{Hooks, KILL};
use crate::service_runner::host_context::{LogPipes, RunningProcess};
use crate::service_runner::table::RemainingStop;
use crate::service_runner::words;
use crate::state_store::{Kind, Past, Record};

/// From SIGKILL to giving up on a service.
const AFTER_KILL: Duration = Duration::from_secs(3);
/// How long the status of a process that has ended may be on its way.
const STATUS: Duration = Duration::from_secs(2);

/// The processes that outlived PID 1, and how they are reached.
pub trait Survivors: Sync {
    fn runner(&self, spec: &Arc<ServiceSpec>) -> Box<dyn Runner>;

    /// Runs commands beside a main process.
    ///
    /// # Errors
    /// When this host cannot.
    fn executor(
        &self,
        spec: &Arc<ServiceSpec>,
        run: RunningProcess,
    ) -> Result<Arc<dyn Executor>, ServicesError>;

    /// The children that were just being made.
    fn leftovers(&self) -> Vec<Leftover>;

    /// When a child was started, in ticks since boot; `None`: it is none of ours.
    fn started(&self, pid: i32) -> Option<u64>;
}

/// Stops all services that are recorded, each once those that need it are down, [some](program::last) after
/// all others. Services that are left at `deadline` are killed. `now` counts from PID 1's start, as the times
/// of the records do.
pub async fn stop(past: &mut Past, survivors: &dyn Survivors, now: Duration, deadline: Instant) {
    let services = services(past, survivors, now).await;
    let is_last = |service: &Service| program::last().position(|name| *service.name == *name);
    let (mut last, others): (Vec<Service>, Vec<Service>) =
        services.into_iter().partition(|service| is_last(service).is_some());
    ordered::sort_by_key(&mut last, is_last);
    stop_part(others, deadline).await;
    for service in last {
        stop_part(vec![service], deadline).await;
    }
}

/// One service, from its record.
struct Service {
    name: Arc<str>,
    spec: Arc<ServiceSpec>,
    /// As its file says now, where that is another.
    next: Option<ServiceSpec>,
    runner: Box<dyn Runner>,
    /// Runs commands beside its main process.
    executor: Result<Arc<dyn Executor>, ServicesError>,
    run: u64,
    /// How its main process ends, where one lives.
    exit: Option<BoxFuture<'static, Exit>>,
    plan: StopPlan,
    remaining: RemainingStop,
}

/// All services that are recorded, taken over from the incarnation before.
async fn services(past: &mut Past, survivors: &dyn Survivors, now: Duration) -> Vec<Service> {
    let (mut specs, _) = past.specs();
    let mut records: HashMap<String, Record> =
        std::mem::take(&mut past.records).into_iter().map(|record| (record.name.clone(), record)).collect();
    let mut names: Vec<String> = records.keys().chain(specs.keys()).cloned().collect();
    ordered::sort(&mut names);
    names.dedup();
    let mut services = Vec::new();
    for name in names {
        // One whose spec is lost stops by what is usual.
        let spec = specs.remove(&name).unwrap_or_else(|| ServiceSpec::process(&name, [""]));
        let next = past.paper(Kind::NextSpec, &name);
        services.push(take_over(&name, spec, next, records.remove(&name), survivors, now).await);
    }
    services
}

async fn take_over(
    name: &str,
    spec: ServiceSpec,
    next: Option<ServiceSpec>,
    record: Option<Record>,
    survivors: &dyn Survivors,
    now: Duration,
) -> Service {
    let spec = Arc::new(spec);
    let mut runner = survivors.runner(&spec);
    let run = record.as_ref().map_or(0, |record| record.service.run);
    let (pid, start_time) = record.as_ref().map_or((0, 0), |record| process_of(record, survivors));
    let opened = record.as_ref().is_none_or(|record| record.service.has_opened());
    let found = runner.attach(Attachment { run, pid, start_time, opened }).await;
    let exit = found.unwrap_or_else(|error| {
        tracing::warn!("{name}: {error}");
        None
    });
    let executor = survivors.executor(&spec, RunningProcess { run, pid, start_time });
    let mut plan = StopPlan { signal: spec.stop.signal, timeout: spec.stop.timeout };
    let mut remaining = RemainingStop::default();
    if let Some(record) = &record {
        remaining = record.service.remaining_stop(exit.is_some(), spec.stop.delay, now);
        // The signal is sent again, and counts from then: PID 1 may have died between its record and the signal itself.
        plan.signal = record.service.stop_signal.unwrap_or(plan.signal);
    }
    let exit = exit.map(|running| running.exit);
    Service { name: Arc::from(name), spec, next, runner, executor, run, exit, plan, remaining }
}

/// PID and start time of its main process, zeroes where none is known. A child that was just being made is its own.
fn process_of(record: &Record, survivors: &dyn Survivors) -> (i32, u64) {
    if let Some(pid) = child_of(record, &survivors.leftovers())
        && let Some(start_time) = survivors.started(pid)
    {
        return (pid, start_time);
    }
    record.service.pid().map_or((0, 0), |pid| (pid, record.start_time))
}

async fn stop_part(services: Vec<Service>, deadline: Instant) {
    let names: Vec<Arc<str>> = services.iter().map(|service| Arc::clone(&service.name)).collect();
    let specs: Vec<&ServiceSpec> =
        services.iter().flat_map(|service| [&*service.spec].into_iter().chain(&service.next)).collect();
    let mut order = StopOrder::new(names, specs.iter().copied());
    drop(specs);
    let mut waiting: HashMap<Arc<str>, Service> =
        services.into_iter().map(|service| (Arc::clone(&service.name), service)).collect();
    let mut stops = JoinSet::new();
    let mut free = order.first();
    let (mut until, mut late) = (deadline, false);
    while !order.is_over() {
        for service in free.drain(..).filter_map(|name| waiting.remove(&name)) {
            stops.spawn(boxed(service.stop(deadline)));
        }
        match timeout_at(until, stops.join_next()).await {
            Ok(Some(Ok(name))) => free = order.down(&name),
            // A fault in one of them has ended PID 1 by now.
            Ok(Some(Err(_)) | None) => return,
            Err(_) if !late => {
                tracing::warn!(
                    "the total deadline of the stop has passed; killing {}",
                    first_of_many(order.left().iter(), ", ")
                );
                late = true;
                until = deadline.checked_add(AFTER_KILL).unwrap_or(deadline);
                free = order.rest();
            }
            Err(_) => {
                let names = first_of_many(order.left().iter(), ", ");
                tracing::error!("gave up on {names}: not even SIGKILL ended them");
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
        // It may have ended while it waited for its turn.
        let mut exit = match &mut self.exit {
            Some(ended) => tokio::time::timeout(Duration::ZERO, ended).await.ok(),
            None => None,
        };
        self.exit.take_if(|_| exit.is_some());
        if self.exit.is_some() {
            tracing::info!("stopping {}", self.name);
        }
        if self.remaining.pre_stop && exit.is_none() {
            let failures = self.hooks(None).pre_stop(self.executor.clone()).await;
            failures.iter().for_each(|text| tracing::warn!("{}: {text}", self.name));
        }
        match self.remaining.signal_after {
            Some(delay) => {
                if let (None, Some(ended)) = (exit, &mut self.exit) {
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
        Hooks { logs: Arc::new(Unlogged), spec: Arc::clone(&self.spec), run: self.run, pid: None, exit }
    }
}

/// The output of hooks is lost: there is no log any more.
struct Unlogged;

impl LogPipes for Unlogged {
    fn pipes(&self, _: &ServiceSpec, _: u64) -> io::Result<(OwnedFd, OwnedFd)> {
        let null = std::fs::File::options().write(true).open("/dev/null")?;
        Ok((null.try_clone()?.into(), null.into()))
    }

    fn forget(&self, _: &str) {}
}
