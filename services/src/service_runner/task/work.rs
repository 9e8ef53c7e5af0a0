//! The pieces of work: what each is given, and what its outcome is to the table.

use std::io;
use std::sync::Arc;

use kelson_conditions::{All, Condition as _};
use kelson_runner::{
    BoxFuture, Exit, RunContext, Runner, RunnerError, Running, StopPlan, StopReport, errno_text,
};
use kelson_spec::features::{Feature, OWN};
use kelson_spec::service::Readiness;
use tokio::sync::OwnedSemaphorePermit;

use super::{Core, DependencyWatch, Next, Outcome, START_LIMIT};
use crate::service_runner::gate;
use crate::service_runner::hooks::KILL;
use crate::service_runner::host_context::HostContext;
use crate::service_runner::notify::NotifySocket;
use crate::service_runner::readiness::NotifySource;
use crate::service_runner::sockets::SUPPORTED;
use crate::service_runner::table::{Input, Phase, Work};
use crate::state_store::{Descriptor, KeptDescriptor};

impl Core {
    /// Begins a piece of work; its future borrows the runner alone.
    pub(super) fn begin<'a>(
        &mut self,
        work: Work,
        runner: &'a mut Box<dyn Runner>,
    ) -> Option<BoxFuture<'a, Outcome>> {
        let permit = match work {
            Work::Open | Work::Pre | Work::Spawn => match self.permit.take() {
                Some(permit) => Some(permit),
                None => {
                    let turns = Arc::clone(&self.host_context.turns);
                    // Nobody has watched the gate during the `pre` hooks. Its answer counts once it is known.
                    let new_gate = self.gate.is_none().then(|| self.new_gate());
                    return Some(Box::pin(async move {
                        let mut gate = new_gate;
                        if let Some(gate) = &mut gate {
                            gate::settle(gate).await;
                        }
                        match turns.acquire_owned().await {
                            Ok(permit) => Outcome::Turn(permit, gate),
                            // Nobody closes it; without turns there is no order to keep.
                            Err(_) => std::future::pending().await,
                        }
                    }));
                }
            },
            _ => None,
        };
        if SUPPORTED
            && matches!(work, Work::Open | Work::Spawn)
            && let Some(arranging) = self.arrange_sockets()
        {
            return Some(Box::pin(
                async move { Outcome::Sockets(work, with_permit(permit, arranging).await) },
            ));
        }
        match work {
            Work::None => None,
            Work::When => {
                let (requirements, registry, sources) = (
                    self.spec.when.clone(),
                    self.host_context.registry.clone(),
                    self.host_context.sources.clone(),
                );
                Some(Box::pin(async move {
                    Outcome::Input(match gate::ask_when(requirements, registry, sources).await {
                        Ok(()) => Input::WhenHolds,
                        Err(unmet) => Input::WhenFails(unmet.to_string()),
                    })
                }))
            }
            Work::Open => Some(Box::pin(async move {
                match with_permit(permit, runner.open()).await {
                    Ok(()) => Outcome::Open(runner.warnings().to_vec()),
                    Err(error) => Outcome::Input(Input::Opened(Err(error))),
                }
            })),
            Work::Spawn => match self.context() {
                Ok(context) => Some(Box::pin(async move {
                    match with_permit(permit, runner.run(context)).await {
                        Ok(running) => Outcome::Run(Box::new(running)),
                        Err(error) => Outcome::Input(Input::Spawned(Err(error))),
                    }
                })),
                Err(error) => {
                    let error = RunnerError::new(error.to_string());
                    Some(Box::pin(std::future::ready(Outcome::Input(Input::Spawned(Err(error))))))
                }
            },
            Work::FindMain | Work::Undo if const { !OWN.has(Feature::Units) } => None,
            Work::FindMain => Some(Box::pin(async move {
                match runner.find_main(None).await {
                    Ok(running) => Outcome::Main(Box::new(running)),
                    Err(error) => Outcome::Input(Input::MainFound(Err(error))),
                }
            })),
            Work::Pre => {
                let hooks = self.hooks();
                Some(Box::pin(async move {
                    Outcome::Input(with_permit(permit, Box::pin(hooks.pre(runner))).await)
                }))
            }
            Work::PreStop => {
                let hooks = self.pre_stop();
                Some(Box::pin(async move { Outcome::Input(Input::PreStopDone(hooks.await)) }))
            }
            Work::EndPost => Some(Box::pin(async move {
                let failed = runner.stop(KILL).await.err();
                Outcome::Input(Input::PostDone(failed.map(|error| error.message).into_iter().collect()))
            })),
            Work::Post => {
                let hooks = self.hooks();
                Some(Box::pin(async move { Outcome::Input(Input::PostDone(hooks.post(runner).await)) }))
            }
            Work::Undo => {
                let hooks = self.hooks();
                Some(Box::pin(async move { Outcome::Input(Input::PostDone(hooks.undo(runner).await)) }))
            }
            Work::Stop | Work::Clear => {
                let plan = self.stop_plan(work, runner.is_signalled());
                Some(Box::pin(async move { Outcome::Cleared(runner.stop(plan).await) }))
            }
            Work::AwaitArchives => {
                let archives = self.service.refused_archives()?;
                Some(Box::pin(async move {
                    runner.archives_changed(archives).await;
                    Outcome::Input(Input::ArchivesChanged)
                }))
            }
            Work::Close => {
                let sockets = self.close_sockets();
                Some(Box::pin(async move {
                    let closed = runner.close().await;
                    let removed = match sockets {
                        Some(removing) => removing.await,
                        None => Ok(()),
                    };
                    Outcome::Input(Input::Closed(closed.and(removed)))
                }))
            }
        }
    }

    /// Takes in the outcome of the work.
    pub(super) fn bring(&mut self, outcome: Outcome) -> Next {
        match outcome {
            Outcome::Cleared(report) => {
                let exit = self.exit_now();
                self.exit = None;
                let report = report.unwrap_or_else(|error| {
                    self.note(&format!("its processes could not be ended: {}", error.message));
                    StopReport::default()
                });
                self.step(Input::Cleared { exit, report })
            }
            Outcome::Input(input) => self.step(input),
            Outcome::Turn(permit, gate) => {
                if matches!(self.service.phase, Phase::Opening) {
                    self.permit = Some(permit);
                    return Next::Work(Work::Open, false);
                }
                if self.service.closing() {
                    // It waits for its stop.
                    return Next::Work(Work::None, false);
                }
                // The last look before the run.
                if gate.is_some() {
                    self.gate = gate;
                }
                if let shut @ Input::GateShut(_) = self.look_at_gate() {
                    return self.step(shut);
                }
                self.gate = None;
                self.permit = Some(permit);
                // Before it is written down that the run begins: another incarnation of PID 1 must know with whom it
                // began.
                self.dependency_watch = DependencyWatch::tie(&self.spec, &self.host_context, &[]);
                if self.dependency_watch.is_some() {
                    self.record();
                }
                self.step(Input::Turn);
                if matches!(self.service.phase, Phase::Pre { .. }) {
                    return Next::Work(Work::Pre, false);
                }
                Next::Work(Work::Spawn, false)
            }
            Outcome::Sockets(work, made) => self.sockets_made(work, made),
            Outcome::Open(warnings) => {
                if self.spec.on_demand {
                    // From now on it has a connection to wait for.
                    self.gate = None;
                }
                for warning in warnings {
                    self.note(&warning);
                }
                self.step(Input::Opened(Ok(())))
            }
            Outcome::Main(running) => {
                let Running { pid, start_time, exit, .. } = *running;
                self.exit = Some(exit);
                self.start_time = start_time;
                self.step(Input::MainFound(Ok(pid)))
            }
            Outcome::Run(running) => {
                let Running { pid, start_time, stop_signal, addresses, exit } = *running;
                self.demanded = false;
                self.exit = Some(exit);
                self.start_time = start_time;
                self.addresses = addresses.into();
                self.service.stop_signal = stop_signal;
                // The boot's part alone: what restarts later keeps its first times.
                if self.up_after.is_none() {
                    self.spawned_after = Some(self.now());
                }
                self.step(Input::Spawned(Ok(pid)))
            }
        }
    }

    /// The exit status, when it is there already.
    fn exit_now(&mut self) -> Option<Exit> {
        let exit = self.exit.as_mut()?;
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match exit.as_mut().poll(&mut context) {
            std::task::Poll::Ready(exit) => Some(exit),
            std::task::Poll::Pending => None,
        }
    }

    /// `is_signalled`: the stop signal was sent already, in this incarnation.
    fn stop_plan(&self, work: Work, is_signalled: bool) -> StopPlan {
        let Some(until) = self.service.stop_until().filter(|_| work == Work::Stop) else { return KILL };
        // After a longer timeout it has been sent. Another incarnation sends it again: it may not have been.
        let signal = if is_signalled { 0 } else { self.spec.stop.signal };
        StopPlan { signal, timeout: until.saturating_sub(self.now()) }
    }

    /// Makes the context of the next run.
    fn context(&mut self) -> io::Result<RunContext> {
        let run = self.service.run;
        let pipes = self.host_context.logs.pipes(&self.spec, run);
        let (stdout, stderr) = pipes.map_err(|error| cannot("make the pipes of its log", &error))?;
        let mut context = RunContext::new(run, stdout, stderr);
        if SUPPORTED && let Some(sockets) = &self.sockets {
            context.sockets = sockets.copies().map_err(|error| cannot("hand over its sockets", &error))?;
        }
        self.status_text = None;
        self.main_pid_refused = false;
        // The old socket goes first: it has the same name.
        self.notify_source = NotifySource::Silent;
        match self.spec.readiness {
            Readiness::Forks if self.spec.watchdog.is_none() => {}
            Readiness::None => {}
            Readiness::Notify | Readiness::Forks => {
                let uid = self.spec.user.as_ref().map(|user| user.uid);
                let store = self.host_context.store.as_ref();
                let folder = &self.host_context.notify_directory;
                let socket = NotifySocket::bind(folder, &self.name, uid, store, run);
                let socket = socket.map_err(|error| cannot("make its notify socket", &error))?;
                context.environment.push(("NOTIFY_SOCKET".into(), socket.address()));
                if let Some(interval) = self.spec.watchdog {
                    context.environment.push(("WATCHDOG_USEC".into(), interval.as_micros().to_string()));
                }
                self.notify_source = NotifySource::notify(socket);
            }
            Readiness::Descriptor(number) => {
                let pipe = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC);
                let (read_end, write_end) =
                    pipe.map_err(|error| cannot("make its readiness pipe", &error.into()))?;
                nix::fcntl::fcntl(&read_end, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK))?;
                let kept = KeptDescriptor::new(read_end, self.host_context.store.as_ref(), || {
                    Descriptor::Readiness { service: self.name.to_string(), run }
                });
                self.notify_source = NotifySource::descriptor(kept)?;
                context.descriptors.push((write_end, number));
            }
        }
        Ok(context)
    }

    pub(super) fn new_gate(&mut self) -> Box<All> {
        let HostContext { registry, sources, .. } = &*self.host_context;
        let mut gate = Box::new(gate::gate_of(&self.spec, registry, sources));
        if SUPPORTED && self.spec.on_demand && self.service.has_opened() && !self.demanded {
            gate.push(self.demand());
        }
        gate
    }

    pub(super) fn look_at_gate(&self) -> Input {
        match &self.gate {
            Some(gate) if !gate.holds() => Input::GateShut(gate.missing()),
            _ => Input::GateHolds,
        }
    }
}

/// Why a start fails before there is a process, as the other reasons read.
fn cannot(what: &str, error: &io::Error) -> io::Error {
    let why = error.raw_os_error().map_or_else(|| error.to_string(), errno_text);
    io::Error::new(error.kind(), format!("cannot {what}: {why}"))
}

/// Does a part of a start, and gives its turn away when that takes long.
async fn with_permit<T>(permit: Option<OwnedSemaphorePermit>, mut part: BoxFuture<'_, T>) -> T {
    match tokio::time::timeout(START_LIMIT, part.as_mut()).await {
        Ok(done) => done,
        Err(_) => {
            drop(permit);
            part.await
        }
    }
}
