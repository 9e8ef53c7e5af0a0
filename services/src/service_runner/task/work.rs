//! The pieces of work, and what each is given.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use kelson_runner::{BoxFuture, RunContext, Runner, RunnerError, StopPlan, errno_text};
use kelson_spec::service::Readiness;
use tokio::sync::OwnedSemaphorePermit;

use super::{Core, Killing, Outcome, START_LIMIT};
use crate::service_runner::gate;
use crate::service_runner::hooks::KILL;
use crate::service_runner::notify::NotifySocket;
use crate::service_runner::readiness::NotifySource;
use crate::service_runner::table::{Input, Work};
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
                    // Nobody has watched the gate during the `pre` hooks. What it says counts once it is known.
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
                        Err(text) => Input::WhenFails(text),
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
            Work::Pre => {
                let hooks = self.hooks();
                Some(Box::pin(async move {
                    Outcome::Input(Input::PreDone(with_permit(permit, Box::pin(hooks.pre(runner))).await))
                }))
            }
            Work::PreStop => {
                let hooks = self.pre_stop();
                Some(Box::pin(async move { Outcome::Input(Input::PreStopDone(hooks.await)) }))
            }
            // What is to be killed at once is not answered at length; a hook that was under way is killed as well.
            Work::Post if self.killing == Killing::Deadline => Some(Box::pin(async move {
                let failed = runner.stop(KILL).await.err();
                Outcome::Input(Input::PostDone(failed.map(|error| error.message).into_iter().collect()))
            })),
            Work::Post => {
                let hooks = self.hooks();
                Some(Box::pin(async move { Outcome::Input(Input::PostDone(hooks.post(runner).await)) }))
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
            Work::Close => Some(Box::pin(async move {
                Outcome::Input(Input::Closed(runner.close().await.map_err(|error| error.message)))
            })),
        }
    }

    /// `is_signalled`: the stop signal was sent already, in this incarnation.
    fn stop_plan(&self, work: Work, is_signalled: bool) -> StopPlan {
        let until =
            self.service.stop_until().filter(|_| self.killing == Killing::Nobody && work == Work::Stop);
        let Some(until) = until else {
            return StopPlan { signal: libc::SIGKILL, timeout: Duration::ZERO };
        };
        // After a longer timeout it has been sent. Another incarnation sends it again: it may not have been.
        let signal = if is_signalled { 0 } else { self.spec.stop.signal };
        StopPlan { signal, timeout: until.saturating_sub(self.now()) }
    }

    /// What the next run is given.
    fn context(&mut self) -> io::Result<RunContext> {
        let run = self.service.run;
        let pipes = self.host_context.logs.pipes(&self.name, run, &self.spec.logs);
        let (stdout, stderr) = pipes.map_err(|error| cannot("make the pipes of its log", &error))?;
        let mut context = RunContext {
            run,
            command: None,
            as_root: false,
            stdout,
            stderr,
            environment: Vec::new(),
            descriptors: Vec::new(),
        };
        self.status_text = None;
        self.watchdog = None;
        self.main_pid_refused = false;
        // The old socket goes first: it has the same name.
        self.notify_source = NotifySource::Silent;
        match self.spec.readiness {
            Readiness::None => {}
            Readiness::Notify => {
                let uid = self.spec.user.as_ref().map(|user| user.uid);
                let store = self.host_context.store.as_ref();
                let folder = &self.host_context.notify_directory;
                let socket = NotifySocket::bind(folder, &self.name, uid, store, run);
                let socket = socket.map_err(|error| cannot("make its notify socket", &error))?;
                context.environment.push(("NOTIFY_SOCKET".into(), socket.path().display().to_string()));
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
