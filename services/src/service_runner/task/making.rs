//! The task of a service, made and set going.

use std::sync::Arc;

use kelson_runner::Runner;
use kelson_spec::ServiceSpec;
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::{RestartPolicy, ServiceKind};
use tokio::sync::watch;
use tokio::time::Instant;

use super::super::host_context::HostContext;
use super::super::mailbox::Mailbox;
use super::super::random::Random;
use super::super::readiness::NotifySource;
use super::super::sockets::SUPPORTED;
use super::super::table::{HookKinds, Rules, ServiceState, Work};
use super::{Command, Core, drive};
use crate::error::ServicesError;
use crate::health::Totals;
use crate::model::{Snapshot, State};
use crate::state_store::Kind;

/// A service's task from outside.
#[derive(Clone)]
pub struct ServiceHandle {
    pub mailbox: Mailbox<Command>,
    pub snapshot: watch::Receiver<Snapshot>,
    pub totals: Arc<Totals>,
}

/// The task of a service that is written down, and that nobody knows of yet.
pub struct Prepared(Made);

impl Prepared {
    /// Starts the task; it rests until a [`Command`] comes.
    pub fn launch(self) -> ServiceHandle {
        let Prepared((core, runner, handle)) = self;
        core.show();
        kelson_sys::spawn(drive(core, runner, Work::None));
        handle
    }
}

/// Makes the task of a service, and writes it down.
///
/// # Errors
/// When this host cannot run such a service.
pub fn prepare(
    spec: Arc<ServiceSpec>,
    builtin: bool,
    will_start: bool,
    host_context: &Arc<HostContext>,
) -> Result<Prepared, ServicesError> {
    let (mut core, runner, handle) = make(spec, builtin, ServiceState::new(will_start), host_context)?;
    core.write_down(Kind::Spec, &core.spec);
    core.record();
    Ok(Prepared((core, runner, handle)))
}

/// The parts of a service's task, and its handle.
pub(super) type Made = (Box<Core>, Box<dyn Runner>, ServiceHandle);

/// The task of a service, before it is set going.
pub(super) fn make(
    spec: Arc<ServiceSpec>,
    builtin: bool,
    mut service: ServiceState,
    host_context: &Arc<HostContext>,
) -> Result<Made, ServicesError> {
    let runner = host_context.runners.runner(&spec)?;
    let own_check = host_context.runners.own_check(&spec).map(Box::new);
    let name: Arc<str> = Arc::from(spec.name.as_str());
    let group: Option<Arc<str>> = spec.group.as_deref().map(Arc::from);
    let (publisher, snapshot) = watch::channel(first_snapshot(&name, &spec, &service, builtin));
    // As it is published, so it is recorded.
    if service.message.is_empty() {
        service.message = Arc::clone(&snapshot.borrow().message);
    }
    let mailbox = Mailbox::default();
    let totals: Arc<Totals> = Arc::default();
    let started = Instant::now().saturating_duration_since(host_context.origin);
    let random = Random::of(&name, started);
    let core = Box::new(Core {
        name,
        spec,
        new_spec: None,
        group,
        builtin,
        service,
        host_context: Arc::clone(host_context),
        mailbox: mailbox.clone(),
        publisher,
        gate: None,
        sockets: None,
        paths: None,
        demanded: false,
        exit: None,
        start_time: 0,
        notify_source: NotifySource::Silent,
        own_check,
        checks: None,
        dependency_watch: None,
        post_start: None,
        post_start_of: 0,
        sleep: None,
        status_text: None,
        addresses: Box::default(),
        shown: State::Initialized,
        spawned_after: None,
        up_after: None,
        start_took: None,
        start_took_run: 0,
        totals: Arc::clone(&totals),
        permit: None,
        rested: Vec::new(),
        main_pid_refused: false,
        random,
        past_checks: None,
        health_kept: false,
        registration: None,
        recorded: None,
    });
    Ok((core, runner, ServiceHandle { mailbox, snapshot, totals }))
}

fn first_snapshot(
    name: &Arc<str>,
    spec: &Arc<ServiceSpec>,
    service: &ServiceState,
    builtin: bool,
) -> Snapshot {
    let rules = rules(spec, false);
    let message =
        if !service.down(&rules) { "not started yet" } else { "never started (its start is manual)" };
    Snapshot {
        down: service.down(&rules),
        builtin,
        oneshot: spec.kind == ServiceKind::Oneshot,
        group: spec.group.as_deref().map(Arc::from),
        required: spec.required,
        spec: Some(Arc::clone(spec)),
        ..Snapshot::new(Arc::clone(name), service.state(), Arc::from(message))
    }
}

/// `own_check`: it brings one with it.
pub(super) fn rules(spec: &ServiceSpec, own_check: bool) -> Rules {
    let mut restart = spec.restart.clone();
    if SUPPORTED && spec.on_demand {
        // After each run it waits until it is demanded again.
        restart.policy = RestartPolicy::Forever;
    }
    Rules {
        kind: spec.kind,
        restart,
        readiness: spec.readiness,
        start_timeout: spec.start_timeout,
        watchdog: spec.watchdog,
        stop: spec.stop.clone(),
        has_when: !spec.when.is_empty(),
        has_checks: own_check || !spec.health.is_empty(),
        checks_restart: spec.health.iter().any(|check| check.restart_after > 0),
        hooks: HookKinds {
            pre: !spec.hooks.pre.is_empty(),
            pre_stop: !spec.hooks.pre_stop.is_empty(),
            post: !spec.hooks.post.is_empty(),
            undo: !spec.hooks.undo.is_empty(),
        },
        registers: const { OWN.has(Feature::Fleet) } && spec.register.is_some(),
        scheduled: spec.schedule().is_some(),
        on_demand: spec.on_demand,
        memory_max: spec.resources.memory_max,
    }
}
