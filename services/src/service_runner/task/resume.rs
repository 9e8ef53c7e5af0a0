//! A service's task in the next incarnation of PID 1: made from the record, attached to what runs, and set going where
//! it stood.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use kelson_runner::{Attachment, Exit, Runner, Running};
use kelson_spec::ServiceSpec;
use kelson_spec::service::Readiness;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::super::host_context::HostContext;
use super::making::make;
use super::{Core, DependencyWatch, Next, ServiceHandle, Work, drive};
use crate::error::ServicesError;
use crate::model::State;
use crate::service_runner::hooks::KILL;
use crate::service_runner::notify::NotifySocket;
use crate::service_runner::readiness::NotifySource;
use crate::service_runner::table::{Input, Phase, Stage};
use crate::state_store::{Descriptor, KeptDescriptor, PastChecks, Record};

/// The service as the previous incarnation left it.
pub struct Resumed {
    pub record: Record,
    /// As it was taken up, and as it is to be at its next start.
    pub spec: Arc<ServiceSpec>,
    pub next_spec: Option<Arc<ServiceSpec>>,
    /// A child that was just being made for it.
    pub making: Option<Making>,
    /// How its process ended, where that was learnt and not acted on.
    pub exit: Option<Exit>,
    /// State and run of its last event; `None`: it is not known which.
    pub told: Option<(State, u64)>,
    /// The host was stopping.
    pub closing: bool,
    /// The recorded results of its checks.
    pub checks: PastChecks,
    /// The socket or pipe over which its run speaks.
    pub notify_source: Option<OwnedFd>,
    /// Those that were held for its runs, each with where it listens.
    pub sockets: Vec<(String, OwnedFd)>,
    /// Dropped once its process has been taken up: nothing may be reaped before.
    pub attached: mpsc::Sender<()>,
}

/// A child that was made, and perhaps not recorded any more by the life that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Making {
    /// There it is: PID and start time.
    Child(i32, u64),
    /// It was reaped already.
    Ended(i32, Exit),
}

/// Starts the task of a service that goes on.
///
/// # Errors
/// When this host cannot run such a service.
pub fn resume(resumed: Resumed, host_context: &Arc<HostContext>) -> Result<ServiceHandle, ServicesError> {
    let Resumed {
        record,
        spec,
        next_spec,
        making,
        exit,
        told,
        closing,
        checks,
        notify_source,
        sockets,
        attached,
    } = resumed;
    // One that was taken up already, and not yet discarded, does not wait.
    let next_spec = next_spec.filter(|next| *next != spec);
    let (pid, start_time) = match (&record.service.phase, making) {
        (Phase::Spawning { .. }, Some(Making::Child(pid, start_time))) => (pid, start_time),
        (Phase::Spawning { .. }, _) => (0, 0),
        _ => (record.service.pid().unwrap_or_default(), record.start_time),
    };
    let before = Attachment { run: record.service.run, pid, start_time, opened: record.service.has_opened() };
    let (mut core, runner, handle) = make(spec, record.builtin, record.service.clone(), host_context)?;
    core.show();
    core.recall(&record);
    core.service.expects(next_spec.as_deref());
    core.new_spec = next_spec;
    core.past_checks = Some(Box::new(checks));
    core.speak_on(notify_source);
    core.take_up_sockets(sockets);
    // Seen by all others before the first of them looks.
    match told {
        // The previous incarnation recorded it and did not come to tell it.
        Some(told) if told != (core.service.state(), core.service.run) => {
            core.tell();
            core.follow_up();
        }
        _ => core.publish(),
    }
    let exit = exit.unwrap_or(Exit::Lost);
    kelson_sys::spawn(async move {
        let (mut core, mut runner) = (core, runner);
        let running = core.attach(&mut runner, before).await;
        let (work, adopted) = core.go_on(running, making, exit, closing);
        drop(attached);
        if adopted {
            runner = core.new_runner();
        }
        // A future of its own: a service holds no more of the heap for having gone on.
        kelson_sys::spawn(drive(core, runner, work));
    });
    Ok(handle)
}

impl Core {
    /// Takes in what the record says beside what the table knows.
    fn recall(&mut self, record: &Record) {
        let origin = self.host_context.origin;
        let at = |after: Duration| origin.checked_add(after);
        self.start_time = record.start_time;
        self.status_text = record.status_text.as_deref().map(Arc::from);
        let since = SystemTime::UNIX_EPOCH
            .checked_add(Duration::from_nanos(record.since))
            .unwrap_or_else(SystemTime::now);
        // An earlier release has not written it down: as long ago as the clock says.
        let now = Instant::now();
        let entered = record.entered.and_then(at).unwrap_or_else(|| {
            now.checked_sub(since.elapsed().unwrap_or_default()).map_or(origin, |at| at.max(origin))
        });
        self.publisher.send_modify(|first| (first.since, first.entered) = (since, entered));
        self.shown = record.service.state();
        self.spawned_after = record.spawned_after;
        self.up_after = record.up_after;
        self.start_took = record.start_took;
        self.start_took_run = record.start_took_run;
        self.dependency_watch = DependencyWatch::recall(&record.noted_runs);
        let active = record.service.active();
        self.health_kept = active.is_some_and(|active| active.healthy.is_some());
        if active.is_some_and(|active| active.has_been_ready()) {
            // Its `postStart` hooks have begun, and are not begun twice.
            self.post_start_of = record.service.run;
        }
    }

    /// Goes on listening to the run.
    fn speak_on(&mut self, notify_source: Option<OwnedFd>) {
        let speaks = matches!(self.service.phase, Phase::Spawning { .. } | Phase::Active(_))
            || matches!(self.service.stage(), Some(Stage::StopDelay { .. } | Stage::Ending { .. }));
        let Some(descriptor) = notify_source.filter(|_| speaks) else { return };
        let (run, store) = (self.service.run, self.host_context.store.as_ref());
        let service = self.name.to_string();
        let made = match self.spec.readiness {
            Readiness::None => return,
            Readiness::Notify | Readiness::Forks => {
                let kept = KeptDescriptor::new(descriptor, store, || Descriptor::Notify { service, run });
                NotifySocket::inherited(kept).map(NotifySource::notify)
            }
            Readiness::Descriptor(_) => {
                let kept = KeptDescriptor::new(descriptor, store, || Descriptor::Readiness { service, run });
                NotifySource::descriptor(kept)
            }
        };
        match made {
            Ok(notify_source) => self.notify_source = notify_source,
            Err(error) => self.note(&format!("its notify messages are no longer received: {error}")),
        }
    }

    /// Attaches the Runner to what was opened and runs, before anything else is asked of it.
    async fn attach(&mut self, runner: &mut Box<dyn Runner>, before: Attachment) -> Option<Running> {
        // Asked only now: by now all others are there again.
        let noted =
            self.dependency_watch.take().map(|dependency_watch| dependency_watch.runs()).unwrap_or_default();
        self.dependency_watch = DependencyWatch::tie(&self.spec, &self.host_context, &noted);
        let attached = match runner.attach(before).await {
            Ok(running) => running,
            Err(error) => {
                self.note(&format!("it cannot be gone on with: {}", error.message));
                None
            }
        };
        let hook =
            matches!(self.service.phase, Phase::Pre { .. }) || self.service.stage() == Some(Stage::Post);
        if hook && let Err(error) = runner.stop(KILL).await {
            self.note(&format!("a hook that was cut off could not be ended: {}", error.message));
        }
        attached
    }

    /// Decides the next step, from the state in which its run was found, and whether a new spec was taken up.
    /// `exit`: how the run ended, where it is not there any more.
    fn go_on(
        &mut self,
        running: Option<Running>,
        making: Option<Making>,
        exit: Exit,
        closing: bool,
    ) -> (Work, bool) {
        let spawning = matches!(self.service.phase, Phase::Spawning { .. });
        let input = match (running, making) {
            (Some(Running { pid, start_time, addresses, exit, .. }), _) => {
                self.exit = Some(exit);
                self.start_time = start_time;
                self.addresses = addresses.into();
                match spawning {
                    true => Input::Spawned(Ok(pid)),
                    false => Input::Attached { found: Ok(pid), closing },
                }
            }
            (None, Some(Making::Ended(pid, exit))) if spawning => {
                self.exit = Some(Box::pin(std::future::ready(exit)));
                self.start_time = 0;
                Input::Spawned(Ok(pid))
            }
            (None, _) => Input::Attached { found: Err(exit), closing },
        };
        let next = self.step(input);
        if !self.addresses.is_empty() {
            // Its state may be the one that was published without them.
            self.publish();
        }
        if spawning && closing {
            // Its process is known by now, and stops in its turn.
            self.step(Input::Closing);
        }
        match next {
            Next::Work(work, adopted) => (work, adopted),
            Next::Same | Next::Leave => (Work::None, false),
        }
    }
}
